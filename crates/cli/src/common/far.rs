//! A session with a far end, together with the remote shell through which it runs.

use linerate_remote::far_end::{FarEnd, RemoteShell};
use linerate_remote::patience::PatientInput;
use linerate_transfer::agent;
use linerate_transfer::control_link::ControlLink;
use linerate_transfer::problem::{Observer, TransferError};
use linerate_transfer::pulse::Pulse;
use linerate_transfer::routes::Interfaces;
use linerate_transfer::session::{Client, LostHost, Meters, Session, neighbours};
use linerate_wire::control::{DetachedJob, Job, Progress};
use std::io;
use std::os::unix::net::UnixStream;
use std::process::ChildStdout;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::failure::Failure;
use super::login::not_started;

/// How long an agent may be silent by default, in seconds.
pub const SILENCE: u32 = 30;

/// The parameters of this end of a session.
pub struct NearEnd {
    /// The flag that a signal sets.
    pub interrupted: Arc<AtomicBool>,
    /// The receiver of notes and problems.
    pub observer: Arc<dyn Observer>,
    /// The counters of both ends.
    pub meters: Meters,
    /// The interfaces by which data leaves this host.
    pub interfaces: Interfaces,
}

/// A session and its remote shell. When this value is dropped, first the session ends and then the shell: the
/// far end ends by itself after the last message, and the shell's processor time can be read after it has
/// ended.
pub struct FarSession {
    /// The session.
    pub session: Session,
    _far: FarProcess,
}

impl FarSession {
    /// Starts an agent at the far end and gives it a job. Returns once the first data stream is open, if the job
    /// needs one. The agent may be silent for `silence` seconds; `None` means without limit.
    ///
    /// # Errors
    /// If the login fails or takes too long, no agent can be run there, or the agent refuses the job.
    pub fn open(far_end: &FarEnd, job: Job, silence: Option<u32>, near: NearEnd) -> Result<Self, Failure> {
        let meters = near.meters.clone();
        let (far, reader, writer, client) = start(far_end, job, silence, near)?;
        Ok(Self { session: Session::client(reader, writer, client, meters)?, _far: far })
    }

    /// Starts one of two agents that exchange data, and waits for its first message. The agent gets `progress`,
    /// which is the progress of the other agent.
    ///
    /// # Errors
    /// If the login fails or takes too long, or no agent can be run there.
    pub fn between(
        far_end: &FarEnd,
        job: Job,
        silence: Option<u32>,
        near: NearEnd,
        progress: Arc<Mutex<Progress>>,
    ) -> Result<Self, Failure> {
        let meters = near.meters.clone();
        let (far, reader, writer, client) = start(far_end, job, silence, near)?;
        Ok(Self { session: Session::between(reader, writer, client, meters, progress)?, _far: far })
    }

    /// Starts the agent of a host in a chain or tree, and waits for its first message. If the agent gives up a host
    /// to which it forwards, `lost` gets the reason.
    ///
    /// # Errors
    /// If the login fails or takes too long, or no agent can be run there.
    pub fn chained(
        far_end: &FarEnd,
        job: Job,
        silence: Option<u32>,
        near: NearEnd,
        lost: LostHost,
    ) -> Result<Self, Failure> {
        let meters = near.meters.clone();
        let (far, reader, writer, client) = start(far_end, job, silence, near)?;
        Ok(Self { session: Session::chained(reader, writer, client, meters, lost)?, _far: far })
    }

    /// Starts an agent, and waits for its first message. Once the agent is connected to the other agent, it continues
    /// without this process.
    ///
    /// # Errors
    /// If the login fails or takes too long, or no agent can be run there.
    pub fn detaching(
        far_end: &FarEnd,
        job: Job,
        silence: Option<u32>,
        near: NearEnd,
        detached: DetachedJob,
    ) -> Result<Self, Failure> {
        let meters = near.meters.clone();
        let (far, reader, writer, client) = start(far_end, job, silence, near)?;
        Ok(Self { session: Session::detaching(reader, writer, client, meters, detached)?, _far: far })
    }

