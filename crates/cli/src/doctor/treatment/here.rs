//! Treatments of this host.

use linerate_doctor::{Finding, examine_host, ordered};
use linerate_host::facts::Storage;
use linerate_treat::course::{self, StepFate, UndoneBy, WayBack};
use linerate_treat::journal::{PlannedStep, Shelf, TreatmentJournal, TreatmentStanding, UnreadJournal};
use linerate_treat::persist::System;
use linerate_treat::plan::{Allowed, LeftOut, TreatmentPlan};
use linerate_treat::port::PresentPorts;
use linerate_treat::surroundings::{Entrance, Whereabouts, host_network_container, is_apart, login_begun};
use linerate_treat::{LiveControls, undo_timer};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::far;
use super::sweep::sweep;
use super::{
    AppliedReport, AppliedTreatment, PersistReport, PlanReport, StepReport, TreatmentArgs, TreatmentReport,
    UndoReport,
};
use crate::common::failure::Failure;
use crate::doctor::{DoctorArgs, host};
use crate::exit::Code;
use crate::facts::HERE;

/// The longest time to wait for another run that is changing settings.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest time to wait until the undo timer has seen a confirmation. Usually this takes a tenth of a second.
const CONFIRMATION_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest number of bytes of a plan that are read.
const MOST_PLAN_BYTES: u64 = 4 << 20;

/// The changes that linerate would make on this host.
pub fn plan(args: &DoctorArgs) -> Result<PlanReport, Failure> {
    let wanted = &args.treatment;
    if !wanted.plan {
        needs_root()?;
    }
    sweep(wanted);
    let plan = match &wanted.from_plan {
        Some(file) => TreatmentPlan::again(read(file, OsStr::new(HERE))?.steps, &mut LiveControls),
        None => TreatmentPlan::of(&findings(args)?, &allowed(wanted), &mut LiveControls),
    };
    Ok(PlanReport::of(plan.with_owners(&System::below(&wanted.system))))
}

fn findings(args: &DoctorArgs) -> Result<Vec<Finding>, Failure> {
    let host = host(OsStr::new(HERE), &args.places())?;
    Ok(ordered(examine_host(&host.view(args.need()))))
}

/// The changes that the user allows.
pub fn allowed(wanted: &TreatmentArgs) -> Allowed {
    Allowed { only: wanted.only.clone(), mtu: wanted.mtu }
}

/// Reads a plan that --plan --json has printed. The plan must be one of `host`.
pub fn read(file: &Path, host: &OsStr) -> Result<PlanReport, Failure> {
    let name = file.display();
    let mut text = Vec::new();
    let got = if file == Path::new("-") {
        io::stdin().take(MOST_PLAN_BYTES).read_to_end(&mut text)
    } else {
        File::open(file).and_then(|file| file.take(MOST_PLAN_BYTES).read_to_end(&mut text))
    };
    got.map_err(|error| Failure::failed(format!("reading the plan {name}: {error}")))?;
    let plan: Result<PlanReport, _> = serde_json::from_slice(&text);
    let plan = plan.map_err(|error| {
        Failure::usage(format!("{name} isn't a plan that --plan --json has printed: {error}"))
    })?;
    if plan.schema != 1 || plan.r#type != "doctor-plan" {
        return Err(Failure::usage(format!("{name} isn't a plan that this version can read")));
    }
    let (own, host) = (bare(&plan.host).to_owned(), far::name(host));
    if own != bare(&host) {
        return Err(Failure::usage(format!(
            "{name} is a plan of {own}, not of {host}: another host may need other changes"
        )));
    }
    Ok(plan)
}

/// The host's name without the user's name.
fn bare(host: &str) -> &str {
    host.rsplit('@').next().unwrap_or(host)
}

