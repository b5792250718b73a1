//! The test bed of the kill test: a lab, trees, file systems, and the means to cut the link.

use anyhow::Context;
use linerate_lab::{End, Lab, LabOptions, parse_link};
use linerate_remote::binary::Binary;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::ground::{Ground, KINDS};
use super::processes::within;
use super::tree::{Shape, make_shapes};

/// An Ethernet address that no host has.
const NOBODYS_ADDRESS: &str = "02:00:00:00:00:01";

/// Everything that the rounds share. Rounds run one after the other.
pub struct ChaosBed {
    pub grounds: Vec<Ground>,
    pub shapes: Vec<Shape>,
    /// A directory for the files of a round.
    pub work: PathBuf,
    pub program: PathBuf,
    /// The copy of the program in the far account's cache, if the bed created this copy; it is removed with the bed.
    brought: Option<PathBuf>,
    /// The ssh server of the near host, so that this host can be a far host too.
    server: Child,
    pub lab: Lab,
}

impl ChaosBed {
    pub fn up(program: &Path) -> anyhow::Result<Self> {
        let link = parse_link("1gbit")?;
        let lab = Lab::up(&LabOptions { link, ..LabOptions::default() })?;
        let work = lab.scratch().to_owned();
        let brought = cached_copy(program).filter(|path| !path.exists());
        let server = serve(&lab).context("the near host's ssh server")?;
        let (grounds, shapes) = (Vec::new(), Vec::new());
        let mut bed = Self { grounds, shapes, work, program: program.into(), brought, server, lab };
        bed.shapes = make_shapes(&bed.work.join("shapes"))?;
        for kind in KINDS {
            match Ground::mount(kind, &bed.work.join("grounds")) {
                Ok(ground) => bed.grounds.push(ground),
                Err(error) => println!("skipped: {kind:?}: {error:#}"),
            }
        }
        bed.bring()?;
        Ok(bed)
    }

    /// Copies the program to the far end, so that no round has to wait for that.
    fn bring(&self) -> anyhow::Result<()> {
        let file = self.shapes[0].tree().join("0/0/0");
        let mut words: Vec<OsString> = vec![self.program.clone().into(), "cp".into(), "-F".into()];
        words.extend([self.config().into(), file.into(), far(End::B, &self.work.join("brought"))]);
        let mut command = self.lab.place(End::A).command(&words)?;
        let output = command.stdin(Stdio::null()).output().context("the first transfer")?;
        anyhow::ensure!(
            output.status.success(),
            "the first transfer: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// The path of ssh's configuration, which contains both hosts.
    pub fn config(&self) -> PathBuf {
        self.work.join("ssh_config")
    }

    /// The variable by which processes at a far end are found: `NAME=VALUE` in their environment.
    pub fn far_mark(&self) -> String {
        format!("LINERATE_LAB={}", self.lab.name().as_str())
    }

    /// Resets all TCP connections except those of ssh.
    pub fn reset(&self) -> anyhow::Result<()> {
        self.on(End::A, &["ss", "-K", "-t", "sport != :22 and dport != :22"])
    }

    /// Drops every packet from now on, in both directions, without any error message.
    pub fn cut(&self) -> anyhow::Result<()> {
        self.neighbours(&["replace"], &["lladdr", NOBODYS_ADDRESS, "nud", "permanent"])
    }

    /// Restores the link.
    pub fn mend(&self) -> anyhow::Result<()> {
        self.neighbours(&["del"], &[])
    }

    fn neighbours(&self, verb: &[&str], rest: &[&str]) -> anyhow::Result<()> {
        for (end, other) in [(End::A, End::B), (End::B, End::A)] {
            let (host, other) = (self.lab.host(end), self.lab.host(other));
            let addresses =
                [Some(other.address.to_string()), other.address6.map(|address| address.to_string())];
            for address in addresses.into_iter().flatten() {
                let words = [&["ip", "neigh"], verb, &[&address, "dev", &host.interface], rest].concat();
                self.on(end, &words)?;
            }
        }
        Ok(())
    }

    fn on(&self, end: End, words: &[&str]) -> anyhow::Result<()> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let mut command = self.lab.place(end).command(&words)?;
        let output = command.stdin(Stdio::null()).output().with_context(|| format!("running {words:?}"))?;
        anyhow::ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

impl Drop for ChaosBed {
    fn drop(&mut self) {
        // The mounts are in the lab's directory, so they are removed first.
        self.grounds.clear();
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = Command::new("rm").arg("-rf").arg(self.work.join("shapes")).status();
        if let Some(brought) = &self.brought {
            let _ = fs::remove_file(brought);
        }
    }
}

/// A path on a far host, in the form `HOST:PATH`.
pub fn far(end: End, path: &Path) -> OsString {
    let mut argument = OsString::from(if end == End::A { "a:" } else { "b:" });
    argument.push(path);
    argument
}

/// Starts an ssh server on the near host, like the lab's on the far host, and writes an ssh configuration in
/// which the near host is `a`.
fn serve(lab: &Lab) -> anyhow::Result<Child> {
    let address = lab.host(End::A).address;
    let client = lab.ssh_config();
    let known = fs::read_to_string(&client)?;
    fs::write(lab.scratch().join("ssh_config"), format!("Host a\n    HostName {address}\n{known}"))?;
    let lines = fs::read_to_string(client.with_file_name("sshd_config"))?;
    let kept = lines.lines().filter(|line| !line.starts_with("ListenAddress"));
    let lines: String = kept.map(|line| format!("{line}\n")).collect();
    let settings = lab.scratch().join("sshd_config");
    fs::write(&settings, format!("ListenAddress {address}\n{lines}"))?;
    let words: [OsString; 4] = ["/usr/sbin/sshd".into(), "-D".into(), "-f".into(), settings.into()];
    let mut server = lab.place(End::A).command(&words)?;
    let server = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let login: Vec<OsString> =
        ["ssh".into(), "-F".into(), lab.scratch().join("ssh_config").into(), "a".into(), "true".into()]
            .into();
    let lets_in = || {
        let login = lab.place(End::A).command(&login);
        login.is_ok_and(|mut login| login.stderr(Stdio::null()).status().is_ok_and(|ended| ended.success()))
    };
    anyhow::ensure!(within(Duration::from_secs(10), lets_in), "it lets nobody in");
    Ok(server)
}

/// The path at which the far end's root keeps the copy of the program that a transfer sends.
fn cached_copy(program: &Path) -> Option<PathBuf> {
    let id = Binary::of(String::new(), program.into()).ok()?.id;
    let entry = fs::read_to_string("/etc/passwd").ok()?;
    let home = entry.lines().find(|line| line.starts_with("root:"))?.split(':').nth(5)?.to_owned();
    Some(Path::new(&home).join(".cache/linerate").join(format!("agent-{id}")))
}
