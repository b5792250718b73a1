"""The lines of the guide that can't be run as they are: those that another test runs, and those that are changed."""

from place import RESULTS, ROOT

# The lines of each reason: a command's name only, a test that runs the line, or a thing that a lab doesn't have.
BY_REASON = {
    "a name of a command, not a line": ["linerate stream"],
    "a study that was interrupted, as crates/cli/tests/bench.rs kills and resumes one": [
        "linerate bench --resume DIR",
        "linerate bench --resume results/quick-2026-05-01T10-00-00Z",
    ],
    "the main job of .ci/run": ["cargo run --release -- bench --install"],
    "a check of .ci/run": ["cargo xtask test", "cargo xtask release --out packages"],
    "a build of the whole program, or a check that takes longer than .ci/run may": [
        "cargo xtask dist --for aarch64",
        "cargo xtask release --out packages --program aarch64=dist/linerate-aarch64 --agent aarch64=dist/linerate-agent-aarch64",
        "cargo install linerate",
        "RUSTFLAGS=-Ctarget-feature=+crt-static cargo install linerate --target x86_64-unknown-linux-gnu",
        "cargo xtask limits --tries 5",
        "cargo xtask aa",
        "cargo run --release -p linerate-host --example sampling_cost -- 20",
    ],
    "a package, which xtask/tests/packages makes, verifies and installs, by dpkg, rpm and tar": [
        "sudo apt install ./packages/linerate_0.1.0_amd64.deb",
        "sudo dnf install ./packages/linerate-0.1.0-1.x86_64.rpm",
        "sudo apt install ./linerate_0.1.0_amd64.deb",
        "sudo dnf install ./linerate-0.1.0-1.x86_64.rpm",
        "sudo apt install ./linerate-agents_0.1.0_all.deb",
        "sudo tar --zstd -C /usr/local --strip-components=1 -xf linerate-0.1.0-x86_64.tar.zst",
        "ssh-keygen -Y verify -f allowed_signers -I releases@linerate -n linerate-release -s SHA256SUMS.sig < SHA256SUMS",
    ],
    "a login for one directory, with which e2e::restricted runs the page's lines": [
        "install -d -o backup -m 700 /srv/backup /srv/backup/web1",
        "linerate sync /etc backup@vault:web1/etc",
        "linerate sync /etc backup@vault:/web1/etc",
        "linerate sync /etc backup@vault:~/web1/etc",
        "linerate cp -r /etc/hostname backup@vault:trial/",
        "linerate cp backup@vault:trial/hostname .",
        "linerate cp /etc/hostname backup@vault:../x",
    ],
    "changes of a host, which the tests of treatments make in labs": [
        "sudo linerate doctor --apply",
        "sudo linerate doctor --confirm x7k2mq",
        "sudo linerate doctor --persist x7k2mq",
        "sudo linerate doctor --undo x7k2mq",
        "linerate doctor --apply root@web1",
        "sudo linerate doctor --apply --path local root@web1",
    ],
    "a job of another run, which e2e::between::detached has": ["linerate attach --cancel hostB:3f9c01d2"],
    "a guest of the lab in the line before it, which has ended": ["ssh -F $LINERATE_LAB_SSH_CONFIG g0 'uname -a; rsync --version'"],
    "a cluster of Kubernetes": [
        "kubectl create secret generic linerate-ssh --from-file $HOME/.ssh",
        "kubectl apply -f job.json",
    ],
    "it waits for a client; without --once it serves the other lines": ["linerate serve rr --listen 0.0.0.0:5300 --once"],
}

LEFT_OUT = {line for lines in BY_REASON.values() for line in lines}

# Lines whose exit code may say something else than 0 here.
EXPECTED = {
    "linerate verify -a tree host:/data/copy": [3],
    # Whatever the machine is that runs this.
    "linerate doctor --fail-on major --json": [0, 6],
}

# Shorter, with this lab's programs in the place of others', or with the login that there is.
REPLACED = [
    (r"^sudo ", ""),
    # A study is only planned, except for a small one between the lab's hosts; .ci/run runs every built-in one.
    (r"^linerate bench FILE$", f"linerate bench {ROOT}/studies/quick.toml"),
    (r"^linerate bench (--hosts a=local,b=ssh:user@host)$", r"linerate bench small.toml --tools mytools \1 --rsh SSH --quick"),
    (r"^linerate bench (?!list|report|small|.*--check\b).*", r"\g<0> --dry-run"),
    (r"--dry-run --dry-run", "--dry-run"),
    (r"\b(user|me|root)@", ""),
    # The partition of the lab's first site.
    (r"--partition dtn\b", "--partition site1"),
    (r"--seconds (10|240)\b", "--seconds 1"),
    (r"--ramp 10\b", "--ramp 0.1"),
    (r"--bytes 10G(iB|B)", "--bytes 50MB"),
    (r"^(linerate load (?!.*(--seconds|--rate 100|--bytes)).*)", r"\1 --seconds 1"),
    (r"-- iperf3 -c HOST", "-- sleep 0.3"),
    (r"-- scp ", "-- scp -q -S ssh "),
    (r"-- bash$", "-- true"),
    (r"\beth2(,eth\d)*", "to-b"),
    (r"http://HOST/file", "http://HOST:8080/object"),
    (r"results/(quick-\S+|A|B|old|new)(?= |$)|(?<= )baseline(?= )", str(RESULTS)),
]
