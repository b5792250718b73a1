"""How items travel: offered where the client wants offers, small ones in batches, large ones in chunks."""

import protocol as p
import tree

# Files from so many bytes on travel in chunks.
SMALL = 64 << 10
NOTHING, WHOLE, MISSING, DIFFERING, DIGEST, LEFT_ALONE, BLOCKS = range(7)


def send(far, items, counted=None):
    """Sends `items` as an honest sender does, and ends; the totals are those of `counted`, or of all items."""
    send_items(far, items)
    far.finish(tree.count(items if counted is None else counted))


def send_items(far, items):
    """The items, what is wanted of each."""
    wants = offer(far, items) if far.offers else [(WHOLE, None)] * len(items)
    for number, (item, want) in enumerate(zip(items, wants)):
        send_item(far, item, number, want)


def send_past(far, items):
    """The items without an offer, whatever the client said that it wants, and ends."""
    for number, item in enumerate(items):
        send_item(far, item, number, (WHOLE, None))
    far.finish(tree.count(items))


def offer(far, items):
    """Offers all, 1,000 at a time, and gives what is wanted of each: (number of the variant, what it says)."""
    wants = []
    for at in range(0, len(items), 1000):
        wants += offer_some(far, items[at:at + 1000])
    return wants


def offer_some(far, items):
    entries = [p.offered(item.encode(far.keep), inode=item.inode) for item in items]
    far.say(p.OFFER, p.vector(entries))
    reader = far.wait_for(p.WANTED)[1]
    return reader.vector(lambda: read_want(reader))


def read_want(reader):
    kind = reader.varint()
    if kind == MISSING:
        return kind, (reader.varint(), reader.blob())
    if kind == DIFFERING:
        return kind, (reader.varint(), reader.vector(lambda: reader.take(32)))
    if kind == BLOCKS:
        reader.varint(), reader.varint()
    return kind, None


def send_item(far, item, number, want):
    kind, details = want
    if kind in (NOTHING, LEFT_ALONE):
        return
    if item.is_file and (len(item.contents) > SMALL or kind in (MISSING, DIFFERING, BLOCKS)):
        send_chunks(far, item, number, details[0] if details else SMALL, present(want))
    else:
        far.frame(p.BATCH, p.record(item.encode(far.keep), item.contents))


def present(want):
    """The numbers of the parts that the receiver said it has."""
    kind, details = want
    if kind != MISSING:
        return set()
    bits = details[1]
    return {number for number in range(8 * len(bits)) if bits[number // 8] >> number % 8 & 1}


def send_chunks(far, item, number, size, there=frozenset()):
    """The file `number` of the session in parts of `size` bytes, of which those in `there` aren't sent."""
    encoded = item.encode(far.keep)
    if (far.job["options"]["sync"] or {}).get("inplace"):
        size = max(size, 1 << 20)
    parts = max(1, -(-len(item.contents) // size))
    for part in range(parts):
        data = item.contents[part * size:(part + 1) * size]
        far.frame(p.CHUNK, p.chunk(encoded, number, part * size, len(data), parts, inode=item.inode))
        if part in there:
            far.frame(p.SAME)
        elif data:
            far.frame(p.DATA, data)
