"""One of several hosts that hand the data on to each other is hostile: it gets and hands on what it should, by a linerate of
its own, and lies to the client about itself and about the hosts behind it.

Whatever it says, the others must have everything in the end. A second session with it, in which it would get the data from
the client directly, is an honest one.
"""

import functools
import os
import signal

import protocol as p
import far as session
from middle import Middle
from modes.between import OF_A_SENDER, ORDERS
from modes.texts import ESCAPES
from proxy import Proxy
from registry import mode

# It is the first of two; the last of two; and of a tree of four the second one, behind which is the fourth.
FIRST, LAST, INNER = "chain-first", "chain-last", "chain-inner"
HOSTS = (FIRST, LAST, INNER)
# Those behind which there is one, and that one's place.
BEFORE = {FIRST: 1, INNER: 3}


def lies(name, commands=HOSTS, brief=True, **options):
    """Enters a mode: a function of the session, which gives the function that changes the agent's messages."""
    def enter(make):
        @functools.wraps(make)
        def speak(far):
            Proxy(far).run(make(far))
        mode(commands, name=f"chain-{name}", may_succeed=True, brief=brief, **options)(speak)
        return make
    return enter


def once(kind, said):
    """Changes the first message of this kind to what `said(body)` gives."""
    def make(_):
        done = []

        def change(number, body):
            if number != kind or done:
                return [(number, body)]
            done.append(True)
            return said(body)
        return change
    return make


def behind(kind, *more):
    """Says more, behind the first message of this kind."""
    return once(kind, lambda body: [(kind, body), *more])


def instead(kind, *other):
    """Says something else than the first message of this kind."""
    return once(kind, lambda _: other)


def lost(place, reason=b"it has received nothing for 10 s"):
    return p.NEXT_LOST, p.lost_next(place, reason)


# --- where it listens ---

ODD = [p.address(22)] + [p.varint(0) + bytes(address) + p.varint(5000) for address in
                         ((0, 0, 0, 0), (224, 0, 0, 1), (255, 255, 255, 255), (192, 0, 2, 2))]

lies("listens-nowhere")(instead(p.LISTENING, (p.LISTENING, p.listening())))
lies("listens-without-a-word")(instead(p.LISTENING, (p.LISTENING, p.listening(error=None))))
lies("listens-at-odd-places")(instead(p.LISTENING, (p.LISTENING, p.listening(ODD, None))))
lies("listens-at-many-places")(instead(p.LISTENING, (p.LISTENING, p.listening(ODD[:1] * 10_000, None))))
lies("listens-twice")(once(p.LISTENING, lambda body: [(p.LISTENING, body)] * 2))
lies("listens-before-it-is-ready")(instead(p.READY, (p.LISTENING, p.listening())))

# --- whether it has reached the next one ---

REACHED = (p.CONNECTED_BACK, p.option(None))

lies("reaches-nobody", tuple(BEFORE))(
    instead(p.CONNECTED_BACK, (p.CONNECTED_BACK, p.option(p.blob(ESCAPES)))))
lies("reaches-it-twice", tuple(BEFORE))(behind(p.CONNECTED_BACK, REACHED))
lies("reaches-it-and-does-not", tuple(BEFORE))(
    behind(p.CONNECTED_BACK, (p.CONNECTED_BACK, p.option(p.blob(b"no")))))
lies("reaches-one-that-there-is-not", (LAST,))(behind(p.LISTENING, REACHED))
lies("reaches-it-before-it-is-named")(instead(p.LISTENING, REACHED))

# --- the hosts behind it ---

for command, place in BEFORE.items():
    lies(f"loses-{place}", (command,))(behind(p.CONNECTED_BACK, lost(place)))
    lies(f"loses-{place}-twice", (command,))(behind(p.CONNECTED_BACK, lost(place), lost(place)))
    lies(f"loses-{place}-before-it-is-named", (command,))(behind(p.READY, lost(place)))
    lies(f"loses-{place}-not-reached", (command,))(
        instead(p.CONNECTED_BACK, (p.CONNECTED_BACK, p.option(p.blob(b"no"))), lost(place)))
    lies(f"loses-{place}-with-escapes", (command,))(behind(p.CONNECTED_BACK, lost(place, ESCAPES)))
    lies(f"loses-{place}-at-the-end", (command,))(
        once(p.COMMITTED, lambda body, at=place: [lost(at), (p.COMMITTED, body)]))
