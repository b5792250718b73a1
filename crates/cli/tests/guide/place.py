"""The place in which the guide's lines are run: directories, hosts, servers."""

import os
import pathlib
import re
import shutil
import subprocess
import time

import service

ROOT = pathlib.Path(__file__).parents[4]
# The results of a study that this repository has.
RESULTS = ROOT / "docs/papers/vmmark-netqueue"

# The hosts of the pages. Each is host b of the lab; on two sites dtn2 and dtn3 are the second site's next ones.
HOSTS = "host HOST hostA hostB h1 h2 h3 web1 web2 one two inner gate gate.example.org dtn1 dtn2 dtn3 backup"

# A line's longest time: a guest of the lab boots within it on a slow machine.
SECONDS = 120


class Place:
    def __init__(self, program):
        self.directory = pathlib.Path(os.environ["LINERATE_LAB_DIR"])
        self.work = self.directory / "work"
        self.servers = {}
        programs = self.directory / "programs"
        programs.mkdir()
        configuration = pathlib.Path(os.environ["LINERATE_LAB_SSH_CONFIG"]).read_text()
        configuration = re.sub(r"(?m)^Host s2h([23])$", r"Host s2h\1 dtn\1", configuration)
        (self.directory / "ssh_config").write_text(
            re.sub(r"(?m)^Host b\b.*$", f"Host b {HOSTS}", configuration).replace("Port 22\n", "")
        )
        for name in ("ssh", "my-ssh"):
            ssh = programs / name
            ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.directory}/ssh_config "$@"\n')
            ssh.chmod(0o755)
        (programs / "linerate").symlink_to(program)
        service.install(self)
        path = f"{programs}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "LINERATE_NO_CONFIG": "1", "HOME": str(self.directory / "home")}
        self.at_b = ["ip", "netns", "exec", os.environ["LINERATE_LAB_NETNS_B"]]
        self.second_sshd(self.directory)
        subprocess.run(["linerate", "facts", "--snapshot", self.directory / "web1.txt"], env=self.environment, check=True)

    def second_sshd(self, directory):
        """The pages' other port of a host."""
        lab = pathlib.Path(os.environ["LINERATE_LAB_SSH_CONFIG"]).parent / "sshd_config"
        other = directory / "sshd_config"
        other.write_text(re.sub(r"(?m)^(Port|PidFile)\b.*\n|(?<=\d):22$", "", lab.read_text()))
        sshd = [shutil.which("sshd", path="/usr/sbin:/usr/bin"), "-p", "2222", "-o", f"PidFile={directory}/sshd.pid", "-f", other]
        subprocess.run([*self.at_b, *sshd], check=True)

    def fill(self):
        """Makes the directories of the pages as they are before each block of lines."""
        directory, work = self.directory, self.work
        self.end_jobs()
        for name in ("data", "d", "mnt", "srv", "etc", "lustre", "scratch", "share", "home", "var", "work"):
            shutil.rmtree(directory / name, ignore_errors=True)
        for name in ("data/copy", "d/tree", "mnt/copy", "mnt/backup", "srv/tree", "srv/data", "srv/www", "lustre/data",
                     "scratch", "home/bin", "home/.ssh", "share",
                     "var/lib/prometheus/node-exporter", "var/log", "etc/systemd/system", "work/tree/sub", "work/logs", "work/DIR"):
            (directory / name).mkdir(parents=True)
        for name in ("a", "b", "big", "tree/file", "tree/sub/file", "logs/1.gz", "logs/today", "DIR/file"):
            (work / name).write_text("contents\n" * 10_000)
        for name in ("d/tree/file", "srv/tree/file", "srv/www/file", "lustre/data/file"):
            (directory / name).write_text("contents\n")
        shutil.copytree(work / "tree", directory / "data/tree")
        shutil.copy(work / "big", directory / "data/big")
        shutil.copy(directory / "web1.txt", work / "web1.txt")
        (work / "hosts.txt").write_text(f"h1:{directory}/data/\n")
        self.write_study()
        # A list of files, and a file to send.
        (work / "FILE").write_text("a\nb\n")
        shutil.copy(self.directory / "programs/my-ssh", work / "my-ssh")
        shutil.copy(self.directory / "ssh_config", work / "other.conf")

    def write_study(self):
        """The page's study and tool, and results, as its lines name them."""
        page = (ROOT / "docs/guide/bench.md").read_text()
        for name, text in re.findall(r"(?ms)^```toml\n# (\S+)\n(.*?)^```", page):
            (self.work / name).parent.mkdir(exist_ok=True)
            (self.work / name).write_text(text)
        mine = (self.work / "mine.toml").read_text()
        (self.work / "small.toml").write_text(mine.replace('"1 GB"', '"2 MB"').replace('"1.6 MB"', '"1 MB"'))
        shutil.copytree(RESULTS, self.work / "results/DIR")

    def end_jobs(self):
        """Ends what the lab's cluster still does with the directories, if there is one."""
        if "SLURM_CONF" not in os.environ:
            return
        subprocess.run(["scancel", "--user", str(os.getuid())], check=True)
        while subprocess.run(["squeue", "--noheader"], check=True, stdout=subprocess.PIPE).stdout:
            time.sleep(0.1)

    def of_here(self, line):
        """The line with this place's names for the pages'."""
        address = os.environ["LINERATE_LAB_ADDRESS_B"]
        line = re.sub(r"HOST:(?=\d)", f"{address}:", line)
        line = re.sub(r"(?<![\w.])/(data|d|mnt|srv|lustre|scratch)\b", rf"{self.directory}/\1", line)
        line = line.replace("/usr/local/share", f"{self.directory}/share").replace("/var/lib/", f"{self.directory}/var/lib/")
        # Paths that are relative at the far end are below the home directory of whoever logs in.
        line = re.sub(r"\b(host|hostA|hostB|h2|HOST|inner):(?=\s|$|b\b|tree\b|big\b)", rf"\1:{self.directory}/data/", line)
        line = line.replace("scp://host/logs", f"scp://host/{self.work}/logs")
        line = line.replace("/usr/share/doc/linerate/examples", f"{ROOT}/contrib")
        line = re.sub(r"(?<![\w.])/etc/(linerate|systemd)/", rf"{self.directory}/etc/\1/", line)
        line = line.replace(" SSH ", f" 'ssh -F {self.directory}/ssh_config' ")
        return re.sub(r"\b(host|h1|HOST):(logs|a\b)", rf"\1:{self.work}/\2", line)

    def serve(self, line):
        """Starts a server at host b; true once it says that it listens."""
        port = re.search(r"--listen \S+:(\d+)", line)[1]
        self.end_server(port)
        server = subprocess.Popen(
            [*self.at_b, *line.split(), "--idle-timeout", "300"], env=self.environment, stdout=subprocess.PIPE
        )
        self.servers[port] = server
        listens = server.stdout.readline() != b""
        print(f"{'ok    ' if listens else 'FAILED'} {line}")
        return listens

    def end_server(self, port):
        server = self.servers.pop(port, None)
        if server:
            server.terminate()
            server.wait()

    def end_servers(self):
        for port in list(self.servers):
            self.end_server(port)

    def run(self, line, further={}):
        """The exit code of a line, and all that it printed; with further variables in its environment."""
        try:
            run = subprocess.run(
                ["bash", "-c", line], cwd=self.work, env={**self.environment, **further}, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=SECONDS,
            )
            return run.returncode, run.stdout
        except subprocess.TimeoutExpired:
            return f"no end within {SECONDS} s", ""
