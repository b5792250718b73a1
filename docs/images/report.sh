#!/bin/sh
# Makes docs/images/report.png, the head of a study's report as the README shows it, by Chromium:
#     sh docs/images/report.sh results/quick-2026-05-01T10-00-00Z/report.html
set -eu
report=$(realpath "$1")
picture=$(dirname "$(realpath "$0")")/report.png
# Without --no-sandbox Chromium doesn't start as root; the page is our own, and asks no host for anything.
chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --window-size=1200,1000 \
  --screenshot="$picture" "file://$report"
