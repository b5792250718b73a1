#!/bin/sh
# Copies a tree by WDT, whose receiver is started over ssh, as WDT's own wcp does: wdt.sh CONFIG FROM HOST:TO OPTION...
set -eu
config=$1 from=$2 host=${3%%:*} to=${3#*:}
shift 3
address=$(ssh -G -F "$config" "$host" 2>/dev/null | sed -n 's/^hostname //p')
ssh -n -F "$config" "$host" "$(command -v wdt) -ipv4 -minloglevel 2 -directory $to -hostname $address $*" | {
    read -r url
    wdt -ipv4 -minloglevel 0 -logtostderr -directory "$from" -connection_url "$url" "$@" 2>&1 |
        sed -n 's/.*Total sender time = \([0-9.]*\) seconds.*/own seconds: \1/p'
}
