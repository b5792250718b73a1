"""The far end: a remote shell that is none, and speaks docs/protocol.md by hand.

    linerate cp --rsh 'python3 peer.py --ground DIR [--mode NAME]' far:x x

Without --mode, what to do stands in DIR/log/mode, so that the same command meets another far end each time: the name of
a mode, the seconds of a flood, and `offered` or `past`: whether items are offered where the client wants offers, or come
all the same. The modes are in modes/, a function each; `honest` is none of them.
"""

import argparse
import os
import traceback

import far as session
import modes
import receiver
import registry
import sender
import tree


def main():
    arguments = parse()
    if arguments.is_good:
        be_good(arguments)
    try:
        far = session.Far(arguments)
        run(far, arguments.mode)
    except session.Ended:
        pass
    except Exception:  # pylint: disable=broad-except; the driver reports it
        with open(os.path.join(arguments.ground, "log", "broken"), "a", encoding="utf-8") as broken:
            broken.write(f"{arguments.mode}: {traceback.format_exc()}\n")
    session.leave()


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ground", required=True)
    parser.add_argument("--mode")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--past", action="store_true")
    parser.add_argument("--program", help="the linerate that a good one of two far hosts runs")
    arguments, (host, *_) = parser.parse_known_args()
    arguments.ends = "one"
    if arguments.mode is None:
        with open(os.path.join(arguments.ground, "log", "mode"), encoding="utf-8") as told:
            arguments.mode, seconds, way, arguments.ends = told.read().split()
        arguments.seconds, arguments.past = float(seconds), way == "past"
    arguments.is_good = host == "good" or arguments.mode == "honest" and arguments.ends != "one"
    return arguments


def be_good(arguments):
    """One of several far hosts that is as it should be, which needs a TLS that this language hasn't: linerate itself."""
    os.execve(arguments.program, [arguments.program, "agent"], session.login_of(arguments))


def run(far, name):
    if name == "honest":
        honest(far)
        return
    mode = registry.MODES[name]
    if mode.stage == "ready":
        far.begin()
    elif mode.stage == "connected":
        far.open()
        far.connect()
    items = mode.function(far)
    if items is not None:
        (sender.send_past if far.arguments.past else sender.send)(far, items)


def honest(far):
    """A far end that does what it is asked for."""
    far.open()
    far.connect()
    if far.job["kind"] == "receive":
        receiver.receive(far)
    else:
        far.announce()
        sender.send(far, tree.honest_items(far.is_tree, far.job["options"]["listed"]))


if __name__ == "__main__":
    assert modes
    main()