/// Applies a plan: begins a journal, starts an undo timer, and makes the changes.
pub fn apply(wanted: &TreatmentArgs, plan: PlanReport, within: u64) -> Result<TreatmentReport, Failure> {
    needs_root()?;
    if let Some(name) = host_network_container() {
        return Err(Failure::failed(format!(
            "this is a container ({name}) with the network of its host: when it ends, the undo timer and the journal end too, but \
             the host would keep the changes; run linerate on the host itself"
        )));
    }
    let report = |id, steps| TreatmentReport {
        r#type: "doctor-treatment".into(),
        schema: 1,
        host: HERE.into(),
        id,
        within,
        steps,
        left: plan.left.clone(),
    };
    if plan.steps.is_empty() {
        return Ok(report(None, Vec::new()));
    }
    let (mut journal, fates) = applied_steps(wanted, &plan, within)?;
    let steps: Vec<StepReport> = plan.steps.iter().cloned().zip(fates).map(step_report).collect();
    if steps.iter().all(|step| step.holds.is_none()) {
        // Without changes, the undo timer isn't needed.
        course::undo(&mut journal, &mut LiveControls, UndoneBy::User).map_err(Failure::failed)?;
        return Ok(report(None, steps));
    }
    Ok(report(Some(journal.id), steps))
}

fn applied_steps(
    wanted: &TreatmentArgs,
    plan: &PlanReport,
    within: u64,
) -> Result<(TreatmentJournal, Vec<StepFate>), Failure> {
    let shelf = Shelf::open(&wanted.state).map_err(Failure::failed)?;
    needs_local(shelf.path())?;
    let _lock = shelf.lock(LOCK_TIMEOUT).map_err(|why| Failure(why, Code::Busy))?;
    let (journals, unread) = shelf.all();
    if let Some(open) = journals.iter().find(|journal| journal.is_open() && is_here(journal)) {
        let message = format!(
            "{0} isn't confirmed yet: confirm it by {1}, or undo it by --undo {0}, before you make other changes",
            open.id,
            wanted.command("--confirm", &open.id)
        );
        return Err(Failure(message, Code::Busy));
    }
    if let Some(unread) = unread.iter().find(|unread| !unread.is_undone) {
        return Err(Failure(what_to_do(unread), Code::Busy));
    }
    shelf.tidy();
    let mut journal = shelf.begin(plan.steps.clone(), within, &mut LiveControls).map_err(Failure::failed)?;
    let command = undo_timer_command(&shelf, &journal.id);
    let started = undo_timer::start(&mut journal, command);
    if let Err(why) = started {
        // No setting has been changed yet, so there is nothing to restore if this fails.
        let _ = course::undo(&mut journal, &mut LiveControls, UndoneBy::User);
        return Err(Failure::failed(format!("{why}; nothing was changed")));
    }
    let mut fates = Vec::new();
    let done = course::apply(&mut journal, &mut LiveControls, &mut |_, fate| fates.push(fate.clone()));
    if let Err(why) = done {
        let (ends, _) = course::restore_all(&mut journal, &mut LiveControls, UndoneBy::InsistingUser);
        let is_whole = ends.iter().all(|(_, end)| *end == WayBack::Restored);
        let end = if is_whole {
            "the changes made so far were undone"
        } else {
            "--undo undoes the changes made so far"
        };
        return Err(Failure::failed(format!("{}: {why}; {end}", journal.id)));
    }
    Ok((journal, fates))
}

/// The journal of the treatment with this ID.
fn journal_of(shelf: &Shelf, id: &str) -> Result<TreatmentJournal, Failure> {
    let reported = |why| shelf.unread(id).as_ref().map_or(why, what_to_do);
    shelf.journal(id).map_err(|why| Failure::failed(reported(why)))
}

/// The message about a journal that can't be read, with advice for the user.
fn what_to_do(unread: &UnreadJournal) -> String {
    let UnreadJournal { id, why, place, is_undone, .. } = unread;
    let place = place.display();
    match undo_timer::running(id) {
        _ if *is_undone => format!("{why}; {id} was undone already: {place} can be removed"),
        Some(pid) => format!(
            "{why}; the undo timer of {id} (process {pid}) still knows the changes and undoes them at its deadline: wait until it has ended"
        ),
        None => format!(
            "{why}; the changes of {id} can't be undone any more: check the settings, or restart the host; then remove {place}"
        ),
    }
}

/// Refuses a directory for journals that is on a network file system: if a change cuts the network, the undo timer
/// couldn't read the journal.
fn needs_local(state: &Path) -> Result<(), Failure> {
    let found = Storage::here(&[state.to_owned()]);
    let over_network = found.file_systems.known().into_iter().flatten().find(|fs| fs.is_over_network());
    let Some(file_system) = over_network else { return Ok(()) };
    let kind = file_system.kind.known().map_or("", String::as_str);
    Err(Failure::failed(format!(
        "{} is on a network file system ({kind}): if a change cuts the network, the undo timer can't read the journal there; \
         choose a directory of this host with --state",
        state.display()
    )))
}

