"""A relay between a host of a chain or tree and the next one, which passes on what it likes. It can't read or change the data."""

import os
import socket
import threading
import time

import protocol as p


# How long its connections stay open.
SECONDS = 120


class Middle:
    """Stands at the addresses of the next host, as a process of its own, which outlives the session.

    After `withhold` it takes the data for that host and drops it.
    """

    def __init__(self):
        self.withholds = threading.Event()
        self.told, self.tell = os.pipe()

    def withhold(self):
        os.write(self.tell, b"x")

    def orders(self, kind, body):
        """What the agent is told: that the next host is here."""
        if kind != p.NEXT:
            return body
        reader = p.Reader(body)
        hosts = reader.vector(lambda: p.read_chain_next(reader))
        servers = [socket.create_server(("127.0.0.1", 0)) for _ in hosts]
        self.start(list(zip(servers, (candidates for *_, candidates, _ in hosts))))
        ports = [p.address(server.getsockname()[1]) for server in servers]
        return p.vector([p.chain_next(place, key, cookie, [port], behind)
                         for (place, key, cookie, _, behind), port in zip(hosts, ports)])

    def start(self, places):
        if os.fork():
            return
        # The client waits for the end of what the session says.
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nowhere, number)
        for place in places:
            threading.Thread(target=self.serve, args=place, daemon=True).start()
        os.read(self.told, 1)
        self.withholds.set()
        time.sleep(SECONDS)
        os._exit(0)

    def serve(self, server, candidates):
        while True:
            near, _ = server.accept()
            far = reach(candidates)
            threading.Thread(target=self.pass_on, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self.pass_on, args=(far, near, False), daemon=True).start()

    def pass_on(self, source, target, is_data):
        while True:
            try:
                data = source.recv(1 << 16)
                if is_data and self.withholds.is_set():
                    if not data:
                        return  # The connection to the next host stays open.
                    continue
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(data)
            except OSError:
                return


def reach(candidates):
    """A connection to one of these addresses."""
    for host, port in candidates:
        try:
            return socket.create_connection((host, port), 5)
        except OSError:
            pass
    raise OSError("none of the next host's addresses can be reached")
