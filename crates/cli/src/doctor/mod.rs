//! `linerate doctor`: finds the causes that keep transfers from the line rate, and fixes for them.

mod brief;
mod explain;
mod far;
mod figures;
mod path;
mod server_probe;
mod table;
mod treatment;

use clap::{Args, Subcommand};
use linerate_doctor::check::CHECKS;
use linerate_doctor::{Finding, Host, Need, PathMeasurements, Severity, examine_host, ordered};
use linerate_host::facts::{TakenRoute, usual_paths};
use linerate_host::{Fact, Facts};
use linerate_wire::path::printable;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::failure::Failure;
use crate::common::login::LoginOptions;
use crate::common::metrics::{MetricsArgs, recording};
use crate::common::spec::only_once;
use crate::exit::{Code, FAILED, FAR_END, INTERRUPTED, Meaning, USAGE, VERSION, table};
use crate::facts::{HERE, ask, open};
use crate::print::json;
use crate::units::parse_rate;
use explain::ExplainArgs;
use table::Detail;
use treatment::{TreatmentArgs, known_check};

pub use treatment::{UndoTimerArgs, run_undo_timer};

// No line has more than 79 characters, so that it stays as it is on a terminal of 80 columns.
const EXAMPLES: &str = "\
Examples:
  linerate doctor
      prints the causes that keep this host below the rate of its ports, the
      costliest first
  linerate doctor web1 web2 --target 10gbit
      examines other hosts, which need a rate of 10 Gbit/s
  linerate doctor --path local web1
      examines both hosts and the path between them, in about three seconds
  linerate doctor --path web1 web2
      does the same for two other hosts: web1 measures the path, and must be
      able to log in to web2 by this name
  linerate doctor --root web1.txt
      examines a snapshot that linerate facts --snapshot web1.txt has saved
  linerate doctor --brief
      prints one line for each finding; -v prints all findings in full, also
      notes and sources
  linerate doctor explain rx-ring
      prints the facts, formula and sources of the check rx-ring, and when the
      check is wrong
  linerate doctor --apply --plan
      prints the changes that --apply would make, and how to undo them
  linerate doctor --apply root@web1
      makes the changes, and undoes them unless you confirm within a minute
linerate doctor changes nothing without --apply. A script can use it as a test:
with --fail-on major, it exits with code 6 if a finding is major or worse
";

/// Targets below this rate, in bits a second, are refused: the user has probably left out the unit.
const LEAST_TARGET: f64 = 1e6;

const MEANINGS: [Meaning; 8] = [
    (Code::Done, "examined; with --fail-on, no finding has SEVERITY or worse"),
    FAILED,
    USAGE,
    (Code::Partial, "--apply, --undo: some settings were refused, or not restored"),
    FAR_END,
    (Code::Found, "--fail-on: a finding has SEVERITY or worse"),
    VERSION,
    INTERRUPTED,
];

/// Arguments of `linerate doctor`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = table(&MEANINGS), args_conflicts_with_subcommands = true)]
pub struct DoctorArgs {
    #[command(subcommand)]
    verb: Option<DoctorVerb>,
    /// Hosts, or 'local' for this one [default: local]
    #[arg(value_name = "[USER@]HOST", conflicts_with_all = ["root", "path"])]
    hosts: Vec<OsString>,
    /// Examine a snapshot, or a directory instead of /; may be repeated
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "path")]
    root: Vec<PathBuf>,
    /// Examine two hosts and the path between them; either may be 'local'
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    path: Vec<OsString>,
    /// Examine the file system of DIR on each host; may be repeated
    ///
    /// Without this option, linerate examines the file systems of / and of the current directory; on another host,
    /// those of / and of the login directory.
    #[arg(long, value_name = "DIR", conflicts_with = "root")]
    at: Vec<PathBuf>,
    /// The rate that you need, for example 10gbit [default: the ports' rate]
    #[arg(long, value_name = "RATE", value_parser = parse_target)]
    target: Option<f64>,
    /// Exit with code 6 if a finding has SEVERITY or worse
    ///
    /// SEVERITY is critical, major, minor or note.
    #[arg(long, value_name = "SEVERITY")]
    fail_on: Option<Severity>,
    /// Print one JSON object on standard output
    #[arg(long, conflicts_with_all = ["brief", "verbose"])]
    json: bool,
    /// Show all findings in full, also notes and sources
    #[arg(short, long, conflicts_with = "brief")]
    verbose: bool,
    /// Print one line for each finding
    #[arg(long)]
    brief: bool,
    /// Skip these checks
    #[arg(long, value_name = "CHECK,...", value_delimiter = ',', value_parser = known_check, conflicts_with = "apply")]
    skip: Vec<String>,
    /// List the checks
    #[arg(long, conflicts_with_all = ["hosts", "root", "path", "at", "target", "fail_on", "json", "metrics", "verbose", "brief", "only", "skip"])]
    list: bool,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    treatment: TreatmentArgs,
    #[command(flatten)]
    login: LoginOptions,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
