//! `linerate attach`: prints what the command of a detached job would have printed without `--detach`.

use clap::Args;
use linerate_transfer::problem::{Observer, TransferError};
use linerate_transfer::routes::Interfaces;
use linerate_transfer::session::{JobNews, Meters};
use linerate_wire::control::{Job, JobAttention, Message, ProblemKind};
use linerate_wire::path::printable;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::here;
use super::record::{JobRecord, JobRole, JobState};
use super::status::read;
use crate::common::failure::Failure;
use crate::common::far::{FarSession, NearEnd, SILENCE};
use crate::common::login::LoginOptions;
use crate::common::output::{Output, Style};
use crate::common::signals::interrupted;
use crate::common::spec::Spec;
use crate::exit::{Code, FAILED, FAR_END, Meaning, USAGE, VERSION, table};

const EXAMPLES: &str = "\
Examples:
  linerate attach hostB
      shows the running job, or the last one; Ctrl-C doesn't end the job
  linerate attach --cancel hostB:3f9c01d2
      cancels this job (linerate status hostB prints the names of jobs). If you
      run the same copy again, it resumes
";

const MEANINGS: [Meaning; 7] = [
    (Code::Done, "the job has finished; its other codes are those of cp and sync"),
    FAILED,
    USAGE,
    FAR_END,
    VERSION,
    (Code::Interrupted, "you pressed Ctrl-C (the job continues), or the job was cancelled"),
    (Code::Partial, "some entries of the job failed"),
];

/// The length of the longest line of a job's events that is accepted, in bytes.
const LONGEST: usize = 1 << 20;

/// Arguments of `linerate attach`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = table(&MEANINGS))]
pub struct AttachArgs {
    /// Cancel the job, as Ctrl-C would have ended a copy without --detach
    #[arg(long)]
    cancel: bool,
    /// Print only errors
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Print the job's events as JSON lines on standard output
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    #[command(flatten)]
    login: LoginOptions,
    /// The job; without it, the job of this host
    #[arg(help = "[USER@]HOST[:JOB]; without it, this host's job", value_name = "HOST:JOB")]
    job: Option<OsString>,
}

/// Carries out `linerate attach`.
///
/// # Errors
/// If the job can't be found, or has failed as a whole.
pub fn run(args: AttachArgs) -> Result<Code, Failure> {
    let style = match (args.json, args.quiet) {
        (true, _) => Style::Json,
        (_, true) => Style::Quiet,
        _ => Style::Plain,
    };
    let (output, interrupted) = (Arc::new(Output::new(style)), interrupted()?);
    let (host, id) = args.named()?;
    let attention = JobAttention { id, cancel: args.cancel };
    let mut view = JobView::new(output.clone());
    let watched = match &host {
        Some(host) => watch_far(&args.login, host, attention, &mut view, &interrupted),
        None => watch_here(&attention, &mut view, &interrupted),
    };
    output.clear();
    match watched {
        Err(Failure(_, Code::Interrupted)) => {
            output.note("the job continues; linerate attach --cancel ends it");
            Ok(Code::Interrupted)
        }
        Err(failure) => Err(failure),
        Ok(()) => view.end(),
    }
}

impl AttachArgs {
    fn named(&self) -> Result<(Option<OsString>, String), Failure> {
        let Some(job) = &self.job else { return Ok((None, String::new())) };
        if let Some(id) = job.as_bytes().strip_prefix(b":") {
            return Ok((None, name(id)?));
        }
        match Spec::parse(job) {
            Spec::Remote(host, id) => Ok((Some(host), name(&id)?)),
            Spec::Local(host) => Ok((Some(host), String::new())),
        }
    }
}

fn name(id: &[u8]) -> Result<String, Failure> {
    let is_one = id.len() <= 8 && id.iter().all(|digit| b"0123456789abcdef".contains(digit));
    let name = std::str::from_utf8(id).ok().filter(|_| is_one).map(str::to_owned);
    name.ok_or_else(|| {
        let shown = printable(id);
        Failure::usage(format!(
            "'{shown}' isn't a job's name: a name has up to 8 digits, as linerate status prints it"
        ))
    })
}

fn watch_far(
    login: &LoginOptions,
    host: &OsStr,
    attention: JobAttention,
    view: &mut JobView,
    interrupted: &Arc<AtomicBool>,
) -> Result<(), Failure> {
    let near = NearEnd {
        interrupted: interrupted.clone(),
        observer: view.output.clone(),
        meters: Meters::default(),
        interfaces: Interfaces::One,
    };
    let far_end = login.far_end(host, false)?.with_program();
    let mut far = FarSession::open(&far_end, Job::Attach(attention), Some(SILENCE), near)?;
    let watched = far.work(|session| {
        session.receive_jobs(|message| match message {
            JobNews::Record(record) => view.see(read(&record)?),
            JobNews::Events(events) => view.hear(&events),
        })
    });
    watched.map_err(|error| Failure::from(error).at(host))
}

