#!/usr/bin/env python3
"""Draws the dashboard contrib/grafana/linerate.json as a picture, from Prometheus' answers to its queries.

    python3 docs/images/dashboard.py PROGRAM >docs/images/dashboard.svg

prometheus and promtool, of Debian's package prometheus, must be on the PATH, unless options name them. The figures are those of real runs in a lab of 1 Gbit/s, one after the other; only the time between them is stretched to
a day. Fails where a panel has nothing to show.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from panels import drawn

DASHBOARD = pathlib.Path(__file__).parents[2] / "contrib/grafana/linerate.json"
BEGUN, SUCCEEDED = "linerate_run_start_timestamp_seconds", "linerate_run_last_success_timestamp_seconds"
INSTANCE = "web1"
DAY = 86_400
# The time between two samples, and the moment of the last one before the dashboard is looked at.
STEP, SINCE = 900, 6 * 3_600

# The day on which the far host isn't there, and the one on which a file there changes after it was copied.
UNREACHED, ALTERED = 6, 10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=os.path.abspath, help="the linerate to run")
    parser.add_argument("--prometheus", default="prometheus", help="Prometheus' server")
    parser.add_argument("--promtool", default="promtool", help="Prometheus' tool")
    parser.add_argument("--days", type=int, default=14, help="days of runs (14)")
    parser.add_argument("--record", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.record:
        record(options.program, options.days)
        return
    for tool in (options.prometheus, options.promtool):
        if not shutil.which(tool):
            parser.error(f"{tool} isn't there: it is in Debian's package prometheus")
    end = int(time.time()) // STEP * STEP
    begin = end - options.days * DAY
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        this = [sys.executable, "-B", os.path.abspath(__file__), options.program, "--days", str(options.days), "--record"]
        lab = [options.program, "lab", "run", "--link", "1gbit", "--", *this]
        runs = json.loads(subprocess.run(lab, cwd=directory, check=True, stdout=subprocess.PIPE).stdout)
        pathlib.Path(directory, "series").write_text(stored(runs, end))
        create = [options.promtool, "tsdb", "create-blocks-from", "openmetrics", "series", "store"]
        subprocess.run(create, cwd=directory, check=True, stdout=subprocess.DEVNULL)
        print(drawn(panels(options.prometheus, directory, begin, end), begin, end))


def record(program, days):
    """Prints the metrics of each day's runs: [text, ...]."""
    os.environ["LINERATE_NO_CONFIG"] = "1"
    login = ["-F", os.environ["LINERATE_LAB_SSH_CONFIG"]]
    far = os.environ["LINERATE_LAB_DIR"] + "/copy"
    tree, dice, kept = pathlib.Path("tree"), random.Random(1), []
    for day in range(days):
        change(tree, day, dice)
        host = "b" if day != UNREACHED else "127.0.0.9"
        nightly = ["sync", "-q", *login, "--delete", "--metrics", "nightly.prom", "tree/", f"{host}:{far}"]
        media = ["cp", "-rq", *login, "--metrics", "media.prom", f"tree/{day % 5}", f"b:{far}-media"]
        weekly = ["verify", "-q", *login, "--metrics", "weekly.prom", "tree", f"b:{far}"]
        doctor = ["doctor", *login, "b", "--metrics", "doctor.prom"]
        for words in [nightly, media, doctor, *([weekly] if day % 3 == 1 else [])]:
            if words is weekly and day == ALTERED:
                # Host b has the same directories.
                next(file for file in pathlib.Path(far).rglob("*") if file.is_file()).write_text("altered")
            subprocess.run([program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        kept.append("".join(file.read_text() for file in sorted(pathlib.Path().glob("*.prom"))))
    print(json.dumps(kept))


def change(tree, day, dice):
    """The tree of a day: new files, and some of the old ones gone."""
    for old in [file for file in tree.rglob("*") if file.is_file() and dice.random() < 0.2]:
        old.unlink()
    for number in range(dice.randrange(40, 160)):
        file = tree / str(number % 5) / f"{day}-{number}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(dice.randbytes(dice.randrange(100_000, 1_500_000)))


def stored(runs, end):
    """The runs as node exporter's samples would be, in the OpenMetrics form, each run's values for a day."""
    series = {}
    for day, text in enumerate(runs):
        begin = end - SINCE - (len(runs) - 1 - day) * DAY
        until = min(begin + DAY, end + 1)
        values = re.findall(r"(?m)^(\w+)\{(.*)\} (\S+)$", text)
        started = {labels: float(value) for name, labels, value in values if name == BEGUN}
        for name, labels, value in values:
            if name.endswith("_timestamp_seconds"):
                # The success before this run lies some seconds back in the lab: a day.
                value = begin + float(value) - started[labels]
                if name == SUCCEEDED and value < begin:
                    value = begin - DAY
            lines = series.setdefault(name, [])
            lines += [(f'{name}{{{labels},instance="{INSTANCE}"}}', value, at) for at in range(begin, until, STEP)]
    text = ""
    for name, lines in sorted(series.items()):
        lines.sort(key=lambda line: (line[0], line[2]))
        text += f"# TYPE {name} gauge\n" + "".join(f"{key} {value} {at}\n" for key, value, at in lines)
    return text + "# EOF\n"


def panels(prometheus, directory, begin, end):
    """Each panel of the dashboard with its series: [(panel, [(name, [(second, value), ...]), ...]), ...]."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    configuration = pathlib.Path(directory, "prometheus.yml")
    configuration.write_text("")
    server = subprocess.Popen(
        [prometheus, f"--config.file={configuration}", f"--storage.tsdb.path={directory}/store",
         "--storage.tsdb.retention.time=10y", f"--web.listen-address={address}", "--log.level=error"],
        stdout=sys.stderr,
    )
    try:
        wait_for(server, address)
        found = []
        for panel in json.loads(DASHBOARD.read_text())["panels"]:
            series = [line for target in panel["targets"] for line in asked(address, target, begin, end)]
            if not series:
                sys.exit(f"the panel {panel['title']!r} has nothing to show")
            found.append((panel, series))
        return found
    finally:
        server.terminate()
        server.wait()


def wait_for(server, address):
    deadline = time.monotonic() + 60
    while server.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"http://{address}/-/ready").close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("Prometheus didn't start within 60 s")


def asked(address, target, begin, end):
    """The series of one query, with the names of the legend."""
    query = target["expr"].replace("$task", ".*").replace("$instance", ".*")
    words = {"query": query, "start": begin, "end": end, "step": STEP}
    with urllib.request.urlopen(f"http://{address}/api/v1/query_range?{urllib.parse.urlencode(words)}") as answer:
        result = json.load(answer)["data"]["result"]
    name = lambda labels: re.sub(r"\{\{(\w+)\}\}", lambda label: labels.get(label[1], ""), target["legendFormat"])
    series = [(name(line["metric"]), [(at, float(value)) for at, value in line["values"]]) for line in result]
    # An instant query finds what there is at the end.
    return [line for line in series if not target.get("instant") or line[1][-1][0] == end]


main()
