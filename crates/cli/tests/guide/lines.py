"""The lines of the guide that can't be run as they are: those that another test runs, and those that are shortened."""

import pathlib

# The results of a study that this repository has.
RESULTS = str(pathlib.Path(__file__).parents[4] / "docs/papers/vmmark-netqueue")

# The lines of each reason: a command of a name only, a test that holds more, or a thing that a lab doesn't have.
BY_REASON = {
    "a name of a command, not a line": ["linerate stream", "linerate doctor"],
    "a study of your own": [
        "linerate bench FILE",
        "linerate bench report results/DIR",
        "linerate bench --resume DIR",
        "linerate compare results/A results/B",
        "linerate compare --fail-on 5% results/old results/new",
        "linerate bench mine.toml --tools mytools --check",
        "linerate bench mine.toml --tools mytools --dry-run",
        "linerate bench mine.toml --tools mytools",
        "linerate bench --resume results/quick-2026-05-01T10-00-00Z",
    ],
    "a study, which .ci/run runs": [
        "linerate bench rrul",
        "linerate bench rrul --hosts a=local,b=ssh:HOST",
        "cargo run --release -- bench --install",
        "linerate bench --tree /srv/www",
        "linerate bench http --hosts a=ssh:web1,b=ssh:web2",
        "linerate bench vms",
        "linerate bench --quick",
        "sudo linerate bench --install",
        "sudo linerate bench --quick",
        "sudo linerate bench http --quick",
        "sudo linerate bench rrul --quick",
        "sudo linerate bench --tree /srv/www",
        "linerate bench --hosts a=local,b=ssh:user@host",
        "linerate bench --hosts a=ssh:user@one,b=ssh:two --address-b 10.0.0.2",
        "sudo linerate bench gate",
    ],
    "the tests themselves, or a check that builds": [
        "cargo xtask test",
        "cargo xtask release --out packages",
        "cargo xtask dist --for aarch64",
        "cargo xtask release --out packages --program aarch64=dist/linerate-aarch64 --agent aarch64=dist/linerate-agent-aarch64",
        "cargo install linerate",
        "RUSTFLAGS=-Ctarget-feature=+crt-static cargo install linerate --target x86_64-unknown-linux-gnu",
        "cargo xtask limits --tries 5",
        "cargo xtask aa",
        "cargo run --release -p linerate-host --example sampling_cost -- 20",
    ],
    "a package, which xtask/tests/packages installs": [
        "sudo apt install ./packages/linerate_0.1.0_amd64.deb",
        "sudo dnf install ./packages/linerate-0.1.0-1.x86_64.rpm",
        "sudo apt install ./linerate_0.1.0_amd64.deb",
        "sudo dnf install ./linerate-0.1.0-1.x86_64.rpm",
        "sudo apt install ./linerate-agents_0.1.0_all.deb",
        "sudo tar --zstd -C /usr/local --strip-components=1 -xf linerate-0.1.0-x86_64.tar.zst",
        "ssh-keygen -Y verify -f allowed_signers -I releases@linerate -n linerate-release -s SHA256SUMS.sig < SHA256SUMS",
    ],
    "a login for one directory, which e2e::restricted uses": [
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
    "systemd, under which e2e::units runs them": [
        "sudo cp /usr/share/doc/linerate/examples/systemd/linerate-sync@.* /etc/systemd/system/",
        "sudo install -d /etc/linerate/sync",
        "sudoedit /etc/linerate/sync/nightly.env",
        "sudo systemctl enable --now linerate-sync@nightly.timer",
        "journalctl -u linerate-sync@nightly",
        "journalctl -u linerate-sync@nightly -p warning",
        "journalctl LINERATE_EVENT=end -o cat --output-fields=LINERATE_DESTINATION,LINERATE_EXIT_CODE,LINERATE_BYTES,LINERATE_RATE",
        "journalctl LINERATE_EVENT=problem -o json | jq -r .LINERATE_PATH",
    ],
    "a job of another run, which e2e::between::detached has": ["linerate attach --cancel hostB:3f9c01d2"],
    "a guest of the lab in the line before it": ["ssh -F $LINERATE_LAB_SSH_CONFIG g0 'uname -a; rsync --version'"],
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
    (r"results/quick-\S+|(?<= )baseline(?= )", RESULTS),
]
