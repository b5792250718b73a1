"""Types a line into a shell at a terminal, and prints what the shell's editor has of it then.

    typed.py SHELL COMPLETIONS KEYS OUT

The key of control and X, control and D writes the line into the file OUT.
"""

import os
import pathlib
import pty
import select
import sys
import time

PATIENCE = 60
DUMP = b"\x18\x04"
READY = "ready> "


def setup(shell, completions, out):
    """The shell's words, and the lines that make it ready."""
    if shell == "bash":
        return ["bash", "--norc", "--noprofile", "-i"], [
            f"source {completions}",
            f"bind -x '\"\\C-x\\C-d\": printf %s \"$READLINE_LINE\" >{out}.new; mv {out}.new {out}'",
            "bind 'set bell-style none'",
            "bind 'set page-completions off'",
            f"PS1='{READY[:3]}''{READY[3:]}'",
        ]
    return ["zsh", "-f", "-i"], [
        "autoload -U compinit; compinit -D",
        f"source {completions}",
        f"dump() {{ print -rn -- \"$BUFFER\" >{out}.new; mv {out}.new {out} }}; zle -N dump; bindkey '^X^D' dump",
        f"PS1='{READY[:3]}''{READY[3:]}'",
    ]


def until(terminal, ended):
    """Reads what the shell prints until `ended` says so."""
    printed, begun = b"", time.monotonic()
    while not ended(printed):
        if time.monotonic() - begun > PATIENCE:
            sys.exit(f"the shell printed in {PATIENCE} s: {printed!r}")
        if select.select([terminal], [], [], 0.05)[0]:
            printed += os.read(terminal, 4096)


def main():
    shell, completions, keys, out = sys.argv[1:]
    words, lines = setup(shell, completions, out)
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "dumb"
        os.execvp(words[0], words)
    for line in lines:
        os.write(terminal, line.encode() + b"\n")
    until(terminal, lambda printed: READY.encode() in printed)
    os.write(terminal, keys.encode().replace(b"<TAB>", b"\t") + DUMP)
    until(terminal, lambda _: os.path.exists(out))
    print(pathlib.Path(out).read_text())
    os.close(terminal)
    os.waitpid(child, 0)


main()
