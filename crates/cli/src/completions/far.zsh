    # HOST:PATH: the paths of that host, by ssh. A colon behind a slash is one of a local name.
    if [[ $PREFIX == [^-/.]*:* && ${PREFIX%%:*} != */* ]]; then
        local -a far
        far=("${(@f)$($words[1] complete "${(Q)PREFIX}" "${(@Q)words[1,CURRENT-1]}" 2>/dev/null)}")
        compadd -S '' -- $far
        return
    fi
