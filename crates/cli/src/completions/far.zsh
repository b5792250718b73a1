    # HOST:PATH and --to=HOST:PATH: the paths of that host, by ssh. A colon after a slash belongs to a local name.
    local place=${PREFIX#--to=}
    if [[ $place == [^-/.]*:* && ${place%%:*} != */* ]]; then
        [[ $PREFIX == $place ]] || compset -P --to=
        local -a far
        far=("${(@f)$($words[1] complete "${(Q)place}" "${(@Q)words[1,CURRENT-1]}" 2>/dev/null)}")
        compadd -S '' -- $far
        return
    fi
