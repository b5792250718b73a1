"""Lengths, sizes, times and parts that are wrong, or larger than anything."""

import struct

import protocol as p
import sender
import tree
from modes.names import good
from registry import ARCHIVES, PULLS, TREES, mode, sends

LARGEST = 2 ** 64 - 1
SHORTEST, LONGEST = -2 ** 63, 2 ** 63 - 1


@mode(PULLS)
def message_of_4_gib(far):
    """A control message that is said to have four gibibytes."""
    far.open()
    far.write(struct.pack("<I", 2 ** 32 - 1) + bytes(100_000))
    far.wait_for_the_end()


@mode(PULLS)
def message_one_too_long(far):
    """A control message of one byte more than 1 MiB, which is there."""
    far.open()
    far.write(struct.pack("<I", p.MAX_MESSAGE + 1) + bytes(p.MAX_MESSAGE + 1))
    far.wait_for_the_end()


@sends(PULLS)
def frame_of_4_gib(far):
    """A frame that is said to have four gibibytes."""
    far.stream(p.frame(p.BATCH, b"x" * 1000, length=2 ** 32 - 1))
    far.finish()


@sends(PULLS)
def frame_one_too_long(far):
    """Data of one byte more than 1 MiB."""
    far.frame(p.CHUNK, p.chunk(tree.Item(b"big", p.file(1 << 22)).encode(far.keep), 0, 0, 1 << 22, 1))
    far.stream(p.frame(p.DATA, bytes((1 << 20) + 1), crc=0))
    far.finish()


@sends(TREES, allowed=(b"big",))
def size_of_2_to_62(far):
    """A file that no disk holds: of which nothing comes, and of which one part comes."""
    sender.send_items(far, good(far))
    encoded = tree.Item(b"big", p.file(2 ** 62)).encode(far.keep)
    far.frame(p.CHUNK, p.chunk(encoded, 0, 2 ** 61, 1000, 2))
    far.frame(p.DATA, b"x" * 1000)
    far.finish()


@sends(TREES, allowed=(b"big",))
def size_of_2_to_64(far):
    """A file whose offset and length add up to more than a number holds."""
    sender.send_items(far, good(far))
    encoded = tree.Item(b"big", p.file(LARGEST)).encode(far.keep)
    far.frame(p.CHUNK, p.chunk(encoded, 0, LARGEST, 2, 2))
    far.frame(p.DATA, b"xx")
    far.finish()


@sends(TREES, allowed=(b"early", b"late", b"first"), may_succeed=True)
def times_at_the_ends(far):
    """Times of -2^63 and 2^63 - 1 seconds."""
    ends = [(b"early", SHORTEST), (b"late", LONGEST), (b"first", 0)]
    return good(far) + [tree.Item(name, contents=b"x\n", mtime=(seconds, 999_999_999)) for name, seconds in ends]


@sends(TREES, allowed=(b"odd",), may_succeed=True)
def nanoseconds_of_a_second(far):
    """Nanoseconds that are a second, and the largest number."""
    odd = [tree.Item(b"odd", contents=b"x\n", mtime=(1, more)) for more in (10 ** 9, 2 ** 32 - 1)]
    return good(far) + odd


@sends(TREES, allowed=(b"m",), may_succeed=True)
def mode_of_all_bits(far):
    """A mode of 32 bits, of which twelve mean something."""
    return good(far) + [tree.Item(b"m", contents=b"x\n", mode=2 ** 32 - 1 if not far.keep["special_bits"] else 0o777)]


@sends(ARCHIVES, allowed=(b"o",), may_succeed=True)
def owner_of_all_bits(far):
    """The owner -1, which for chown(2) is nobody at all."""
    return good(far) + [tree.Item(b"o", contents=b"x\n", extra=p.extra((2 ** 32 - 1, 2 ** 32 - 1)))]


def malformed(change):
    """A batch whose entry has passed through `change`."""
    def send(far):
        sender.send_items(far, good(far))
        encoded = tree.Item(b"odd", contents=b"x\n").encode(far.keep)
        far.frame(p.BATCH, p.record(change(encoded), b"x\n"))
        far.finish()
    return send


CHANGES = {
    "cut-off": lambda entry: entry[:-1],
    "with-more-behind": lambda entry: entry + b"more",
    "of-an-unknown-kind": lambda entry: entry[:5] + b"\x07" + entry[6:],
    "of-an-endless-varint": lambda entry: b"\xff" * 11 + entry,
    "of-a-long-name": lambda entry: b"\0" + b"\xff\xff\xff\xff\x0f" + entry[2:],
    "of-nothing": lambda entry: b"",
    "of-an-odd-option": lambda entry: entry[:-1] + b"\x02",
}

for label, odd in CHANGES.items():
    sends(TREES, name=f"entry-{label}", brief=True)(malformed(odd))


def records(make):
    def send(far):
        sender.send_items(far, good(far))
        far.frame(p.BATCH, make(tree.Item(b"odd", contents=b"x\n").encode(far.keep)))
        far.finish()
    return send


