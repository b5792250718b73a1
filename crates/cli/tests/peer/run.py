"""Runs the program against the hostile peer, and says each fault in a line: mode, command, run, and what was wrong.

    python3 run.py --program FILE                       the table of the tests
    python3 run.py --program FILE --part 2/3            every third mode of it, from the second on
    python3 run.py --program FILE --mode NAME           one mode with each of its commands
    python3 run.py --program FILE --all                 each mode with each of its commands, in both ways and orders
    python3 run.py --program FILE --mix SECONDS         modes, commands and options at random; --seed repeats it

Exit code 1 where anything was wrong.
"""

import argparse
import concurrent.futures
import os
import random
import sys
import threading
import time

sys.dont_write_bytecode = True
# No configuration of whoever runs this changes what the program does.
os.environ["LINERATE_NO_CONFIG"] = "1"

import modes  # noqa: E402; nothing is to be written beside these files
from case import Case
from commands import COMMANDS, EXTRAS
from registry import MODES

# Runs of modes that wait take no processor, but for their logins; a command to several hosts logs in to all of them at the
# same time, and each must answer within the timeout.
WAITING = 12
WAITING_FANS = 3


def main():
    options = parse()
    if options.list:
        list_modes()
        return 0
    driver = Driver(options)
    begun = time.monotonic()
    if options.mix:
        driver.mix(options.mix)
    else:
        driver.table()
    print(f"{driver.cases} cases, {driver.runs} runs in {time.monotonic() - begun:.0f} s: {driver.faults} faults"
          f" in {driver.failed} cases")
    return 1 if driver.faults else 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=os.path.abspath, help="the linerate to run")
    parser.add_argument("--mode", action="append", help="only this mode, or those that begin so (NAME*)")
    parser.add_argument("--command", action="append", choices=COMMANDS, help="only this command")
    parser.add_argument("--all", action="store_true", help="every command of each mode, both ways, both orders")
    parser.add_argument("--mix", type=float, metavar="SECONDS", help="at random, for so long")
    parser.add_argument("--seed", type=int, help="of the mix; another one each time unless told")
    parser.add_argument("--flood-seconds", type=float, default=3, help="how long a flood lasts (3)")
    parser.add_argument("--part", type=part, default=(0, 1), metavar="K/N", help="only every Nth mode, from the Kth on")
    parser.add_argument("--jobs", type=int, default=2, help="cases at the same time (2)")
    parser.add_argument("--list", action="store_true", help="print the modes and end")
    options = parser.parse_args()
    if not options.list and not (options.program and os.access(options.program, os.X_OK)):
        parser.error("--program names the linerate to run, and is none that can be run")
    unknown = [name for name in options.mode or () if not matching(name)]
    if unknown:
        parser.error(f"there is no mode {', '.join(unknown)}; --list prints them")
    return options


def part(text):
    """The index of the first mode, and the distance to the next one."""
    first, step = map(int, text.split("/"))
    if not 1 <= first <= step:
        raise ValueError(text)
    return first - 1, step


def matching(name):
    """The modes that a name or a beginning with `*` means."""
    return [known for known in MODES if known == name or name.endswith("*") and known.startswith(name[:-1])]


def list_modes():
    for known in MODES.values():
        text = (known.function.__doc__ or "").strip().splitlines()
        print(f"{known.name:32} {known.kind:8} {' '.join(known.commands)}")
        print(f"{'':32} {text[0] if text else ''}")


