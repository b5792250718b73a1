
# linerate reads a local name with a colon as HOST:PATH, unless the name begins with ./.
_linerate_near() {
    local -a odd=(${(Q)PREFIX}*:*(N^-/)) directories=(${(Q)PREFIX}*:*(N-/)) both
    both=($odd $directories)
    if [[ $PREFIX == */* || ${#both} -eq 0 ]]; then
        _default "$@"
        return
    fi
    compadd -f -P ./ -- $odd
    compadd -f -P ./ -q -S / -- $directories
    both=(${(b)both})
    _files -F both
    return 0
}
