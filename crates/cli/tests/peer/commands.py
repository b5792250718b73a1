"""The commands that the client is run with: their words, where they write, and what they keep."""

import dataclasses


@dataclasses.dataclass
class Command:
    """Words behind the program's name; `{rsh}` is filled in. `destination` is below `in`, none for a push."""

    words: tuple
    destination: str = "dst"
    listed: bool = False

    @property
    def is_push(self):
        return self.destination == ""

    @property
    def is_between(self):
        """Whether both ends are far hosts, of which `good` is linerate."""
        return any(word.startswith("good:") for word in self.words)

    @property
    def ends(self):
        """Which far hosts there are, as the peer is told."""
        return "several" if self.is_fan else "between" if self.is_between else "one"

    @property
    def is_fan(self):
        """Whether it goes to several hosts, of which those that are linerate must have everything in any case."""
        return "--to" in self.words

    @property
    def is_archive(self):
        return "-a" in self.words

    @property
    def is_sync(self):
        return self.words[0] == "sync"

    @property
    def retries(self):
        """How often it begins again after a connection that broke."""
        return int(self.words[self.words.index("--retry") + 1]) if "--retry" in self.words else 0

    @property
    def keeps_times(self):
        return self.is_sync or "-rp" in self.words or self.is_archive


def pull(*words):
    return Command(words + ("far:tree/", "dst/"))


EXCLUDES = ("--exclude=.ssh", "--exclude=.bashrc", "--exclude=*.o", "--exclude=/cut/")

COMMANDS = {
    "file": Command(("cp", "far:x", "x"), "x"),
    "tree": Command(("cp", "-r", "far:tree", "dst")),
    "tree-p": Command(("cp", "-rp", "far:tree", "dst")),
    "tree-a": Command(("cp", "-a", "far:tree", "dst")),
    "into": Command(("cp", "-r", "far:tree/.", "dst")),
    "sync": pull("sync"),
    "sync-a": pull("sync", "-a"),
    "sync-delete": pull("sync", "-a", "--delete"),
    "sync-inplace": pull("sync", "--inplace"),
    "sync-retry": pull("sync", "-a", "--retry", "2"),
    "sync-exclude": pull("sync", "-a", *EXCLUDES),
    "sync-listed": Command(("sync", "-a", "--files-from=../names/list", "far:tree/", "dst/"), listed=True),
    "tree-safe": Command(("cp", "-r", "--safe-links", "far:tree", "dst")),
    "sync-safe": pull("sync", "-a", "--safe-links"),
    # Python has no zstd, and a client that waits for a busy machine compresses.
    "push": Command(("cp", "--compress=off", "-r", "tree", "far:dst"), ""),
    "push-sync": Command(("sync", "--compress=off", "-a", "tree/", "far:dst/"), ""),
    "between": Command(("cp", "-r", "far:tree", "good:dst")),
    "between-sync": Command(("sync", "--verify", "far:tree/", "good:dst/")),
    "between-listed": Command(("sync", "--files-from=../names/list", "far:tree/", "good:dst/"), listed=True),
    "to": Command(("cp", "-r", "good:tree", "far:dst")),
    # The far hosts run in one place, so each has a destination of its own; the driver looks at the first good one.
    "chain-first": Command(("cp", "-r", "--fan-out=chain", "tree", "--to", "far:../log/far/", "--to", "good:dst/")),
    "chain-last": Command(("cp", "-r", "--fan-out=chain", "tree", "--to", "good:dst/", "--to", "far:../log/far/")),
    "chain-inner": Command(("cp", "-r", "--fan-out=tree", "tree", "--to", "good:../log/one/", "--to", "far:../log/far/",
                            "--to", "good:../log/two/", "--to", "good:dst/")),
    "to-sync": Command(("sync", "--verify", "--manifest=../log/sums", "good:tree/", "far:dst/")),
}

# What the random mix adds, which changes nothing of what is right.
EXTRAS = ((), (), ("-v",), ("--streams", "4"), ("--json",), ("--no-encrypt",), ("-q",), ("--bwlimit", "100m"))
