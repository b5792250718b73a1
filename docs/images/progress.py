#!/usr/bin/env python3
"""Records a copy in a lab of 1 Gbit/s, and draws its progress line as an animated SVG.

    python3 docs/images/progress.py [PROGRAM] >docs/images/progress.svg

PROGRAM is a release build of linerate; without it, the one on the PATH. The frames are what a terminal would have
shown, at the times at which it would have shown it; of the command, only the lab's options are left out.
"""

import fcntl
import html
import os
import pty
import random
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time

COLUMNS = 120
SHOWN = "$ linerate cp -r tree host:/data/"
BAR = "━╸─"

# How long the prompt stands before the copy begins, and the last line after it, in seconds.
BEFORE, AFTER = 0.8, 5.0

CHARACTER, LINE, MARGIN = 8.43, 20, 16


def main():
    if sys.argv[1:2] == ["--record"]:
        for moment, line in frames(record(sys.argv[2:])):
            print(f"{moment:.3f}\t{line}")
        return
    program = sys.argv[1] if len(sys.argv) > 1 else "linerate"
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        make_tree(os.path.join(directory, "tree"))
        copy = f"{sys.executable} {os.path.abspath(__file__)} --record {program} cp"
        copy += " -F $LINERATE_LAB_SSH_CONFIG -r tree b:$LINERATE_LAB_DIR"
        command = [program, "lab", "run", "--link", "1gbit", "--", "sh", "-c", copy]
        lines = subprocess.run(command, cwd=directory, check=True, stdout=subprocess.PIPE, text=True).stdout
    moments = (line.split("\t", 1) for line in lines.split("\n") if line)
    print(drawn([(float(moment), line) for moment, line in moments]))


def make_tree(directory):
    """About 640 MB that can't be compressed, in 400 files of all sizes up to 3 MB."""
    dice = random.Random(1)
    for number in range(400):
        place = os.path.join(directory, str(number % 10))
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, str(number)), "wb") as file:
            file.write(dice.randbytes(dice.randrange(200_000, 3_000_000)))


def record(command):
    """What COMMAND writes to a terminal, with the seconds since its start."""
    child, terminal = pty.fork()
    if child == 0:
        # The size must be there before the program asks for it.
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        os.execvp(command[0], command)
    begun = time.monotonic()
    written = []
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        if not data:
            break
        written.append((time.monotonic() - begun, data))
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        sys.exit(f"{command[0]} failed: {written[-1:]}")
    return written


def frames(written):
    """The line that is being written, after each piece of it that differs from the one before."""
    line, last, rest = "", None, b""
    for moment, data in written:
        # A piece may end within a character.
        data = rest + data
        text = data.decode(errors="ignore")
        rest = data[len(text.encode()):]
        for part in re.split(r"(\r\n|\r|\x1b\[2K)", text):
            if part in ("\r", "\x1b[2K"):
                line = ""
            elif part != "\r\n":
                line += part
        shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).rstrip()
        if shown and shown != last:
            last = shown
            yield moment, shown


def drawn(recorded):
    """The SVG: a strip of lines that moves behind a window of one line, and a bar that grows beside it."""
    begin = recorded[0][0]
    length = BEFORE + recorded[-1][0] - begin + AFTER
    steps = [(0.0, "", 0.0)]
    for moment, line in recorded:
        bar = line[: len(line) - len(line.lstrip(BAR))]
        share = (2 * bar.count("━") + bar.count("╸")) / (2 * len(bar)) if bar else 0.0
        steps.append(((BEFORE + moment - begin) / length, line[len(bar):] if bar else "", share))
    result = wrapped(recorded[-1][1])
    bar_width = len(recorded[0][1][: len(recorded[0][1]) - len(recorded[0][1].lstrip(BAR))]) * CHARACTER
    width = MARGIN * 2 + COLUMNS * CHARACTER
    height = MARGIN * 2 + LINE * (1 + len(result))
    first = MARGIN + LINE

    def keys(values):
        return "".join(f"{share * 100:.2f}%{{{value}}}" for share, value in values)

    strip = keys((share, f"transform:translateY({-LINE * at}px)") for at, (share, _, _) in enumerate(steps))
    bar = keys((share, f"transform:scaleX({done:.3f})") for share, _, done in steps)
    end = steps[-1][0] * 100
    start = steps[1][0] * 100
    while_copying = f"0%{{opacity:0}}{start:.2f}%{{opacity:1}}{end:.2f}%{{opacity:0}}"
    texts = "".join(
        f'<text x="{MARGIN + bar_width:.1f}" y="{first + LINE * at + 14}">{html.escape(text)}</text>\n'
        for at, (_, text, _) in enumerate(steps)
        if text
    )
    lines = "".join(
        f'<text x="{MARGIN}" y="{first + LINE * at + 14}">{html.escape(line)}</text>\n' for at, line in enumerate(result)
    )
    middle = first + LINE / 2
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img">
<title>A copy in a terminal: bytes, files, rate, time left, and what limits it</title>
<!-- made by docs/images/progress.py from a recorded run -->
<style>
text{{font:14px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;fill:#d8dee9;white-space:pre}}
.c{{animation:c {length:.2f}s steps(1) infinite}}
.s{{animation:s {length:.2f}s steps(1) infinite}}
.b{{animation:b {length:.2f}s steps(1) infinite;transform-origin:{MARGIN}px 0}}
.e{{animation:e {length:.2f}s steps(1) infinite}}
@keyframes c{{{while_copying}}}
@keyframes s{{{strip}}}
@keyframes b{{{bar}}}
@keyframes e{{0%{{opacity:0}}{end:.2f}%{{opacity:1}}}}
@media (prefers-reduced-motion:reduce){{.c{{animation:none;opacity:0}}.e{{animation:none;opacity:1}}}}
</style>
<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#20242c"/>
<text x="{MARGIN}" y="{MARGIN + 14}">{html.escape(SHOWN)}</text>
<clipPath id="w"><rect x="0" y="{first}" width="{width - MARGIN:.0f}" height="{LINE}"/></clipPath>
<g class="c">
<rect x="{MARGIN}" y="{middle - 1:.0f}" width="{bar_width:.1f}" height="2" fill="#4c566a"/>
<rect class="b" x="{MARGIN}" y="{middle - 2:.0f}" width="{bar_width:.1f}" height="4" fill="#88c0d0"/>
<g clip-path="url(#w)"><g class="s">
{texts}</g></g>
</g>
<g class="e">
{lines}</g>
</svg>"""


def wrapped(line):
    """The line as a terminal breaks it."""
    return [line[at : at + COLUMNS] for at in range(0, len(line), COLUMNS)]


main()
