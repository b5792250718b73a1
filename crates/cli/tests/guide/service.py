"""Stand-ins for what the guide's lines ask of systemd and sudo, which a lab doesn't boot.

`sudoedit` writes an environment for the page's service. `systemctl` enables a timer below the place, by the real
systemctl, and runs its service's command as journald sees a service; `journalctl` reads that journal.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

JOURNALD = "/lib/systemd/systemd-journald"
NO_ENTRIES = "-- No entries --"

# A journal of its own in $1 beside the command "$@", whose group of processes has the service's name $2.
IN_SERVICE = """
set -eu
journal=$1 service=$2 slice=lineratetest$$.slice groups=
shift 2
mkdir -p /run/systemd /run/log "$journal"
mount -t tmpfs none /run/systemd
mount -t tmpfs none /run/log
mkdir /run/log/journal
mount --bind "$journal" /run/log/journal
"$journald" >/dev/null 2>&1 &
for wait in $(seq 400); do
  if [ -S /run/systemd/journal/stdout ] && [ -S /run/systemd/journal/socket ]; then break; fi
  sleep 0.05
done
for top in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
  [ -e "$top/cgroup.procs" ] || continue
  mkdir -p "$top/$slice/$service"
  groups="$groups $top/$slice/$service"
done
code=0
# JOURNAL_STREAM is the variable that the service manager sets, which systemd-cat leaves out.
groups=$groups systemd-cat sh -c '
  for group in $groups; do echo $$ >"$group/cgroup.procs"; done
  JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec "$@"' sh "$@" || code=$?
/usr/bin/journalctl --sync
kill $!
wait $! || true
for group in $groups; do rmdir "$group" "${group%/*}"; done
exit $code
"""


def install(place):
    """Puts the stand-ins on the place's PATH."""
    for name in ("sudoedit", "systemctl", "journalctl"):
        program = place.directory / "programs" / name
        program.write_text(f"#!/bin/sh\nexec {sys.executable} -B {__file__} {name} {place.directory} \"$@\"\n")
        program.chmod(0o755)


def sudoedit(place, file):
    # A source that isn't there is a problem, which the page's next lines look for.
    options = f"--delete --metrics {place}/var/lib/prometheus/node-exporter/nightly.prom {place}/missing"
    pathlib.Path(file).write_text(f"SOURCE={place}/work/tree/\nDESTINATION=backup:{place}/data/mirror\nOPTIONS={options}\n")


def systemctl(place, command, now, timer):
    if (command, now) != ("enable", "--now"):
        sys.exit(f"systemctl {command} {now}: the stand-in doesn't know it")
    subprocess.run(["/usr/bin/systemctl", f"--root={place}", "enable", timer], check=True)
    template, instance = re.fullmatch(r"(.*@)(.*)\.timer", timer).groups()
    text = pathlib.Path(f"{place}/etc/systemd/system/{template}.service").read_text()
    settings = dict(re.findall(r"(?m)^(ExecStart|EnvironmentFile)=(.*)$", text))
    environment = pathlib.Path(place + settings["EnvironmentFile"].replace("%i", instance)).read_text()
    words = dict(line.split("=", 1) for line in environment.splitlines())
    line = re.sub(r"\$\{?(\w+)\}?", lambda name: words[name[1]], settings["ExecStart"])
    line = shlex.split(line.replace("/usr/bin/linerate", shutil.which("linerate")))
    service = ["unshare", "--mount", "--propagation", "private", "sh", "-c", IN_SERVICE, "sh"]
    code = subprocess.call([*service, f"{place}/journal", f"{template}{instance}.service", *line], env={**os.environ, "journald": JOURNALD})
    # The missing source's.
    if code != 3:
        sys.exit(f"{line}: {code}")


def journalctl(place, *words):
    run = subprocess.run(["/usr/bin/journalctl", f"--directory={place}/journal", *words], stdout=subprocess.PIPE, text=True)
    print(run.stdout, end="")
    sys.exit(run.returncode or run.stdout.strip() in ("", NO_ENTRIES))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