fn undo_timer_command(shelf: &Shelf, id: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["undo-timer", id, "--state"]).arg(shelf.path());
    command.arg(format!("--starter={}", std::process::id()));
    command
}

fn step_report((step, fate): (linerate_treat::journal::PlannedStep, StepFate)) -> StepReport {
    match fate {
        StepFate::Holds(holds) => StepReport { step, holds: Some(holds), refused: None },
        StepFate::Refused(why) => StepReport { step, holds: None, refused: Some(why) },
    }
}

/// Confirms a treatment of this host. Unless the user forces it, the confirmation must come from a new login.
pub fn confirm(wanted: &TreatmentArgs, id: &str) -> Result<Code, Failure> {
    needs_root()?;
    let shelf = Shelf::having(&wanted.state, id).map_err(Failure::failed)?;
    let lock = shelf.lock(LOCK_TIMEOUT).map_err(|why| Failure(why, Code::Busy))?;
    let mut journal = journal_of(&shelf, id)?;
    let refused = |why: String| Err(Failure::failed(format!("{id} can't be confirmed: {why}")));
    match journal.standing() {
        TreatmentStanding::Unconfirmed => {}
        TreatmentStanding::Confirmed => {
            journal.confirm().map_err(Failure::failed)?;
            return Ok(Code::Done);
        }
        TreatmentStanding::Undone => return refused("it was undone already".into()),
        TreatmentStanding::Applying if journal.is_damaged() => {
            return refused(
                "its journal is damaged, and doesn't show that all changes were made; --undo undoes them"
                    .into(),
            );
        }
        TreatmentStanding::Applying => {
            return refused("it was interrupted before all changes were made; --undo undoes them".into());
        }
    }
    if journal.is_of_earlier_start() {
        return refused("the host has restarted since, which undid the changes".into());
    }
    if let Some(why) = not_new(&journal).filter(|_| !wanted.force) {
        return refused(format!("{why}: confirm them from a new login"));
    }
    journal.confirm().map_err(Failure::failed)?;
    // At its deadline, the undo timer waits for the lock, so the lock is released before this process waits for the
    // undo timer.
    drop(lock);
    await_undo_timer(&shelf, id)?;
    output!(
        "{id} is confirmed: the changes last until the host restarts; {} undoes them",
        wanted.command("--undo", id)
    );
    Ok(Code::Done)
}

/// The reason why this login doesn't prove that a new login is possible after the changes; `None` if it proves that.
fn not_new(journal: &TreatmentJournal) -> Option<&'static str> {
    if !Entrance::here().is_other(&journal.head.entrance) {
        return Some("the changes were made from this login, so it proves nothing");
    }
    let is_older = login_begun().zip(journal.last_change()).is_some_and(|(begun, changed)| begun < changed);
    is_older.then_some("this login is older than the changes, so it doesn't prove that a new one is possible")
}

/// Waits until the undo timer has seen the confirmation. Until then, it may still undo the changes.
fn await_undo_timer(shelf: &Shelf, id: &str) -> Result<(), Failure> {
    let until = Instant::now() + CONFIRMATION_TIMEOUT;
    while let Some(pid) = undo_timer::running(id) {
        if Instant::now() > until {
            let message = format!(
                "{id} is confirmed, but its undo timer (process {pid}) doesn't end, and may undo the changes nevertheless"
            );
            return Err(Failure::failed(message));
        }
        sleep(Duration::from_millis(20));
    }
    match journal_of(shelf, id)?.standing() {
        TreatmentStanding::Undone => {
            Err(Failure::failed(format!("{id} can't be confirmed: its undo timer has just undone it")))
        }
        _ => Ok(()),
    }
}

