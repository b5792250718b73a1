"""Bytes of the protocol, written from docs/protocol.md alone.

Nothing here checks what it encodes: a hostile peer says what an honest one can't. The names are those of the page.
Sizes are bytes; a `bytes` object that a function returns is ready to be joined with others.
"""

import pathlib
import re
import socket
import struct

PAGE = pathlib.Path(__file__).resolve().parents[4] / "docs" / "protocol.md"


def protocol_number():
    """The number in the page's heading: the one place where it stands."""
    with open(PAGE, encoding="utf-8") as page:
        return int(re.match(r"# The protocol, version (\d+)", page.readline()).group(1))


PROTOCOL = protocol_number()

# Messages, in the order of the page's table.
(HELLO, JOB, LISTENING, CONNECT_BACK, CONNECTED_BACK, USE_TUNNEL, MORE_STREAMS, TUNNEL, SOURCES, READY, SKIP, PROBLEM,
 PROGRESS, SENT, COMMITTED, REPORT, LISTED, ABORT, ASK_FACTS, ASK_CPU, ANSWER, START_SAMPLING, TAKE_SAMPLES, SAMPLES,
 OFFER, WANTED, AGAIN, CHANGES, SELECT, WITHIN, DIGESTED, LEFTOVER, BLOCKS, BETWEEN, PARTNER, DELIVERED, TALLY,
 ROUTES, CHAINED, LINK, NEXT, NEXT_LOST, DETACHED, UNDER_WAY, JOB_RECORD, JOB_EVENTS) = range(46)

# Frames.
BATCH, CHUNK, DATA, GIVE_UP, END, HOLE, SAME, DIGEST, SPLIT, COPY, PACKED, SEALED = range(1, 13)
WINDOW_LOG = 23

MAX_MESSAGE = 1 << 20
MAX_TUNNEL = 256 << 10
KEEP = ("perms", "times", "owner", "group", "numeric_ids", "hard_links", "devices", "specials", "xattrs", "acls",
        "special_bits", "sparse", "omit_dir_times", "omit_link_times")
SYNC = ("into", "checksum", "size_only", "ignore_times", "update", "ignore_existing", "existing")
SYNC_AFTER_SEARCH = ("inplace", "delete")


# --- postcard, written ---

def varint(number):
    """Seven bits a byte, least significant group first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def signed(number):
    """Zigzag, then varint; -2^63 to 2^63 - 1."""
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


def blob(data):
    """A Vec<u8>, a String or a RelPath."""
    return varint(len(data)) + data


def vector(elements):
    """A Vec of what is encoded already."""
    return varint(len(elements)) + b"".join(elements)


def option(value):
    """An Option of what is encoded already."""
    return b"\0" if value is None else b"\1" + value


def boolean(value):
    return b"\1" if value else b"\0"


def ready(offers):
    return boolean(offers) + bytes((WINDOW_LOG,))


# --- postcard, read ---

class Reader:
    """Reads what an honest client says."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise ValueError("a message of the client's is cut off")
        self.at += count
        return self.data[self.at - count:self.at]

    def varint(self):
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def signed(self):
        number = self.varint()
        return -(number + 1 >> 1) if number & 1 else number >> 1

    def boolean(self):
        return self.take(1) == b"\1"

    def blob(self):
        return self.take(self.varint())

    def vector(self, element):
        return [element() for _ in range(self.varint())]

    def option(self, value):
        return value() if self.boolean() else None

    def rest(self):
        return self.data[self.at:]


def read_job(reader):
    """A Job as a dictionary: its kind ("receive", "send", or a number), its paths and its options."""
    kind = reader.varint()
    if kind == 0:
        return {"kind": "receive", "paths": [reader.blob()], "options": read_options(reader)}
    if kind == 1:
        return {"kind": "send", "paths": reader.vector(reader.blob), "options": read_options(reader)}
    return {"kind": kind, "paths": [], "options": {}}


