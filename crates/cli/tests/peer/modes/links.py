"""Links, further names and kinds of files that would reach what is outside, or that nobody asked for."""

import os
import time

import protocol as p
import sender
import tree
from modes.names import good
from registry import ARCHIVES, PULLS, SYNCS, TREES, sends

OWNER = (0, 0)
# What a cp keeps without -a; a sync without -a keeps owners, devices and special files.
BARE = ("tree", "tree-p", "into")
GROUP = 4242
LINKED = ("tree-a", "sync-a", "sync-delete", "sync-retry")


@sends(TREES, allowed=(b"l", b"l/file", b"l/pwn"), twice=True)
def link_then_below(far):
    """A link to a directory outside, and files below its name: one that is there, and a new one."""
    below = [tree.Item(b"l/file", contents=b"pwned\n"), tree.Item(b"l/pwn", contents=b"pwned\n")]
    return good(far) + [tree.link(b"l", far.outside("canary")), *below]


@sends(TREES, allowed=(b"l", b"l/dir", b"l/dir/inner"), twice=True)
def link_then_directory(far):
    """A link to a directory outside, then a directory of that name, one below it, and a file in that."""
    below = [tree.directory(b"l"), tree.directory(b"l/dir", 0o777), tree.Item(b"l/dir/inner", contents=b"pwned\n")]
    return good(far) + [tree.link(b"l", far.outside("canary")), *below]


@sends(TREES, allowed=(b"l",), may_succeed=True, twice=True)
def link_then_large(far):
    """A link to a file outside, then a large file of the same name, in chunks."""
    return good(far) + [tree.link(b"l", far.outside("canary/large")), tree.Item(b"l", contents=tree.LARGE)]


@sends(TREES, allowed=(b"d", b"d/x", b"d/file", b"d/pwn"), twice=True)
def directory_becomes_a_link(far):
    """A directory with a file in it, then a link under its name, and then more files below it."""
    turned = [tree.directory(b"d"), tree.Item(b"d/x", contents=b"x\n"), tree.link(b"d", far.outside("canary"))]
    return good(far) + turned + [tree.Item(b"d/file", contents=b"pwned\n"), tree.Item(b"d/pwn", contents=b"x\n")]


@sends(TREES, allowed=(b"d", b"d/x"))
def directory_becomes_a_file(far):
    """A directory, a file under its name, and more below it."""
    turned = [tree.directory(b"d"), tree.Item(b"d", contents=b"a file\n"), tree.Item(b"d/x", contents=b"x\n")]
    return good(far) + turned


@sends(LINKED, allowed=(b"l", b"name"))
def further_name_through_a_link(far):
    """A further name of a file outside, reached through a link of the tree."""
    return good(far) + [tree.link(b"l", far.outside("canary")), tree.further(b"name", b"l/file")]


@sends(LINKED, allowed=(b"first", b"l", b"l/pwn"))
def further_name_below_a_link(far):
    """A file of the tree gets a further name below a link, outside."""
    first = tree.Item(b"first", contents=b"x\n", extra=p.extra(OWNER, linked=True))
    return good(far) + [first, tree.link(b"l", far.outside("canary")), tree.further(b"l/pwn", b"first")]


@sends(LINKED)
def further_name_of_nothing(far):
    """Further names of what never came, of itself, and of a directory."""
    return good(far) + [tree.further(b"name", b"never"), tree.further(b"self", b"self"), tree.further(b"of", b"")]


@sends(BARE)
def further_name_unasked(far):
    """A further name, where nobody asked for them."""
    return good(far) + [tree.further(b"name", b"ok")]


@sends(LINKED)
def further_name_of_another_source(far):
    """A further name of a file of a source that was never announced."""
    return good(far) + [tree.Item(b"name", p.hard_link(b"ok", source=9))]


@sends(BARE)
def devices_unasked(far):
    """Device nodes, where nobody asked for them."""
    return good(far) + [tree.Item(b"null", p.device(False, 1, 3)), tree.Item(b"disk", p.device(True, 8, 0))]


@sends(BARE)
def fifo_unasked(far):
    """A fifo and a socket, where nobody asked for them."""
    return good(far) + [tree.Item(b"fifo", p.FIFO), tree.Item(b"socket", p.SOCKET)]


@sends(BARE, allowed=(b"su", b"shared"), may_succeed=True)
def special_bits(far):
    """Setuid and setgid without -a: they stay behind, as the driver sees."""
    return good(far) + [tree.Item(b"su", contents=b"x\n", mode=0o6777), tree.directory(b"shared", 0o7777)]


@sends(BARE)
def owner_unasked(far):
    """An owner, where nobody asked for owners."""
    return good(far) + [tree.Item(b"owned", contents=b"x\n", extra=p.extra((4242, 4242, b"nobody", b"nogroup")))]


@sends(BARE)
def attributes_unasked(far):
    """Capabilities, where nobody asked for attributes."""
    capability = p.extra(None, xattrs=[(b"security.capability", bytes.fromhex("0100000200000000000000000000000000000000"))])
    return good(far) + [tree.Item(b"capable", contents=b"x\n", extra=capability)]


