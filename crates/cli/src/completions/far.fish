
# HOST:PATH: the paths of that host, by ssh.
function __linerate_is_far
    string match -qr '^[^-/.][^/]*:' -- (commandline -ct)
end
complete -c linerate -n __linerate_is_far -f -a '(linerate complete (commandline -ct) (commandline -opc) 2>/dev/null)'