for place in (0, 1, 2, 255):
    lies(f"loses-{place}-of-others", (LAST,))(behind(p.LISTENING, lost(place)))
lies("loses-its-neighbour", (INNER,))(behind(p.CONNECTED_BACK, lost(2)))
lies("loses-the-one-before-it", (INNER,))(behind(p.CONNECTED_BACK, lost(0)))


@lies("loses-without-end", kind="flood", partial=True, brief=False)
def without_end(far):
    """Loses hosts until the client has enough of it."""
    def change(number, body):
        yield number, body
        while number == p.LISTENING and far.floods:
            yield lost(1, b"x" * 1000)
    return change


# --- what is in place there ---

lies("committed-at-once")(behind(p.LISTENING, (p.COMMITTED, p.NO_TOTALS)))
lies("committed-nothing")(instead(p.COMMITTED, (p.COMMITTED, p.NO_TOTALS)))
lies("committed-the-largest")(
    instead(p.COMMITTED, (p.COMMITTED, p.totals(*[2 ** 64 - 1] * 5))))
lies("committed-twice")(once(p.COMMITTED, lambda body: [(p.COMMITTED, body)] * 2))
lies("again")(instead(p.COMMITTED, (p.AGAIN, p.vector([p.varint(0) + p.blob(b"a")]))))
lies("again-at-once")(behind(p.LISTENING, (p.AGAIN, p.vector([p.varint(0) + p.blob(b"a")]))))
lies("wants-what-was-not-offered")(behind(p.READY, (p.WANTED, p.vector([p.varint(1)]))))
lies("skips")(behind(p.LISTENING, *[(p.SKIP, p.varint(number)) for number in range(100)]))
lies("escapes")(behind(p.LISTENING, (p.PROBLEM, p.problem(ESCAPES, ESCAPES)), (p.ABORT, p.abort(ESCAPES))))

for label, message in {**ORDERS, **OF_A_SENDER}.items():
    lies(f"says-{label}")(behind(p.LISTENING, message))

# --- nothing more ---


def closes(kind):
    def make(_):
        def change(number, body):
            yield number, body
            if number == kind:
                raise session.Ended
        return change
    return make


def is_silent(kind):
    """Says nothing more behind the first message of this kind, and not that it is alive."""
    def make(far):
        def change(number, body):
            yield number, body
            if number == kind:
                far.left.wait(300)
                raise session.Ended
        return change
    return make


STAGES = {"hello": p.HELLO, "ready": p.READY, "listening": p.LISTENING, "progress": p.PROGRESS}
for label, number in STAGES.items():
    lies(f"closes-behind-{label}")(closes(number))
    lies(f"silent-behind-{label}", (FIRST, LAST), kind="silence", partial=True)(is_silent(number))
lies("closes-behind-connected-back", tuple(BEFORE))(closes(p.CONNECTED_BACK))
lies("silent-behind-connected-back", (FIRST,), kind="silence", partial=True)(is_silent(p.CONNECTED_BACK))

# --- what others wait for ---


def keeps(kind):
    """Leaves out all messages of this kind, and goes on to say that it is alive."""
    def make(_):
        return lambda number, body: [(number, body)] if number != kind else []
    return make


lies("never-listens", kind="silence", partial=True)(keeps(p.LISTENING))
lies("never-says-whom-it-reaches", tuple(BEFORE), kind="silence", partial=True)(keeps(p.CONNECTED_BACK))


@mode(tuple(BEFORE), name="chain-withholds", kind="silence", partial=True, may_succeed=True)
def withholds(far):
    """Reaches the next host, takes and stores everything, and hands none of it on; its connections stay open."""
    middle = Middle()

    def change(number, body):
        if number == p.CONNECTED_BACK:
            middle.withhold()
        yield number, body
    Proxy(far, middle.orders).run(change)


@mode((INNER,), name="chain-stands-still-and-claims-all", kind="silence", partial=True, may_succeed=True)
def claims_all(far):
    """Stands still once it has reached the next host, says that it is alive, and then that it has everything."""
    def change(number, body):
        yield number, body
        if number == p.CONNECTED_BACK:
            os.kill(far.proxy.agent.pid, signal.SIGSTOP)
            while far.proxy.totals is None and not far.left.wait(1):
                yield p.PROGRESS, p.progress()
            yield from ((p.COMMITTED, far.proxy.totals or p.NO_TOTALS), (p.PROGRESS, p.progress()), (p.REPORT, p.report()))
            far.left.wait(300)
            raise session.Ended
    Proxy(far).run(change)