@sends(ARCHIVES)
def attributes_without_bounds(far):
    """Attributes of a megabyte and a half in one entry, more than 512 KiB."""
    many = [(b"user.%d" % number, b"v" * 60_000) for number in range(12)]
    return good(far) + [tree.Item(b"heavy", contents=b"x\n", extra=p.extra(OWNER, xattrs=many))]


@sends(ARCHIVES)
def attributes_of_no_name(far):
    """Very many attributes whose names are empty."""
    empty = p.extra(OWNER, xattrs=[(b"", b"")] * 200_000)
    return good(far) + [tree.Item(b"heavy", contents=b"x\n", extra=empty)]


@sends(ARCHIVES)
def attributes_of_the_system(far):
    """An ACL as an attribute, and one name twice."""
    acl = p.extra(OWNER, xattrs=[(b"system.posix_acl_access", b"\2\0\0\0")])
    twice = p.extra(OWNER, xattrs=[(b"user.a", b"1"), (b"user.a", b"2")])
    return good(far) + [tree.Item(b"one", extra=acl), tree.Item(b"two", extra=twice)]


@sends(ARCHIVES)
def acl_without_bounds(far):
    """An ACL of 100,000 entries."""
    acl = [p.varint(1) + p.varint(number) + p.blob(b"") + b"\7" for number in range(100_000)]
    return good(far) + [tree.Item(b"heavy", contents=b"x\n", extra=p.extra(OWNER, acl=acl))]


@sends(PULLS, allowed=(b"n",))
def same_name_as_all_kinds(far):
    """One name as a file, a link, a directory and a file again."""
    kinds = [tree.Item(b"n", contents=b"1\n"), tree.link(b"n", far.outside("home/.bashrc")), tree.directory(b"n"),
             tree.Item(b"n", contents=b"pwned\n")]
    return good(far) + kinds


@sends(SYNCS)
def offered_twice(far):
    """The same path in two offers, and twice in one."""
    sender.offer(far, good(far))
    sender.offer(far, [tree.Item(b"ok", contents=b"1\n")])
    sender.offer(far, [tree.Item(b"p", contents=b"1\n"), tree.Item(b"p", contents=b"2\n")])
    far.finish(tree.count(good(far)))


@sends(("sync", "sync-inplace"), prepare="vault", allowed=(b"vault.db",))
def offers_that_lengthen(far):
    """A file that the client has is offered one byte longer each time: its digests tell its contents byte by byte."""
    sender.offer(far, good(far))
    told = 0
    for more in range(1, 20):
        told += tells_a_part(far, (4 << 20) + more)
    if told:
        far.note(f"it told the digests of {told} parts that aren't whole chunks")
    far.finish()


def tells_a_part(far, size):
    """Whether the answer to an offer of the vault with this size has a digest of a part that the size cuts."""
    encoded = p.entry(b"vault.db", p.file(size), 0o644, tree.WHEN, tree.usual_extra(far.keep))
    far.say(p.OFFER, p.vector([p.offered(encoded)]))
    wants = far.wait_for(p.WANTED)[1]
    wants.varint()
    kind, details = sender.read_want(wants)
    told = kind == sender.DIFFERING and len(details[1]) > size // details[0]
    if told:
        far.note(f"offered with {size} bytes, the vault's digests have one of its last {size % details[0]} bytes")
    return told


@sends(("tree-a", "sync-a", "sync-retry"), allowed=(b"shared", b"shared/plan", b"shared/large"), may_succeed=True)
def open_under_way(far):
    """Files and a directory of another group: until they have that group, nobody but their owner may get at them."""
    group = p.extra((0, GROUP))
    large = tree.Item(b"shared/large", contents=tree.LARGE, mode=0o660, extra=group)
    items = good(far) + [tree.directory(b"shared", 0o770, extra=group),
                         tree.Item(b"shared/plan", contents=b"x\n", mode=0o660, extra=group)]
    sender.send_items(far, items)
    if far.offers:
        sender.offer(far, [large])
    encoded, half = large.encode(far.keep), len(tree.LARGE) // 2
    for offset, data in ((0, tree.LARGE[:half]), (half, tree.LARGE[half:])):
        far.frame(p.CHUNK, p.chunk(encoded, 99, offset, len(data), 2, inode=large.inode))
        far.frame(p.DATA, data)
        time.sleep(0.3)
        look_under_way(far)
    far.finish(tree.count(items + [large]))


def look_under_way(far):
    """Notes what is open to a group that isn't the one that it will have."""
    for top, directories, files in os.walk(far.outside("in/dst")):
        for name in directories + files:
            known = os.lstat(os.path.join(top, name))
            if b"shared" in os.path.join(top, name) and known.st_gid != GROUP and known.st_mode & 0o077:
                far.note(f"{os.fsdecode(name)} has mode {oct(known.st_mode)} and group {known.st_gid} under way")


def leading_out(target):
    """A sender of one link that leads out of the tree, where the user wants none of those."""
    def send(far):
        return good(far) + [tree.directory(b"d"), tree.link(b"d/l", target)]
    send.__doc__ = f"A link that says {target!r}, with --safe-links."
    return send


for number, target in enumerate((b"/etc/passwd", b"", b"../../canary", b"x/../../../canary", b"./../../canary")):
    sends(("tree-safe", "sync-safe"), name=f"unsafe-link-{number}", allowed=(b"d",), twice=True)(leading_out(target))