enum DoctorVerb {
    /// Explain a check: its facts, formula, sources and limits, and commands that show the facts
    Explain(ExplainArgs),
}

/// The way to reach hosts, and the directories whose file systems are examined on each host.
#[derive(Clone, Copy)]
pub struct Places<'a> {
    login: &'a LoginOptions,
    at: &'a [PathBuf],
}

/// The facts of one host, with the host's name.
pub struct NamedHost {
    /// The host's name as the user wrote it.
    pub name: String,
    /// The host's facts.
    pub facts: Facts,
}

/// The result of an examination.
#[derive(Serialize)]
pub struct Report {
    r#type: &'static str,
    schema: u32,
    /// linerate's version.
    version: &'static str,
    /// The time of the examination, in seconds since 1970.
    time: u64,
    /// The hosts, with the rate that each needs.
    pub hosts: Vec<Needed>,
    /// The measurements of the path; `None` without `--path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<PathMeasurements>,
    /// The number of checks that were run.
    pub checks: usize,
    /// The findings, the costliest first.
    pub findings: Vec<Finding>,
}

/// The rate that a host needs.
#[derive(Serialize)]
pub struct Needed {
    /// The host's name.
    pub host: String,
    /// The rate that the host needs, in bits a second.
    pub rate: f64,
    /// The reason for this rate.
    pub because: &'static str,
    /// The route to the other end of the path; `None` without `--path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<TakenRoute>,
    /// The number of facts that can't be read. Checks that need these facts found nothing.
    pub unreadable: usize,
    /// The release of the host's kernel.
    pub kernel: Option<String>,
    /// The seconds since the host was booted, which are the time that the counters "since boot" cover.
    pub up_seconds: Option<u64>,
}

/// Examines the hosts.
///
/// # Errors
/// If a host or a snapshot can't be read.
pub fn run(mut args: DoctorArgs) -> Result<Code, Failure> {
    only_once(&mut args.hosts);
    only_once(&mut args.root);
    if let Some(DoctorVerb::Explain(explain)) = &args.verb {
        return explain::run(explain).map(|()| Code::Done);
    }
    if args.list {
        CHECKS.iter().for_each(|check| output!("{:20} {}", check.name, check.about));
        return Ok(Code::Done);
    }
    if args.treatment.is_wanted() {
        return treatment::run(&args);
    }
    args.check_names()?;
    recording(args.metrics.metrics.as_deref(), "doctor", |metrics| {
        metrics.check()?;
        metrics.note().into_iter().for_each(|note| message!("linerate: {note}"));
        let (report, failure) = args.examine()?;
        let report = args.wanted(report);
        metrics.examined(&report);
        let code = args.report(&report);
        failure.map_or(Ok(code), Err)
    })
}

impl DoctorArgs {
    fn check_names(&self) -> Result<(), Failure> {
        let only = &self.treatment.only;
        match !only.is_empty() && only.iter().all(|name| self.skip.contains(name)) {
            true => Err(Failure::usage("--skip leaves out every check that --only names".into())),
            false => Ok(()),
        }
    }