RECORDS = {
    "shorter-than-its-header": lambda entry: b"\1\2\3",
    "entry-behind-the-end": lambda entry: struct.pack("<II", 2 ** 32 - 1, 2) + entry + b"x\n",
    "contents-behind-the-end": lambda entry: struct.pack("<II", len(entry), 2 ** 32 - 1) + entry + b"x\n",
    "more-than-its-size": lambda entry: p.record(entry, b"x\nmore"),
    "less-than-its-size": lambda entry: p.record(entry, b"x"),
}

for label, odd in RECORDS.items():
    sends(TREES, name=f"record-{label}", brief=True)(records(odd))


def parts(make):
    """Frames of one file, `make(chunk)`, where `chunk(offset, length, parts)` opens a part of a file of 4,000 bytes."""
    def send(far):
        sender.send_items(far, good(far))
        encoded = tree.Item(b"odd", p.file(4000)).encode(far.keep)
        for kind, payload in make(lambda *place: (p.CHUNK, p.chunk(encoded, 0, *place))):
            far.frame(kind, payload)
        far.finish()
    return send


FULL, HALF = (p.DATA, b"x" * 4000), (p.DATA, b"x" * 2000)
PARTS = {
    "none-at-all": lambda chunk: [chunk(0, 4000, 0), FULL],
    "beyond-the-file": lambda chunk: [chunk(3000, 2000, 2), HALF],
    "not-all-of-one": lambda chunk: [chunk(0, 2000, 1), HALF],
    "twice-the-same": lambda chunk: [chunk(0, 2000, 2), HALF, chunk(0, 2000, 2), HALF],
    "that-overlap": lambda chunk: [chunk(0, 2000, 2), HALF, chunk(1000, 2000, 2), HALF],
    "with-a-gap": lambda chunk: [chunk(0, 2000, 2), HALF, chunk(3000, 1000, 2), (p.DATA, b"x" * 1000)],
    "of-another-number": lambda chunk: [chunk(0, 2000, 2), HALF, chunk(2000, 2000, 3), HALF],
    "more-than-said": lambda chunk: [chunk(0, 2000, 2), HALF, chunk(2000, 2000, 2), HALF, chunk(0, 2000, 2), HALF],
    "empty": lambda chunk: [chunk(0, 0, 2), chunk(0, 4000, 2), FULL],
    "never-finished": lambda chunk: [chunk(0, 2000, 2), HALF],
    "left-open": lambda chunk: [chunk(0, 4000, 1), HALF],
    "with-too-much": lambda chunk: [chunk(0, 2000, 2), FULL],
    "in-parts": lambda chunk: [chunk(0, 4000, 1), HALF, chunk(0, 4000, 1)],
    "with-a-batch-in-it": lambda chunk: [chunk(0, 4000, 1), (p.BATCH, b"x" * 20)],
    "of-no-chunk": lambda chunk: [FULL],
    "given-up-of-no-chunk": lambda chunk: [(p.GIVE_UP, b"")],
    "given-up-silently": lambda chunk: [chunk(0, 4000, 1), (p.GIVE_UP, b"")],
    "the-same": lambda chunk: [chunk(0, 4000, 1), (p.SAME, b"")],
    "split-at-nothing": lambda chunk: [chunk(0, 4000, 1), (p.SPLIT, b"\2\0\0\0"), chunk(0, 4000, 2), FULL],
    "split-of-no-chunk": lambda chunk: [(p.SPLIT, b"\2\0\0\0")],
    "split-into-one": lambda chunk: [chunk(0, 4000, 1), HALF, (p.SPLIT, b"\1\0\0\0")],
    "split-by-a-short-number": lambda chunk: [chunk(0, 4000, 1), HALF, (p.SPLIT, b"\2"), chunk(2000, 2000, 2), HALF],
    "split-without-the-rest": lambda chunk: [chunk(0, 4000, 1), HALF, (p.SPLIT, b"\2\0\0\0")],
    "split-without-end": lambda chunk: [chunk(0, 4000, 1), HALF, (p.SPLIT, b"\xff" * 4), chunk(2000, 2000, 2), HALF],
    "split-and-overlapping": lambda chunk: [
        chunk(0, 4000, 1), HALF, (p.SPLIT, b"\2\0\0\0"), chunk(1000, 3000, 2), HALF, (p.DATA, b"x" * 1000)],
    "split-and-brought": lambda chunk: [
        chunk(0, 4000, 1), HALF, (p.SPLIT, b"\2\0\0\0"), chunk(2000, 2000, 2), HALF],
    "digested": lambda chunk: [chunk(0, 4000, 1), FULL, (p.DIGEST, bytes(32))],
    "of-an-empty-hole": lambda chunk: [chunk(0, 4000, 1), (p.HOLE, b"\0")],
    "of-too-large-a-hole": lambda chunk: [chunk(0, 4000, 1), (p.HOLE, b"\xff" * 8)],
    "of-a-long-hole": lambda chunk: [chunk(0, 4000, 1), (p.HOLE, b"\xa0\x0f" + bytes(20))],
}

for label, odd in PARTS.items():
    sends(TREES, name=f"parts-{label}", brief=True, allowed=(b"odd",))(parts(odd))


@sends(TREES)
def parts_of_a_link(far):
    """A chunk of what is no file."""
    sender.send_items(far, good(far))
    far.frame(p.CHUNK, p.chunk(tree.link(b"odd", b"x").encode(far.keep), 0, 0, 0, 1))
    far.finish()
