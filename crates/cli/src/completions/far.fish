
# HOST:PATH: the paths of that host, by ssh.
function __linerate_is_far
    set -l word (string unescape -- (commandline -ct))
    and string match -qr '^[^-/.][^/]*:' -- $word
end
complete -c linerate -n __linerate_is_far -f -a '(linerate complete (string unescape -- (commandline -ct)) (commandline -opc) 2>/dev/null)'

# --to HOST:PATH and --to=HOST:PATH: fish completes such words by what is said about the option.
function __linerate_to
    string replace -r -- '^--to=' '' (string unescape -- (commandline -ct))
end
function __linerate_is_to
    string match -qr '^[^-/.][^/]*:' -- (__linerate_to)
end
complete -c linerate -n __linerate_is_to -l to -r -f -a '(linerate complete (__linerate_to) (commandline -opc) 2>/dev/null)'
