//! The receiving half of a copy between two far hosts that continue without their client.

use linerate_remote::patience::Patience;
use linerate_transfer::admission::Request;
use linerate_transfer::bounds::Bounds;
use linerate_transfer::detached::ReceivingPart;
use linerate_transfer::digest::ledger::Reported;
use linerate_transfer::problem::Observer;
use linerate_transfer::receiver;
use linerate_transfer::routes::Interfaces;
use linerate_transfer::sender::Selection;
use linerate_wire::control::{Change, Job, Problem};
use linerate_wire::path::RelPath;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::copy::{Copy, Moved};
use super::manifest::{Delivered, Landed};
use super::task::Task;
use crate::common::failure::Failure;
use crate::common::far::{FarSession, NearEnd};
use crate::common::login::LoginOptions;
use crate::common::output::Output;
use crate::exit::Code;

/// Receives the entries that the client has requested from the other agent. `hosts` are the client's names
/// for the host of the sources and for this host.
///
/// # Errors
/// If the copy failed as a whole.
pub fn receive(
    part: ReceivingPart,
    hosts: (String, String),
    output: Output,
    interrupted: Arc<AtomicBool>,
) -> Result<Code, Failure> {
    let ReceivingPart { sources, destination, options, listed, link } = part;
    let itemize = options.sync.as_ref().is_some_and(|sync| sync.itemize);
    let task = Task {
        selection: Selection::new(&options, listed),
        options,
        sources: sources.iter().cloned().map(OsString::from_vec).collect(),
        destination: OsString::from_vec(destination.clone()),
        manifest: None,
        list: false,
        login: LoginOptions::default(),
        interfaces: Interfaces::One,
        destination_login: None,
        patience: Patience::LOGIN,
        quiet: false,
        retries: 0,
        stop: None,
        detach: false,
    };
    let output = Arc::new(output.itemizing(itemize));
    let mut copy = Copy::interruptible(Arc::new(task), output.clone(), interrupted)?;
    copy.hosts = Some(hosts.clone());
    let reporter = Arc::new(HostsReporter::new(&hosts.0, &hosts.1, copy.delivered.clone()));
    let near = NearEnd { observer: reporter.clone(), ..copy.near_end() };
    let job = Job::Send { sources: sources.clone(), options: copy.task.options.clone() };
    let far = FarSession::linked(link, job, copy.task.options.timeout, near);
    let received = far.and_then(|far| copy.receive_linked(far, &sources, &destination));
    received.map_err(|failure| reporter.at_host(failure)).inspect_err(|failure| output.failed(failure))
}

impl Copy {
    fn receive_linked(
        &self,
        far: FarSession,
        sources: &[Vec<u8>],
        destination: &[u8],
    ) -> Result<Code, Failure> {
        self.transfer(far, false, |session| {
            let (options, listed) = (&self.task.options, self.task.selection.listed.as_ref());
            if let Some(listed) = listed {
                session.send_selection(listed.listed())?;
            }
            let named = Bounds::anywhere().name(destination)?;
            let request = Request { sources, options, listed };
            let unheard = |_: u32, _: &RelPath, _: Reported| {};
            let received = receiver::run(session, &named, options, Some(&request), &unheard)?;
            let place = Landed { sources: received.sources, within: received.within, destination };
            Ok(Moved { landed: received.landed, sent: received.announced, streams: received.streams, place })
        })
    }
}

/// Reports problems, together with the name of the host on which they occurred.
pub struct HostsReporter {
    from: String,
    to: String,
    delivered: Arc<Delivered>,
    /// True if the host of the sources has given up.
    is_given_up: AtomicBool,
}

impl HostsReporter {
    /// A reporter for problems on the host `from` and on this host, `to`.
    pub fn new(from: &str, to: &str, delivered: Arc<Delivered>) -> Self {
        Self { from: from.to_owned(), to: to.to_owned(), delivered, is_given_up: AtomicBool::new(false) }
    }

    /// The failure with the host's name before its message.
    fn at_host(&self, failure: Failure) -> Failure {
        let is_far = self.is_given_up.load(Ordering::Relaxed)
            || matches!(failure.1, Code::FarEnd | Code::Shell(_) | Code::Version);
        failure.at(OsStr::new(if is_far { &self.from } else { &self.to }))
    }
}

impl Observer for HostsReporter {
    fn problem(&self, problem: Problem) {
        self.delivered.problem_at(&self.to, problem);
    }

    fn far_problem(&self, problem: Problem) {
        self.delivered.problem_at(&self.from, problem);
    }

    fn far_end_gave_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    fn changes(&self, changes: Vec<Change>) {
        self.delivered.changes(changes);
    }

    fn note(&self, note: &str) {
        self.delivered.note(note);
    }
}
