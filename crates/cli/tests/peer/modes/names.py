"""Names that lead out of the destination, that are no names, or that are linerate's own; sources that nobody asked for."""

import protocol as p
import sender
import tree
from registry import PULLS, TREES, mode, sends

BAD_NAMES = {
    "parent": b"../pwn",
    "parents-within": b"sub/../../pwn",
    "parent-at-the-end": b"sub/..",
    "nul": b"sub\0x",
    "double-slash": b"sub//pwn",
    "leading-dot": b"./pwn",
    "inner-dot": b"sub/./pwn",
    "only-dot": b".",
    "only-slash": b"/",
    "slash-at-the-end": b"pwn/",
    "component-of-256": b"n" * 256,
    "longer-than-64-kib": b"/".join([b"n" * 255] * 257),
}


def good(far):
    """What an honest sender may begin with."""
    if not far.is_tree:
        return [tree.Item(b"", contents=b"ok\n")]
    return [tree.directory(b""), tree.Item(b"ok", contents=b"ok\n")]


def bad_name(name):
    def send(far):
        return good(far) + [tree.Item(name, contents=b"pwned\n")]
    return send


for label, bad in BAD_NAMES.items():
    sends(PULLS, name=f"name-{label}", brief=True)(bad_name(bad))


@sends(PULLS)
def name_absolute(far):
    """The whole path of a file outside, as a name."""
    return good(far) + [tree.Item(far.outside("canary/file"), contents=b"pwned\n")]


@sends(TREES)
def name_parent_directory(far):
    """A directory, a link and a further name under names with `..`."""
    return good(far) + [tree.directory(b"../pwn"), tree.link(b"../pwned", b"x"), tree.further(b"../again", b"ok")]


@sends(TREES)
def name_parent_in_chunks(far):
    """A large file under a name with `..`, each part told anew."""
    sender.send_items(far, good(far))
    sender.send_chunks(far, tree.Item(b"../pwn", contents=tree.LARGE), 1, 1 << 16)
    far.finish()


# --- linerate's own names ---

RESERVED = (
    b".linerate.fedcba9876543210.1f",
    b"sub/.linerate.journal." + b"0" * 32,
    b".linerate.0123456789abcdef.1/inner",
    b".linerate.0123456789abcdef.0",
)


def reserved(name, make):
    def send(far):
        return good(far) + [make(name)]
    send.__doc__ = f"The name {name.decode()}, which is linerate's own, for an entry."
    return send


MAKERS = {
    "file": lambda name: tree.Item(name, contents=b"x\n"),
    "directory": tree.directory,
    "link": lambda name: tree.link(name, b"ok"),
}

for number, own in enumerate(RESERVED):
    for place, (kind, maker) in enumerate(MAKERS.items()):
        sends(TREES, name=f"reserved-{kind}-{number}", short=(TREES[2 * number + place],))(reserved(own, maker))


@sends(TREES)
def reserved_in_chunks(far):
    """A large file under linerate's own name."""
    return good(far) + [tree.Item(b".linerate.0123456789abcdef.0", contents=tree.LARGE)]


@sends(("tree-a", "sync-a", "sync-retry"), allowed=(b"first",))
def reserved_further_name(far):
    """A further name of a file that is linerate's own."""
    first = tree.Item(b"first", contents=b"x\n", extra=p.extra((0, 0), linked=True))
    return good(far) + [first, tree.further(b".linerate.journal." + b"0" * 32, b"first")]


# --- sources ---

def announcing(sources):
    """A sender that announces `sources` (a function of the session) and then sends a tree of that."""
    def speak(far):
        far.open()
        far.connect()
        far.announce(sources(far))
        sender.send(far, [tree.directory(b""), tree.Item(b"evil", contents=b"pwned\n")])
    return speak


ODD_SOURCES = {
    "other": lambda far: [p.source(b"evil", True)],
    "parent": lambda far: [p.source(b"..", True)],
    "path": lambda far: [p.source(b"a/b", True)],
    "absolute": lambda far: [p.source(far.outside("canary"), True)],
    "own-name": lambda far: [p.source(b".linerate.0123456789abcdef.0", True)],
    "unknown-argument": lambda far: [p.source(far.source_name, far.is_tree, argument=7)],
    "largest-argument": lambda far: [p.source(far.source_name, far.is_tree, argument=2 ** 32 - 1)],
    "twice": lambda far: [p.source(far.source_name, far.is_tree)] * 2,
    "and-another": lambda far: [p.source(far.source_name, far.is_tree), p.source(b"evil", True)],
    "many": lambda far: [p.source(far.source_name, far.is_tree)] * 65_537,
}

for label, odd in ODD_SOURCES.items():
    mode(PULLS, name=f"source-{label}", brief=True)(announcing(odd))


@mode(PULLS)
def source_none(far):
    """No source at all."""
    far.open()
    far.connect()
    far.say(p.SOURCES, p.vector([]))
    far.wait_until_ready()
    far.finish()


@mode(("file",))
def source_directory_unasked(far):
    """A directory, where the command is not recursive."""
    announcing(lambda far: [p.source(far.source_name, True)])(far)


@sends(PULLS)
def source_unannounced(far):
    """Entries of sources that nobody announced."""
    odd = [tree.Item(b"pwn", contents=b"x\n", source=1), tree.Item(b"pwn", contents=b"x\n", source=2 ** 32 - 1)]
    return good(far) + odd


@sends(("file",))
def below_a_file(far):
    """An entry below a source that is a file."""
    return good(far) + [tree.Item(b"pwn", contents=b"x\n")]
