//! The race of a copy to several hosts with one to a single host. Each host is a network namespace of its own, whose port at the
//! switch carries as much in each direction, 1 Gbit/s unless the user wants another rate.

use anyhow::{Context, ensure};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::Spread;
use super::bed::make_mix;
use crate::call;

/// The case's name on the command line.
pub const NAME: &str = "fan-out";
const HOSTS: usize = 4;
/// The usual rate of a link. Fewer bits a second need less of the processors, which all hosts share.
pub const RATE: &str = "1gbit";

/// The source, the destinations and the switch; all goes when this is dropped.
struct FanBed {
    program: PathBuf,
    /// Before the names of namespaces.
    prefix: String,
    scratch: tempfile::TempDir,
    /// Of each link, as tc writes it.
    rate: String,
    /// Bytes of the source's files.
    size: u64,
}

/// What one copy came to.
#[derive(Clone, Copy)]
struct FanTime {
    seconds: f64,
    /// Bytes that have left the source's port, for each of the source's files.
    sent: f64,
}

/// Copies to one host, and to several as a chain and as a star, in blocks.
pub fn run(program: &Path, blocks: usize, rate: &str) -> anyhow::Result<()> {
    println!("{NAME}: 0.4 GB in 250 files to {HOSTS} hosts, each with a link of {rate}");
    let bed = FanBed::up(program, rate)?;
    let copies = [("one", 1), ("chain", HOSTS), ("star", HOSTS)];
    // The program is at all hosts then.
    bed.copy("star", HOSTS)?;
    let mut times = vec![Vec::new(); copies.len()];
    for _ in 0..blocks {
        let mut order: Vec<_> = (0..copies.len()).collect();
        fastrand::shuffle(&mut order);
        for at in order {
            let (shape, hosts) = copies[at];
            times[at].push(bed.copy(shape, hosts)?);
        }
    }
    for ((shape, _), taken) in copies.iter().zip(&times) {
        let seconds = Spread::of(taken.iter().map(|time| time.seconds));
        let sent = Spread::of(taken.iter().map(|time| time.sent));
        let ratio = taken.iter().zip(&times[0]).map(|(time, one)| time.seconds / one.seconds);
        println!(
            "  {shape:6} {seconds:.2} s, / one {:.3}; left the source / tree {sent:.3}",
            Spread::of(ratio)
        );
    }
    Ok(())
}

impl FanBed {
    fn up(program: &Path, rate: &str) -> anyhow::Result<Self> {
        let scratch = tempfile::Builder::new().prefix("linerate-fan-").tempdir_in("/dev/shm")?;
        let prefix = format!("lrfan{}", std::process::id());
        let mut bed = Self { program: program.to_owned(), prefix, scratch, rate: rate.to_owned(), size: 0 };
        make_mix(&bed.source(), 2, &mut fastrand::Rng::with_seed(7))?;
        bed.size = size_of_tree(&bed.source())?;
        bed.write_shell()?;
        let switch = bed.name("sw");
        ip(&["netns", "add", &switch])?;
        ip(&["-n", &switch, "link", "add", "br0", "type", "bridge"])?;
        ip(&["-n", &switch, "link", "set", "br0", "up"])?;
        (0..=HOSTS).try_for_each(|host| bed.add(host, &switch))?;
        Ok(bed)
    }

    /// Host 0 is the source.
    fn add(&self, host: usize, switch: &str) -> anyhow::Result<()> {
        let (name, port) = (self.name(&host.to_string()), format!("p{host}"));
        ip(&["netns", "add", &name])?;
        ip(&["-n", &name, "link", "set", "lo", "up"])?;
        ip(&["link", "add", "eth0", "netns", &name, "type", "veth", "peer", "name", &port, "netns", switch])?;
        ip(&["-n", &name, "addr", "add", &format!("{}/24", address(host)), "dev", "eth0"])?;
        ip(&["-n", &name, "link", "set", "eth0", "up"])?;
        ip(&["-n", switch, "link", "set", &port, "master", "br0", "up"])?;
        self.shape(&name, "eth0")?;
        self.shape(switch, &port)
    }

