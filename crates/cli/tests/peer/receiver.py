"""An honest receiver: it counts what comes and keeps nothing."""

import struct

import protocol as p


class Stream:
    """Counts the entries of the frames in the tunnel: files, directories, links, bytes, specials."""

    def __init__(self):
        self.waiting = b""
        self.counts = [0] * 5
        self.begun = set()
        self.ended = False

    def feed(self, data):
        self.waiting += data
        while len(self.waiting) >= 16:
            kind, _, _, length, _ = struct.unpack_from("<BBHIQ", self.waiting)
            if len(self.waiting) < 16 + length:
                return
            self.take(kind, self.waiting[16:16 + length])
            self.waiting = self.waiting[16 + length:]

    def take(self, kind, payload):
        if kind == p.BATCH:
            self.batch(payload)
        elif kind == p.CHUNK:
            self.chunk(p.Reader(payload))
        elif kind == p.END:
            self.ended = True

    def batch(self, payload):
        at = 0
        while at < len(payload):
            length, contents = struct.unpack_from("<II", payload, at)
            self.count(p.Reader(payload[at + 8:at + 8 + length]))
            at += 8 + length + contents

    def chunk(self, reader):
        """A file of several parts counts with the first of them."""
        start = reader.at
        skip_entry(reader)
        number = reader.varint()
        if number not in self.begun:
            self.begun.add(number)
            self.count(p.Reader(reader.data[start:]))

    def count(self, reader):
        kind, size = skip_entry(reader)
        self.counts[(0, 1, 2, 4, 4, 4, 0)[kind]] += 1
        self.counts[3] += size


def skip_entry(reader):
    """Reads an Entry and gives its kind's number and its size."""
    reader.varint(), reader.blob()
    kind = reader.varint()
    size = 0
    if kind == 0:
        size = reader.varint()
    elif kind == 2:
        reader.blob()
    elif kind == 3:
        reader.boolean(), reader.varint(), reader.varint()
    elif kind == 6:
        reader.varint(), reader.blob()
    reader.varint()
    for _ in range(2):
        reader.signed(), reader.varint()
    reader.option(lambda: skip_extra(reader))
    return kind, size


def skip_extra(reader):
    reader.option(lambda: (reader.varint(), reader.varint(), reader.blob(), reader.blob()))
    reader.vector(lambda: (reader.blob(), reader.blob()))
    for _ in range(2):
        reader.vector(lambda: skip_acl(reader))
    reader.boolean()


def skip_acl(reader):
    if reader.varint() in (1, 3):
        reader.varint(), reader.blob()
    reader.take(1)


def accept(far):
    """Sources and the answer to them: send all."""
    far.wait_for(p.SOURCES)
    if far.job["options"]["digests"]:
        far.say(p.WITHIN, p.boolean(True))
    far.say(p.READY, p.ready(False))


def read_data(far):
    """All frames, and Sent; gives the totals of what came."""
    stream = Stream()
    while True:
        kind, reader = far.wait_for(p.TUNNEL, p.SENT)
        if kind == p.SENT:
            return p.totals(*stream.counts)
        stream.feed(reader.blob())


def receive(far):
    """All behind the connecting, as an honest receiver."""
    accept(far)
    counts = read_data(far)
    far.say(p.COMMITTED, counts)
    far.say(p.PROGRESS, p.progress(landed=counts))
    far.say(p.REPORT, p.report())
    far.wait_for_the_end()
