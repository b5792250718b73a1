# Measures one path with several buffers, on host a of a lab. Each line of $BUFFERS is "RECEIVE SEND", in bytes. For
# each of these lines, prints the doctor's JSON object and then two JSON objects of iperf3, each on a line. $PROGRAM is
# linerate; $SECONDS_EACH and $INTERVAL are the times for iperf3.
set -eu
far() { ip netns exec "$LINERATE_LAB_NETNS_B" "$@"; }

far iperf3 --server --interval "$INTERVAL" --json >/dev/null &
server=$!
trap 'kill $server' EXIT
until far ss --no-header --listening --tcp --numeric 'sport = 5201' | grep -q LISTEN; do
    kill -0 $server
done
echo "$BUFFERS" | while read -r receive send; do
    sysctl --quiet --write "net.ipv4.tcp_wmem=4096 16384 $send"
    far sysctl --quiet --write "net.ipv4.tcp_rmem=4096 65536 $receive"
    "$PROGRAM" doctor --json --target 100gbit -F "$LINERATE_LAB_SSH_CONFIG" --path local b </dev/null
    for _ in 1 2; do
        iperf3 --client "$LINERATE_LAB_ADDRESS_B" --time "$SECONDS_EACH" --interval "$INTERVAL" --json --get-server-output \
            </dev/null | tr --delete '\n'
        echo
    done
done
