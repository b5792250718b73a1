"""Floods: something that costs the sender little and might cost the client memory, descriptors, threads or its stack.

Each goes on until its time is over or the client has had enough. The driver looks at the client meanwhile.
"""

import itertools

import protocol as p
import sender
import tree
from modes.names import good
from registry import ARCHIVES, PULLS, PUSHES, SYNCS, TREES, mode, sends

MANY = 1000
LONG = b"/".join([b"n" * 200] * 20)


def flood(commands, **options):
    """A flood behind the first good items; the function makes the next piece of it from its number."""
    def enter(function):
        def send(far):
            sender.send_items(far, good(far))
            for number in itertools.takewhile(lambda _: far.floods, itertools.count()):
                function(far, number)
            far.wait_for_the_end()
        send.__doc__ = function.__doc__
        send.__name__ = function.__name__
        options.setdefault("brief", True)
        return sends(commands, kind="flood", partial=True, **options)(send)
    return enter


def batch(far, items):
    far.stream(batch_of(far, items))


class Once:
    """Bytes that are made once: a checksum in this language is slow, and a flood shouldn't be."""

    made = {}

    @classmethod
    def stream(cls, far, name, make):
        if name not in cls.made:
            cls.made[name] = make()
        far.stream(cls.made[name])


def batch_of(far, items):
    return p.frame(p.BATCH, b"".join(p.record(item.encode(far.keep), item.contents) for item in items))


@flood(TREES)
def flood_same_directory(far, _):
    """One directory again and again."""
    Once.stream(far, "d", lambda: batch_of(far, [tree.directory(b"sub")] * MANY))


@flood(ARCHIVES)
def flood_heavy_directory(far, _):
    """One directory again and again, with 60 KB of attributes each time."""
    heavy = p.extra((0, 0), xattrs=[(b"user.a", b"v" * 60_000)])
    Once.stream(far, "h", lambda: batch_of(far, [tree.directory(b"sub", extra=heavy)] * 4))


@flood(TREES, allowed=tuple(b"d%d" % number for number in range(200_000)))
def flood_directories(far, number):
    """Other directories without end."""
    batch(far, [tree.directory(b"d%d" % (number * 200 + more)) for more in range(200)])


@flood(TREES)
def flood_same_file(far, _):
    """One small file again and again."""
    Once.stream(far, "f", lambda: batch_of(far, [tree.Item(b"a", contents=b"x")] * MANY))


@flood(TREES)
def flood_same_link(far, _):
    """One link again and again."""
    Once.stream(far, "l", lambda: batch_of(far, [tree.link(b"a", b"x" * 4000)] * 100))


@flood(ARCHIVES)
def flood_further_names(far, number):
    """Further names without end, of what never came."""
    batch(far, [tree.further(b"n%d" % (number * 500 + more), b"never") for more in range(500)])


@flood(ARCHIVES)
def flood_same_further_name(far, _):
    """One further name, of 4 KB, again and again."""
    Once.stream(far, "n", lambda: batch_of(far, [tree.further(LONG, b"ok")] * 200))


@flood(TREES)
def flood_given_up(far, number):
    """Files of two parts that are begun and given up."""
    encoded = tree.Item(b"big", p.file(1 << 20)).encode(far.keep)
    pieces = (p.frame(p.CHUNK, p.chunk(encoded, number * 50 + more, 0, 1 << 19, 2)) + p.frame(p.GIVE_UP)
              for more in range(50))
    far.stream(b"".join(pieces))


@flood(TREES, allowed=tuple(LONG[:201 * count - 1] for count in range(1, 20)))
def flood_given_up_long_names(far, number):
    """The same, with names of 4 KB."""
    encoded = tree.Item(LONG, p.file(1 << 20)).encode(far.keep)
    far.frame(p.CHUNK, p.chunk(encoded, number, 0, 1 << 19, 2))
    far.frame(p.GIVE_UP)


@flood(TREES, allowed=tuple(b"b%d" % number for number in range(100_000)))
def flood_begun(far, number):
    """Files of two parts that are begun, with a byte each, and never finished."""
    encoded = tree.Item(b"b%d" % number, p.file(2)).encode(far.keep)
    far.stream(p.frame(p.CHUNK, p.chunk(encoded, number, 0, 1, 2)) + p.frame(p.DATA, b"x"))


