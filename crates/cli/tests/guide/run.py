#!/usr/bin/env python3
"""Runs the lines of the guide in a lab of two hosts, or of two sites, and fails where one of them fails.

    python3 crates/cli/tests/guide/run.py --program FILE [--page docs/guide/copying.md]

A shell runs each line of a page's `sh` blocks, and each line of linerate's in the last column of a table of
coming-from.md, in a directory that has what the pages speak of. The pages' hosts are names of the lab's host b, and
their directories are below the lab's. The lines of a block run one after the other; a line that serves goes on until
another one takes its port.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

from configured import failures
from lines import EXPECTED, LEFT_OUT, REPLACED
from place import Place

ROOT = pathlib.Path(__file__).parents[4]
FIRST = ["README.md", "crates/cli/README.md", "docs/README.md"]
PAGES = [*(ROOT / page for page in FIRST), *sorted((ROOT / "docs/guide").glob("*.md"))]
OF_OTHERS = "coming-from.md"
# The page whose hosts are those of two sites, and nodes of a cluster.
OF_SITES = "fleet.md"
# The page whose commands also run under files that have every key.
OF_FILES = "configuration.md"
SITES = ["--sites", "2x4", "--slurm", "on"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True, help="the linerate to run")
    parser.add_argument("--page", type=pathlib.Path, action="append", help="only this page, and others named so")
    parser.add_argument("--in-lab", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    pages = [page.resolve() for page in options.page] if options.page else PAGES
    if options.in_lab:
        sys.exit(run_all(program, pages))
    of_sites = [page for page in pages if page.name == OF_SITES]
    of_pairs = [page for page in pages if page not in of_sites]
    codes = [in_lab(program, shape, pages) for shape, pages in (([], of_pairs), (SITES, of_sites)) if pages]
    unknown = unknown_lines(pages)
    for line in unknown:
        print(f"NOT IN THE GUIDE: {line}")
    sys.exit(1 if any(codes) or unknown else 0)


def in_lab(program, shape, pages):
    """The exit code of these pages' lines in a lab of this shape."""
    this = [sys.executable, "-B", os.path.abspath(__file__), "--program", program, "--in-lab"]
    this += [word for page in pages for word in ("--page", page)]
    return subprocess.call([program, "lab", "run", "--link", "1gbit", *shape, "--", *this])


def run_all(program, pages):
    place = Place(program)
    begun, count, out, failed = time.monotonic(), 0, 0, 0
    for page in pages:
        lines = [line for block in blocks_of(page) for line in block]
        print(f"--- {page.relative_to(ROOT)}: {len(lines)} lines (at {time.monotonic() - begun:.0f} s)")
        if page.name == OF_OTHERS:
            place.serve("linerate serve rr --listen 0.0.0.0:5300")
        for block in blocks_of(page):
            place.fill()
            for line in block:
                count += 1
                if line in LEFT_OUT:
                    out += 1
                elif not passes(line, place):
                    failed += 1
        place.end_servers()
        for failure in failures(page, program, place) if page.name == OF_FILES else []:
            failed += 1
            print(f"FAILED with every key configured: {failure}", flush=True)
    print(f"{count} lines, {out} not run, {failed} failed")
    return 1 if failed or not count else 0


def blocks_of(page):
    """The page's lines, in the groups that are run in one directory."""
    text = page.read_text()
    blocks = re.findall(r"(?ms)^ *```sh\n(.*?)^ *```", text)
    without_comments = [[re.sub(r"(^|\s+)#.*", "", line).strip() for line in block.splitlines()] for block in blocks]
    of_tables = lines_of_tables(text) if page.name == OF_OTHERS else []
    return [*([line for line in block if line] for block in without_comments), *([line] for line in of_tables)]


def lines_of_tables(page):
    """The lines in the last column of the page's tables, each once."""
    lines = {}
    for row in page.splitlines():
        cells = re.split(r"(?<!\\)\|", row) if row.startswith("|") else []
        for code in re.findall(r"`([^`]+)`", cells[-2]) if len(cells) > 3 else []:
            if code.split()[0] in ("linerate", "taskset"):
                lines[code.replace("\\|", "|")] = None
    return list(lines)


def unknown_lines(pages):
    """The lines of lines.py that no page has any more. A single page can't say."""
    if len(pages) < len(PAGES):
        return []
    lines = {line for page in pages for block in blocks_of(page) for line in block}
    return [line for line in [*LEFT_OUT, *EXPECTED] if line not in lines]


def passes(line, place):
    shell = line
    for old, new in REPLACED:
        shell = re.sub(old, new, shell)
    shell = place.of_here(shell)
    if re.match("linerate serve", shell):
        return place.serve(shell)
    code, output = place.run(shell)
    good = code in EXPECTED.get(line, [0])
    print(f"{'ok    ' if good else 'FAILED'} {line}" + ("" if good else f"\n  as {shell}: {code}\n{output[-1000:]}"), flush=True)
    return good


main()