def read_options(reader):
    """Options as a dictionary; `keep` and `sync` are dictionaries of booleans."""
    options = {"recursive": reader.boolean()}
    options["keep"] = {name: reader.boolean() for name in KEEP}
    options["digests"], options["verify"] = reader.boolean(), reader.boolean()
    options["sync"] = reader.option(lambda: read_sync(reader))
    read_rules(reader)
    options["listed"], options["safe_links"] = reader.boolean(), reader.boolean()
    options["no_links"], options["one_file_system"] = reader.boolean(), reader.boolean()
    options["listed_whole"], options["ignore_missing"] = reader.boolean(), reader.boolean()
    options["no_implied"] = reader.boolean()
    for name in ("copy_links", "copy_dirlinks", "copy_unsafe_links", "remove_sources", "prune_empty"):
        options[name] = reader.boolean()
    reader.vector(lambda: (reader.take(2), reader.varint(), reader.varint(), reader.take(1)))
    options["clear"] = reader.boolean()
    level = reader.varint()
    options["compression"] = level if level != 3 else 3 + reader.take(1)[0]
    options["skip"] = reader.option(lambda: reader.vector(reader.blob))
    options["streams"] = reader.option(reader.varint)
    options["rate_limit"] = reader.option(reader.varint)
    options["unpaced"] = reader.boolean()
    options["ports"] = reader.option(lambda: (reader.varint(), reader.varint()))
    options["resume"] = reader.option(lambda: reader.take(16))
    options["timeout"] = reader.option(reader.varint)
    options["details"] = read_details(reader)
    return options


def read_details(reader):
    details = {"users": reader.vector(lambda: read_identity(reader))}
    details["groups"] = reader.vector(lambda: read_identity(reader))
    for name in ("atimes", "open_noatime", "preallocate", "dig_holes", "munge", "unmunge", "keep_dirlinks"):
        details[name] = reader.boolean()
    details["superuser"] = reader.option(reader.boolean)
    details["executability"] = reader.boolean()
    details["fakes"] = reader.varint()
    details["placing"] = (reader.option(reader.blob), reader.option(reader.blob), reader.boolean(), reader.varint(), reader.take(1))
    details["charsets"] = reader.option(lambda: (reader.blob(), reader.blob()))
    details["divided"] = reader.vector(lambda: read_divided(reader))
    details["journal_key"] = reader.option(lambda: reader.take(32))
    return details


def read_divided(reader):
    path, key = reader.blob(), reader.take(16)
    return path, key, [reader.varint() for _ in range(9)]


def read_identity(reader):
    numbers = reader.varint() == 0
    return ((reader.varint(), reader.varint()) if numbers else reader.blob(), reader.blob())


def read_sync(reader):
    sync = {name: reader.boolean() for name in SYNC}
    sync["least"], sync["most"] = reader.option(reader.varint), reader.option(reader.varint)
    sync["whole"], sync["search"] = reader.boolean(), reader.varint()
    sync |= {name: reader.boolean() for name in SYNC_AFTER_SEARCH}
    sync["force"], sync["ignore_errors"] = reader.boolean(), reader.boolean()
    sync["window"] = reader.option(reader.varint)
    sync["backup"] = reader.option(lambda: (reader.option(reader.blob), reader.blob()))
    sync["others"] = reader.option(lambda: (reader.vector(reader.blob), reader.varint()))
    sync["max_delete"] = reader.option(reader.varint)
    sync["make_path"] = reader.boolean()
    sync |= {name: reader.boolean() for name in ("dry_run", "itemize", "unchanged", "facts")}
    return sync


def read_rules(reader):
    """Passes over Rules: a hostile peer doesn't keep them, and an honest one here has nothing that they leave out."""
    for _ in range(reader.varint()):
        if reader.varint() == 0:
            reader.boolean(), reader.varint(), reader.take(4), reader.blob()
        else:
            reader.blob(), reader.option(reader.blob), reader.boolean(), reader.option(reader.boolean)
            reader.take(2), reader.option(reader.varint), reader.take(2)
    reader.take(2)


# --- types ---

def file(size):
    return varint(0) + varint(size)


DIRECTORY = varint(1)
FIFO = varint(4)
SOCKET = varint(5)


def symlink(target):
    return varint(2) + blob(target)


def device(block, major, minor):
    return varint(3) + boolean(block) + varint(major) + varint(minor)


def hard_link(path, source=0):
    return varint(6) + varint(source) + blob(path)


def timestamp(seconds, nanoseconds=0):
    return signed(seconds) + varint(nanoseconds)


def entry(path, kind, mode, mtime, extra=None, source=0):
    """An Entry; `mtime` is (seconds, nanoseconds), and the time of the last reading too."""
    return (varint(source) + blob(path) + kind + varint(mode) + timestamp(*mtime) + timestamp(*mtime) + option(extra))


def extra(owner=None, xattrs=(), acl=(), default_acl=(), linked=False):
    """An Extra; `owner` is (uid, gid, user, group), `xattrs` pairs of bytes, the ACLs are encoded entries."""
    attributes = vector([blob(name) + blob(value) for name, value in xattrs])
    return option(owner and account(*owner)) + attributes + vector(acl) + vector(default_acl) + boolean(linked)


def account(uid, gid, user=b"", group=b""):
    return varint(uid) + varint(gid) + blob(user) + blob(group)


def offered(encoded_entry, inode=1, ctime=(1, 0)):
    return encoded_entry + varint(inode) + timestamp(*ctime) + option(None) + boolean(True)


