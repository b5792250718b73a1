//! `linerate agent --background`: the process in which a detached job runs.

use linerate_doctor::limiter::{Evidence, transfer};
use linerate_transfer::detached::{AlonePart, SendingPart, meet};
use linerate_transfer::lock::lock;
use linerate_transfer::problem::TransferError;
use linerate_transfer::session::Meters;
use linerate_wire::path::{printable, printable_path};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::log::JobLog;
use super::record::{JobRecord, JobRole};
use crate::common::failure::Failure;
use crate::common::kept_output::Sighting;
use crate::common::output::Output;
use crate::copying::linked::receive;
use crate::copying::showing::Showing;
use crate::exit::Code;

/// Serves a client until the job can continue without the client; then runs the job.
///
/// # Errors
/// None: the reason of a failure is sent to the client, or later written into the job's record.
pub fn run() -> Result<Code, Failure> {
    // In a new session, this process isn't ended together with the processes of the login. setsid fails if this
    // process already leads a session, which is as good.
    let _ = rustix::process::setsid();
    linerate_sys::limits::raise_open_files();
    linerate_sys::limits::keep_freed_memory();
    let met = match meet(io::stdin(), io::stdout()) {
        Ok(met) => met,
        Err(error) => return Ok(Code::from(&error)),
    };
    let hosts = (printable(met.detached.from.as_bytes()), printable(met.detached.to.as_bytes()));
    let begun = begin(&met.detached.id, &met.part, &hosts).and_then(|log| Ok((log, interrupted()?)));
    let (log, interrupted) = match begun {
        Ok(begun) => begun,
        Err(why) => return Ok(Code::from(&met.give_up(TransferError::Failed(why)))),
    };
    let part = met.go_on_alone();
    // From now on no process waits for this one. If /dev/null can't be opened, this process keeps its pipes.
    let _ = let_go();
    let log = Arc::new(log);
    let ended = match part {
        AlonePart::Receiver(part) => receive(part, hosts, Output::kept(log.clone()), interrupted),
        AlonePart::Sender(part) => send(part, &log, interrupted),
    };
    log.end(&ended);
    Ok(ended.unwrap_or_else(|Failure(_, code)| code))
}

fn begin(
    id: &linerate_wire::control::JobId,
    part: &AlonePart,
    hosts: &(String, String),
) -> Result<JobLog, String> {
    let (role, sources, destination) = match part {
        AlonePart::Sender(part) => (JobRole::Sends, part.sources(), None),
        AlonePart::Receiver(part) => {
            (JobRole::Receives, &part.sources[..], Some(printable_path(&part.destination)))
        }
    };
    let sources: Vec<_> = sources.iter().map(|source| printable_path(source)).collect();
    let record = JobRecord::begin(*id, role, hosts.clone());
    let record = record.map_err(|error| format!("examining the job's own process failed: {error}"))?;
    JobLog::begin(record.with_places(&sources, destination))
}

/// A flag that is set by SIGINT and SIGTERM. The signal for a closed terminal (SIGHUP) is ignored.
fn interrupted() -> Result<Arc<AtomicBool>, String> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let (interrupted, ignored) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let caught = [SIGINT, SIGTERM]
        .into_iter()
        .try_for_each(|signal| signal_hook::flag::register(signal, interrupted.clone()).map(drop));
    let caught = caught.and_then(|()| signal_hook::flag::register(SIGHUP, ignored).map(drop));
    caught.map_err(|error| format!("signals can't be caught: {error}"))?;
    Ok(interrupted)
}

/// Closes the pipes to the login's process. As a consequence, that process ends.
fn let_go() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok(rustix::stdio::dup2_stderr(&nothing)?)
}

fn send(part: SendingPart, log: &Arc<JobLog>, interrupted: Arc<AtomicBool>) -> Result<Code, Failure> {
    let (meters, begun, watched) = (Meters::default(), Instant::now(), log.clone());
    let seen = meters.clone();
    let showing = Showing::draw(move || watched.see(look(&seen, begun)));
    let sent = part.send(meters.clone(), interrupted);
    // Dropping the display updates the progress once more.
    drop(showing);
    let landed = sent?;
    log.see_last(Sighting { bytes: landed.bytes, files: landed.files, ..look(&meters, begun) });
    Ok(Code::Done)
}

/// The progress, from the values that the other end reports.
fn look(meters: &Meters, begun: Instant) -> Sighting {
    let (sender, receiver) = (meters.local.progress(), *lock(&meters.remote));
    let seconds = begun.elapsed().as_secs_f64();
    let evidence = Evidence::under_way(sender.stages, receiver.stages, seconds, false);
    let limiter = transfer::name(&evidence);
    Sighting {
        seconds,
        bytes: receiver.stages.bytes.max(receiver.landed.bytes).min(sender.found.bytes),
        files: receiver.landed.files,
        found_files: sender.found.files,
        found_bytes: sender.found.bytes,
        scanned: sender.scanned,
        ..Sighting::limited(&limiter)
    }
}
