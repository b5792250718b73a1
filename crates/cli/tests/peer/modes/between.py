"""One of two far hosts that is hostile, while the other is linerate: what it may make that one, or the client, do.

The data between the two has a cipher that this language hasn't, so that all of these are about messages.
"""

import itertools
import socket
import threading

import protocol as p
import tree
from modes.texts import ESCAPES
from registry import RECEIVERS, SENDERS, mode

# Nobody may say these behind the opening, but the client.
ORDERS = {
    "hello": (p.HELLO, p.hello()),
    "job": (p.JOB, p.varint(5) + p.blob(b"") + p.boolean(True)),
    "between": (p.BETWEEN, b""),
    "partner": (p.PARTNER, p.partner()),
    "connect-back": (p.CONNECT_BACK, p.vector([p.address(22)])),
    "use-tunnel": (p.USE_TUNNEL, b""),
    "select": (p.SELECT, p.vector([])),
    "listening": (p.LISTENING, p.listening()),
    "connected-back": (p.CONNECTED_BACK, p.option(None)),
    "answer": (p.ANSWER, p.blob(b"x")),
    "listed": (p.LISTED, p.blob(b"x") + p.entry(b"x", p.DIRECTORY, 0o755, tree.WHEN)),
    "digested": (p.DIGESTED, p.vector([])),
    "report": (p.REPORT, p.report()),
    "tally": (p.TALLY, p.tally()),
    "detached": (p.DETACHED, bytes(4) + p.blob(b"a") + p.blob(b"b")),
    "under-way": (p.UNDER_WAY, b""),
    "job-record": (p.JOB_RECORD, p.blob(b"{}")),
    "job-events": (p.JOB_EVENTS, p.blob(b"{}")),
}
OF_A_RECEIVER = {
    "ready": (p.READY, p.ready(False)),
    "within": (p.WITHIN, p.boolean(True)),
    "wanted": (p.WANTED, p.vector([p.varint(1)])),
    "blocks": (p.BLOCKS, p.vector([])),
    "skip": (p.SKIP, p.varint(0)),
    "again": (p.AGAIN, p.vector([p.varint(0) + p.blob(b"a")])),
    "committed": (p.COMMITTED, p.NO_TOTALS),
    "delivered": (p.DELIVERED, p.vector([p.delivery(b"a")])),
    "changes": (p.CHANGES, p.vector([b">f+++++++++" + p.blob(b"x") + b"\0\0\0"])),
}
OF_A_SENDER = {
    "sources": (p.SOURCES, p.vector([p.source(b"evil", True)])),
    "offer": (p.OFFER, p.vector([])),
    "sent": (p.SENT, p.sent(p.NO_TOTALS)),
    "more-streams": (p.MORE_STREAMS, p.varint(60)),
}


def meet(far, candidates=()):
    """The opening, up to the word that the data goes through the client."""
    far.open()
    far.wait_for(p.PARTNER)
    far.say(p.LISTENING, p.listening(candidates, b"none here" if not candidates else None))
    while True:
        kind, _ = far.wait_for(p.CONNECT_BACK, p.USE_TUNNEL)
        if kind == p.USE_TUNNEL:
            return
        far.say(p.CONNECTED_BACK, p.option(p.blob(b"not from here")))


def says(kind, body):
    def speak(far):
        meet(far)
        far.say(kind, body)
        far.wait_for_the_end()
    return speak


for label, (number, fields) in {**ORDERS, **OF_A_RECEIVER}.items():
    mode(SENDERS, name=f"two-sender-{label}", brief=True)(says(number, fields))
for label, (number, fields) in {**ORDERS, **OF_A_SENDER}.items():
    mode(RECEIVERS, name=f"two-receiver-{label}", brief=True)(says(number, fields))


# --- the one that sends ---

@mode(SENDERS)
def two_other_sources(far):
    """A source that the client hasn't asked for: the other host knows what it was."""
    meet(far)
    far.say(p.SOURCES, p.vector([p.source(b"evil", True)]))
    far.wait_for_the_end()


@mode(SENDERS)
def two_a_source_more(far):
    """Beside the right source one of the same argument."""
    meet(far)
    far.say(p.SOURCES, p.vector([p.source(far.source_name, True), p.source(b".bashrc", False)]))
    far.wait_for_the_end()


@mode(SENDERS)
def two_plain_frames(far):
    """Frames in the tunnel without the cipher of the two."""
    meet(far)
    far.say(p.SOURCES, p.vector([p.source(far.source_name, True)]))
    far.stream(p.frame(p.BATCH, p.record(tree.Item(b"a").encode(far.keep), b"")))
    far.wait_for_the_end()


@mode(SENDERS, codes=(1, 5))
def two_sent_and_nothing_came(far):
    """Sent, without a stream."""
    meet(far)
    far.say(p.SOURCES, p.vector([p.source(far.source_name, True)]))
    far.wait_for(p.READY)
    far.say(p.SENT, p.sent(p.NO_TOTALS))
    far.wait_for_the_end()


@mode(("between-sync", "between-listed"))
def two_offers_of_what_was_not_announced(far):
    """Offers of a source that there isn't, of one that isn't listed, and of a link as the source itself."""
    meet(far)
    far.say(p.SOURCES, p.vector([p.source(far.source_name, True)]))
    far.wait_for(p.READY)
    items = [tree.Item(b"x", source=3), tree.Item(b"unlisted"), tree.link(b"", b"/etc")]
    far.say(p.OFFER, p.vector([p.offered(item.encode(far.keep)) for item in items]))
    far.wait_for(p.WANTED)
    far.say(p.SENT, p.sent(p.NO_TOTALS))
    far.wait_for_the_end()


