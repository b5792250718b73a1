"""BLAKE3 of at most 1,024 bytes (one chunk), from its specification: what a journal's records and names need."""

import struct

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
ORDER = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
CHUNK_START, CHUNK_END, ROOT = 1, 2, 8
MASK = 0xFFFFFFFF


def digest(data):
    """The 32 bytes of the hash of `data`, at most 1,024 bytes."""
    assert len(data) <= 1024
    blocks = [data[at:at + 64] for at in range(0, len(data), 64)] or [b""]
    value = IV
    for number, block in enumerate(blocks):
        last = number + 1 == len(blocks)
        flags = (CHUNK_START if number == 0 else 0) | (CHUNK_END | ROOT if last else 0)
        value = compress(value, block, flags)
    return struct.pack("<8I", *value)


def compress(value, block, flags):
    words = list(struct.unpack("<16I", block.ljust(64, b"\0")))
    state = [*value, *IV[:4], 0, 0, len(block), flags]
    for _ in range(7):
        for number, places in enumerate(COLUMNS + DIAGONALS):
            mix(state, *places, words[2 * number], words[2 * number + 1])
        words = [words[place] for place in ORDER]
    return tuple(low ^ high for low, high in zip(state[:8], state[8:]))


def mix(state, a, b, c, d, first, second):
    for word, right, left in ((first, 16, 12), (second, 8, 7)):
        state[a] = state[a] + state[b] + word & MASK
        state[d] = turn(state[d] ^ state[a], right)
        state[c] = state[c] + state[d] & MASK
        state[b] = turn(state[b] ^ state[c], left)


def turn(word, by):
    return (word >> by | word << 32 - by) & MASK
