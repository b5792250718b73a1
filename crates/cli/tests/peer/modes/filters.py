"""What the command line left out, or didn't list, sent all the same.

The driver's commands have --exclude=.ssh --exclude=.bashrc --exclude=*.o --exclude=/cut/, or a list of a and sub/b.
"""

import protocol as p
import sender
import tree
from modes.names import good
from registry import sends

EXCLUDED = ("sync-exclude",)
LISTED = ("sync-listed",)


@sends(EXCLUDED)
def excluded_file(far):
    """A file of an excluded name."""
    return good(far) + [tree.Item(b".bashrc", contents=b"pwned\n")]


@sends(EXCLUDED)
def excluded_deep(far):
    """A file whose name is excluded at any depth."""
    return good(far) + [tree.directory(b"sub"), tree.Item(b"sub/x.o", contents=b"pwned\n")]


@sends(EXCLUDED)
def excluded_link(far):
    """A link of an excluded name."""
    return good(far) + [tree.link(b".bashrc", b"/etc/passwd")]


@sends(EXCLUDED)
def excluded_large(far):
    """A large file of an excluded name, in chunks."""
    return good(far) + [tree.Item(b"large.o", contents=tree.LARGE)]


@sends(EXCLUDED, allowed=(b"first",))
def excluded_further_name(far):
    """A further name of a file that is excluded."""
    first = tree.Item(b"first", contents=b"x\n", extra=p.extra((0, 0), linked=True))
    return good(far) + [first, tree.further(b"first.o", b"first")]


@sends(EXCLUDED)
def excluded_directory(far):
    """A directory that a rule cuts off."""
    return good(far) + [tree.directory(b".ssh", 0o700)]


@sends(EXCLUDED)
def below_an_excluded_directory(far):
    """Names below a directory that a rule cuts off; the directory itself never comes."""
    return good(far) + [tree.Item(b".ssh/authorized_keys", contents=b"evilkey\n"), tree.Item(b"cut/x", contents=b"x\n")]


@sends(EXCLUDED)
def below_an_anchored_directory(far):
    """Names below `/cut/`, that and all in it."""
    return good(far) + [tree.directory(b"cut"), tree.directory(b"cut/deep"), tree.Item(b"cut/deep/x", contents=b"x\n")]


def listed(*items):
    return [tree.Item(b"a", contents=b"a\n"), *items]


@sends(LISTED)
def unlisted_top(far):
    """The directory itself, which the list doesn't have, open to everybody."""
    return listed(tree.directory(b"", mode=0o777))


@sends(LISTED)
def unlisted_file(far):
    """Files that the list doesn't have."""
    return listed(tree.Item(b".bashrc", contents=b"pwned\n"))


@sends(LISTED)
def unlisted_directory(far):
    """A directory that leads to nothing on the list."""
    return listed(tree.directory(b"other"), tree.Item(b"other/x", contents=b"x\n"))


@sends(LISTED)
def unlisted_sibling(far):
    """A file beside one that is listed, in a directory that is on the way."""
    return listed(tree.directory(b"sub"), tree.Item(b"sub/pwn", contents=b"x\n"))


@sends(LISTED)
def unlisted_large(far):
    """A large file that the list doesn't have, in chunks."""
    return listed(tree.Item(b"large", contents=tree.LARGE))


@sends(LISTED)
def below_a_listed_file(far):
    """A listed name that is a directory with things in it, which weren't asked for."""
    return [tree.directory(b"a"), tree.Item(b"a/pwn", contents=b"x\n")]


@sends(LISTED, twice=True)
def listed_parent_is_a_link(far):
    """The directory on the way to a listed file is a link, and then the file comes."""
    way_out = tree.link(b"sub", far.outside("canary"))
    return listed(way_out, tree.Item(b"sub/b", contents=b"pwned\n"))


@sends(LISTED)
def listed_and_more_past_the_offer(far):
    """Offered is only what is listed; what isn't comes without an offer."""
    sender.send_items(far, listed())
    sender.send_item(far, tree.Item(b"pwn", contents=b"x\n"), 9, (sender.WHOLE, None))
    far.finish(tree.count(listed()))


@sends(EXCLUDED)
def excluded_past_the_offer(far):
    """Offered is only what isn't excluded; what is comes without an offer."""
    sender.send_items(far, good(far))
    sender.send_item(far, tree.Item(b".bashrc", contents=b"x\n"), 9, (sender.WHOLE, None))
    far.finish(tree.count(good(far)))