    /// The report on the hosts that could be examined, and the failure of a host that couldn't.
    fn examine(&self) -> Result<(Report, Option<Failure>), Failure> {
        if let [from, to] = self.path.as_slice() {
            return path::examine(from, to, self.need(), &self.places()).map(|report| (report, None));
        }
        let all = if self.root.is_empty() { self.asked() } else { self.read() };
        let (hosts, failure) = examined(all)?;
        let hosts: Vec<Host<'_>> = hosts.iter().map(|host| host.view(self.need())).collect();
        Ok((Report::of(&hosts, ordered(hosts.iter().flat_map(examine_host).collect())), failure))
    }

    /// The report without the checks that the user left out.
    fn wanted(&self, mut report: Report) -> Report {
        let (only, skip) = (&self.treatment.only, &self.skip);
        let is_wanted = |check: &str| {
            (only.is_empty() || only.iter().any(|name| name == check))
                && !skip.iter().any(|name| name == check)
        };
        report.findings.retain(|finding| is_wanted(finding.check));
        report.checks = CHECKS.iter().filter(|check| is_wanted(check.name)).count();
        report
    }

    fn places(&self) -> Places<'_> {
        Places { login: &self.login, at: &self.at }
    }

    fn need(&self) -> Need {
        self.target.map_or(Need::OfPorts, Need::Target)
    }

    fn asked(&self) -> Vec<Result<NamedHost, Failure>> {
        if self.hosts.is_empty() || self.hosts.iter().any(|name| name == HERE) {
            treatment::sweep(&self.treatment);
        }
        if self.hosts.is_empty() {
            return vec![host(OsStr::new(HERE), &self.places())];
        }
        self.hosts.iter().map(|name| host(name, &self.places())).collect()
    }

    fn read(&self) -> Vec<Result<NamedHost, Failure>> {
        let one = |root: &PathBuf| {
            let host = NamedHost { name: root.display().to_string(), facts: open(root)? };
            if host.facts.is_nothing() { Err(no_host(&host.name)) } else { Ok(host) }
        };
        self.root.iter().map(one).collect()
    }

    fn report(&self, report: &Report) -> Code {
        if self.json {
            json(report);
        } else {
            let notes = !self.treatment.only.is_empty();
            output!("{}", table::text(report, Detail { verbose: self.verbose, brief: self.brief, notes }));
            // A snapshot may come from another host, so no command for this host is printed.
            let hint = treatment::hint(&report.findings, &self.hosts, &self.path, &self.login);
            hint.filter(|_| self.root.is_empty()).iter().for_each(|hint| output!("{hint}"));
        }
        let is_bad = |limit| report.findings.iter().any(|finding| finding.severity >= limit);
        if self.fail_on.is_some_and(is_bad) { Code::Found } else { Code::Done }
    }
}

/// The hosts that were examined, and the last failure; earlier failures are reported here.
///
/// # Errors
/// The first failure if no host was examined.
fn examined(all: Vec<Result<NamedHost, Failure>>) -> Result<(Vec<NamedHost>, Option<Failure>), Failure> {
    let (mut hosts, mut failures) = (Vec::new(), Vec::new());
    for one in all {
        match one {
            Ok(host) => hosts.push(host),
            Err(failure) => failures.push(failure),
        }
    }
    if hosts.is_empty() && !failures.is_empty() {
        return Err(failures.swap_remove(0));
    }
    let last = failures.pop();
    failures.iter().for_each(|Failure(message, _)| message!("linerate: {message}"));
    Ok((hosts, last))
}

impl Report {
    fn of(hosts: &[Host<'_>], findings: Vec<Finding>) -> Self {
        Self {
            r#type: "doctor",
            schema: 1,
            version: env!("CARGO_PKG_VERSION"),
            time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            hosts: hosts.iter().map(Needed::of).collect(),
            measured: None,
            checks: CHECKS.len(),
            findings,
        }
    }
}

impl NamedHost {
    /// Returns the host itself, or a failure if a directory that the user named doesn't exist. Without this check, the
    /// checks of the directory's file system would silently find nothing.
    fn with_places(self) -> Result<Self, Failure> {
        let all = self.facts.storage.file_systems.known().into_iter().flatten();
        let Some(lacking) = all.into_iter().find(|place| place.total.known().is_none()) else {
            return Ok(self);
        };
        let reason = match &lacking.total {
            Fact::Unreadable(reason) => printable(reason.as_bytes()),
            _ => "no such file or directory".into(),
        };
        let (name, path) = (printable(self.name.as_bytes()), printable(lacking.path.as_bytes()));
        Err(Failure(format!("{name}: --at {path}: {reason}"), Code::Failed))
    }