class Driver:
    """Runs cases, several at a time, and counts."""

    def __init__(self, options):
        self.options = options
        self.lock = threading.Lock()
        self.cases = self.runs = self.faults = self.failed = 0
        names = [name for asked in options.mode or MODES for name in matching(asked)]
        first, step = options.part
        self.modes = [MODES[name] for name in names][first::step]

    def table(self):
        """The fixed cases; those that only wait run beside one another."""
        cases = [case for mode in self.modes for case in self.cases_of(mode)]
        pool = concurrent.futures.ThreadPoolExecutor
        with pool(WAITING) as waiting, pool(WAITING_FANS) as fans, pool(self.options.jobs) as working:
            def pool_of(case):
                if case.mode.kind != "silence":
                    return working
                return fans if case.command.is_fan else waiting
            ends = [pool_of(case).submit(self.judge, case) for case in cases]
        for end in ends:
            end.result()

    def cases_of(self, mode):
        """The cases of a mode in the table."""
        whole = self.options.all or self.options.mode
        commands = mode.commands if whole else few(mode)
        for command in commands:
            if command in (self.options.command or commands):
                for past, roles in orders(mode, command) if whole else few_orders(mode, command):
                    yield Case(mode, command, past, roles, seconds=self.options.flood_seconds)

    def mix(self, seconds):
        """Cases at random until the time is over; each has a seed of its own, which repeats it alone."""
        first = self.options.seed if self.options.seed is not None else random.randrange(10 ** 9)
        repeated = self.options.seed is not None and seconds <= 1
        print(f"seed {first}", flush=True)
        same = "".join(f" --mode '{name}'" for name in self.options.mode or ())
        until, seeds = time.monotonic() + seconds, iter(range(first, first + 1 if repeated else first + 10 ** 9))

        def work():
            while repeated or time.monotonic() < until:
                with self.lock:
                    seed = next(seeds, None)
                if seed is None:
                    return
                self.judge(self.at_random(seed), f" (again: --mix 1 --seed {seed}{same})")

        workers = [threading.Thread(target=work) for _ in range(self.options.jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def at_random(self, seed):
        rng = random.Random(seed)
        modes_here = [mode for mode in self.modes if mode.kind == "plain"] or self.modes
        # A flood or a silence takes as long as forty others.
        slow = [mode for mode in self.modes if mode.kind != "plain"]
        mode = rng.choice(slow if slow and rng.random() < 0.04 else modes_here)
        command = rng.choice(mode.commands)
        roles = rng.choice(("hgg", "hhg", "hgh", "ghg", "hhhg"))
        past = rng.choice(ways(mode, command))
        return Case(mode, command, past, roles, rng.choice(EXTRAS), self.options.flood_seconds)

    def judge(self, case, note=""):
        try:
            faults = case.run(self.options.program)
        except Exception as error:  # pylint: disable=broad-except; the other cases are worth running
            faults = [f"the driver itself broke: {error!r}"]
        with self.lock:
            self.cases += 1
            self.runs += len(case.roles)
            self.faults += len(faults)
            self.failed += bool(faults)
            for fault in faults:
                print(f"FAULT {case}, {fault}{note}", flush=True)


def few(mode):
    """The commands of a mode in the tests where it doesn't name them: a sync and another, the same ones each time."""
    rng = random.Random(mode.name)
    if mode.brief:
        return [rng.choice(mode.commands)]
    syncs = [name for name in mode.commands if COMMANDS[name].is_sync]
    others = [name for name in mode.commands if not COMMANDS[name].is_sync]
    return mode.short or [rng.choice(names) for names in (others, syncs) if names]


def orders(mode, command):
    """All ways and orders: hostile and then honest twice, and hostile twice and then honest."""
    return [(past, roles) for past in ways(mode, command)
            for roles in (("hgg", "hhg") if mode.twice or mode.kind == "plain" else ("hgg",))]


def few_orders(mode, command):
    """Those of the tests: one of the two ways, the same each time, or both where the mode is about one command; a second
    hostile run, the other way where there are two, for modes that lay something for the next run."""
    both = ways(mode, command)
    if mode.twice:
        return [(both[0], "hgg"), (both[-1], "hhg")]
    if len(mode.commands) == 1:
        return [(past, "hgg") for past in both]
    return [(random.Random(mode.name + command).choice(both), "hg" if mode.brief else "hgg")]


def ways(mode, command):
    """Where the client wants offers, items come with one and without."""
    return (False, True) if mode.has_ways and COMMANDS[command].is_sync else (False,)


if __name__ == "__main__":
    assert modes
    sys.exit(main())