/// Keeps a confirmed treatment after a restart.
pub fn persist(wanted: &TreatmentArgs, id: &str) -> Result<PersistReport, Failure> {
    needs_root()?;
    if is_apart() && wanted.system == Path::new("/") {
        let message = "this is a container or a network namespace, and its settings are lost when it ends: put the settings into the configuration that creates it";
        return Err(Failure::failed(message.into()));
    }
    let shelf = Shelf::having(&wanted.state, id).map_err(Failure::failed)?;
    let _lock = shelf.lock(LOCK_TIMEOUT).map_err(|why| Failure(why, Code::Busy))?;
    let mut journal = journal_of(&shelf, id)?;
    if journal.standing() != TreatmentStanding::Confirmed {
        return Err(Failure::failed(format!(
            "{id} isn't confirmed yet: confirm it first by {}",
            wanted.command("--confirm", id)
        )));
    }
    if journal.is_of_earlier_start() && journal.kept().is_empty() {
        return Err(Failure::failed(format!(
            "the host has restarted since, which undid {id}: apply the changes again"
        )));
    }
    let ports = PresentPorts::of(&journal, &mut LiveControls);
    let keeping =
        System::below(&wanted.system).keep(&shelf, &mut journal, &ports).map_err(Failure::failed)?;
    let setting = |step: &usize| journal.head.steps[*step].setting.to_string();
    let left = |(step, why): &(usize, String)| LeftOut {
        check: journal.head.steps[*step].checks.join(", "),
        setting: setting(step),
        why: why.clone(),
    };
    Ok(PersistReport {
        r#type: "doctor-persist".into(),
        schema: 1,
        host: HERE.into(),
        id: id.into(),
        kept: keeping.kept.iter().map(setting).collect(),
        left: keeping.left.iter().map(left).collect(),
        files: keeping.files,
    })
}

/// Undoes a treatment.
pub fn undo(wanted: &TreatmentArgs, id: &str) -> Result<UndoReport, Failure> {
    needs_root()?;
    let shelf = Shelf::having(&wanted.state, id).map_err(Failure::failed)?;
    let _lock = shelf.lock(LOCK_TIMEOUT).map_err(|why| Failure(why, Code::Busy))?;
    let mut journal = journal_of(&shelf, id)?;
    report_damage(&journal);
    let system = System::below(&wanted.system);
    let recalled = system.recall(&mut journal);
    // The settings are restored even if a file can't be removed.
    let forgotten = recalled.and(system.forget(&shelf, &mut journal)).map_err(|why| {
        let end = format!(
            "which would make the changes of {id} again when the host starts: run --undo {id} again when the file can be written"
        );
        Failure::failed(format!("{why}, {end}"))
    });
    if journal.is_of_earlier_start() && journal.ever_kept().is_empty() {
        if journal.standing() != TreatmentStanding::Undone {
            course::ended_by_restart(&mut journal).map_err(Failure::failed)?;
        }
        return forgotten.map(|()| undo_report(&journal, Vec::new()));
    }
    // After a restart of the host, the same network namespace has another name.
    let may_be_here = is_here(&journal) || journal.is_of_earlier_start() && !is_apart();
    if !may_be_here {
        let message = format!(
            "{id} was applied in the network namespace {}, and this is another one: run this command there",
            journal.head.place.namespace
        );
        return Err(Failure::failed(message));
    }
    shelf.reach_back(&mut journal);
    let undoer = if wanted.force { UndoneBy::InsistingUser } else { UndoneBy::User };
    let ends = course::undo(&mut journal, &mut LiveControls, undoer).map_err(Failure::failed)?;
    report_others(&shelf, &journal);
    let ends = ends.into_iter().map(|(step, end)| (step, named(&shelf, &journal, step, end))).collect();
    forgotten.map(|()| undo_report(&journal, ends))
}

/// Finishes the undoing of earlier treatments. They were undone while this treatment still held some of their settings,
/// so that they had to leave these settings. Reports the names of these treatments.
pub fn report_others(shelf: &Shelf, journal: &TreatmentJournal) {
    for id in course::catch_up(shelf, journal, &mut LiveControls) {
        message!("linerate: the rest of {id} is undone now, too");
    }
}

/// The end of a step. If a later treatment has changed the step's setting since, the end names that treatment.
fn named(shelf: &Shelf, journal: &TreatmentJournal, step: usize, end: WayBack) -> WayBack {
    let setting = &journal.head.steps[step].setting;
    let has_it = |other: &TreatmentJournal| {
        let is_it = |(at, step): (usize, &PlannedStep)| step.setting == *setting && other.holds(at).is_some();
        let is_made = other.is_open() || other.standing() == TreatmentStanding::Confirmed;
        other.id != journal.id && is_made && other.head.steps.iter().enumerate().any(is_it)
    };
    let WayBack::SetByOthers(why) = end else { return end };
    let later = shelf.all().0.into_iter().rev().find(has_it);
    let by = |later: TreatmentJournal| {
        format!("{0} has changed the setting since then: --undo {0} restores it for both", later.id)
    };
    WayBack::SetByOthers(later.map_or(why, by))
}

