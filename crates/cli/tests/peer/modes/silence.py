"""Silence at each stage of a session, which the client gives up by --timeout; and words that come a byte a second.

The driver runs these with --timeout 5, waits five seconds more, and interrupts what is still there then.
"""

import time

import protocol as p
import sender
from modes.names import good
from registry import PULLS, PUSHES, mode, sends


def silent_behind(stage):
    """Nothing more: 0 at all, 1 behind the greeting, 2 Hello, 3 Listening, 4 the connecting."""
    def speak(far):
        if stage == 0:
            far.listen()
            far.wait_for_the_end_for(300)
        far.greet()
        steps = [lambda: far.say(p.HELLO, p.hello()), lambda: far.say(p.LISTENING, p.listening()), lambda: refuse(far)]
        for step in steps[:stage - 1]:
            step()
        far.wait_for_the_end_for(300)
    return speak


def refuse(far):
    far.wait_for(p.CONNECT_BACK)
    far.say(p.CONNECTED_BACK, p.option(p.blob(b"not from here")))


for stage in range(5):
    mode(PULLS + PUSHES, name=f"silence-{stage}", kind="silence", codes=(5,), partial=True,
         short=("tree", "push"))(silent_behind(stage))


@mode(PULLS, kind="silence", codes=(5,), partial=True, short=("sync-a",))
def silence_behind_sources(far):
    """Sources, and nothing more."""
    far.begin()
    far.wait_for_the_end_for(300)


@sends(PULLS, kind="silence", codes=(5,), partial=True, short=("sync",))
def silence_behind_entries(far):
    """Some entries, and nothing more."""
    sender.send_items(far, good(far))
    far.wait_for_the_end_for(300)


@sends(PULLS, kind="silence", codes=(5,), partial=True, short=("tree",))
def silence_behind_half_a_frame(far):
    """Half a frame, and nothing more."""
    far.stream(p.frame(p.BATCH, b"x" * 100)[:50])
    far.wait_for_the_end_for(300)


@sends(PULLS, kind="silence", codes=(5,), partial=True, short=("tree-a",))
def silence_behind_half_a_message(far):
    """Half a message, and nothing more."""
    far.write(p.message(p.TUNNEL, p.blob(b"x" * 100))[:50])
    far.wait_for_the_end_for(300)


def silent_end(streams, end):
    """Sent, of streams that never end; then nothing more."""
    def send(far):
        sender.send_items(far, good(far))
        if end:
            far.frame(p.END)
        far.say(p.SENT, p.sent(p.NO_TOTALS, streams))
        far.wait_for_the_end_for(300)
    return send


sends(PULLS, name="silence-of-two-streams", kind="silence", partial=True, short=("tree",))(silent_end(2, True))
sends(PULLS, name="silence-of-all-streams", kind="silence", partial=True, short=("sync",))(silent_end(2 ** 32 - 1, True))
sends(PULLS, name="silence-without-an-end", kind="silence", partial=True, short=("file",))(silent_end(1, False))


@mode(PUSHES, kind="silence", codes=(5,), partial=True)
def silence_of_a_receiver(far):
    """A receiver that takes the sources and is never ready."""
    far.open()
    far.connect()
    far.wait_for_the_end_for(300)


@mode(PUSHES, kind="silence", codes=(5,), partial=True)
def silence_before_committed(far):
    """A receiver that takes everything and never says that it is there."""
    far.open()
    far.connect()
    far.wait_for(p.SOURCES)
    far.say(p.READY, p.ready(False))
    far.wait_for_the_end_for(300)


def trickle(far, data):
    """A byte a second."""
    for byte in data:
        far.write(bytes((byte,)))
        time.sleep(1)


# A trickle is no silence: the client may wait, and can be interrupted, which is what a flood's rules say.

@mode(PULLS, kind="flood", partial=True, short=("tree",))
def trickle_of_a_greeting(far):
    """The greeting, a byte a second."""
    trickle(far, b"\nlinerate-agent ready\n")
    far.wait_for_the_end_for(300)


@mode(PULLS, kind="flood", partial=True, short=("sync",))
def trickle_of_hello(far):
    """Hello, a byte a second."""
    far.greet()
    trickle(far, p.message(p.HELLO, p.hello()))
    far.wait_for_the_end_for(300)


@sends(PULLS, kind="flood", partial=True, short=("tree",))
def trickle_of_a_frame(far):
    """A frame, a byte a second, in Tunnel messages."""
    for byte in p.frame(p.BATCH, b"x" * 1000):
        far.say(p.TUNNEL, p.blob(bytes((byte,))))
        time.sleep(1)


@sends(PULLS, kind="flood", partial=True, short=("tree",))
def trickle_of_progress(far):
    """Progress each second and nothing else: a slow storage looks like that, and is waited for."""
    while True:
        far.say(p.PROGRESS, p.progress())
        time.sleep(1)