@sends(TREES, kind="flood", partial=True)
def flood_records(far):
    """Batches of 4 MiB with records as small as they can be, which are far more than 1,024."""
    item = p.record(tree.directory(b"s").encode(far.keep))
    whole = p.frame(p.BATCH, item * ((4 << 20) // len(item)))
    while far.floods:
        far.stream(whole)
    far.wait_for_the_end()


@sends(TREES)
def records_one_too_many(far):
    """One batch of 1,025 records."""
    sender.send_items(far, good(far))
    batch(far, [tree.directory(b"sub")] + [tree.Item(b"a")] * 1024)
    far.finish()


@flood(ARCHIVES)
def flood_empty_attributes(far, _):
    """Entries with very many attributes of no name and no value."""
    heavy = p.extra((0, 0), xattrs=[(b"", b"")] * 500_000)
    Once.stream(far, "x", lambda: batch_of(far, [tree.Item(b"a", contents=b"", extra=heavy)]))


@flood(ARCHIVES)
def flood_acls(far, _):
    """Entries with ACLs as long as a frame may be."""
    acl = [p.varint(0) + b"\7"] * 1_000_000
    Once.stream(far, "a", lambda: batch_of(far, [tree.directory(b"sub", extra=p.extra((0, 0), acl=acl))]))


@flood(PULLS)
def flood_empty_data(far, _):
    """Data frames without a payload."""
    Once.stream(far, "e", lambda: p.frame(p.DATA) * MANY)


def deep(components, kind):
    """A path of so many components."""
    def send(far):
        sender.send_items(far, good(far))
        path = b"/".join([b"a"] * components)
        item = tree.directory(path) if kind == "directory" else tree.Item(path, contents=b"x\n")
        sender.send_items(far, [item])
        far.finish(tree.count(good(far) + [item]))
    return send


# What stands above the last component may be there before the limit is met.
for components in (1025, 5000, 32_000):
    sends(TREES, name=f"deep-{components}", short=("tree",))(deep(components, "file"))
    sends(TREES, name=f"deep-directory-{components}", short=("sync-a",))(deep(components, "directory"))


@sends(TREES)
def deep_in_chunks(far):
    """A large file below 32,000 directories."""
    path = b"/".join([b"a"] * 32_000)
    sender.send_chunks(far, tree.Item(path, contents=tree.LARGE), 1, 1 << 16)
    far.finish()


# --- in the control channel ---

def repeated(kind, make, commands=PULLS):
    """The same message again and again, from the first frame on."""
    def send(far):
        sender.send_items(far, good(far))
        said = p.message(kind, make(far))
        said *= max(1, 100_000 // len(said))
        while far.floods:
            far.write(said)
        far.wait_for_the_end()
    return send


def wide(element, count):
    return lambda far: p.vector([element] * count)


FLOODS = {
    "progress": (p.PROGRESS, lambda far: p.progress()),
    "problems": (p.PROBLEM, lambda far: p.problem(b"p" * 1000, b"t" * 1000)),
    "long-problems": (p.PROBLEM, lambda far: p.problem(b"p" * 500_000, b"\x1b" * 500_000)),
    "more-streams": (p.MORE_STREAMS, lambda far: p.varint(64)),
    "more-streams-largest": (p.MORE_STREAMS, lambda far: p.varint(2 ** 32 - 1)),
    "empty-tunnel": (p.TUNNEL, lambda far: p.blob(b"")),
    "wanted": (p.WANTED, wide(p.varint(1), 1_000_000)),
    "skip": (p.SKIP, lambda far: p.varint(1)),
    "again": (p.AGAIN, wide(b"\0\0", 500_000)),
    "select": (p.SELECT, wide(b"\1a\0\0", 300_000)),
    "digested": (p.DIGESTED, wide(b"\0" * 14, 70_000)),
    "changes": (p.CHANGES, wide(b">f+++++++++\1x\0\0", 60_000)),
}

for label, (kind, make) in FLOODS.items():
    sends(PULLS, name=f"flood-{label}", kind="flood", partial=True, short=("tree",))(repeated(kind, make))


def repeated_offers(make):
    def send(far):
        said = p.message(p.OFFER, make(far))
        while far.floods:
            far.write(said)
        far.wait_for_the_end()
    return send


sends(SYNCS, name="flood-wide-offers", kind="flood", short=("sync",))(
    repeated_offers(lambda far: p.vector([p.offered(tree.Item(b"a").encode(far.keep))] * 40_000)))
sends(SYNCS, name="flood-empty-offers", kind="flood", short=("sync",))(repeated_offers(lambda far: p.vector([])))


@sends(SYNCS, kind="flood", allowed=(b"sub",), short=("sync-delete",))
def flood_offers(far):
    """Offers without end, each waited for, of names that are remembered for --delete; nothing of them comes."""
    for number in itertools.takewhile(lambda _: far.floods, itertools.count()):
        sender.offer(far, [tree.Item(b"%d" % (number * 1000 + more)) for more in range(1000)])
    far.wait_for_the_end()


@mode(PULLS, kind="flood", short=("file",))
def flood_greeting(far):
    """Lines of a login shell without end."""
    while far.floods:
        far.write(b"welcome\n" * 1000)


def while_it_dials(kind, make):
    """The client dials a port that answers nothing, and meanwhile gets the same message again and again."""
    def speak(far):
        listener = deaf_port()
        far.open()
        far.say(p.LISTENING, p.listening([p.address(listener.getsockname()[1])], None))
        said = p.message(kind, make(far))
        while far.floods:
            far.write(said)
        far.wait_for_the_end()
    return speak


def deaf_port():
    """A port where connections are made by the kernel and never answered."""
    import socket
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(8)
    return listener


DIALED = {
    "wants": (p.WANTED, wide(p.varint(1), 1_000_000)),
    "again": (p.AGAIN, wide(b"\0\0", 500_000)),
    "problems": (p.PROBLEM, lambda far: p.problem(b"p" * 500_000, b"t" * 500_000)),
    "digested": (p.DIGESTED, wide(b"\0" * 14, 70_000)),
    "sources": (p.SOURCES, wide(p.source(b"", True), 300_000)),
    "offers": (p.OFFER, wide(b"\0" * 12, 80_000)),
}

for label, (kind, make) in DIALED.items():
    mode(("tree",) + PUSHES, name=f"flood-dialing-{label}", kind="flood",
         short=("push",) if label == "wants" else ("tree",))(while_it_dials(kind, make))