@mode(("between-sync",))
def two_offers_without_end(far):
    """More offers than may be open."""
    meet(far)
    far.say(p.SOURCES, p.vector([p.source(far.source_name, True)]))
    far.wait_for(p.READY)
    for number in range(100):
        far.say(p.OFFER, p.vector([p.offered(tree.Item(b"n%d" % number).encode(far.keep))]))
    far.wait_for_the_end()


# --- the one that receives ---

def receives(far):
    meet(far)
    far.wait_for(p.SOURCES)


@mode(RECEIVERS)
def two_committed_at_once(far):
    """Everything is in place, before anything was sent."""
    receives(far)
    far.say(p.COMMITTED, p.NO_TOTALS)
    far.say(p.TALLY, p.tally())
    far.say(p.REPORT, p.report())
    far.wait_for_the_end()


@mode(RECEIVERS)
def two_wants_what_was_not_offered(far):
    """Answers without an offer."""
    receives(far)
    far.say(p.WITHIN, p.boolean(True))
    far.say(p.READY, p.ready(True))
    for _ in range(100):
        far.say(p.WANTED, p.vector([p.varint(1)]))
    far.wait_for_the_end()


@mode(("to-sync",))
def two_again_of_what_is_not_there(far):
    """A second round of sources and paths that nobody has announced."""
    receives(far)
    far.say(p.WITHIN, p.boolean(True))
    far.say(p.READY, p.ready(False))
    far.say(p.AGAIN, p.vector([p.varint(7) + p.blob(b"etc/shadow")]))
    far.wait_for_the_end()


# --- both ---

def other_host_dials(far, address, port):
    """Names an address of the other host's own, and reports whoever comes there."""
    door = socket.create_server((address, port))

    def watch():
        try:
            connection, _ = door.accept()
            far.note(f"{address} was dialled: {connection.recv(64)!r}")
        except OSError:
            pass

    threading.Thread(target=watch, daemon=True).start()
    meet(far, [p.address(door.getsockname()[1])])
    far.say(p.PROBLEM, p.problem(b"x", b"nothing"))
    far.wait_for_the_end()


@mode(SENDERS + RECEIVERS, kind="flood")
def two_names_the_other_hosts_loopback(far):
    """The other host is to dial its own loopback interface."""
    other_host_dials(far, "127.0.0.1", 0)


@mode(SENDERS + RECEIVERS, codes=(1, 5, 7))
def two_with_a_key_that_is_none(far):
    """A public key that no library takes."""
    far.greet()
    far.say(p.HELLO, p.hello(key=b"no key"))
    far.read_job()
    far.wait_for(p.PARTNER)
    far.say(p.LISTENING, p.listening())
    far.wait_for_the_end()


@mode(SENDERS + RECEIVERS, kind="flood", partial=True)
def flood_two_tunnel(far):
    """The tunnel, without end and without sense."""
    meet(far)
    while far.floods:
        far.say(p.TUNNEL, p.blob(bytes(p.MAX_TUNNEL)))


@mode(SENDERS + RECEIVERS, kind="flood", partial=True)
def flood_two_news(far):
    """Progress and problems, which the other one hears of too."""
    meet(far)
    while far.floods:
        far.say(p.PROGRESS, p.progress())
        far.say(p.PROBLEM, p.problem(b"x" * 1000, b"y" * 1000))


@mode(("to-sync",), kind="flood", partial=True)
def flood_two_digests(far):
    """Digests of files that there are not, which the client would keep for its manifest."""
    receives(far)
    far.say(p.WITHIN, p.boolean(True))
    far.say(p.READY, p.ready(False))
    for number in itertools.count():
        if not far.floods:
            return
        names = (b"%d-%d" % (number, part) + b"/a" * 3900 for part in range(100))
        far.say(p.DELIVERED, p.vector([p.delivery(name) for name in names]))


@mode(SENDERS + RECEIVERS)
def two_escapes(far):
    """Escapes in a problem, and in the reason of the end, which the other host gets."""
    meet(far)
    far.say(p.PROBLEM, p.problem(ESCAPES, ESCAPES))
    far.say(p.ABORT, p.abort(ESCAPES))
    far.wait_for_the_end()


def closes_at(place):
    def leave(far):
        far.greet()
        far.say(p.HELLO, p.hello())
        for kind in (p.JOB, p.PARTNER, p.CONNECT_BACK, p.USE_TUNNEL)[:place]:
            far.wait_for(kind)
            if kind == p.PARTNER:
                far.say(p.LISTENING, p.listening())
            if kind == p.CONNECT_BACK and place > 3:
                far.say(p.CONNECTED_BACK, p.option(p.blob(b"not from here")))
    return leave


for number, name in enumerate(("hello", "job", "partner")):
    mode(SENDERS + RECEIVERS, name=f"two-closes-at-{name}", codes=(5,), brief=True)(closes_at(number))


@mode(SENDERS + RECEIVERS, kind="silence", codes=(5,), brief=True)
def two_silent_from_hello_on(far):
    """It says nothing behind its Hello."""
    far.greet()
    far.say(p.HELLO, p.hello())
    far.wait_for_the_end_for(60)


@mode(SENDERS + RECEIVERS, kind="silence", codes=(5,), brief=True)
def two_silent_when_connected(far):
    """It says nothing when the way of the data is known."""
    meet(far)
    far.wait_for_the_end_for(60)
