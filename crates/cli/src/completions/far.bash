
# HOST:PATH: the paths of that host, by ssh.
_linerate_far() {
    local word offered name beginning
    # The word as it was typed: bash takes a colon for the end of one.
    [[ ${COMP_LINE:0:COMP_POINT} =~ (([^[:space:]\\]|\\.)*)$ ]] && word=${BASH_REMATCH[1]//\\/}
    if [[ $word != *:* || $word == [-/.]* || $word == *[\'\"\$\`]* ]]; then
        _linerate "$@"
        return
    fi
    COMPREPLY=()
    mapfile -t offered < <("$1" complete "$word" "${COMP_WORDS[@]:0:COMP_CWORD}" 2>/dev/null)
    [[ $COMP_WORDBREAKS == *:* ]] && beginning=${word%"${word##*:}"}
    for name in "${offered[@]}"; do
        printf -v name %q "${name#"$beginning"}"
        COMPREPLY+=("$name")
    done
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace 2>/dev/null
}

if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
    complete -F _linerate_far -o bashdefault -o default linerate
fi
