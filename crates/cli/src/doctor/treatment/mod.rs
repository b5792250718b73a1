//! `linerate doctor --apply`: makes the changes that the findings propose, here or on another host, and undoes them.

mod far;
mod gain;
mod here;
mod show;
mod sweep;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args};
use linerate_doctor::check::CHECKS;
use linerate_doctor::{Finding, Severity};
use linerate_treat::journal::{PlannedStep, Shelf, TreatmentStanding, USUAL};
use linerate_treat::plan::{LeftOut, TreatmentPlan};
use linerate_treat::{LiveControls, undo_timer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::DoctorArgs;
use super::explain::no_check;
use crate::common::failure::Failure;
use crate::common::login::{LoginOptions, shell_word};
use crate::exit::Code;
use crate::facts::HERE;
use crate::print::json;

/// The options that conflict with the options about an existing treatment: --confirm, --persist, --undo, --applied.
const NOT_EXISTING: [&str; 11] =
    ["root", "list", "fail_on", "metrics", "skip", "brief", "verbose", "path", "at", "target", "only"];
/// The options that conflict with --apply, and with the options that need --apply.
const NOT_APPLYING: [&str; 12] = [
    "root", "list", "fail_on", "metrics", "skip", "brief", "verbose", "confirm", "persist", "undo",
    "applied", "force",
];

/// The arguments about changes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Treatment", group(ArgGroup::new("forced").args(["undo", "confirm"])),
          group(ArgGroup::new("kept").args(["apply", "confirm", "persist", "undo", "applied"])))]
pub struct TreatmentArgs {
    /// Make the changes that the findings propose
    ///
    /// linerate shows the changes, asks whether to make them, and undoes them after 60 s unless you confirm them from a
    /// new login. Changing settings needs root; on another host, use root@HOST or --agent-command 'sudo linerate'. With
    /// --path, linerate changes both ends of the path, and keeps the changes only if they make the path faster.
    #[arg(long, conflicts_with_all = NOT_APPLYING)]
    pub apply: bool,
    /// With --apply: only show the changes
    #[arg(long, requires = "apply", conflicts_with_all = NOT_APPLYING)]
    pub plan: bool,
    /// With --apply: don't ask
    #[arg(short, long, requires = "apply", conflicts_with = "plan", conflicts_with_all = NOT_APPLYING)]
    pub yes: bool,
    /// Run only these checks, and show their notes
    ///
    /// With --apply: make only their changes.
    #[arg(long, value_name = "CHECK,...", value_delimiter = ',', value_parser = known_check)]
    pub only: Vec<String>,
    /// With --apply: also raise MTUs
    #[arg(long, requires = "apply", conflicts_with_all = NOT_APPLYING)]
    pub mtu: bool,
    /// With --apply: make only the changes in FILE (-: standard input)
    ///
    /// FILE contains the output of --plan --json. linerate leaves out settings whose values have changed since then.
    #[arg(long, value_name = "FILE", requires = "apply", conflicts_with_all = ["only", "path", "target", "mtu", "at"], conflicts_with_all = NOT_APPLYING)]
    pub from_plan: Option<PathBuf>,
    /// With --apply --path: keep only the changes that the path needs
    ///
    /// For this, linerate also measures the path with all changes except one, for each change.
    #[arg(long, requires = "apply", requires = "path", conflicts_with_all = ["hosts", "plan", "from_plan"], conflicts_with_all = NOT_APPLYING)]
    pub each: bool,
    /// Undo changes that aren't confirmed within SECONDS
    #[arg(long, value_name = "SECONDS", requires = "apply", conflicts_with = "plan", conflicts_with_all = NOT_APPLYING, default_value_t = undo_timer::DEFAULT_SECONDS,
          value_parser = clap::value_parser!(u64).range(undo_timer::LEAST_SECONDS..=undo_timer::MOST_SECONDS))]
    pub confirm_within: u64,
    /// From a new login: keep the changes of ID until a restart
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new(), conflicts_with_all = ["apply", "json"], conflicts_with_all = NOT_EXISTING)]
    pub confirm: Option<String>,
    /// Keep the confirmed changes of ID after a restart of the host
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new(), conflicts_with_all = ["apply", "confirm"], conflicts_with_all = NOT_EXISTING)]
    pub persist: Option<String>,
    /// Undo the changes of ID
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new(), conflicts_with_all = ["apply", "confirm", "persist"], conflicts_with_all = NOT_EXISTING)]
    pub undo: Option<String>,
    /// With --undo or --confirm: skip their safety checks
    ///
    /// With --undo, linerate also restores settings that somebody else has changed since. With --confirm, it accepts
    /// the login that made the changes.
    #[arg(long, requires = "forced", conflicts_with_all = ["apply", "persist", "applied"], conflicts_with_all = NOT_EXISTING)]
    pub force: bool,
    /// List the applied changes and their state
    #[arg(long, conflicts_with_all = ["apply", "confirm", "persist", "undo"], conflicts_with_all = NOT_EXISTING)]
    pub applied: bool,
    /// Directory for the journals
    ///
    /// A journal records the changes of one --apply, so that they can be undone.
    #[arg(long, value_name = "DIR", default_value = USUAL, conflicts_with_all = ["root", "list"])]
    pub state: PathBuf,
    /// Use system files (/etc/...) below DIR instead of /
    ///
    /// --persist and --undo write such files. --apply reads them, to find out what else sets a value.
    #[arg(long, value_name = "DIR", default_value = "/", requires = "kept")]
    pub system: PathBuf,
}

