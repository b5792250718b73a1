
# HOST:PATH: the paths of that host, by ssh.
function __linerate_is_far
    set -l word (string unescape -- (commandline -ct))
    and string match -qr '^[^-/.][^/]*:' -- $word
end
complete -c linerate -n __linerate_is_far -f -a '(linerate complete (string unescape -- (commandline -ct)) (commandline -opc) 2>/dev/null)'

# --to HOST:PATH and --to=HOST:PATH: fish completes these words by the definition of the option --to.
function __linerate_to
    string replace -r -- '^--to=' '' (string unescape -- (commandline -ct))
end
function __linerate_is_to
    string match -qr '^[^-/.][^/]*:' -- (__linerate_to)
end
complete -c linerate -n __linerate_is_to -l to -r -f -a '(linerate complete (__linerate_to) (commandline -opc) 2>/dev/null)'

# linerate reads a local name with a colon as HOST:PATH, unless the name begins with ./. Such names are offered only if
# the word begins with ./, because fish offers only texts that begin with the word.
function __linerate_near
    set -l word (string unescape -- (commandline -ct))
    string match -qr '/|^-' -- $word; and return
    for name in "$word"*
        test -d $name; and set name $name/
        echo $name
    end
end
function __linerate_is_near
    __fish_linerate_using_subcommand cp sync scp rsync verify clean; and string match -q '*:*' -- (__linerate_near)
end
complete -c linerate -n __linerate_is_near -f -a "(__linerate_near | string match -v '*:*')"
