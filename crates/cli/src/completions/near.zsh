
# A local name with a colon is HOST:PATH to linerate, unless ./ is before it.
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
