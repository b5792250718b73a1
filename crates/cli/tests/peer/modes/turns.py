"""Messages out of their turn, that no agent says, or that are none; an opening that isn't one."""

import protocol as p
import sender
import tree
from modes.names import good
from registry import ALL, PULLS, SYNCS, mode, sends

OTHERS = {
    "hello": (p.HELLO, p.hello()),
    "job-discard": (p.JOB, p.varint(4)),
    "job-clean": (p.JOB, p.varint(5) + p.blob(b"") + p.boolean(True)),
    "listening": (p.LISTENING, p.listening()),
    "connect-back": (p.CONNECT_BACK, p.vector([p.address(1)])),
    "connected-back": (p.CONNECTED_BACK, p.option(None)),
    "use-tunnel": (p.USE_TUNNEL, b""),
    "sources": (p.SOURCES, p.vector([p.source(b"evil", True)])),
    "ready": (p.READY, p.ready(True)),
    "committed": (p.COMMITTED, p.NO_TOTALS),
    "report": (p.REPORT, p.report()),
    "listed": (p.LISTED, p.blob(b"x") + p.entry(b"x", p.DIRECTORY, 0o755, tree.WHEN)),
    "ask-facts": (p.ASK_FACTS, p.vector([p.blob(b"/etc/shadow")])),
    "ask-cpu": (p.ASK_CPU, b""),
    "answer": (p.ANSWER, p.blob(b"x" * 100)),
    "start-sampling": (p.START_SAMPLING, p.varint(20) + p.vector([]) + p.vector([])),
    "take-samples": (p.TAKE_SAMPLES, p.boolean(False)),
    "samples": (p.SAMPLES, p.blob(b"x" * 100)),
    "wanted": (p.WANTED, p.vector([p.varint(1)])),
    "again": (p.AGAIN, p.vector([p.varint(0) + p.blob(b"x")])),
    "changes": (p.CHANGES, p.vector([b">f+++++++++" + p.blob(b"x") + b"\0\0"])),
    "select": (p.SELECT, p.vector([])),
    "within": (p.WITHIN, p.boolean(True)),
    "digested": (p.DIGESTED, p.vector([])),
    "skip": (p.SKIP, p.varint(0)),
    "between": (p.BETWEEN, b""),
    "partner": (p.PARTNER, p.partner()),
    "delivered": (p.DELIVERED, p.vector([p.delivery(b"x")])),
    "tally": (p.TALLY, p.tally()),
    "detached": (p.DETACHED, bytes(4) + p.blob(b"a") + p.blob(b"b")),
    "under-way": (p.UNDER_WAY, b""),
    "job-record": (p.JOB_RECORD, p.blob(b"{}")),
    "job-events": (p.JOB_EVENTS, p.blob(b"{}")),
    "unknown": (99, b"x"),
    "unknown-largest": (2 ** 32 - 1, b"x"),
    "empty": (p.PROBLEM, b""),
}


def out_of_turn(kind, body):
    def speak(far):
        sender.send_items(far, good(far))
        far.say(kind, body)
        far.finish(tree.count(good(far)))
    return speak


for label, (kind, body) in OTHERS.items():
    sends(PULLS, name=f"turn-{label}", brief=True)(out_of_turn(kind, body))


@mode(PULLS)
def turn_sent_at_once(far):
    """Sent before Sources."""
    far.open()
    far.say(p.SENT, p.sent(p.NO_TOTALS))
    far.wait_for_the_end()


@mode(PULLS)
def turn_sources_at_once(far):
    """All of a session in one breath, without waiting for a word."""
    far.greet()
    far.say(p.HELLO, p.hello())
    far.say(p.LISTENING, p.listening())
    far.say(p.SOURCES, p.vector([p.source(b"evil", True)]))
    far.say(p.SENT, p.sent(p.NO_TOTALS))
    far.wait_for_the_end()


@mode(PULLS, partial=True)
def connected_back_but_not(far):
    """It says that it has connected, and hasn't."""
    far.open()
    far.say(p.LISTENING, p.listening())
    far.wait_for(p.CONNECT_BACK)
    far.say(p.CONNECTED_BACK, p.option(None))
    far.wait_for(p.USE_TUNNEL)


@sends(SYNCS)
def offer_of_too_many(far):
    """An offer of 1,025 entries."""
    entries = [p.offered(tree.Item(b"n%d" % number).encode(far.keep)) for number in range(1025)]
    far.say(p.OFFER, p.vector(entries))
    far.wait_for(p.WANTED)
    far.finish()


@sends(SYNCS)
def offer_of_nothing_at_all(far):
    """A hundred empty offers, none of which is waited for."""
    for _ in range(100):
        far.say(p.OFFER, p.vector([]))
    far.finish()


@sends(SYNCS)
def offers_unanswered(far):
    """Forty offers, none of which is waited for."""
    for number in range(40):
        entries = [p.offered(tree.Item(b"n%d" % (number * 500 + more)).encode(far.keep)) for more in range(500)]
        far.say(p.OFFER, p.vector(entries))
    far.finish()


@sends(("tree", "tree-p", "file"))
def offer_unasked(far):
    """An offer where the client wants none."""
    far.say(p.OFFER, p.vector([p.offered(item.encode(far.keep)) for item in good(far)]))
    far.finish()


@sends(SYNCS)
def offered_and_never_sent(far):
    """A file that no earlier run has brought is offered and wanted, never comes, and counts all the same."""
    items = [*tree.honest_tree(), tree.Item(b"never")]
    sender.offer(far, items)
    far.finish(tree.count(items))


# --- the opening ---

def hello_of(body):
    def speak(far):
        far.greet()
        far.say(p.HELLO, body)
        far.wait_for_the_end()
    return speak


HELLOS = {
    "other-protocol": p.hello(protocol=p.PROTOCOL + 1),
    "largest-protocol": p.hello(protocol=2 ** 32 - 1),
    "cut-off": p.hello()[:20],
    "of-no-version": p.varint(p.PROTOCOL) + b"\2\xff\xfe" + p.blob(b"k" * 44) + bytes(16),
}

for label, odd in HELLOS.items():
    mode(ALL, name=f"hello-{label}", codes=(7,) if "protocol" in label else ())(hello_of(odd))


@mode(PULLS, may_succeed=True)
def hello_with_a_long_key(far):
    """A key of 500 KB, which is none; no data connection needs it."""
    far.greet()
    far.say(p.HELLO, p.hello(key=b"k" * 500_000))
    far.read_job()
    far.connect()
    far.announce()
    sender.send(far, tree.honest_items(far.is_tree, far.job["options"]["listed"]))


@mode(ALL)
def job_before_hello(far):
    """A Job from an agent, in place of its Hello."""
    far.greet()
    far.say(p.JOB, p.varint(4))
    far.wait_for_the_end()


def closing_after(stage):
    """An agent that goes away: behind the greeting, Hello, Listening, the connecting, Sources."""
    def speak(far):
        if stage == 0:
            return
        far.greet()
        steps = [lambda: far.say(p.HELLO, p.hello()), far.read_job, far.connect,
                 lambda: far.say(p.SOURCES, p.vector([p.source(far.source_name, far.is_tree)]))]
        for step in steps[:stage - 1]:
            step()
    return speak


for stage in range(6):
    mode(ALL if stage < 5 else PULLS, name=f"close-{stage}", short=("tree", "push", "sync-a")[:3 if stage < 5 else 1], codes=(5,), partial=True)(closing_after(stage))
