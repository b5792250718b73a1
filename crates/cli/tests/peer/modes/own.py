"""What a source itself is: a link where a file or a directory was asked for, so that the next run writes through it."""

import protocol as p
import sender
import tree
from registry import TREES, mode, sends

ROOTED = ("tree-a", "sync-a", "sync-delete", "sync-retry")


def own_entry(make, announced=None):
    """A sender whose source's own entry is `make(far)`, announced as it is asked for unless told otherwise."""
    def speak(far):
        far.open()
        far.connect()
        is_directory = far.is_tree if announced is None else announced
        far.announce([p.source(far.source_name, is_directory)])
        send = sender.send_past if far.arguments.past else sender.send
        send(far, make(far))
    return speak


def link_to(name):
    return lambda far: [tree.link(b"", far.outside(name))]


def below_link(far):
    return [tree.link(b"", far.outside("home")), tree.Item(b".bashrc", contents=b"pwned\n")]


# A link in place of a file, whose next version is then written through it.
mode(("file",), name="own-link-for-file", twice=True)(own_entry(link_to("home/.bashrc")))
mode(("file",), name="own-link-relative", twice=True)(own_entry(lambda far: [tree.link(b"", b"../home/.bashrc")]))
mode(("file",), name="own-link-dangling", twice=True)(own_entry(link_to("names/new")))
mode(("file",), name="own-link-to-directory", twice=True)(own_entry(link_to("home")))
# A link in place of a tree; announced as a directory, and as none although the argument may end in a slash.
mode(TREES, name="own-link-for-tree", twice=True, short=("tree-p", "sync", "sync-delete"))(own_entry(link_to("home")))
mode(TREES, name="own-link-announced", twice=True, short=("tree-p", "sync-a", "sync-delete"))(
    own_entry(link_to("home"), announced=False))
mode(TREES, name="own-link-then-below", twice=True)(own_entry(below_link, announced=False))
# A file, a fifo, a device, a further name in place of a tree.
mode(TREES, name="own-file-for-tree")(own_entry(lambda far: [tree.Item(b"", contents=b"a file\n")]))
mode(TREES, name="own-file-large")(own_entry(lambda far: [tree.Item(b"", contents=tree.LARGE)]))
mode(("into", "sync", "sync-a", "sync-delete", "sync-inplace"), name="own-file-announced")(
    own_entry(lambda far: [tree.Item(b"", contents=b"a file\n")], announced=False))
mode(ROOTED, name="own-fifo")(own_entry(lambda far: [tree.Item(b"", p.FIFO)]))
mode(ROOTED, name="own-device")(own_entry(lambda far: [tree.Item(b"", p.device(False, 1, 3))]))
mode(TREES, name="own-further-name")(own_entry(lambda far: [tree.further(b"", b"ok")]))
mode(("file",), name="own-directory-for-file")(own_entry(lambda far: [tree.directory(b"")]))


@sends(TREES, allowed=(b".bashrc",))
def own_entry_twice(far):
    """The source itself comes as a directory, and then as a link."""
    return [tree.directory(b""), tree.link(b"", far.outside("home")), tree.Item(b".bashrc", contents=b"pwned\n")]


@sends(TREES, allowed=(b"ok",))
def own_entry_missing(far):
    """The source itself never comes, only what is in it."""
    return [tree.Item(b"ok", contents=b"ok\n")]


@sends(("file", "tree", "sync-a"))
def own_entry_of_nothing(far):
    """Nothing comes at all, and it is called complete."""
    return []
