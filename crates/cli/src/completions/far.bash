
# HOST:PATH: the paths of that host, by ssh.
_linerate_far() {
    local typed word beginning character at offered name
    # The word as it was typed: bash takes a colon, and other characters, for the end of one.
    [[ ${COMP_LINE:0:COMP_POINT} =~ (([^[:space:]\\]|\\.)*)$ ]] && typed=${BASH_REMATCH[1]}
    if [[ $typed != *:* || $typed == [-/.]* || ${typed%%:*} == */* || ${typed//\\?/} == *[\'\"\$\`]* ]]; then
        _linerate "$@"
        return
    fi
    for ((at = 0; at < ${#typed}; at++)); do
        character=${typed:at:1}
        if [[ $character == \\ ]]; then
            word+=${typed:at + 1:1}
            ((at++))
        else
            word+=$character
            [[ $COMP_WORDBREAKS == *"$character"* ]] && beginning=$word
        fi
    done
    COMPREPLY=()
    # Local files are no answer for a host that has none.
    compopt +o bashdefault +o default 2>/dev/null
    mapfile -t offered < <("$1" complete "$word" "${COMP_LINE:0:COMP_POINT-${#typed}}" 2>/dev/null)
    for name in "${offered[@]}"; do
        printf -v name %q "${name#"$beginning"}"
        COMPREPLY+=("$name")
    done
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace 2>/dev/null
}

if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
    complete -F _linerate_far -o bashdefault -o default linerate
fi
