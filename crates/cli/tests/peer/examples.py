"""The worked examples of docs/protocol.md, said by this peer: what it sends is what the page has, byte by byte."""

import re

import blake3
import protocol as p

WHEN = (1_700_000_000, 5)


def hexes():
    """The bytes of each ```hex block of the page, in order."""
    text = p.PAGE.read_text(encoding="utf-8")
    return [bytes.fromhex(block) for block in re.findall(r"```hex\n(.*?)```", text, re.S)]


def entry_of_the_batch():
    times = p.timestamp(*WHEN) + p.timestamp(-1)
    return p.varint(0) + p.blob(b"a/b") + p.file(5) + p.varint(0o644) + times + p.option(None)


def address(last, port):
    return p.varint(0) + bytes((192, 0, 2, last)) + p.varint(port)


def main():
    found = hexes()
    listening = p.vector([p.varint(0) + bytes((192, 0, 2, 7)) + p.varint(50_000),
                          p.varint(1) + bytes.fromhex("20010db8" + "0" * 22 + "07") + p.varint(50_000)])
    listening += p.vector([p.varint(0) + bytes((198, 51, 100, 7))])
    listening += b"\1" + p.varint(0) + bytes((192, 0, 2, 1)) + p.option(None)
    said = [p.message(p.MORE_STREAMS, p.varint(300)), p.message(p.LISTENING, listening),
            p.message(p.NEXT, p.vector([p.chain_next(3, b"\xab\xcd", bytes((3,)) * 16, [address(3, 50_000)], 1),
                                        p.chain_next(4, b"\xef\1", bytes((4,)) * 16, [address(4, 50_001)])])),
            p.message(p.SOURCES, p.vector([p.source(b"tree", True)])),
            p.frame(p.BATCH, p.record(entry_of_the_batch(), b"hello"))]
    for number, example in enumerate(said):
        assert example in found, f"example {number} isn't on the page: {example.hex(' ')}"
    assert p.crc64(b"123456789") == 0xAE8B14860A799888 and p.crc64(b"") == 0
    job = next(example for example in found if example[4] == p.JOB)
    read = p.read_job(p.Reader(job[5:]))
    assert read["kind"] == "receive" and read["paths"] == [b"/data"] and read["options"]["recursive"]
    assert read["options"]["rate_limit"] == 125_000_000 and read["options"]["ports"] == (50_000, 50_010)
    assert blake3.digest(b"").hex().startswith("af1349b9f5f9a1a6")


if __name__ == "__main__":
    main()