/// Arguments of `linerate undo-timer`.
#[derive(Debug, Args)]
pub struct UndoTimerArgs {
    id: String,
    #[arg(long)]
    state: PathBuf,
    /// The ID of the process that started this one
    #[arg(long)]
    starter: i32,
}

/// A plan, as --json prints it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PlanReport {
    r#type: String,
    schema: u32,
    host: String,
    steps: Vec<PlannedStep>,
    left: Vec<LeftOut>,
    advice: Vec<String>,
}

/// The applied changes, as --json prints them.
#[derive(Debug, Serialize, Deserialize)]
struct TreatmentReport {
    r#type: String,
    schema: u32,
    host: String,
    /// The ID of the treatment; `None` if nothing was changed.
    id: Option<String>,
    /// The time within which the changes must be confirmed, in seconds.
    within: u64,
    steps: Vec<StepReport>,
    left: Vec<LeftOut>,
}

/// One change and its result.
#[derive(Debug, Serialize, Deserialize)]
struct StepReport {
    #[serde(flatten)]
    step: PlannedStep,
    /// The value that was read after the change.
    holds: Option<String>,
    /// The reason why the change wasn't made.
    refused: Option<String>,
}

/// The undone changes, as --json prints them.
#[derive(Debug, Serialize, Deserialize)]
struct UndoReport {
    r#type: String,
    schema: u32,
    host: String,
    id: String,
    /// Names of settings that have their former values again.
    restored: Vec<String>,
    left: Vec<LeftOut>,
}

/// The kept settings, as --json prints them.
#[derive(Debug, Serialize, Deserialize)]
struct PersistReport {
    r#type: String,
    schema: u32,
    host: String,
    id: String,
    /// The files that hold the kept settings.
    files: Vec<String>,
    /// Names of settings that are kept.
    kept: Vec<String>,
    left: Vec<LeftOut>,
}

/// The treatments of a host, as --json prints them.
#[derive(Debug, Serialize, Deserialize)]
struct AppliedReport {
    r#type: String,
    schema: u32,
    host: String,
    treatments: Vec<AppliedTreatment>,
    /// A message for each journal that can't be read.
    #[serde(default)]
    unread: Vec<String>,
}

/// One treatment.
#[derive(Debug, Serialize, Deserialize)]
struct AppliedTreatment {
    id: String,
    /// The time at which the treatment began, in seconds since 1970.
    begun: u64,
    standing: TreatmentStanding,
    /// Settings that were changed, with their values before and after.
    changed: Vec<StepReport>,
    /// Names of settings that are kept after a restart.
    #[serde(default)]
    kept: Vec<String>,
    /// Names of settings that could not be restored.
    #[serde(default)]
    left: Vec<String>,
}

