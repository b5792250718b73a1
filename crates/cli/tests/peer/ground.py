"""Where a client runs, and what it must not touch: made anew for each case, and compared around each run.

    in/      the client's working directory, with tree/ for pushes; destinations appear here
    home/    HOME, with what an attacker would like to write
    canary/  a tree with known contents of every kind
    names/   a link and the list of files
    log/     what the driver and the peer write; not compared
"""

import hashlib
import os
import re
import stat
import subprocess
import tempfile

import tree

PARTS = ("in", "home", "canary", "names")
# What the client may fill: its state and its cache.
ITS_OWN = (os.path.join("home", ".local", "state"), os.path.join("home", ".cache"))
# The client's own journal of a directory under a new name lies beside it, until a run of the command has come to its end.
JOURNAL = re.compile(r"\.linerate\.journal\.[0-9a-f]{32}")
SECRET = b"user=alice password=correct-horse-battery-staple; "


class Ground:
    """A directory of its own, gone with `remove`."""

    def __init__(self, destination):
        self.top = os.path.realpath(tempfile.mkdtemp(prefix="linerate-peer-"))
        self.destination = destination and os.path.join(self.top, "in", destination)
        for part in PARTS + ("log",) + ITS_OWN:
            os.makedirs(self.path(part))
        self.make_home()
        self.make_canary()
        self.make_source()
        os.symlink("../canary", self.path("names/way-out"))
        self.write("names/list", b"a\nsub/b\n")

    def path(self, name):
        return os.path.join(self.top, name)

    def write(self, name, data, mode=0o644):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        os.chmod(path, mode)
        os.utime(path, ns=(10 ** 18, 10 ** 18))

    def read(self, name):
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def make_home(self):
        self.write("home/.bashrc", b"good\n")
        self.write("home/.profile", b"good\n")
        self.write("home/.ssh/authorized_keys", b"good key\n", 0o600)
        os.chmod(self.path("home/.ssh"), 0o700)

    def make_canary(self):
        self.write("canary/file", b"as it was\n")
        self.write("canary/private", b"as it was\n", 0o600)
        self.write("canary/large", bytes(range(256)) * 1000)
        self.write("canary/su", b"as it was\n", 0o4755)
        self.write("canary/dir/inner", b"as it was\n")
        self.write("canary/first", b"two names\n")
        os.link(self.path("canary/first"), self.path("canary/second"))
        os.symlink("file", self.path("canary/link"))
        os.mkfifo(self.path("canary/fifo"))

    def make_source(self):
        for item in tree.honest_tree():
            if item.is_file:
                self.write(os.path.join("in/tree", os.fsdecode(item.path)), item.contents, item.mode)
        for name in ("a", "empty", "sub/b", "large"):
            os.utime(self.path("in/tree/" + name), ns=(tree.WHEN[0] * 10 ** 9 + tree.WHEN[1],) * 2)
        os.symlink("b", self.path("in/tree/sub/link"))

    def make_vault(self):
        """A file at the destination whose contents are nobody's business, longer than any chunk of a small file."""
        self.write(os.path.join(self.destination, "vault.db"), bytes(4 << 20) + SECRET)

    def remove(self):
        # A program of its own: a hostile tree may be deeper than this language's stack.
        subprocess.run(["rm", "-rf", "--", self.top], check=False)

    # --- what is outside ---

    def outside(self):
        """Every path outside the destination, with all that can be known of it."""
        seen = {}
        for part in PARTS:
            self.look(part, seen)
        return seen

    def look(self, name, seen):
        path = self.path(name)
        if path == self.destination or self.is_journal(name):
            return
        seen[name] = describe(path, times=name not in ("in",) + ITS_OWN)
        if name not in ITS_OWN and stat.S_ISDIR(os.lstat(path).st_mode):
            for child in sorted(os.listdir(path)):
                self.look(os.path.join(name, child), seen)

    def is_journal(self, name):
        """Only a plain file of the client's own, which nobody else may read, beside the destination."""
        top, last = os.path.split(name)
        found = os.lstat(self.path(name))
        return (top == "in" and JOURNAL.fullmatch(last) and stat.S_ISREG(found.st_mode)
                and stat.S_IMODE(found.st_mode) == 0o600 and found.st_nlink == 1)

    def journals(self):
        """The client's journals beside the destination."""
        return [name for name in sorted(os.listdir(self.path("in"))) if JOURNAL.fullmatch(name)]

    # --- what is inside ---

    def inside(self):
        """The names at and below the destination, relative to it; the destination itself is the empty one."""
        if not self.destination or not os.path.lexists(self.destination):
            return set()
        names, waiting = {""}, [""]
        while waiting:
            top = waiting.pop()
            for entry in list_directory(os.path.join(self.destination, top)):
                name = os.path.join(top, entry.name)
                names.add(name)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(name)
        return names

    def in_the_way(self, items):
        """Whether a directory is where `items` have a file, or the other way round, below any place where they land."""
        return any(self.conflicts(root, item) for root in self.roots() for item in items)

    def roots(self):
        """Where the source may land: the destination, or by its own name in it."""
        return [self.destination, os.path.join(self.destination, "tree"), os.path.join(self.destination, "x")]

    def conflicts(self, root, item):
        path = os.path.join(root, os.fsdecode(item.path)).rstrip("/")
        try:
            is_directory = stat.S_ISDIR(os.lstat(path).st_mode)
        except OSError:
            return False
        return is_directory != (item.kind == tree.p.DIRECTORY) and item.path != b""

    def differences(self, items, keeps_times):
        """What is wrong with the honest tree at the destination; nothing where it is whole in one of its places."""
        found = [self.differences_at(root, items, keeps_times) for root in self.roots()]
        return min(found, key=len)

    def differences_at(self, root, items, keeps_times):
        return [text for item in items for text in differences_of(root, item, keeps_times)]