    /// Begins a job with an agent over an existing channel.
    ///
    /// # Errors
    /// If the agent refuses the job, or is lost.
    pub fn linked(link: ControlLink, job: Job, silence: Option<u32>, near: NearEnd) -> Result<Self, Failure> {
        let NearEnd { interrupted, observer, meters, interfaces } = near;
        let ControlLink { reader, writer, peer, last: _ } = link;
        let pulse = Arc::new(Pulse::new(silence.map(|seconds| Duration::from_secs(seconds.into()))));
        let (neighbour, linked) = (None, Some(peer));
        let client = Client { job, interrupted, observer, pulse, neighbour, interfaces, linked };
        Ok(Self { session: Session::client(reader, writer, client, meters)?, _far: FarProcess::Elsewhere })
    }

    /// Starts a job within this process, in a thread.
    ///
    /// # Errors
    /// If the system lacks resources for the thread, or the job is refused.
    pub fn within(job: Job, near: NearEnd) -> Result<Self, Failure> {
        let NearEnd { interrupted, observer, meters, interfaces } = near;
        let failed = |error: io::Error| Failure::failed(format!("starting a second thread failed: {error}"));
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let reader = ours.try_clone().map_err(failed)?;
        let (neighbour, other) = neighbours();
        // The session itself gets the reason if the thread ends early.
        let thread = thread::spawn(move || drop(agent::serve_within(theirs, other)));
        let far = FarProcess::Thread(Some(thread));
        let pulse = Arc::new(Pulse::new(None));
        let client = Client {
            job,
            interrupted,
            observer,
            pulse,
            neighbour: Some(neighbour),
            interfaces,
            linked: None,
        };
        Ok(Self { session: Session::client(reader, ours, client, meters)?, _far: far })
    }

    /// Runs `work` with the session. If `work` fails, the far end gets the reason, and all data connections
    /// are cut.
    ///
    /// # Errors
    /// The error of `work`, or the far end's reason if that comes first.
    pub fn work<T>(
        &mut self,
        work: impl FnOnce(&mut Session) -> Result<T, TransferError>,
    ) -> Result<T, TransferError> {
        work(&mut self.session).map_err(|error| {
            let error = self.session.give_up(error);
            self.session.cut();
            error
        })
    }
}

/// Starts the agent. Returns the remote shell's process, the two sides of the channel, and this end's
/// parameters.
fn start(
    far_end: &FarEnd,
    job: Job,
    silence: Option<u32>,
    near: NearEnd,
) -> Result<(FarProcess, ChildStdout, PatientInput, Client), Failure> {
    let NearEnd { interrupted, observer, meters, interfaces } = near;
    let agent = far_end
        .start(&|note| observer.note(note), &interrupted)
        .map_err(|error| not_started(&error, &interrupted))?;
    meters.local.reached.store(true, Ordering::Relaxed);
    let (shell, reader, mut writer) = agent.into_parts();
    let shell = FarProcess::Shell(shell);
    let silence = silence.map(|seconds| Duration::from_secs(seconds.into()));
    let pulse = Arc::new(Pulse::new(silence));
    let heard = pulse.clone();
    writer.wait(silence, move || heard.is_there());
    let (neighbour, linked) = (None, None);
    Ok((shell, reader, writer, Client { job, interrupted, observer, pulse, neighbour, interfaces, linked }))
}

/// The process or thread of the far end. Dropping this value waits until the process or thread has ended. Its result
/// is ignored, because the session already has the result.
enum FarProcess {
    Shell(RemoteShell),
    Thread(Option<JoinHandle<()>>),
    /// The far end isn't a child of this process.
    Elsewhere,
}

impl Drop for FarProcess {
    fn drop(&mut self) {
        match self {
            Self::Shell(shell) => drop(shell.end()),
            Self::Elsewhere => {}
            Self::Thread(thread) => thread.take().into_iter().for_each(|thread| drop(thread.join())),
        }
    }
}
