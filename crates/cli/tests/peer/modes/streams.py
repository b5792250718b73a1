"""The tunnel and its frames: damaged, cut off, doubled, out of their place; and counts that lie."""

import protocol as p
import sender
import tree
from modes.names import good
from registry import PULLS, mode, sends

SMALL = b"an entry that is none"
ODD_FRAMES = {
    "wrong-checksum": p.frame(p.BATCH, SMALL, crc=1),
    "no-checksum": p.frame(p.BATCH, SMALL, flags=0, crc=0),
    "reserved-flags": p.frame(p.BATCH, SMALL, flags=3),
    "reserved-bytes": p.frame(p.BATCH, SMALL, reserved=1),
    "kind-zero": p.frame(0, SMALL),
    "unknown-kind": p.frame(12, SMALL),
    "largest-kind": p.frame(255, SMALL),
    "empty-batch": p.frame(p.BATCH),
    "empty-chunk": p.frame(p.CHUNK),
    "empty-data": p.frame(p.DATA),
    "end-with-a-payload": p.frame(p.END, b"x"),
    "given-up-with-a-payload": p.frame(p.GIVE_UP, b"x"),
    "garbage": bytes(range(256)) * 10,
    "packed-garbage": p.frame(p.PACKED, bytes(range(256))),
    "packed-batch-that-is-none": p.frame(p.PACKED, p.zstd(p.inner(p.BATCH, SMALL))),
    "packed-end": p.frame(p.PACKED, p.zstd(p.inner(p.END))),
    "packed-in-packed": p.frame(p.PACKED, p.zstd(p.inner(p.PACKED, p.zstd(p.inner(p.END))))),
    "packed-with-a-checksum": p.frame(p.PACKED, p.zstd(p.frame(p.END))),
    "packed-half": p.frame(p.PACKED, p.zstd(p.inner(p.BATCH, SMALL)[:20])),
    "packed-empty": p.frame(p.PACKED),
    "packed-to-its-end": p.frame(p.PACKED, p.zstd(b"", last=True)),
    "packed-without-a-window": p.frame(p.PACKED, p.zstd(b"", descriptor=32)),
    "packed-with-a-long-window": p.frame(p.PACKED, p.zstd(p.inner(p.BATCH, SMALL), window=28)),
    "packed-with-the-longest-window": p.frame(p.PACKED, p.zstd(p.inner(p.BATCH, SMALL), window=41)),
}


def odd_frame(data):
    def send(far):
        sender.send_items(far, good(far))
        far.stream(data)
        far.finish(tree.count(good(far)))
    return send


for label, odd in ODD_FRAMES.items():
    sends(PULLS, name=f"frame-{label}", brief=True)(odd_frame(odd))


@sends(PULLS, partial=True)
def frame_cut_off(far):
    """Half a frame, and then the connection breaks."""
    sender.send_items(far, good(far))
    far.stream(p.frame(p.BATCH, SMALL)[:20])


@sends(PULLS, partial=True)
def message_cut_off(far):
    """Half a message, and then the connection breaks."""
    sender.send_items(far, good(far))
    far.write(p.message(p.TUNNEL, p.blob(SMALL))[:9])


@sends(PULLS, may_succeed=True)
def end_twice(far):
    """Two End frames; what stands behind the first is none of the stream."""
    sender.send_items(far, good(far))
    far.frame(p.END)
    far.finish(tree.count(good(far)))


@sends(PULLS, may_succeed=True)
def data_behind_the_end(far):
    """An entry behind the End frame must not land."""
    sender.send_items(far, good(far))
    far.frame(p.END)
    far.frame(p.BATCH, p.record(tree.Item(b"pwn", contents=b"x\n").encode(far.keep), b"x\n"))
    far.say(p.SENT, p.sent(tree.count(good(far))))
    far.take_leave()


@sends(PULLS, allowed=(b"late",))
def data_behind_sent(far):
    """An entry behind Sent."""
    sender.send_items(far, good(far))
    far.say(p.SENT, p.sent(tree.count(good(far))))
    far.frame(p.BATCH, p.record(tree.Item(b"late", contents=b"x\n").encode(far.keep), b"x\n"))
    far.frame(p.END)
    far.take_leave()


def lying(counts=None, streams=1, complete=True):
    """Honest items, and a Sent that says something else."""
    def send(far):
        items = good(far)
        sender.send_items(far, items)
        far.frame(p.END)
        far.say(p.SENT, p.sent(tree.count(items) if counts is None else counts, streams, complete))
        far.take_leave()
    return send


sends(PULLS, name="sent-more-than-came")(lying(p.totals(files=1000, directories=10, size=10 ** 9)))
sends(PULLS, name="sent-less-than-came")(lying(p.NO_TOTALS))
sends(PULLS, name="sent-the-largest")(lying(p.totals(*[2 ** 64 - 1] * 5)))
sends(PULLS, name="sent-in-no-stream", may_succeed=True)(lying(streams=0))
sends(("sync-delete",), name="sent-incomplete", may_succeed=True)(lying(complete=False))


@sends(PULLS)
def sent_twice(far):
    """Sent, and Sent again."""
    sender.send_items(far, good(far))
    far.frame(p.END)
    far.say(p.SENT, p.sent(p.NO_TOTALS))
    far.say(p.SENT, p.sent(tree.count(good(far))))
    far.take_leave()


@sends(PULLS)
def tunnel_empty(far):
    """An empty Tunnel message, which ends the stream early."""
    sender.send_items(far, good(far))
    far.say(p.TUNNEL, p.blob(b""))
    far.finish(tree.count(good(far)))


@sends(PULLS)
def tunnel_too_long(far):
    """A Tunnel message of more than 256 KiB."""
    far.say(p.TUNNEL, p.blob(bytes(p.MAX_TUNNEL + 1)))
    far.finish()


@mode(PULLS)
def tunnel_before_use_tunnel(far):
    """The data comes in the channel before the client asked for that."""
    far.open()
    far.say(p.LISTENING, p.listening())
    far.frame(p.BATCH, p.record(tree.Item(b"").encode(far.keep)))
    far.wait_for_the_end()


@mode(PULLS, allowed=(b"early",))
def data_before_ready(far):
    """Frames before the client said Ready."""
    far.open()
    far.connect()
    far.frame(p.BATCH, p.record(tree.Item(b"early", contents=b"x\n").encode(far.keep), b"x\n"))
    far.announce()
    far.finish()


@sends(PULLS, may_succeed=True)
def packed_as_it_is(far):
    """Honest frames, in compressed ones with blocks that aren't any smaller."""
    records = [p.record(item.encode(far.keep), item.contents) for item in good(far)]
    far.frame(p.PACKED, p.zstd(b"".join(p.inner(p.BATCH, record) for record in records)))
    far.finish(tree.count(good(far)))


@sends(PULLS, may_succeed=True)
def byte_by_byte(far):
    """Honest frames, in Tunnel messages of one byte each."""
    for item in good(far):
        for byte in p.frame(p.BATCH, p.record(item.encode(far.keep), item.contents)):
            far.say(p.TUNNEL, p.blob(bytes((byte,))))
    far.finish(tree.count(good(far)))