fn watch_here(attention: &JobAttention, view: &mut JobView, interrupted: &AtomicBool) -> Result<(), Failure> {
    let mut failed = None;
    here::attend(attention, &mut |message| {
        let seen = match message {
            _ if interrupted.load(Ordering::Relaxed) => Err(TransferError::Interrupted),
            Message::JobRecord(record) => read(&record).and_then(|record| view.see(record)),
            Message::JobEvents(events) => view.hear(&events),
            _ => Ok(()),
        };
        seen.map_err(|error| failed = Some(error)).is_ok()
    })
    .map_err(Failure::usage)?;
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// Prints the lines that the command of a job would have printed without `--detach`.
struct JobView {
    output: Arc<Output>,
    record: Option<JobRecord>,
    /// The beginning of an incomplete line of events.
    rest: Vec<u8>,
    /// The numbers of entries that failed and that changed, from the job's last event.
    lost: (u64, u64),
}

impl JobView {
    fn new(output: Arc<Output>) -> Self {
        Self { output, record: None, rest: Vec::new(), lost: (0, 0) }
    }

    fn see(&mut self, record: JobRecord) -> Result<(), TransferError> {
        if record.state == JobState::Running {
            let sighting = record.sighting.clone();
            let by = match sighting.limiter.as_str() {
                "" | "too-short" => String::new(),
                limiter => {
                    format!(", {} ({:.0} %)", printable(limiter.as_bytes()), 100.0 * sighting.limiter_share)
                }
            };
            self.output.show(sighting, &by);
        }
        self.record = Some(record);
        Ok(())
    }

    fn hear(&mut self, events: &[u8]) -> Result<(), TransferError> {
        self.rest.extend_from_slice(events);
        while let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let event = serde_json::from_slice(&line);
            self.show(&event.map_err(|error| {
                TransferError::BadData(format!("the far end's events of a job can't be read: {error}"))
            })?);
        }
        match self.rest.len() > LONGEST {
            true => Err(TransferError::BadData("the far end's events of a job have no end".into())),
            false => Ok(()),
        }
    }

    fn show(&mut self, event: &Value) {
        let number = |field: &str| event[field].as_u64().unwrap_or(0);
        // Newlines are escaped, because a text from a far end could otherwise imitate a line of this program.
        let text = |field: &str| event[field].as_str().unwrap_or_default().replace('\n', "\\n");
        let kind = text("type");
        if kind == "summary" {
            self.lost = (number("failed"), number("changed"));
        }
        if self.output.style() == Style::Json {
            return crate::print::json(event);
        }
        match kind.as_str() {
            // An honest far end has already escaped the texts of events. If a far end hasn't, this end escapes them
            // when it prints them.
            "problem" => {
                self.output.shown_problem(text("path"), text("message"), problem_kind(&text("kind")));
            }
            "note" => self.output.note(&text("message")),
            "change" => {
                self.output.bar().suspend(|| output!("{} {}", text("item"), text("path")));
            }
            _ => {}
        }
    }

    /// Prints the end of the job, and returns the result that its command would have had without `--detach`.
    fn end(self) -> Result<Code, Failure> {
        let Some(record) = self.record else {
            return Err(Failure("the far end reports no job".into(), Code::FarEnd));
        };
        let exit = record.exit.unwrap_or(1);
        let message = record.message.as_deref().map(|message| printable(message.as_bytes()));
        match record.state {
            JobState::Finished => {
                let is_shown = self.output.style() == Style::Plain;
                let last = record.last.filter(|_| is_shown);
                last.iter().for_each(|last| message!("{}", printable(last.as_bytes())));
                if record.role == JobRole::Sends && is_shown {
                    let (id, to) = (printable(record.id.as_bytes()), printable(record.to.as_bytes()));
                    message!("linerate: everything was sent; linerate attach {to}:{id} shows the result");
                }
                self.output.lost(self.lost.0, self.lost.1);
                Ok(Code::Command(exit))
            }
            JobState::Failed => {
                let message = message.unwrap_or_else(|| "the job failed".into());
                Err(Failure(message, Code::Command(exit)))
            }
            JobState::Died | JobState::Running => Err(Failure::failed(
                "the job's process ended without a result: it was killed, or its host stopped; run the same copy again to resume"
                    .into(),
            )),
        }
    }
}

/// The kind of problem that has this name in events.
fn problem_kind(name: &str) -> ProblemKind {
    use crate::common::event::{PROBLEMS, problem_name};
    PROBLEMS.into_iter().find(|kind| problem_name(*kind) == name).unwrap_or(ProblemKind::Failed)
}
