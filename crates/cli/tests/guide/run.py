#!/usr/bin/env python3
"""Runs the lines of docs/guide/coming-from.md in a lab of two hosts, and fails where one of them fails.

    python3 crates/cli/tests/guide/run.py --program FILE

Each line of linerate's in the last column of a table is run by a shell, in a directory that has what the page speaks
of. The page's hosts are names of the lab's host b, and its directories are below the lab's.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

PAGE = pathlib.Path(__file__).parents[4] / "docs/guide/coming-from.md"

# What can't be run here as it is, and why.
LEFT_OUT = {
    "linerate bench FILE": "a study of your own",
    "linerate bench report results/DIR": "results of your own",
    "linerate bench --resume DIR": "results of your own",
    "linerate compare results/A results/B": "results of your own",
    "linerate bench rrul": "a study, which is run by .ci/run",
    "linerate bench rrul --hosts a=local,b=ssh:HOST": "a study, which is run by .ci/run",
    "linerate stream": "a name of a command, not a line",
    "linerate doctor": "a name of a command, not a line",
    "linerate serve rr --listen 0.0.0.0:5300 --once": "it waits for a client; without --once it serves the other lines",
}

# Lines whose exit code says something else than 0 here.
EXPECTED = {"linerate verify -a tree host:/data/copy": 3}

# Shorter, or with this lab's programs in the place of others'.
SHORTER = [
    ("--seconds 10", "--seconds 1"),
    ("--bytes 10GiB", "--bytes 50MB"),
    ("-- iperf3 -c HOST", "-- sleep 0.3"),
    ("-- scp big HOST:", "-- scp -q -S ssh big HOST:"),
    ("-- bash", "-- true"),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True, help="the linerate to run")
    parser.add_argument("--in-lab", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    if options.in_lab:
        sys.exit(run_all(program))
    this = [sys.executable, "-B", os.path.abspath(__file__), "--program", program, "--in-lab"]
    sys.exit(subprocess.call([program, "lab", "run", "--link", "1gbit", "--", *this]))


def run_all(program):
    directory = pathlib.Path(os.environ["LINERATE_LAB_DIR"])
    environment = prepared(directory, program)
    serve = ["ssh", "b", f"PATH={environment['PATH']} linerate serve rr --listen 0.0.0.0:5300 --idle-timeout 300"]
    server = subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE)
    server.stdout.readline()
    lines = lines_of(PAGE.read_text())
    failed = [line for line in lines if line not in LEFT_OUT and not passes(line, directory, environment)]
    server.terminate()
    unknown = [line for line in [*LEFT_OUT, *EXPECTED] if line not in lines]
    for line in unknown:
        print(f"NOT ON THE PAGE: {line}")
    print(f"{len(lines)} lines, {len(LEFT_OUT)} not run, {len(failed)} failed")
    return 1 if failed or unknown or len(lines) < 50 else 0


def lines_of(page):
    """The lines in the last column of the page's tables, each once."""
    lines = {}
    for row in page.splitlines():
        cells = re.split(r"(?<!\\)\|", row) if row.startswith("|") else []
        for code in re.findall(r"`([^`]+)`", cells[-2]) if len(cells) > 3 else []:
            if code.split()[0] in ("linerate", "taskset"):
                lines[code.replace("\\|", "|")] = None
    return list(lines)


def prepared(directory, program):
    """An environment in which the page's hosts are host b, and linerate is the program."""
    programs = directory / "programs"
    programs.mkdir()
    configuration = pathlib.Path(os.environ["LINERATE_LAB_SSH_CONFIG"]).read_text()
    (directory / "ssh_config").write_text(re.sub(r"(?m)^Host b\b.*$", "Host b host h1 h2 HOST", configuration))
    ssh = programs / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {directory}/ssh_config "$@"\n')
    ssh.chmod(0o755)
    (programs / "linerate").symlink_to(program)
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "LINERATE_NO_CONFIG": "1"}


def passes(line, directory, environment):
    work = filled(directory)
    shell = line
    for old, new in SHORTER:
        shell = shell.replace(old, new)
    shell = shell.replace("HOST:5300", os.environ["LINERATE_LAB_ADDRESS_B"] + ":5300")
    shell = re.sub(r"(?<![\w.])/(data|d|mnt)/", rf"{directory}/\1/", shell)
    # What is relative at the far end is the home directory of whoever runs this.
    shell = re.sub(r"\b(host|h2|HOST):(?=\s|$|b\b)", rf"\1:{directory}/data/", shell)
    shell = re.sub(r"\b(host|h1):(logs|a\b)", rf"\1:{work}/\2", shell)
    if "linerate load" in shell and "--seconds" not in shell and "--rate 100" not in shell:
        shell += " --seconds 1"
    try:
        run = subprocess.run(
            ["bash", "-c", shell], cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=60,
        )
        code, output = run.returncode, run.stdout
    except subprocess.TimeoutExpired:
        code, output = "no end within 60 s", ""
    good = code == EXPECTED.get(line, 0)
    print(f"{'ok    ' if good else 'FAILED'} {line}" + ("" if good else f"\n  as {shell}: {code}\n{output[-1000:]}"))
    return good


def filled(directory):
    """The directories of the page as they are before each line; the one in which it is typed."""
    for name in ("data", "d", "mnt", "work"):
        shutil.rmtree(directory / name, ignore_errors=True)
    for name in ("data/tree", "data/copy", "d/tree", "mnt/copy", "work/tree/sub", "work/logs"):
        (directory / name).mkdir(parents=True)
    work = directory / "work"
    for name in ("a", "b", "big", "tree/file", "tree/sub/file", "logs/1.gz"):
        (work / name).write_text("contents\n" * 10_000)
    (directory / "d/tree/file").write_text("contents\n")
    (work / "hosts.txt").write_text(f"h1:{directory}/data/\n")
    # A list of files, and a file to send.
    (work / "FILE").write_text("a\nb\n")
    return work


main()