def differences_of(root, item, keeps_times):
    """How what has an item's name differs from it."""
    name = os.fsdecode(item.path)
    path = os.path.join(root, name) if name else root
    try:
        known = os.lstat(path)
    except OSError:
        return [f"'{name}' is missing"]
    if item.kind == tree.p.DIRECTORY:
        return [] if stat.S_ISDIR(known.st_mode) else [f"'{name}' is no directory"]
    if item.is_file and not stat.S_ISREG(known.st_mode):
        return [f"'{name}' is no file"]
    if not item.is_file:
        is_right = stat.S_ISLNK(known.st_mode) and os.fsencode(os.readlink(path)) == item.kind[2:]
        return [] if is_right else [f"'{name}' is another link"]
    wrong = [] if contents(path) == item.contents else [f"'{name}' has other contents"]
    if keeps_times and known.st_mtime_ns != item.mtime[0] * 10 ** 9 + item.mtime[1]:
        wrong.append(f"'{name}' has another time")
    return wrong


def mode_of(path):
    """Kind and bits of what is there; 0 where the path is longer than the system takes."""
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def list_directory(path):
    """What is directly in a directory that is no link; nothing where the path is longer than the system takes."""
    try:
        return list(os.scandir(path)) if stat.S_ISDIR(mode_of(path.rstrip("/"))) else []
    except OSError:
        return []


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def describe(path, times=True):
    """Mode, owners, inode, and with `times` size, times, further names; contents, a link's text, attributes."""
    known = os.lstat(path)
    facts = {"mode": oct(known.st_mode), "owner": (known.st_uid, known.st_gid), "inode": known.st_ino}
    if times:
        facts["size"], facts["names"] = known.st_size, known.st_nlink
        facts["mtime"], facts["ctime"] = known.st_mtime_ns, known.st_ctime_ns
    if stat.S_ISREG(known.st_mode):
        facts["contents"] = hashlib.sha256(contents(path)).hexdigest()
    if stat.S_ISLNK(known.st_mode):
        facts["target"] = os.readlink(path)
    facts["attributes"] = attributes(path)
    return facts


def attributes(path):
    try:
        names = os.listxattr(path, follow_symlinks=False)
        return {name: os.getxattr(path, name, follow_symlinks=False) for name in names}
    except OSError:
        return {}


def changes(before, after):
    """One line for each path that is new, gone or another."""
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            yield f"{name} is new outside the destination"
        elif name not in after:
            yield f"{name} outside the destination is gone"
        elif before[name] != after[name]:
            which = [fact for fact in before[name] if before[name][fact] != after[name].get(fact)]
            yield f"{name} outside the destination has another {', '.join(which)}"
