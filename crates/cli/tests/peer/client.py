"""One run of the program: started, watched, interrupted where it goes on too long."""

import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import time

LOOK = 0.05
# Where the peer is compiled to, once for all runs, and not into the repository.
COMPILED = tempfile.TemporaryDirectory(prefix="linerate-peer-compiled-")
PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer.py")


@dataclasses.dataclass
class Outcome:
    """How a run ended. `code` is negative for a signal; `hung` says that it had to be killed."""

    code: int
    seconds: float
    said: bytes
    interrupted: bool = False
    hung: bool = False
    memory: int = 0
    descriptors: int = 0
    threads: int = 0


class Client:
    """A program on a ground."""

    def __init__(self, program, ground, words):
        shell = f"{sys.executable} -S -E -X pycache_prefix={COMPILED.name} {PEER} --ground {ground.top} --program {program}"
        self.words = [program, words[0], "--rsh", shell, "--no-install", *words[1:]]
        self.ground = ground
        self.environment = {"HOME": ground.path("home"), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm"}
        self.peak = {"memory": 0, "descriptors": 0, "threads": 0}

    def run(self, patience, interrupt_after=None):
        """Runs to the end; SIGINT after so many seconds where that is given, and death `patience` seconds later."""
        begun = time.monotonic()
        with open(self.ground.path("log/said"), "wb") as said:
            process = subprocess.Popen(self.words, cwd=self.ground.path("in"), env=self.environment, stdout=said,
                                       stderr=said, stdin=subprocess.DEVNULL, start_new_session=True)
        interrupted = interrupt_after is not None and not self.ends(process, interrupt_after)
        if interrupted:
            process.send_signal(signal.SIGINT)
        hung = not self.ends(process, patience)
        end_all(process)
        with open(self.ground.path("log/said"), "rb") as said:
            text = said.read()
        return Outcome(process.returncode, time.monotonic() - begun, text, interrupted, hung, **self.peak)

    def ends(self, process, seconds):
        """Whether the process ends within so many seconds; looks at what it takes meanwhile."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look(process.pid)
            try:
                process.wait(timeout=LOOK)
                return True
            except subprocess.TimeoutExpired:
                pass
        return False

    def look(self, pid):
        try:
            with open(f"/proc/{pid}/status", encoding="utf-8") as status:
                known = dict(line.split(":", 1) for line in status)
            descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        except (OSError, ValueError):
            return
        # The peak before the program itself runs is this process's own.
        if known["Name"].strip().startswith("linerate"):
            self.note("memory", int(known.get("VmHWM", "0").split()[0]))
            self.note("threads", int(known["Threads"]))
            self.note("descriptors", descriptors)

    def note(self, what, value):
        self.peak[what] = max(self.peak[what], value)


def end_all(process):
    """Ends what is left of a run: its process, and the peer that it started, which are a session of their own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
