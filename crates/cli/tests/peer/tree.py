"""Entries that a peer sends, and the small tree of the honest one."""

import dataclasses
import os

import protocol as p

WHEN = (1_700_000_000, 5)
LARGE = b"".join(b"line %07d\n" % number for number in range(12_000))


@dataclasses.dataclass
class Item:
    """An entry and its contents. What isn't said is as an honest sender of an ordinary file says it."""

    path: bytes
    kind: bytes = None
    contents: bytes = b""
    mode: int = 0o644
    mtime: tuple = WHEN
    source: int = 0
    extra: bytes = None
    bare: bool = False
    inode: int = 7

    def __post_init__(self):
        if self.kind is None:
            self.kind = p.file(len(self.contents))

    def encode(self, keep):
        """The Entry, with the extra that `keep` asks for unless this item has one of its own, or is bare."""
        extra = self.extra
        if extra is None and not self.bare:
            extra = usual_extra(keep)
        return p.entry(self.path, self.kind, self.mode, self.mtime, extra, self.source)

    @property
    def is_file(self):
        return self.kind[:1] == p.file(0)[:1]


def usual_extra(keep):
    """Owners are this process's own, so that nothing changes hands where they are kept."""
    if not any(keep[name] for name in ("owner", "group", "hard_links", "xattrs", "acls")):
        return None
    owner = (os.getuid(), os.getgid()) if keep["owner"] or keep["group"] else None
    return p.extra(owner)


def directory(path, mode=0o755, **options):
    return Item(path, p.DIRECTORY, mode=mode, **options)


def link(path, target, **options):
    return Item(path, p.symlink(target), mode=0o777, **options)


def further(path, of, **options):
    return Item(path, p.hard_link(of), **options)


def honest_file():
    return [Item(b"", contents=b"an honest file\n")]


def honest_tree():
    return [
        directory(b""),
        Item(b"a", contents=b"alpha\n"),
        Item(b"empty"),
        directory(b"sub"),
        Item(b"sub/b", contents=b"beta\n", mode=0o600),
        link(b"sub/link", b"b"),
        Item(b"large", contents=LARGE),
    ]


def listed_tree():
    """What the driver's list of files names of it: a, and sub/b; not the tree's own directory."""
    return [item for item in honest_tree() if item.path in (b"a", b"sub", b"sub/b")]


def honest_items(is_tree, listed):
    """What an honest sender sends by the job."""
    if not is_tree:
        return honest_file()
    return listed_tree() if listed else honest_tree()


def count(items):
    """The totals of `items`, encoded."""
    sums = {"files": 0, "directories": 0, "symlinks": 0, "size": 0, "specials": 0}
    kinds = ("files", "directories", "symlinks", "specials", "specials", "specials", "files")
    for item in items:
        sums[kinds[min(item.kind[0], 6)]] += 1
        sums["size"] += len(item.contents) if item.is_file else 0
    return p.totals(**sums)