/// Reports that a journal is damaged, unless nothing depends on it any more.
pub fn report_damage(journal: &TreatmentJournal) {
    let is_past = journal.standing() == TreatmentStanding::Undone && course::outstanding(journal).is_empty();
    if journal.is_damaged() && !is_past {
        message!(
            "linerate: the journal of {} is damaged; the plan in its first line replaces the lost lines",
            journal.id
        );
    }
}

fn undo_report(journal: &TreatmentJournal, ends: Vec<(usize, WayBack)>) -> UndoReport {
    let mut report = UndoReport {
        r#type: "doctor-undo".into(),
        schema: 1,
        host: HERE.into(),
        id: journal.id.clone(),
        restored: Vec::new(),
        left: Vec::new(),
    };
    let ports = PresentPorts::of(journal, &mut LiveControls);
    for (was, is) in ports.renamed().filter(|_| !ends.is_empty()) {
        message!("linerate: the port {was} is named {is} now");
    }
    for (step, end) in ends {
        let step = &journal.head.steps[step];
        let setting = ports.setting(&step.setting).unwrap_or_else(|_| step.setting.clone()).to_string();
        match end.why() {
            None => report.restored.push(setting),
            Some(why) => {
                report.left.push(LeftOut { check: step.checks.join(", "), setting, why: why.into() });
            }
        }
    }
    report
}

/// All treatments of this host.
pub fn applied(wanted: &TreatmentArgs) -> Result<AppliedReport, Failure> {
    needs_root()?;
    let swept = sweep(wanted);
    let (journals, unread) = Shelf::existing(&wanted.state).map(|shelf| shelf.all()).unwrap_or_default();
    journals.iter().filter(|journal| !swept.contains(&journal.id)).for_each(report_damage);
    let names = |journal: &TreatmentJournal, steps: &[usize]| {
        let steps = steps.iter().filter_map(|step| journal.head.steps.get(*step));
        steps.map(|step| step.setting.to_string()).collect()
    };
    let one = |journal: &TreatmentJournal| AppliedTreatment {
        id: journal.id.clone(),
        begun: journal.head.begun,
        standing: journal.standing(),
        changed: (0..journal.head.steps.len()).filter_map(|step| changed(journal, step)).collect(),
        kept: names(journal, journal.kept()),
        left: match journal.standing() {
            TreatmentStanding::Undone => names(journal, &course::outstanding(journal)),
            _ => Vec::new(),
        },
    };
    let (past, unread): (Vec<_>, Vec<_>) = unread.into_iter().partition(|unread| unread.is_undone);
    let treatments = past.iter().map(past_treatment).chain(journals.iter().map(one)).collect();
    let unread = unread.iter().map(what_to_do).collect();
    Ok(AppliedReport { r#type: "doctor-applied".into(), schema: 1, host: HERE.into(), treatments, unread })
}

/// A treatment whose journal can't be read. It is known only that it was undone.
fn past_treatment(unread: &UnreadJournal) -> AppliedTreatment {
    AppliedTreatment {
        id: unread.id.clone(),
        begun: unread.begun,
        standing: TreatmentStanding::Undone,
        changed: Vec::new(),
        kept: Vec::new(),
        left: Vec::new(),
    }
}

fn changed(journal: &TreatmentJournal, step: usize) -> Option<StepReport> {
    let (holds, before) = (journal.holds(step)?, journal.before(step)?);
    let step =
        linerate_treat::journal::PlannedStep { before: before.into(), ..journal.head.steps[step].clone() };
    Some(StepReport { step, holds: Some(holds.into()), refused: None })
}

/// True if the treatment was applied in the network namespace in which this process runs.
pub fn is_here(journal: &TreatmentJournal) -> bool {
    journal.head.place.is_same(&Whereabouts::here())
}

/// Refuses users other than root.
pub fn needs_root() -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let message = "changing settings needs root: sudo linerate doctor ...; for another host, \
                   --agent-command 'sudo linerate', or root@HOST";
    Err(Failure::failed(message.into()))
}
