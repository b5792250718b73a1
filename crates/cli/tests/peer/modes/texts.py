"""Text for the user's terminal: escapes in names, problems, reasons and greetings."""

import os

import protocol as p
import sender
import tree
from modes.names import good
from registry import ALL, PULLS, TREES, mode, sends

ESCAPES = ("\x1b]0;owned\x07\x1b[2J\x1b[31m\r\b\x7f\t\x9b31m\u202e\u2066\u200f\u2028").encode()
NOT_UTF8 = b"\xff\xfe\x1b[2J\x9b"


@sends(TREES, allowed=(ESCAPES, NOT_UTF8), may_succeed=True)
def escapes_in_names(far):
    """Names that paint the terminal, in both sets of control characters; they are names, and land."""
    return good(far) + [tree.Item(ESCAPES, contents=b"x\n"), tree.Item(NOT_UTF8, contents=b"x\n")]


@sends(("tree-a", "sync-a"), allowed=(ESCAPES, b"l"), may_succeed=True)
def escapes_in_links(far):
    """A link's text, and a further name of nothing, which is a problem with a name."""
    return good(far) + [tree.link(b"l", ESCAPES), tree.further(ESCAPES, ESCAPES + b"2")]


@sends(PULLS)
def escapes_in_problems(far):
    """A problem of each kind, with names and texts that paint."""
    for kind in range(5):
        far.say(p.PROBLEM, p.problem(ESCAPES, ESCAPES, kind))
        far.say(p.PROBLEM, p.problem(NOT_UTF8, ESCAPES, kind))
    return good(far)


@sends(PULLS, codes=(1, 5))
def escapes_in_the_reason(far):
    """An Abort whose reason paints."""
    far.say(p.ABORT, p.abort(ESCAPES * 10))
    far.wait_for_the_end()


def aborting(kind):
    def speak(far):
        far.open()
        far.say(p.ABORT, p.abort(ESCAPES, kind))
        far.wait_for_the_end()
    return speak


# The kind of an Abort is the far end's to say, and so is the exit code; 130 is the user's own alone.
for kind in range(5):
    mode(ALL, name=f"abort-{kind}", brief=True, codes=(130, 1, 5) if kind == 2 else ())(aborting(kind))


@sends(PULLS)
def reason_of_a_megabyte(far):
    """An Abort as long as a message may be."""
    far.say(p.ABORT, p.abort(ESCAPES * 20_000))
    far.wait_for_the_end()


@mode(ALL, codes=(5,))
def escapes_in_the_greeting(far):
    """Lines before the greeting, and a failure, that paint."""
    far.write(b"motd " + ESCAPES + b"\nlinerate-agent failed " + ESCAPES + NOT_UTF8 + b"\n")


@mode(ALL, codes=(5,))
def escapes_in_the_system(far):
    """A system that wants another binary and paints."""
    far.write(b"linerate-agent wanted " + ESCAPES + b" " + ESCAPES + b"\n")
    far.listen()


@mode(ALL, codes=(5,))
def wanted_twice(far):
    """The binary is wanted twice (with --no-install it isn't to be brought at all)."""
    far.write(b"\nlinerate-agent wanted Linux x86_64\nlinerate-agent wanted Linux x86_64\n")
    while os.read(0, 1 << 20):
        pass


@mode(ALL, codes=(5,))
def greeting_without_a_line(far):
    """100 KB without a newline."""
    far.write(b"x" * 100_000)
    far.listen()
    far.wait_for_the_end()


@mode(PULLS, may_succeed=True)
def escapes_in_the_version(far):
    """A version, and a reason not to listen, that paint."""
    far.greet()
    far.say(p.HELLO, p.varint(p.PROTOCOL) + p.blob(ESCAPES) + p.hello()[6:])
    far.read_job()
    far.say(p.LISTENING, p.listening(error=ESCAPES))
    far.wait_for(p.CONNECT_BACK)
    far.say(p.CONNECTED_BACK, p.option(p.blob(ESCAPES)))
    far.wait_for(p.USE_TUNNEL)
    far.announce()
    sender.send(far, tree.honest_items(far.is_tree, False))