    fn shape(&self, namespace: &str, port: &str) -> anyhow::Result<()> {
        let words = ["qdisc", "add", "dev", port, "root", "tbf", "burst", "256kb", "latency", "50ms", "rate"];
        call(Command::new("tc").args(["-n", namespace]).args(words).arg(&self.rate))
    }

    /// In place of ssh, which would need a server in each namespace: the control messages take no way over the links.
    fn write_shell(&self) -> anyhow::Result<()> {
        let home = self.scratch.path().display();
        let text = format!(
            "#!/bin/sh\nhost=$1; shift\nmkdir -p {home}/home$host; export HOME={home}/home$host\n\
             unset XDG_CACHE_HOME XDG_STATE_HOME\n\
             export SSH_CONNECTION=\"{} 40000 10.77.0.$((host + 1)) 22\"\n\
             exec ip netns exec {}$host sh -c \"$*\"\n",
            address(0),
            self.prefix
        );
        fs::write(self.shell(), text)?;
        Ok(fs::set_permissions(self.shell(), Permissions::from_mode(0o755))?)
    }

    fn copy(&self, shape: &str, hosts: usize) -> anyhow::Result<FanTime> {
        let to = |host: usize| self.scratch.path().join(format!("to{host}"));
        for host in 1..=HOSTS {
            // It may not be there.
            let _ = fs::remove_dir_all(to(host));
        }
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name("0")]).arg(&self.program).args(["cp", "-q", "-r", "--rsh"]);
        command.arg(self.shell()).arg(self.source());
        if hosts > 1 {
            command.args(["--fan-out", shape]);
        }
        (1..=hosts).for_each(|host| {
            command.arg("--to").arg(format!("{host}:{}", to(host).display()));
        });
        command.env("HOME", self.scratch.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let (before, begun) = (self.sent()?, Instant::now());
        let output = command.output().context("starting the copy")?;
        let seconds = begun.elapsed().as_secs_f64();
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{shape}: {}: {said}", output.status);
        let sent = (self.sent()? - before) as f64 / self.size as f64;
        for host in 1..=hosts {
            call(Command::new("diff").arg("-r").args([self.source(), to(host)]))?;
        }
        Ok(FanTime { seconds, sent })
    }

    fn sent(&self) -> anyhow::Result<u64> {
        let counter = "/sys/class/net/eth0/statistics/tx_bytes";
        let output = Command::new("ip").args(["netns", "exec", &self.name("0"), "cat", counter]).output()?;
        Ok(String::from_utf8(output.stdout)?.trim().parse()?)
    }

    fn name(&self, end: &str) -> String {
        format!("{}{end}", self.prefix)
    }

    fn source(&self) -> PathBuf {
        self.scratch.path().join("tree")
    }

    fn shell(&self) -> PathBuf {
        self.scratch.path().join("shell")
    }
}

impl Drop for FanBed {
    fn drop(&mut self) {
        for end in (0..=HOSTS).map(|host| host.to_string()).chain(["sw".to_owned()]) {
            // It may not have been made.
            let _ =
                Command::new("ip").args(["netns", "del", &self.name(&end)]).stderr(Stdio::null()).status();
        }
    }
}

fn address(host: usize) -> String {
    format!("10.77.0.{}", host + 1)
}

fn ip(words: &[&str]) -> anyhow::Result<()> {
    call(Command::new("ip").args(words))
}

fn size_of_tree(top: &Path) -> anyhow::Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(top)? {
        let entry = entry?;
        let found = entry.metadata()?;
        size += if found.is_dir() { size_of_tree(&entry.path())? } else { found.len() };
    }
    Ok(size)
}
