"""A journal of the test's own, in a mount namespace whose /run is empty: takes the datagrams that a command sends by the
native protocol (https://systemd.io/JOURNAL_NATIVE_PROTOCOL/), and prints each as a line of JSON: a list of names and values.
The last line is what the command printed on standard error, and its exit code.

  peer.py with|without|deaf COMMAND...

with: JOURNAL_STREAM is that of standard error; without: it is that of another file; deaf: nobody is at the socket.
"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading


def parse(datagram):
    """The fields of an entry; fails for bytes that are none."""
    fields, at = [], 0
    while at < len(datagram):
        end = datagram.index(b"\n", at)
        name, equals, value = datagram[at:end].partition(b"=")
        at = end + 1
        if not equals:
            length = int.from_bytes(datagram[at : at + 8], "little")
            value = datagram[at + 8 : at + 8 + length]
            at += 8 + length
            assert datagram[at : at + 1] == b"\n", "a value has no end"
            at += 1
        fields.append([name.decode(), value.decode()])
    return fields


def main():
    mode, command = sys.argv[1], sys.argv[2:]
    os.makedirs("/run/systemd/journal")
    taker = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    if mode != "deaf":
        taker.bind("/run/systemd/journal/socket")
    taken = []

    def take():
        while (datagram := taker.recv(1 << 20)) != b"end":
            taken.append(datagram)

    taking = threading.Thread(target=take, daemon=True)
    taking.start()
    with tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as other:
        stream = os.fstat((other if mode == "without" else err).fileno())
        environment = os.environ | {"JOURNAL_STREAM": f"{stream.st_dev}:{stream.st_ino}"}
        code = subprocess.run(command, stderr=err, env=environment, stdout=subprocess.DEVNULL).returncode
        if mode != "deaf":
            taker_end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            taker_end.sendto(b"end", "/run/systemd/journal/socket")
            taking.join()
        err.seek(0)
        for datagram in taken:
            print(json.dumps(parse(datagram)))
        print(json.dumps({"err": err.read().decode(), "code": code}))


main()
