#!/bin/sh
# Copies a tree with WDT. Starts WDT's receiver over ssh, as WDT's own script wcp does. Usage: wdt.sh CONFIG ADDRESS
# FROM HOST:TO OPTION...
set -eu
config=$1 address=$2 from=$3 host=${4%%:*} to=${4#*:}
shift 4
ssh -n -F "$config" "$host" "$(command -v wdt) -ipv4 -minloglevel 2 -directory $to -hostname $address $*" | {
    read -r url
    wdt -ipv4 -minloglevel 0 -logtostderr -directory "$from" -connection_url "$url" "$@" 2>&1 |
        sed -n 's/.*Total sender time = \([0-9.]*\) seconds.*/own seconds: \1/p'
}
