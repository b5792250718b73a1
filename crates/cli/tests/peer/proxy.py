"""A far end that is linerate itself, while this peer stands between it and the client, and changes what it says.

So a host of a chain or tree can get and hand on data, whose cipher this language hasn't, and lie about it.
"""

import struct
import subprocess
import threading

import far as session
import protocol as p

GREETING = b"linerate-agent ready\n"


class Proxy:
    """The two channels. `is_chained` once the client has said so; a later session of the same command may be a plain one.

    `orders(kind, body)`, if given, changes what the client says to the agent.
    """

    def __init__(self, far, orders=None):
        self.far, self.orders = far, orders
        far.proxy = self
        # Set once the client says nothing more.
        far.left = threading.Event()
        # What the client has sent, once it says so.
        self.totals = None
        self.is_chained = False
        self.agent = subprocess.Popen([far.arguments.program, "agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      env=session.login_of(far.arguments))

    def run(self, change):
        """Passes on all that both say; `change(kind, body)` gives what is said instead of a message of the agent's.

        Ends where the agent does, or where `change` raises Ended.
        """
        threading.Thread(target=self.pass_the_clients, daemon=True).start()
        try:
            self.pass_the_greeting()
            self.pass_the_agents(change)
        finally:
            self.agent.kill()

    def pass_the_clients(self):
        to = self.agent.stdin
        while True:
            body = read_message(session.read_exactly)
            if not body:
                self.far.left.set()
                to.close()
                return
            reader = p.Reader(body)
            kind = reader.varint()
            self.is_chained |= kind == p.CHAINED
            if kind == p.SENT:
                self.totals = p.totals(*p.read_totals(p.Reader(reader.rest())))
            if self.orders and self.is_chained:
                body = p.varint(kind) + self.orders(kind, reader.rest())
            try:
                to.write(struct.pack("<I", len(body)) + body)
                to.flush()
            except OSError:
                return

    def pass_the_greeting(self):
        line = b""
        while line != GREETING:
            line = self.agent.stdout.readline()
            if not line:
                raise session.Ended
            self.far.write(line)

    def pass_the_agents(self, change):
        while True:
            body = read_message(self.agent.stdout.read)
            if not body:
                return
            reader = p.Reader(body)
            kind = reader.varint()
            # The client says Chained before the agent says anything but Hello.
            said = change(kind, reader.rest()) if self.is_chained else [(kind, reader.rest())]
            for number, fields in said:
                self.far.say(number, fields)


def read_message(read):
    """The next message without its length, or nothing at the end."""
    length = read(4)
    return read(struct.unpack("<I", length)[0]) if len(length) == 4 else b""
