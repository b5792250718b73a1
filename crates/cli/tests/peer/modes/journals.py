"""Journals that the far end plants as entries, so that the next run of the command writes and removes what they name.

A journal's name and records are those of docs/formats.md. Its key is BLAKE3 of what the Job tells, as the tool's source
computes it; a program that keeps its journals elsewhere, or takes no such name, is safe whatever the key.
"""

import os
import struct

import blake3
import protocol as p
import sender
import tree
from modes.names import good
from registry import sends

TOPS = ("into", "sync", "sync-a", "sync-delete", "sync-inplace", "sync-retry")
SHORT = ("sync-a", "into")
NONCE = b"\x11" * 8


def journal_name(far):
    """The name of this command's journal where all lands in the destination itself."""
    options = far.job["options"]
    keep = b"".join(p.boolean(far.keep[name]) for name in p.KEEP)
    said = (options["resume"] or bytes(16)) + p.boolean(options["recursive"]) + keep + p.vector([p.blob(b"")])
    return b".linerate.journal." + blake3.digest(said)[:16].hex().encode()


def record(number, body):
    said = p.varint(number) + body
    return struct.pack("<I", len(said)) + blake3.digest(said)[:8] + said


def begin():
    return b"lrjrnal\1" + record(0, bytes(16) + p.varint(0) + NONCE)


def partial(place, name, victim, index=0):
    """A large file that is said to be under way in `name`, with the inode and size of `victim`."""
    known = os.lstat(victim)
    body = p.varint(index) + p.blob(place) + p.blob(name) + bytes(8) + p.varint(7) + p.timestamp(1)
    return record(3, body + p.varint(known.st_ino) + p.varint(known.st_size) + p.varint(1 << 16))


def journal(name, records, mode=0o600):
    return tree.Item(name, contents=begin() + b"".join(records), mode=mode)


def victims(far):
    """Files outside, by an absolute name and by one that leads up, with what is guessed of them."""
    for name in ("canary/file", "canary/private", "canary/large", "home/.bashrc", "home/.ssh/authorized_keys"):
        path = far.outside(name)
        yield path, path
        yield b"../../" + os.fsencode(name), path


@sends(TOPS, twice=True, short=SHORT)
def journal_planted(far):
    """A journal of this very command that names files outside as its partial files."""
    records = [partial(b"victim%d" % number, name, path, number) for number, (name, path) in enumerate(victims(far))]
    return good(far) + [journal(journal_name(far), records)]


@sends(TOPS, twice=True, short=SHORT)
def journal_planted_and_broken_off(far):
    """The same, and then the connection breaks, so that the next run goes on."""
    sender.send_items(far, journal_planted(far))


@sends(TOPS, twice=True, short=SHORT)
def journal_as_a_link(far):
    """A link under the journal's name, to a file outside."""
    return good(far) + [tree.link(journal_name(far), far.outside("home/.bashrc"))]


@sends(TOPS, twice=True, short=SHORT)
def journal_with_guesses(far):
    """Two thousand guesses of the inode of one file, as who can't see it would make them."""
    path = far.outside("home/.bashrc")
    guesses = b"".join(guess(number, path) for number in range(-1000, 1000))
    return good(far) + [tree.Item(journal_name(far), contents=begin() + guesses, mode=0o600)]


def guess(number, path):
    known = os.lstat(path)
    body = p.varint(number + 1000) + p.blob(b"v") + p.blob(path) + bytes(8) + p.varint(7) + p.timestamp(1)
    return record(3, body + p.varint(known.st_ino + number) + p.varint(known.st_size) + p.varint(1 << 16))


@sends(TOPS, short=SHORT)
def journal_of_opened_directories(far):
    """A journal that says which modes directories had: one outside, and one of the tree."""
    opened = [record(8, p.blob(b"sub") + p.varint(0o777)), record(7, p.blob(b"sub")),
              record(8, p.blob(b"../../canary") + p.varint(0o777))]
    return good(far) + [tree.directory(b"sub"), journal(journal_name(far), opened)]


@sends(TOPS, short=SHORT)
def journal_in_chunks(far):
    """The journal as a large file, in chunks."""
    padded = journal(journal_name(far), [partial(b"v", far.outside("canary/file"), far.outside("canary/file"))])
    padded.contents += bytes(1 << 17)
    return good(far) + [tree.Item(padded.path, contents=padded.contents, mode=0o600)]
