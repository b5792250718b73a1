"""A case: a command against a hostile far end, and the same command again; what was wrong with each run, a line each."""

import stat
import os
import unicodedata

import client
import ground as grounds
import tree
from commands import COMMANDS

MAX_MEMORY = 250_000  # kB
# Unfinished files have up to two each, and there may be 1,024 of them.
MAX_DESCRIPTORS = 2_200
MAX_SECONDS = 20
TIMEOUT = 5
# Of a command that logs in to several hosts at the same time, on a machine that is all of them.
FAN_TIMEOUT = 10
# Five on a machine that has nothing else to do.
GRACE = 8
# Faults of a run that its line tells.
MOST = 4
DOCUMENTED = {0, 1, 2, 3, 4, 5, 7, 25}
# Names of what a connection that broke leaves for the next run.
OURS = ".linerate."
# What reorders or hides text on a terminal is as bad as a control character.
HIDDEN = set("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")


class Case:
    """One mode with one command. `roles` is a letter a run: h hostile, g good; `extras` are further options."""

    def __init__(self, mode, command, past=False, roles="hgg", extras=(), seconds=3):
        self.mode, self.command_name, self.past, self.roles = mode, command, past, roles
        self.command, self.extras, self.seconds = COMMANDS[command], tuple(extras), seconds

    def __str__(self):
        way = " past" if self.past else ""
        extras = "".join(f" {word}" for word in self.extras)
        return f"{self.mode.name}{way}, {self.command_name}{extras}, {self.roles}"

    @property
    def words(self):
        """Silence is waited for some seconds, and no longer."""
        timeout = ("--timeout", str(self.timeout)) if self.mode.kind == "silence" else ()
        return self.command.words[:1] + self.extras + timeout + self.command.words[1:]

    @property
    def timeout(self):
        return FAN_TIMEOUT if self.command.is_fan else TIMEOUT

    @property
    def silence(self):
        """The longest that silence may take: each try waits for it, and before a retry is a pause of 1 s, then 2 s, then 4 s."""
        # A host that falls out of a chain is tried once more, directly.
        retries = self.command.retries + self.command.is_fan
        return (retries + 1) * (self.timeout + GRACE) + 2**retries - 1

    @property
    def items(self):
        return tree.honest_items(self.command.destination != "x", self.command.listed)

    def run(self, program):
        """A line for each run that went wrong."""
        self.program = program
        self.ground = grounds.Ground(self.command.destination)
        try:
            if self.mode.prepare:
                getattr(self.ground, "make_" + self.mode.prepare)()
            return [line for number, role in enumerate(self.roles) for line in self.line(number + 1, role)]
        finally:
            self.ground.remove()

    def line(self, number, role):
        """All faults of one run, as one line, or none."""
        faults = self.one(role)
        more = f"; and {len(faults) - MOST} more" if len(faults) > MOST else ""
        if faults:
            yield f"run {number} ({'hostile' if role == 'h' else 'honest'}): {'; '.join(faults[:MOST])}{more}"

    def one(self, role):
        """One run and what is wrong with it."""
        before, inside = self.ground.outside(), self.ground.inside()
        blocked = role == "g" and not self.command.is_push and self.ground.in_the_way(self.items)
        self.tell(role)
        outcome = self.start(role)
        faults = list(grounds.changes(before, self.ground.outside()))
        faults += self.of_any(outcome)
        faults += self.of_hostile(outcome, inside) if role == "h" else self.of_honest(outcome, inside, blocked)
        return faults

    def tell(self, role):
        """Says to the peer what it is this time."""
        name = self.mode.name if role == "h" else "honest"
        self.ground.write("log/mode", f"{name} {self.seconds} {'past' if self.past else 'offered'}"
                                     f" {self.command.ends}\n".encode())

    def start(self, role):
        run = client.Client(self.program, self.ground, self.words)
        if role == "h" and self.mode.kind == "flood":
            return run.run(patience=5, interrupt_after=self.seconds)
        if role == "h" and self.mode.kind == "silence":
            return run.run(patience=5, interrupt_after=self.silence)
        return run.run(patience=MAX_SECONDS)

    # --- what may be wrong ---

    def of_any(self, outcome):
        """Faults of a run, whoever the far end was."""
        if outcome.hung:
            yield f"it hangs after {outcome.seconds:.0f} s; {last_line(outcome.said)}"
        elif outcome.code < 0:
            yield f"signal {-outcome.code}; {last_line(outcome.said)}"
        elif outcome.code not in self.documented(outcome):
            yield f"exit {outcome.code}; {last_line(outcome.said)}"
        if outcome.memory > MAX_MEMORY:
            yield f"{outcome.memory // 1000} MB of memory"
        if outcome.descriptors > MAX_DESCRIPTORS:
            yield f"{outcome.descriptors} descriptors"
        yield from unfit(outcome.said)
        yield from self.of_peer()

    def documented(self, outcome):
        """The exit codes that a run may have; 130 where the driver, or the far end's own user, interrupted it."""
        return DOCUMENTED | set(self.mode.codes) | ({130} if outcome.interrupted else set())

    def of_peer(self):
        for name, what in (("found", ""), ("broken", "the peer itself broke: ")):
            text = self.ground.read("log/" + name)
            if text:
                yield what + text.strip().replace("\n", "; ")
                os.remove(self.ground.path("log/" + name))

    def of_hostile(self, outcome, inside):
        if outcome.code == 0 and not self.mode.may_succeed:
            yield "exit 0, although not all is there"
        if self.mode.codes and outcome.code not in self.mode.codes and outcome.code >= 0 and not outcome.interrupted:
            yield f"exit {outcome.code} and not {self.mode.codes[0]}; {last_line(outcome.said)}"
        if self.mode.kind == "silence" and (outcome.interrupted or outcome.hung):
            yield f"it waits for more than {self.silence} s"
        if self.command.is_fan and not outcome.interrupted:
            lacking = list(self.ground.differences(self.items, self.command.keeps_times))
            yield from [f"exit {outcome.code}; {last_line(outcome.said)}", *lacking] if lacking else []
        yield from self.unasked(inside, outcome)
        yield from self.special()

    def unasked(self, inside, outcome):
        """Names at the destination that weren't there before, and that nobody asked for."""
        may = {os.fsdecode(item.path) for item in self.items} | {"", "ok"} | {os.fsdecode(n) for n in self.mode.allowed}
        may |= {os.path.join("tree", name).rstrip("/") for name in may}
        for name in sorted(self.ground.inside() - inside - may):
            left = os.path.basename(name).startswith(OURS) and (self.mode.partial or outcome.interrupted)
            if not left:
                yield f"'{name[:80]}' is at the destination"

    def special(self):
        """Setuid, setgid and devices where they weren't asked for."""
        if self.command.is_archive or self.command.is_sync or not self.command.destination:
            return
        for name in self.ground.inside():
            mode = grounds.mode_of(os.path.join(self.ground.destination, name).rstrip("/"))
            if mode & (stat.S_ISUID | stat.S_ISGID) or stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
                yield f"'{name}' has mode {oct(mode)}"

    def of_honest(self, outcome, inside, blocked):
        allowed = (0, 3) if blocked else (0,)
        if outcome.code not in allowed and outcome.code >= 0:
            yield f"exit {outcome.code}; {last_line(outcome.said)}"
        if self.command.is_push or blocked:
            return
        yield from (f"'{name}' stays" for name in self.ground.journals() if outcome.code == 0)
        yield from self.ground.differences(self.items, self.command.keeps_times)
        yield from self.left_over(inside)

    def left_over(self, inside):
        # The destination itself may be new, whether or not it has an entry.
        names = {""} | {os.fsdecode(item.path) for item in self.items}
        may = names | {os.path.join(top, name).rstrip("/") for top in ("tree", "x") for name in names}
        for name in sorted(self.ground.inside() - inside - may):
            yield f"'{name[:80]}' is left at the destination"


def last_line(said):
    """The last of what it said, for a fault's line."""
    lines = said.decode(errors="replace").strip().splitlines() or ["it said nothing"]
    return "".join(sign if sign.isprintable() else "?" for sign in lines[-1])[:200]


def unfit(said):
    """What isn't fit for a terminal."""
    text = said.decode(errors="surrogateescape")
    bad = sorted({sign for sign in text if sign != "\n" and (unicodedata.category(sign) in ("Cc", "Cs") or sign in HIDDEN)})
    if bad:
        yield f"it printed {', '.join(f'U+{ord(sign):04X}' for sign in bad[:5])}"
