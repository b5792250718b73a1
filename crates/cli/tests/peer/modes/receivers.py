"""Receivers (pushes) that lie, want what they were not offered, or say what has no place."""

import itertools

import protocol as p
import receiver
import tree
from modes.texts import ESCAPES, NOT_UTF8
from registry import PUSHES, mode, receives

LARGEST = 2 ** 64 - 1


def commits(counts):
    """A receiver that takes everything and then says that `counts` are in place."""
    def speak(far):
        receiver.accept(far)
        receiver.read_data(far)
        far.say(p.COMMITTED, counts)
        far.say(p.REPORT, p.report())
        far.wait_for_the_end()
    return speak


receives(name="committed-nothing")(commits(p.NO_TOTALS))
receives(name="committed-more")(commits(p.totals(files=1000, directories=3, symlinks=1, size=10 ** 12)))
receives(name="committed-the-largest")(commits(p.totals(*[LARGEST] * 5)))


@receives()
def committed_at_once(far):
    """Committed before a frame has come."""
    receiver.accept(far)
    far.say(p.COMMITTED, p.NO_TOTALS)
    far.say(p.REPORT, p.report())
    far.wait_for_the_end()


@receives()
def committed_twice(far):
    """Committed, and then Committed with something else."""
    receiver.accept(far)
    counts = receiver.read_data(far)
    far.say(p.COMMITTED, p.NO_TOTALS)
    far.say(p.COMMITTED, counts)
    far.say(p.REPORT, p.report())
    far.wait_for_the_end()


@receives(codes=(5,), partial=True)
def closes_before_committed(far):
    """It takes everything and goes away."""
    receiver.accept(far)
    receiver.read_data(far)


@receives(codes=(5,), partial=True)
def closes_at_ready(far):
    """It is ready and goes away."""
    receiver.accept(far)


def answering(make):
    """A receiver that wants offers, and answers the first with `make(count)`, encoded elements."""
    def speak(far):
        far.wait_for(p.SOURCES)
        far.say(p.READY, p.ready(True))
        offer = far.wait_for(p.OFFER)[1]
        far.say(p.WANTED, p.vector(make(offer.varint())))
        counts = receiver.read_data(far)
        far.say(p.COMMITTED, counts)
        far.wait_for_the_end()
    return speak


def missing(chunk, present=b""):
    return p.varint(2) + p.varint(chunk) + p.blob(present)


def differing(chunk, count):
    return p.varint(3) + p.varint(chunk) + p.vector([bytes(32)] * count)


def blocks(size, count):
    return p.varint(6) + p.varint(size) + p.varint(count)


WANTS = {
    "nothing-at-all": lambda count: [],
    "more-than-was-offered": lambda count: [p.varint(1)] * (count + 1),
    "far-more": lambda count: [p.varint(1)] * 500_000,
    "an-unknown-kind": lambda count: [p.varint(7)] * count,
    "blocks-that-never-came": lambda count: [blocks(1 << 16, 5)] * count,
    "blocks-of-no-size": lambda count: [blocks(0, 1)] * count,
    "blocks-of-an-odd-size": lambda count: [blocks(5000, 0)] * count,
    "blocks-without-end": lambda count: [blocks(1 << 16, 1 << 31)] * count,
    "parts-of-everything": lambda count: [missing(1 << 16, b"\1")] * count,
    "parts-of-no-size": lambda count: [missing(0)] * count,
    "parts-of-a-byte": lambda count: [missing(1, b"\xff" * 1000)] * count,
    "parts-of-the-largest-size": lambda count: [missing(LARGEST)] * count,
    "too-many-bits": lambda count: [missing(1 << 16, b"\xff" * 100_000)] * count,
    "digests-of-everything": lambda count: [differing(1 << 16, 1)] * count,
    "too-many-digests": lambda count: [differing(1 << 16, 10_000)] * count,
    "digests-of-no-size": lambda count: [differing(0, 1)] * count,
    "digest-alone": lambda count: [p.varint(4)] * count,
}

for label, make in WANTS.items():
    receives(name=f"wants-{label}")(answering(make))


@receives()
def blocks_without_end(far):
    """Blocks of old files, which no answer counts."""
    far.wait_for(p.SOURCES)
    far.say(p.READY, p.ready(True))
    far.wait_for(p.OFFER)
    for _ in range(40):
        far.say(p.BLOCKS, p.vector([bytes(20)] * 32_768))
    far.wait_for_the_end()