    fn view(&self, need: Need) -> Host<'_> {
        Host::alone(&self.name, &self.facts, need)
    }
}

impl Needed {
    fn of(host: &Host<'_>) -> Self {
        let because = match (host.need, host.fastest()) {
            (Need::Target(_), _) => "as asked for",
            (Need::OfPorts, Some(_)) => "its fastest port's rate",
            (Need::OfPorts, None) => "assumed: no port reports a speed of its own",
        };
        Self {
            host: host.name.into(),
            rate: host.rate(),
            because,
            route: None,
            unreadable: unreadable(host.facts),
            kernel: host.facts.kernel.known().cloned(),
            up_seconds: host.facts.strain.up_seconds.get(),
        }
    }
}

/// The failure for a snapshot or directory without a single fact: the user has named a wrong file, and it isn't a
/// healthy host.
fn no_host(name: &str) -> Failure {
    let name = printable(name.as_bytes());
    let message = format!(
        "reading {name}: the file or directory holds no facts of a host; name a directory with proc and sys, or a snapshot that \
         linerate facts --snapshot wrote"
    );
    Failure(message, Code::Failed)
}

/// The number of facts that can't be read. There are many types of facts, so this function counts in their JSON form.
fn unreadable(facts: &Facts) -> usize {
    fn count(value: &Value) -> usize {
        match (Fact::<IgnoredAny>::deserialize(value), value) {
            (Ok(Fact::Unreadable(_)), _) => 1,
            (_, Value::Object(fields)) => fields.values().map(count).sum(),
            (_, Value::Array(members)) => members.iter().map(count).sum(),
            _ => 0,
        }
    }
    // Facts hold only types that JSON has.
    serde_json::to_value(facts).map_or(0, |facts| count(&facts))
}

/// Reads the facts of a host: of this host directly, of another host through an agent.
fn host(name: &OsStr, places: &Places<'_>) -> Result<NamedHost, Failure> {
    let facts = match (name == HERE, places.at) {
        (true, []) => Facts::here(&usual_paths()),
        (true, at) => Facts::here(at),
        (false, at) => Facts::of_snapshot(&ask(name, at, places.login)?),
    };
    let host = NamedHost { name: name.to_string_lossy().into_owned(), facts };
    if places.at.is_empty() { Ok(host) } else { host.with_places() }
}

/// Parses a rate, and returns it in bits a second.
fn parse_target(text: &str) -> Result<f64, String> {
    let bits = parse_rate(text)?.map_or(0.0, |bytes| bytes as f64 * 8.0);
    if bits >= LEAST_TARGET {
        return Ok(bits);
    }
    Err(format!(
        "this is {bits:.0} bits a second, too little for a transfer: write for example 10gbit; the minimum is 1mbit"
    ))
}

#[cfg(test)]
mod tests {
    use super::unreadable;
    use linerate_host::facts::{Offload, Port};
    use linerate_host::{Fact, Facts};

    #[test]
    fn facts_are_counted_and_not_names() {
        let count = |name: &str, value: Fact<String>| {
            let offloads = Fact::Known([(name.to_owned(), Offload { on: true, fixed: false })].into());
            let port = Port { offloads, driver: value, ..Port::default() };
            unreadable(&Facts { ports: Fact::Known(vec![port]), ..Facts::default() })
        };
        let known = || Fact::Known("ixgbe".to_owned());
        assert_eq!(count("unreadable", known()), count("rx-gro", known()));
        assert_eq!(count("rx-gro", Fact::Unreadable("no".into())), count("rx-gro", known()) + 1);
    }
}