def chunk(encoded_entry, number, offset, length, parts, inode=1, ctime=(1, 0)):
    fields = [varint(value) for value in (number, offset, length, parts, inode)]
    return encoded_entry + b"".join(fields) + timestamp(*ctime)


def source(name, directory, argument=0):
    return varint(argument) + blob(name) + boolean(directory)


def totals(files=0, directories=0, symlinks=0, size=0, specials=0):
    return b"".join(map(varint, (files, directories, symlinks, size, specials)))


def read_totals(reader):
    return tuple(reader.varint() for _ in range(5))


STAGES = bytes(38)
NO_TOTALS = totals()


def progress(found=NO_TOTALS, landed=NO_TOTALS):
    return STAGES + found + b"\1" + landed


def report():
    """Stages, and Usage of nothing."""
    return STAGES + struct.pack("<d", 0.0) + varint(0) + varint(1)


def hello(protocol=PROTOCOL, key=None, cookie=bytes(16)):
    """A Hello with a key that nobody has: this end makes no data connections."""
    if key is None:
        key = bytes.fromhex("302a300506032b6570032100") + b"\x42" * 32
    return varint(protocol) + blob(b"peer") + blob(key) + cookie


def listening(candidates=(), error=b"none here", further=()):
    return vector(list(candidates)) + vector(list(further)) + option(None) + option(error and blob(error))


def address(port):
    """A SocketAddr on the loopback interface."""
    return varint(0) + bytes((127, 0, 0, 1)) + varint(port)


def partner(key=b"k" * 44, cookie=bytes(16)):
    """A Partner without anything that was asked for."""
    return blob(key) + cookie + option(None)


def chain_next(place, key, cookie, candidates, behind=0):
    """A ChainNext."""
    return bytes((place,)) + blob(key) + cookie + vector(candidates) + bytes((behind,))


def read_chain_next(reader):
    """A ChainNext, as the arguments of `chain_next`; the candidates as addresses of this language's sockets."""
    place, key, cookie = reader.take(1)[0], reader.blob(), reader.take(16)
    candidates = reader.vector(lambda: read_address(reader))
    return place, key, cookie, candidates, reader.take(1)[0]


def read_address(reader):
    """A SocketAddr, as a text and a port."""
    family = socket.AF_INET6 if reader.varint() else socket.AF_INET
    host = socket.inet_ntop(family, reader.take(16 if family == socket.AF_INET6 else 4))
    return host, reader.varint()


def lost_next(place, reason=b"it has received nothing for 10 s"):
    """A LostNext."""
    return bytes((place,)) + blob(reason)


def delivery(path, source=0):
    """A Delivery of a digest."""
    return varint(source) + blob(path) + varint(0) + bytes(32)


def tally(cipher=b"aes128-gcm"):
    return option(blob(cipher)) + option(None) + NO_TOTALS + varint(0)


def problem(path, text, kind=0):
    return blob(path) + blob(text) + varint(kind)


def abort(reason, kind=0):
    return blob(reason) + varint(kind)


def sent(counts, streams=1, complete=True):
    return counts + varint(streams) + boolean(complete)


def message(kind, body=b""):
    """A message of the control channel, with its length."""
    said = varint(kind) + body
    return struct.pack("<I", len(said)) + said


# --- frames ---

def crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x9A6C9329AC4BC9B5 if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = crc_table()


def crc64(data):
    """CRC-64/NVME. AD93D23594C93659 with its bits reversed is 9A6C9329AC4BC9B5."""
    crc, table = 0xFFFFFFFFFFFFFFFF, CRC_TABLE
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFFFFFFFFFF


def frame(kind, payload=b"", flags=1, reserved=0, length=None, crc=None):
    """A frame with its header, right unless told otherwise."""
    length = len(payload) if length is None else length
    crc = crc64(payload) if crc is None else crc
    return struct.pack("<BBHIQ", kind, flags, reserved, length, crc) + payload


def inner(kind, payload=b"", **changed):
    """A frame among compressed ones, which have no checksums."""
    return frame(kind, payload, **{"flags": 0, "crc": 0, **changed})


def zstd(data, window=WINDOW_LOG, descriptor=0, last=False):
    """A zstd frame with one block of these bytes as they are (RFC 8878), which goes on unless it is the last one."""
    block = struct.pack("<I", len(data) << 3 | last)[:3]
    return struct.pack("<IBB", 0xFD2FB528, descriptor, window - 10 << 3) + block + data


def record(encoded_entry, contents=b""):
    """A record of a Batch."""
    return struct.pack("<II", len(encoded_entry), len(contents)) + encoded_entry + contents
