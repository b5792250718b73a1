//! Starts and ends the process that carries packets.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::Signal;

use super::carry::{EmulatorJob, TunInterface};
use super::{SUBCOMMAND, SegmentCounts, Wan};
use crate::child::{Child, settle};
use crate::error::LabError;
use crate::process::Process;
use crate::state::{Description, LabHost};

/// The longest time to wait until the emulator has created its interfaces, for a host under full load.
const EMULATOR_TIMEOUT: Duration = Duration::from_secs(20);

/// A running emulator, with the interfaces of all links.
#[derive(Debug)]
pub(crate) struct Emulator(Child);

impl Emulator {
    /// Starts `program` as the emulator of this lab, and waits until the emulator's interfaces exist (they are still
    /// down). The emulator runs in the namespace at the link's far end, so that the lab's removal finds the emulator.
    /// Unless `kept`, the emulator ends with this process.
    pub(crate) fn start(
        program: &Path,
        directory: &Path,
        lab: &Description,
        wan: &Wan,
        kept: bool,
    ) -> Result<Self, LabError> {
        let failed = |reason: String| LabError::Emulator {
            reason: format!("starting {}: {reason}", program.display()),
        };
        let (child, output) =
            Child::spawn("emulator", command(program, directory, lab, wan, kept)?).map_err(failed)?;
        match first_line(output).unwrap_or_else(|reason| reason).as_str() {
            "ready" => Ok(Self(child)),
            "" => Err(give_up(child, &format!("{} ended without output", program.display()))),
            reason => Err(give_up(child, reason)),
        }
    }

    pub(crate) fn process(&self) -> &Process {
        self.0.process()
    }

    /// Ends the process, which also removes its interfaces.
    pub(crate) fn stop(self) {
        self.0.stop();
    }
}

/// The counts of the emulator of the lab with this directory, at most half a second old: for each link, the
/// direction from a to b, then the direction from b to a. Empty if the lab has no emulator.
pub(crate) fn counts(directory: &Path) -> Vec<[SegmentCounts; 2]> {
    let text = std::fs::read(counts_file(directory)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn counts_file(directory: &Path) -> PathBuf {
    directory.join("counts.json")
}

fn give_up(child: Child, reason: &str) -> LabError {
    child.stop();
    LabError::Emulator { reason: reason.to_owned() }
}

fn command(
    program: &Path,
    directory: &Path,
    lab: &Description,
    wan: &Wan,
    kept: bool,
) -> Result<Command, LabError> {
    let job = EmulatorJob { links: links(lab), rate: lab.link, wan: *wan, counts: counts_file(directory) };
    let job =
        serde_json::to_string(&job).map_err(|error| LabError::Emulator { reason: error.to_string() })?;
    let path = lab.link_ends()[1].namespace_path();
    let namespace = File::open(&path).map_err(LabError::file("opening", &path))?;
    let log = directory.join("emulator.log");
    let errors = File::create(&log).map_err(LabError::file("making", &log))?;
    let mut command = Command::new(program);
    command.args([SUBCOMMAND, &job]).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    // The variable marks the process as part of the lab, even after the namespace has lost its name.
    command.env("LINERATE_LAB", lab.name.as_str());
    settle(&mut command, namespace, (!kept).then_some(Signal::KILL));
    Ok(command)
}

fn links(lab: &Description) -> Vec<[TunInterface; 2]> {
    let end = |host: &LabHost, name: String| TunInterface { namespace: host.namespace_path(), name };
    let [a, b] = lab.link_ends();
    let pairs = a.ports().into_iter().zip(b.ports());
    pairs.map(|(near, far)| [end(a, near.interface), end(b, far.interface)]).collect()
}

fn first_line(output: Option<ChildStdout>) -> Result<String, String> {
    let output = output.ok_or("the emulator has no standard output")?;
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        let mut line = String::new();
        let read = BufReader::new(output).read_line(&mut line);
        // If the emulator was too slow, no receiver waits for this message any more.
        let _ = sender.send(read.map(|_| line.trim().to_owned()));
    };
    std::thread::Builder::new().name("emulator".into()).spawn(read).map_err(|error| error.to_string())?;
    let line = receiver
        .recv_timeout(EMULATOR_TIMEOUT)
        .map_err(|_| format!("the emulator isn't ready within {EMULATOR_TIMEOUT:?}"))?;
    line.map_err(|error| error.to_string())
}
