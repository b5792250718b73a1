
# linerate reads a local name with a colon as HOST:PATH, unless the name begins with ./.
_linerate_near() {
    local names name
    [[ $1 == */* || $1 == -* ]] && return
    mapfile -t names < <(compgen -f -- "$1")
    if [[ "${names[*]}" == *:* ]]; then
        for name in "${names[@]}"; do
            [[ $name == *:* ]] && name=./$name
            COMPREPLY+=("$name")
        done
        compopt -o filenames 2>/dev/null
    fi
}

# HOST:PATH and --to=HOST:PATH: the paths of that host, by ssh.
_linerate_far() {
    local line=${COMP_LINE:0:COMP_POINT} word beginning opened quote character is_odd option at start=0 offered name
    # Reads the word as the shell would, and finds the part of it that stays. readline replaces the text after an open
    # quote or, without one, after the last character that ends a word for readline, such as a colon.
    for ((at = 0; at < ${#line}; at++)); do
        character=${line:at:1}
        if [[ $character == \\ && $quote != \' ]]; then
            [[ $quote == \" && ${line:at + 1:1} != [\"\\\$\`] ]] && word+=\\
            word+=${line:at + 1:1}
            ((at++))
        elif [[ -n $quote && $character == "$quote" ]]; then
            quote=
        elif [[ -z $quote && $character == [\'\"] ]]; then
            quote=$character opened=$word
        elif [[ -z $quote && $character == [[:space:]] ]]; then
            word='' beginning='' is_odd='' start=$((at + 1))
        else
            word+=$character
            [[ -z $quote && $COMP_WORDBREAKS == *"$character"* ]] && beginning=$word
            [[ $quote != \' && $character == [\$\`] ]] && is_odd=yes
        fi
    done
    [[ $word == --to=* ]] && option=--to=
    word=${word#"$option"}
    if [[ $word != *:* || $word == [-/.]* || ${word%%:*} == */* || -n $is_odd ]]; then
        # The option to which a value belongs stands before the equals sign.
        [[ $3 == = ]] && set -- "$1" "$2" "${COMP_WORDS[COMP_CWORD - 2]}"
        _linerate "$@"
        [[ -z $opened$beginning$is_odd && ${#COMPREPLY[@]} -eq 0 ]] && _linerate_near "$word"
        return
    fi
    COMPREPLY=()
    # If the host has no matching paths, local files must not be offered instead.
    compopt +o bashdefault +o default 2>/dev/null
    mapfile -t offered < <("$1" complete "$word" "${line:0:start}" 2>/dev/null)
    for name in "${offered[@]/#/$option}"; do
        if [[ -z $quote ]]; then
            printf -v name %q "${name#"$beginning"}"
        else
            name=${name#"$opened"}
            if [[ $quote == \' ]]; then
                name=${name//\'/\'\\\'\'}
            else
                name=${name//\\/\\\\} name=${name//\"/\\\"} name=${name//\$/\\\$} name=${name//\`/\\\`}
                # Between double quotes, an interactive shell replaces text after ! by commands from its history.
                name=${name//!/\"\'!\'\"}
            fi
        fi
        COMPREPLY+=("$name")
    done
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace 2>/dev/null
}

if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
    complete -F _linerate_far -o bashdefault -o default linerate
fi
