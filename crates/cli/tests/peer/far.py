"""One session of an agent that speaks by hand: the channel, the opening, the tunnel, and what is read meanwhile."""

import os
import queue
import struct
import sys
import threading
import time

import protocol as p


class Ended(Exception):
    """The client closed the channel, or said Abort."""


class Far:
    """The far end of one client.

    `arguments` holds what the driver says: `ground` (where everything lies), `seconds` (the length of a flood).
    After `open`, `job` is what the client asked for and `keep` what is kept of each entry.
    """

    def __init__(self, arguments):
        self.arguments = arguments
        self.ground = arguments.ground
        self.messages = queue.Queue()
        self.offers = False
        self.job = self.keep = None
        self.end_of_flood = time.monotonic() + arguments.seconds

    # --- bytes ---

    def write(self, data):
        """Bytes on standard output, all of them."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(1, view):]
        except OSError as error:
            raise Ended from error

    def say(self, kind, body=b""):
        self.write(p.message(kind, body))

    def listen(self):
        """Reads on a thread of its own, so that neither end waits for the other to read."""
        threading.Thread(target=self.read_all, daemon=True).start()

    def read_all(self):
        while True:
            length = read_exactly(4)
            body = length and read_exactly(struct.unpack("<I", length)[0])
            if not body:
                self.messages.put(None)
                return
            reader = p.Reader(body)
            self.messages.put((reader.varint(), reader))

    def next(self, timeout=60):
        """The next message, as its number and a reader of its fields; raises Ended behind the last."""
        try:
            said = self.messages.get(timeout=timeout)
        except queue.Empty:
            raise Ended from None
        if said is None or said[0] == p.ABORT:
            self.messages.put(None)
            raise Ended
        return said

    def wait_for(self, *kinds):
        """The next message of one of these kinds; others are passed over."""
        while True:
            kind, reader = self.next()
            if kind in kinds:
                return kind, reader

    def wait_for_the_end(self):
        while True:
            self.next()

    def wait_for_the_end_for(self, seconds):
        """The same, where the client may need so long."""
        while True:
            self.next(seconds)

    # --- the opening ---

    def greet(self):
        self.write(b"\nlinerate-agent ready\n")
        self.listen()

    def open(self):
        """Greeting, Hello, and the client's Hello and Job."""
        self.greet()
        self.say(p.HELLO, p.hello())
        self.read_job()

    def read_job(self):
        self.wait_for(p.HELLO)
        self.job = p.read_job(self.wait_for(p.JOB)[1])
        self.keep = self.job["options"].get("keep", {})

    def connect(self):
        """No candidates and no way back: the tunnel. With a list of files, that comes too."""
        self.say(p.LISTENING, p.listening())
        while True:
            kind, _ = self.wait_for(p.CONNECT_BACK, p.USE_TUNNEL)
            if kind == p.USE_TUNNEL:
                break
            self.say(p.CONNECTED_BACK, p.option(p.blob(b"not from here")))
        if self.job["options"]["listed"]:
            self.read_list()

    def read_list(self):
        while p.Reader(self.wait_for(p.SELECT)[1].rest()).varint():
            pass

    # --- a pull ---

    @property
    def sync(self):
        return self.job["options"]["sync"]

    @property
    def argument(self):
        """The first source, as the user wrote it."""
        return self.job["paths"][0]

    @property
    def source_name(self):
        """What an honest sender announces: the last component, or nothing where there is none."""
        last = self.argument.rstrip(b"/").split(b"/")[-1]
        return b"" if last in (b".", b"..", b"~") or self.argument.endswith(b"/.") else last

    @property
    def is_tree(self):
        """An honest far end has a file named x, and directories of all other names."""
        return self.source_name != b"x"

    def announce(self, sources=None):
        """Sources, the honest one unless told otherwise, and the client's Ready."""
        self.say(p.SOURCES, p.vector(sources or [p.source(self.source_name, self.is_tree)]))
        self.wait_until_ready()

    def wait_until_ready(self):
        self.offers = self.wait_for(p.READY)[1].boolean()

    def begin(self):
        """All up to the first frame."""
        self.open()
        self.connect()
        self.announce()

    # --- frames ---

    def stream(self, data):
        """Bytes of the data stream, in Tunnel messages."""
        for at in range(0, len(data), p.MAX_TUNNEL):
            self.say(p.TUNNEL, p.blob(data[at:at + p.MAX_TUNNEL]))

    def frame(self, *arguments, **options):
        self.stream(p.frame(*arguments, **options))

    def finish(self, counts=p.NO_TOTALS, complete=True):
        """End, Sent, and then what follows the client's Committed."""
        self.frame(p.END)
        self.say(p.SENT, p.sent(counts, complete=complete))
        self.take_leave()

    def take_leave(self):
        self.wait_for(p.COMMITTED)
        self.say(p.PROGRESS, p.progress())
        self.say(p.REPORT, p.report())
        self.wait_for_the_end()

    # --- floods and notes ---

    @property
    def floods(self):
        """Whether the flood goes on."""
        return time.monotonic() < self.end_of_flood

    def note(self, text):
        """Something that the driver must report as a finding, told by the peer itself."""
        with open(os.path.join(self.ground, "log", "found"), "a", encoding="utf-8") as found:
            found.write(text + "\n")

    def outside(self, name):
        """A path in the ground, as an absolute name."""
        return os.fsencode(os.path.join(self.ground, name))


def login_of(arguments):
    """The environment of a login. Hosts that are to reach each other have been reached at the loopback address."""
    addresses = "127.0.0.1 1 127.0.0.1 22" if arguments.ends == "several" else "192.0.2.1 1 192.0.2.2 22"
    return {**os.environ, "SSH_CONNECTION": addresses}


def read_exactly(count):
    """`count` bytes of standard input, or nothing where it ends before."""
    parts = []
    while count:
        part = os.read(0, min(count, 1 << 20))
        if not part:
            return b""
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def leave():
    """Ends at once: the reading thread may be in the middle of a read."""
    sys.stderr.flush()
    os._exit(0)
