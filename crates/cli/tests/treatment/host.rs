//! A network namespace that simulates a host with faults.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use linerate_testing::{has_all, is_root, skip};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::PROGRAM;
use super::support::{self, Running, processes_with, send};

/// A simulated host with one port and several faults.
pub struct Ill {
    pub name: String,
    pub directory: TempDir,
}

impl Ill {
    /// Makes the host; if that is impossible, prints the reason and returns `None`.
    pub fn host() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if !is_root("namespaces") {
            return None;
        }
        if !has_all(&["ip", "sysctl", "ethtool", "tc"]) {
            skip("iproute2", "ip, sysctl, ethtool or tc is missing");
            return None;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("ltreat-{}-{number}", std::process::id());
        assert!(Command::new("ip").args(["netns", "add", &name]).status().unwrap().success());
        let host = Self { name, directory: support::directory("linerate-treat-") };
        host.sh(
            "ip link add v0 numrxqueues 2 numtxqueues 2 type veth peer name v1 numrxqueues 2 numtxqueues 2
                 ip link set v0 up; ip link set v1 up; ip link set lo up
                 ethtool -K v0 tx-tcp-segmentation off >/dev/null
                 sysctl -qw net.ipv4.tcp_rmem='4096 131072 262144' net.ipv4.tcp_wmem='4096 16384 262144'
                 sysctl -qw net.ipv4.tcp_sack=0 net.ipv4.tcp_moderate_rcvbuf=0 net.ipv4.tcp_window_scaling=0",
        );
        Some(host)
    }

    pub fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// A command that runs inside the namespace.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]).env("LINERATE_TEST_MARK", &self.name);
        command.env_remove("SSH_CONNECTION");
        command
    }

    pub fn sh(&self, script: &str) -> String {
        let output = self.command("sh").args(["-ec", script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn doctor(&self, words: &[&str]) -> Running {
        self.doctor_from(None, words)
    }

    /// Runs the doctor as from a login by ssh.
    pub fn doctor_from(&self, connection: Option<&str>, words: &[&str]) -> Running {
        let mut command = self.command(PROGRAM);
        command.arg("doctor").args(words).arg("--state").arg(self.state());
        if let Some(connection) = connection {
            command.env("SSH_CONNECTION", connection);
        }
        Running::start(command)
    }

    pub fn json(&self, words: &[&str]) -> Value {
        let run = self.doctor(&[words, &["--json"]].concat()).end();
        serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run}"))
    }

    /// Applies all useful changes, and returns the identifier of the treatment.
    pub fn apply(&self, words: &[&str]) -> String {
        let reported = self.json(&[&["--apply", "--yes"], words].concat());
        reported["id"].as_str().unwrap_or_else(|| panic!("{reported}")).to_owned()
    }

    /// All settings that a treatment could change here, and many others.
    pub fn settings(&self) -> BTreeMap<String, String> {
        let text = self.sh("grep -rs '' /proc/sys/net /sys/class/net/v0/mtu /sys/class/net/v1/mtu || true
             grep -s '' /sys/class/net/v[01]/queues/*/[rx]ps_cpus || true
             for p in v0 v1; do
                 ethtool -k $p | sed \"s/^/$p feature /\"
                 ethtool -l $p | sed -n \"/Current/,\\$s/^/$p channels /p\"
                 echo \"$p qdiscs:$(tc qdisc show dev $p | tr '\\n' ' ')\"
             done");
        // What the kernel makes anew at each reading is no setting.
        let lines = text.lines().filter(|line| !line.contains("/neigh/") && !line.contains("/stable_secret"));
        let mut settings: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let all = settings.entry(name.into()).or_default();
            *all = format!("{all} {}", value.trim());
        }
        settings
    }

    pub fn differing(&self, before: &BTreeMap<String, String>) -> Vec<String> {
        let now = self.settings();
        assert!(now.len() > 200 && now.len() == before.len(), "{} and {} settings", now.len(), before.len());
        let changed = before.iter().filter(|(name, value)| now.get(*name) != Some(*value));
        changed.map(|(name, value)| format!("{name}: {value} -> {:?}", now.get(name))).collect()
    }

    /// The processes of the undo timer.
    pub fn undo_timers(&self) -> Vec<i32> {
        let is_undo_timer = |pid: &i32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).nth(1) == Some(b"undo-timer")
        };
        processes_with(&format!("LINERATE_TEST_MARK={}", self.name))
            .into_iter()
            .filter(is_undo_timer)
            .collect()
    }
}

impl Drop for Ill {
    fn drop(&mut self) {
        self.undo_timers().into_iter().for_each(|pid| send(pid, Signal::KILL));
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}
