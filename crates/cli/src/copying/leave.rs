//! `--detach`: gives both far hosts their jobs and connects them to each other; then they continue without
//! this process.

use linerate_remote::far_end::FarEnd;
use linerate_transfer::between::{FarError, FarRole, give_up, introduce, meet_alone};
use linerate_transfer::problem::TransferError;
use linerate_transfer::routes::Interfaces;
use linerate_transfer::session::{Meters, Session, check_job, new_cookie};
use linerate_wire::control::{AskedSources, DetachedJob, Job, JobId};
use linerate_wire::path::printable;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use super::between::HostReporter;
use super::copy::Copy;
use super::route::Route;
use crate::common::event::Event;
use crate::common::failure::Failure;
use crate::common::far::{FarSession, NearEnd};
use crate::common::login::LoginOptions;
use crate::common::output::Style;
use crate::exit::Code;

/// The message that the copy isn't from one far host to another, as `--detach` requires.
pub const ONE_TO_ANOTHER: &str = "--detach is for a copy from one far host to another (HOST:SRC to HOST:DST); in any other copy this process is one of the two ends: run the command with nohup or in tmux instead";

impl Copy {
    /// Makes two far hosts copy from one to the other, and returns when both have begun.
    pub fn leave(&self) -> Result<Code, Failure> {
        let route = Route::find(&self.task.sources, &self.task.destination).map_err(Failure::usage)?;
        let Route::Between { from, sources, to, destination } = route else {
            return Err(Failure::usage(ONE_TO_ANOTHER.into()));
        };
        let options = &self.task.options;
        let sending = Job::Send { sources: sources.clone(), options: options.clone() };
        let receiving = Job::Receive { destination, options: options.clone() };
        check_job(&sending)?;
        let [a, b, c, d, ..] = new_cookie()?;
        let (shown_from, shown_to) = (printable(from.as_bytes()), printable(to.as_bytes()));
        let job = DetachedJob { id: JobId([a, b, c, d]), from: shown_from.clone(), to: shown_to.clone() };
        let mut sender = self.log_in_to_leave(&from, &self.task.login, sending, &job)?;
        let login = self.task.destination_login.as_ref().unwrap_or(&self.task.login);
        let receiver = self.log_in_to_leave(&to, login, receiving, &job);
        let mut receiver = receiver.inspect_err(|Failure(message, _)| {
            sender.session.give_up(TransferError::Failed(message.clone()));
        })?;
        let both = (&mut sender.session, &mut receiver.session);
        self.hand_over(both, (&shown_from, &shown_to), sources).map_err(|failed| {
            let both = (&mut sender.session, &mut receiver.session);
            let FarError { role, error } = give_up(both, (&shown_from, &shown_to), failed);
            Failure::from(error).at(if role == FarRole::Sender { &from } else { &to })
        })?;
        self.report_left(&job);
        Ok(Code::Done)
    }

    fn log_in_to_leave(
        &self,
        host: &OsStr,
        login: &LoginOptions,
        job: Job,
        detached: &DetachedJob,
    ) -> Result<FarSession, Failure> {
        let (place, host) = (host, printable(host.as_bytes()));
        // As with all copies between two hosts, the user's ssh agent isn't forwarded to either host.
        let far_end = login.keeping_agent().far_end(place, self.task.quiet)?.with_program();
        let far_end = FarEnd { patience: self.task.patience, ..far_end };
        let near = NearEnd {
            interrupted: self.interrupted.clone(),
            observer: Arc::new(HostReporter { host, delivered: self.delivered.clone() }),
            meters: Meters::default(),
            interfaces: Interfaces::One,
        };
        let far = FarSession::detaching(&far_end, job, self.task.options.timeout, near, detached.clone());
        far.map_err(|failure| failure.at(place))
    }

    fn hand_over(
        &self,
        (sender, receiver): (&mut Session, &mut Session),
        hosts: (&str, &str),
        sources: Vec<Vec<u8>>,
    ) -> Result<(), FarError> {
        let asked = AskedSources { sources, delivered: false };
        introduce(sender, receiver, asked, self.task.selection.listed.as_ref())?;
        meet_alone((&mut *sender, &mut *receiver), &self.task.options, hosts)?;
        let of = |role| move |error| FarError { role, error };
        receiver.wait_until_under_way().map_err(of(FarRole::Receiver))?;
        sender.wait_until_under_way().map_err(of(FarRole::Sender))
    }

    fn report_left(&self, job: &DetachedJob) {
        let DetachedJob { id, from, to } = job;
        match self.output.style() {
            Style::Json => self.output.event(&Event::Detached {
                job: id.to_string(),
                from: from.clone(),
                to: to.clone(),
            }),
            Style::Quiet => {}
            Style::Plain | Style::Verbose => {
                self.output.line(&format!(
                    "linerate: job {id} continues between {from} and {to}; linerate attach {to}:{id} shows it"
                ));
            }
        }
    }
}
