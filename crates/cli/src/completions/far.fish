
# HOST:PATH: the paths of that host, by ssh.
function __linerate_is_far
    set -l word (string unescape -- (commandline -ct))
    and string match -qr '^[^-/.][^/]*:' -- $word
end
complete -c linerate -n __linerate_is_far -f -a '(linerate complete (string unescape -- (commandline -ct)) (commandline -opc) 2>/dev/null)'
