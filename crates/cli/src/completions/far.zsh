    # HOST:PATH: the paths of that host, by ssh.
    if [[ $PREFIX == [^-/.]*:* ]]; then
        local -a far
        far=("${(@f)$($words[1] complete "${(Q)PREFIX}" "${(@Q)words[1,CURRENT-1]}" 2>/dev/null)}")
        compadd -S '' -- $far
        return
    fi
