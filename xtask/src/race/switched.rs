//! Hosts at one switch. Each host is a network namespace. Its port at the switch carries the same rate in each
//! direction.

use anyhow::Context;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::call;

/// The hosts, the switch, and a directory that all hosts can read; all are removed on drop.
pub struct SwitchedBed {
    program: PathBuf,
    /// The first part of the namespaces' names.
    prefix: String,
    scratch: tempfile::TempDir,
    hosts: usize,
}

impl SwitchedBed {
    /// Makes the hosts and the switch. `rate` is the rate of each link, in the notation of tc(8). `name` distinguishes
    /// the namespaces from those of other beds.
    pub fn up(program: &Path, name: &str, hosts: usize, rate: &str) -> anyhow::Result<Self> {
        let scratch = tempfile::Builder::new().prefix(&format!("linerate-{name}-")).tempdir_in("/dev/shm")?;
        let prefix = format!("lr{name}{}", std::process::id());
        let bed = Self { program: program.to_owned(), prefix, scratch, hosts };
        bed.write_shell()?;
        let switch = bed.name("sw");
        ip(&["netns", "add", &switch])?;
        ip(&["-n", &switch, "link", "add", "br0", "type", "bridge"])?;
        ip(&["-n", &switch, "link", "set", "br0", "up"])?;
        (0..hosts).try_for_each(|host| bed.add(host, &switch, rate))?;
        Ok(bed)
    }

    fn add(&self, host: usize, switch: &str, rate: &str) -> anyhow::Result<()> {
        let (name, port) = (self.name(&host.to_string()), format!("p{host}"));
        ip(&["netns", "add", &name])?;
        ip(&["-n", &name, "link", "set", "lo", "up"])?;
        ip(&["link", "add", "eth0", "netns", &name, "type", "veth", "peer", "name", &port, "netns", switch])?;
        ip(&["-n", &name, "addr", "add", &format!("{}/24", address(host)), "dev", "eth0"])?;
        ip(&["-n", &name, "link", "set", "eth0", "up"])?;
        ip(&["-n", switch, "link", "set", &port, "master", "br0", "up"])?;
        shape(&name, "eth0", rate)?;
        shape(switch, &port, rate)
    }

    /// Writes a script that replaces ssh, which would need a server in each namespace. Control messages don't
    /// use the links.
    fn write_shell(&self) -> anyhow::Result<()> {
        let home = self.scratch.path().display();
        let text = format!(
            "#!/bin/sh\nhost=$1; shift\nmkdir -p {home}/home$host; export HOME={home}/home$host\n\
             unset XDG_CACHE_HOME XDG_STATE_HOME\n\
             export SSH_CONNECTION=\"$RACE_HOST 40000 10.77.0.$((host + 1)) 22\"\n\
             exec ip netns exec {}$host sh -c \"$*\"\n",
            self.prefix
        );
        fs::write(self.shell(), text)?;
        Ok(fs::set_permissions(self.shell(), Permissions::from_mode(0o755))?)
    }

    /// The command that runs the program on a host, without arguments.
    pub fn command(&self, host: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(&host.to_string())]).arg(&self.program);
        command.env("HOME", self.path("near")).env("RACE_HOST", address(host));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// The path of the script that replaces ssh and interprets a host's number as its name.
    pub fn shell(&self) -> PathBuf {
        self.path("shell")
    }

    /// A path that all hosts can access.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// The number of bytes that a host has sent.
    pub fn sent(&self, host: usize) -> anyhow::Result<u64> {
        let counter = "/sys/class/net/eth0/statistics/tx_bytes";
        let words = ["netns", "exec", &self.name(&host.to_string()), "cat", counter];
        let output = Command::new("ip").args(words).output().context("starting ip")?;
        Ok(String::from_utf8(output.stdout)?.trim().parse()?)
    }

    fn name(&self, end: &str) -> String {
        format!("{}{end}", self.prefix)
    }
}

impl Drop for SwitchedBed {
    fn drop(&mut self) {
        for end in (0..self.hosts).map(|host| host.to_string()).chain(["sw".to_owned()]) {
            // The namespace may not have been created.
            let _ =
                Command::new("ip").args(["netns", "del", &self.name(&end)]).stderr(Stdio::null()).status();
        }
    }
}

fn shape(namespace: &str, port: &str, rate: &str) -> anyhow::Result<()> {
    let words =
        ["qdisc", "add", "dev", port, "root", "tbf", "burst", "256kb", "latency", "50ms", "rate", rate];
    call(Command::new("tc").args(["-n", namespace]).args(words))
}

fn address(host: usize) -> String {
    format!("10.77.0.{}", host + 1)
}

fn ip(words: &[&str]) -> anyhow::Result<()> {
    call(Command::new("ip").args(words))
}