impl PlanReport {
    fn of(plan: TreatmentPlan) -> Self {
        let TreatmentPlan { steps, left, advice } = plan;
        Self { r#type: "doctor-plan".into(), schema: 1, host: HERE.into(), steps, left, advice }
    }
}

impl TreatmentArgs {
    /// A command about a treatment of the host on which the command runs.
    fn command(&self, verb: &str, id: &str) -> String {
        let is_usual = self.state == Path::new(USUAL);
        let state = (!is_usual).then(|| format!(" --state {}", shell_word(self.state.as_os_str())));
        format!("linerate doctor {verb} {id}{}", state.unwrap_or_default())
    }

    /// True if the arguments ask for more than an examination.
    pub fn is_wanted(&self) -> bool {
        self.apply || self.applied || self.confirm.is_some() || self.persist.is_some() || self.undo.is_some()
    }
}

/// A line with the command that makes changes; `None` if linerate can make none of the changes that the findings
/// propose. Findings that are only notes don't count.
pub fn hint(
    findings: &[Finding],
    hosts: &[OsString],
    path: &[OsString],
    login: &LoginOptions,
) -> Option<String> {
    let remedies = findings.iter().filter(|finding| finding.severity > Severity::Note);
    let settings: BTreeSet<_> = remedies
        .flat_map(|finding| &finding.remedies)
        .map(|remedy| (&remedy.host, &remedy.setting))
        .collect();
    let is_ours = path.is_empty() || path.iter().any(|end| end == HERE);
    let of_path = if path.is_empty() { "" } else { " --path" };
    let login =
        if hosts.iter().chain(path).any(|host| host != HERE) { login.reported() } else { String::new() };
    let names = hosts.iter().chain(path).map(|host| format!(" {}", shell_word(host)));
    let count = show::counted(settings.len(), "setting");
    let hint = || {
        format!(
            "linerate can change {count}: linerate doctor --apply --plan{of_path}{}{login}; changes by the commands above last until a restart",
            names.collect::<String>()
        )
    };
    (is_ours && !settings.is_empty()).then(hint)
}

/// Undoes treatments of this host that nobody confirmed in time.
pub fn sweep(wanted: &TreatmentArgs) {
    sweep::sweep(wanted);
}

/// Carries out the request on each host, one after the other.
///
/// # Errors
/// If a host can't be reached, or refuses.
pub fn run(args: &DoctorArgs) -> Result<Code, Failure> {
    let asks = args.treatment.apply && !args.treatment.plan && !args.treatment.yes;
    if asks && args.json {
        return Err(Failure::usage("--json can't ask you: add --yes, or --plan".into()));
    }
    if let [from, to] = args.path.as_slice() {
        return gain::run(args, from, to);
    }
    let here = [OsString::from(HERE)];
    let hosts = if args.hosts.is_empty() { &here[..] } else { &args.hosts };
    if args.treatment.from_plan.is_some() && hosts.len() > 1 {
        return Err(Failure::usage("--from-plan takes the plan of exactly one host".into()));
    }
    let mut worst = Code::Done;
    for host in hosts {
        let code = on(args, host)?;
        worst = if code == Code::Done { worst } else { code };
    }
    Ok(worst)
}

fn on(args: &DoctorArgs, host: &OsStr) -> Result<Code, Failure> {
    let wanted = &args.treatment;
    let is_here = host == HERE;
    if let Some(id) = &wanted.confirm {
        return if is_here { here::confirm(wanted, id) } else { far::confirm(args, host, id) };
    }
    if let Some(id) = &wanted.persist {
        let report = if is_here { here::persist(wanted, id) } else { far::persist(args, host, id) }?;
        print(args, &report, show::persist);
        return Ok(if report.left.is_empty() { Code::Done } else { Code::Partial });
    }
    if let Some(id) = &wanted.undo {
        let report = if is_here { here::undo(wanted, id) } else { far::undo(args, host, id) }?;
        print(args, &report, show::undo);
        return Ok(if report.left.is_empty() { Code::Done } else { Code::Partial });
    }
    if wanted.applied {
        let report = if is_here { here::applied(wanted) } else { far::applied(args, host) }?;
        if is_here {
            report.unread.iter().for_each(|why| message!("linerate: {why}"));
        }
        print(args, &report, show::applied);
        return Ok(if report.unread.is_empty() { Code::Done } else { Code::Partial });
    }
    let plan = if is_here { here::plan(args) } else { far::plan(args, host) }?;
    if wanted.plan {
        print(args, &plan, show::plan);
        return Ok(Code::Done);
    }
    apply(args, host, plan)
}

fn apply(args: &DoctorArgs, host: &OsStr, plan: PlanReport) -> Result<Code, Failure> {
    let wanted = &args.treatment;
    if !args.json {
        output!("{}", show::plan(&plan));
    }
    if !plan.steps.is_empty() && !wanted.yes && !show::agrees(plan.steps.len())? {
        output!("nothing was changed");
        return Ok(Code::Done);
    }
    let (shown, within) = (plan.steps.clone(), wanted.confirm_within);
    let report =
        if host == HERE { here::apply(wanted, plan, within) } else { far::apply(args, host, &plan, within) }?;
    let dropped = dropped(&shown, &report);
    print(args, &report, |report| show::treatment(report, &dropped, &confirming(args, report)));
    // A file asks for all of its steps.
    let is_left = wanted.from_plan.is_some() && !report.left.is_empty();
    let is_whole = dropped.is_empty() && !is_left && report.steps.iter().all(|step| step.holds.is_some());
    Ok(if is_whole { Code::Done } else { Code::Partial })
}

/// The command that confirms a treatment.
fn confirming(args: &DoctorArgs, report: &TreatmentReport) -> String {
    command(args, "--confirm", report.id.as_deref().unwrap_or_default(), &report.host)
}

/// A command about a treatment of a host, with the options that led to the host.
fn command(args: &DoctorArgs, verb: &str, id: &str, host: &str) -> String {
    let own = args.treatment.command(verb, id);
    if host == HERE {
        own
    } else {
        format!("{own}{} {}", args.login.reported(), shell_word(OsStr::new(host)))
    }
}

/// The steps that were shown to the user, but that the host then left out before it began.
fn dropped(shown: &[PlannedStep], report: &TreatmentReport) -> Vec<LeftOut> {
    let is_tried = |step: &&PlannedStep| report.steps.iter().any(|tried| tried.step.setting == step.setting);
    let left = |step: &PlannedStep| {
        let setting = step.setting.to_string();
        let why = report.left.iter().find(|left| left.setting == setting).map(|left| left.why.clone());
        let why = why.unwrap_or_else(|| "the host gives no reason".into());
        LeftOut { check: step.checks.join(", "), setting, why }
    };
    shown.iter().filter(|step| !is_tried(step)).map(left).collect()
}

fn print<T: Serialize>(args: &DoctorArgs, report: &T, text: impl Fn(&T) -> String) {
    if args.json {
        json(report);
    } else {
        output!("{}", text(report));
    }
}

/// Runs the undo timer: the process that waits for the confirmation.
///
/// # Errors
/// If the journal can't be read or written.
pub fn run_undo_timer(args: &UndoTimerArgs) -> Result<Code, Failure> {
    let shelf = Shelf::open(&args.state).map_err(Failure::failed)?;
    undo_timer::run(&shelf, &args.id, args.starter, &mut LiveControls).map_err(Failure::failed)?;
    Ok(Code::Done)
}

/// Parses the name of a check, for options.
pub fn known_check(name: &str) -> Result<String, String> {
    if CHECKS.iter().any(|check| check.name == name) {
        return Ok(name.to_owned());
    }
    Err(no_check(name))
}