@receives()
def wanted_before_an_offer(far):
    """An answer to no offer."""
    far.wait_for(p.SOURCES)
    far.say(p.WANTED, p.vector([p.varint(1)]))
    far.say(p.READY, p.ready(True))
    far.wait_for_the_end()


@receives()
def wanted_without_offers(far):
    """An answer, where the receiver said that it wants no offers."""
    receiver.accept(far)
    far.say(p.WANTED, p.vector([p.varint(1)]))
    far.wait_for_the_end()


ODD = {
    "skip": (p.SKIP, p.varint(12345)),
    "skip-largest": (p.SKIP, p.varint(LARGEST)),
    "ready": (p.READY, p.ready(True)),
    "within": (p.WITHIN, p.boolean(True)),
    "again": (p.AGAIN, p.vector([p.varint(0) + p.blob(b"a")])),
    "again-outside": (p.AGAIN, p.vector([p.varint(0) + p.blob(b"../../canary/file")])),
    "tunnel": (p.TUNNEL, p.blob(p.frame(p.END))),
    "sources": (p.SOURCES, p.vector([p.source(b"x", False)])),
    "sent": (p.SENT, p.sent(p.NO_TOTALS)),
    "offer": (p.OFFER, p.vector([p.offered(p.entry(b"x", p.DIRECTORY, 0o755, tree.WHEN))])),
    "more-streams": (p.MORE_STREAMS, p.varint(64)),
    "select": (p.SELECT, p.vector([p.blob(b"a") + b"\1\0"])),
    "ask-facts": (p.ASK_FACTS, p.vector([p.blob(b"/etc/shadow")])),
    "job-send": (p.JOB, p.varint(1) + p.vector([p.blob(b"/etc/shadow")])),
    "samples": (p.SAMPLES, p.blob(b"x")),
    "unknown": (77, b""),
}


def odd_word(kind, body, late=False):
    """Says it before the data comes, or when all of it has come."""
    def speak(far):
        receiver.accept(far)
        if not late:
            far.say(kind, body)
        counts = receiver.read_data(far)
        if late:
            far.say(kind, body)
        far.say(p.COMMITTED, counts)
        far.say(p.REPORT, p.report())
        far.wait_for_the_end()
    return speak


for label, (kind, body) in ODD.items():
    receives(name=f"receiver-says-{label}", brief=True)(odd_word(kind, body))
    receives(name=f"receiver-says-late-{label}", brief=True)(odd_word(kind, body, late=True))


@receives(may_succeed=True)
def receiver_paints(far):
    """Problems and changes that paint the terminal."""
    receiver.accept(far)
    for kind in range(5):
        far.say(p.PROBLEM, p.problem(ESCAPES, NOT_UTF8.replace(b"\xff\xfe", b"").replace(b"\x9b", b""), kind))
    far.say(p.CHANGES, p.vector([ESCAPES[:11] + p.blob(b"\x1b[2Jx") + b"\0\1\0" + p.blob(NOT_UTF8)]))
    counts = receiver.read_data(far)
    far.say(p.COMMITTED, counts)
    far.say(p.REPORT, p.report())
    far.wait_for_the_end()


def flooding(kind, body):
    """The same message again and again, behind Ready."""
    def speak(far):
        receiver.accept(far)
        said = p.message(kind, body)
        said *= max(1, 100_000 // len(said))
        while far.floods:
            far.write(said)
        far.wait_for_the_end()
    return speak


FLOODS = {
    "progress": (p.PROGRESS, p.progress()),
    "problems": (p.PROBLEM, p.problem(b"p" * 500_000, b"t" * 500_000)),
    "skips": (p.SKIP, p.varint(0)),
    "changes": (p.CHANGES, p.vector([b">f+++++++++\1x\0\0"] * 60_000)),
    "wants": (p.WANTED, p.vector([p.varint(1)] * 1_000_000)),
}

for label, (kind, body) in FLOODS.items():
    receives(name=f"receiver-floods-{label}", kind="flood", short=("push",), partial=True)(flooding(kind, body))


@mode(PUSHES, kind="flood", short=("push-sync",))
def receiver_wants_without_end(far):
    """Offers are wanted, and answers come before them, without end."""
    far.open()
    far.connect()
    far.wait_for(p.SOURCES)
    far.say(p.READY, p.ready(True))
    for _ in itertools.takewhile(lambda _: far.floods, itertools.count()):
        far.say(p.WANTED, p.vector([differing(1 << 16, 30)] * 1000))
    far.wait_for_the_end()
