"""The table of modes: what each does, for which commands it has a meaning, and what the driver may expect of it."""

import dataclasses

TREES = ("tree", "tree-p", "tree-a", "into", "sync", "sync-a", "sync-delete", "sync-inplace", "sync-retry")
SYNCS = ("sync", "sync-a", "sync-delete", "sync-inplace", "sync-retry")
ARCHIVES = ("tree-a", "sync-a", "sync-delete", "sync-retry")
PULLS = ("file",) + TREES
PUSHES = ("push", "push-sync")
ALL = PULLS + PUSHES
# Both ends are far hosts, and this is the one that sends, or receives.
SENDERS = ("between", "between-sync", "between-listed")
RECEIVERS = ("to", "to-sync")


@dataclasses.dataclass
class Mode:
    """One kind of hostility.

    `function` takes the session (`far.Far`); `stage` says how far the session is then: "nothing", "ready" (a pull, up to
    the first frame) or "connected" (a push, up to Sources). What it returns are items that are sent.
    `allowed` are names below the destination that a run may leave there beside those of the honest tree.
    `may_succeed`: exit 0 is right. `codes`: the only exit codes that are right. `kind`: "plain", "flood" or "silence".
    `partial`: the connection breaks, and what goes on later may stay. `prepare`: what the ground makes before the
    first run. `twice`: a second hostile run of the same command is in the tests. `short`: the commands of the tests; none
    leaves it to the driver, which takes two of them, or one where the mode is `brief`.
    """

    name: str
    function: object
    commands: tuple
    stage: str = "nothing"
    allowed: tuple = ()
    may_succeed: bool = False
    codes: tuple = ()
    kind: str = "plain"
    partial: bool = False
    prepare: str = ""
    short: tuple = ()
    twice: bool = False
    brief: bool = False

    @property
    def has_ways(self):
        """Whether its items travel in two ways, offered and not."""
        return self.stage == "ready" and self.kind == "plain"


MODES = {}


def mode(commands, name=None, **options):
    """Enters a function into the table, under its own name with hyphens unless told otherwise."""
    def enter(function):
        known = name or function.__name__.replace("_", "-")
        MODES[known] = Mode(known, function, tuple(commands), **options)
        return function
    return enter


def sends(commands, **options):
    """A mode of a sender, from the first frame on."""
    return mode(commands, stage="ready", **options)


def receives(commands=PUSHES, **options):
    """A mode of a receiver, from Sources on."""
    return mode(commands, stage="connected", **options)
