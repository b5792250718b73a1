//! Prints plans and treatments as text.

use linerate_doctor::remedy::Setting;
use linerate_treat::journal::{PlannedStep, TreatmentStanding};
use linerate_treat::plan::{LeftOut, reasons};
use linerate_wire::path::printable;
use std::fmt::Write;
use std::io::{self, IsTerminal};

use super::{AppliedReport, PersistReport, PlanReport, StepReport, TreatmentReport, UndoReport};
use crate::common::failure::Failure;
use crate::doctor::brief::{FEW, kind};

/// A remark about how long the printed commands are valid.
const OF_THIS_START: &str = "\nThe undo commands use the present names of ports and numbers of interrupts: they are valid until the host restarts or a port\n\
                             is renamed. linerate doctor --undo finds ports after that, too.";

/// A plan as text: the changes that would be made, and those that wouldn't.
pub fn plan(plan: &PlanReport) -> String {
    let mut out = String::new();
    let count = plan.steps.len();
    line(&mut out, &format!("{}: {} to make", plan.host, counted(count, "change")));
    let mut number = 1;
    for alike in plan.steps.chunk_by(is_alike) {
        match alike {
            many if many.len() > FEW => show_many(&mut out, number, many),
            few => (number..).zip(few).for_each(|(number, step)| show_step(&mut out, number, step)),
        }
        number += alike.len();
    }
    if plan.steps.iter().any(|step| is_of_this_start(&step.setting)) {
        line(&mut out, OF_THIS_START);
    }
    left(&mut out, &plan.left);
    if !plan.advice.is_empty() {
        line(&mut out, &format!("\nto be done by hand: {}", plan.advice.join(", ")));
    }
    out.trim_end().to_owned()
}

/// True if the setting's name contains a port or an interrupt: after a restart of the host, the same name may belong to
/// another port or interrupt.
fn is_of_this_start(setting: &Setting) -> bool {
    setting.port().is_some() || matches!(setting, Setting::IrqAffinity { .. })
}

/// True if two steps, proposed by the same checks, change the same kind of setting of two interrupts or queues.
fn is_alike(one: &PlannedStep, other: &PlannedStep) -> bool {
    let of = kind(&one.setting);
    of.is_some() && of == kind(&other.setting) && one.checks == other.checks
}

fn show_step(out: &mut String, number: usize, step: &PlannedStep) {
    line(out, &format!("\n{number}. {}  [{}]", step.setting, step.checks.join(", ")));
    row(out, "now", &step.before);
    row(out, "new", &step.new);
    show_rest(out, step, &step.setting.way_back(&step.setting.named(&step.before, &step.new)));
}

/// Prints many steps of one kind, one on each line.
fn show_many(out: &mut String, number: usize, steps: &[PlannedStep]) {
    let [first, ..] = steps else { return };
    let what = kind(&first.setting).unwrap_or_default();
    let last = number + steps.len() - 1;
    line(out, &format!("\n{number}-{last}. {} {what}  [{}]", steps.len(), first.checks.join(", ")));
    for step in steps {
        row(out, "new", &format!("{}: {} -> {}", step.setting, step.before, step.new));
    }
    show_rest(out, first, "linerate doctor --undo");
}

fn show_rest(out: &mut String, step: &PlannedStep, undo: &str) {
    step.owner.iter().for_each(|owner| row(out, "owner", owner));
    let file = step.kept.iter().map(|file| format!("; --persist keeps it in {file}"));
    row(out, "kept", &format!("until the host restarts{}", file.collect::<String>()));
    row(out, "undo", undo);
    if step.setting.interrupts() {
        row(out, "but", "the port may lose packets, or its link, for a moment");
    }
}

/// A treatment as text: the changes that were applied, those that the host left out, and the command that confirms
/// them.
pub fn treatment(report: &TreatmentReport, dropped: &[LeftOut], confirming: &str) -> String {
    let mut out = String::new();
    report.steps.iter().for_each(|step| line(&mut out, &fate(step)));
    dropped.iter().for_each(|left| line(&mut out, &format!("{} is not changed: {}", left.setting, left.why)));
    let made = report.steps.iter().filter(|step| step.holds.is_some()).count();
    let Some(id) = &report.id else {
        line(&mut out, &format!("{}: nothing was changed", report.host));
        return out.trim_end().to_owned();
    };
    let all = counted(report.steps.len() + dropped.len(), "change");
    line(&mut out, &format!("\n{}: made {made} of {all}, as {id}", report.host));
    line(
        &mut out,
        &format!("All changes are undone in {} s, unless you run this from a new login:", report.within),
    );
    line(&mut out, &format!("  {confirming}"));
    out.trim_end().to_owned()
}

fn fate(step: &StepReport) -> String {
    let setting = &step.step.setting;
    match (&step.holds, &step.refused) {
        (Some(holds), _) if setting.holds(holds, &step.step.new) => format!("{setting} is {}", step.step.new),
        (Some(holds), _) => {
            format!("{setting} is {holds}: the host set this value instead of {}", step.step.new)
        }
        (None, why) => {
            format!("{setting} stays {}: {}", step.step.before, why.as_deref().unwrap_or_default())
        }
    }
}

/// As text, the settings that are kept after a restart, and those that aren't.
pub fn persist(report: &PersistReport) -> String {
    let mut out = String::new();
    report.kept.iter().for_each(|setting| line(&mut out, &format!("{setting} is kept")));
    let left = report.left.iter().map(|left| format!("{} is not kept: {}", left.setting, left.why));
    left.for_each(|left| line(&mut out, &left));
    let (host, id) = (&report.host, &report.id);
    match report.files.as_slice() {
        [] => line(&mut out, &format!("{host}: nothing of {id} is kept")),
        files => {
            line(
                &mut out,
                &format!("{host}: {id} is kept in {}; --undo {id} removes it", files.join(" and ")),
            );
        }
    }
    out.trim_end().to_owned()
}

/// As text, the settings that were restored, and those that weren't.
pub fn undo(report: &UndoReport) -> String {
    let mut out = String::new();
    for setting in &report.restored {
        line(&mut out, &format!("{setting} is as before"));
    }
    for LeftOut { setting, why, .. } in &report.left {
        line(&mut out, &format!("{setting} is not as before: {why}"));
    }
    let restored = counted(report.restored.len(), "setting");
    match (report.restored.len(), report.left.len()) {
        (0, 0) => line(&mut out, &format!("{}: nothing of {} was left to undo", report.host, report.id)),
        (_, 0) => line(&mut out, &format!("{}: {} is undone, {restored}", report.host, report.id)),
        (_, count) => {
            line(&mut out, &format!("{}: {restored} of {} undone, {count} not", report.host, report.id));
        }
    }
    out.trim_end().to_owned()
}

/// All treatments of a host as text.
pub fn applied(report: &AppliedReport) -> String {
    let mut out = String::new();
    match report.unread.len() {
        0 if report.treatments.is_empty() => line(&mut out, &format!("{}: nothing was applied", report.host)),
        0 => {}
        count => {
            line(
                &mut out,
                &format!("{}: {} can't be read", report.host, counted(count, "treatment's journal")),
            );
        }
    }
    for treatment in &report.treatments {
        let standing = match treatment.standing {
            TreatmentStanding::Applying => "interrupted",
            TreatmentStanding::Unconfirmed => "not confirmed yet",
            TreatmentStanding::Confirmed => "confirmed",
            TreatmentStanding::Undone => "undone",
        };
        let left = &treatment.left;
        let standing = match left.as_slice() {
            [] => standing.to_owned(),
            left => format!("{standing}, but not {}: --undo {} tries again", left.join(", "), treatment.id),
        };
        let when = since(treatment.begun);
        line(&mut out, &format!("{}  {when}  {standing}", treatment.id));
        for StepReport { step, holds, .. } in &treatment.changed {
            let holds = holds.as_deref().unwrap_or_default();
            let is_kept = treatment.kept.contains(&step.setting.to_string());
            let kept = if is_kept { ", kept beyond a restart" } else { "" };
            line(&mut out, &format!("  {}: {} -> {holds}{kept}", step.setting, step.before));
        }
    }
    out.trim_end().to_owned()
}

/// Asks the user whether to make `count` changes. Returns true if the user agrees.
///
/// # Errors
/// If there is no terminal to ask on.
pub fn agrees(count: usize) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        let message = "there is no terminal to ask on: --yes applies the changes, --plan shows them";
        return Err(Failure::usage(message.into()));
    }
    message!("Make {}? [y/N]", counted(count, "change"));
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    Ok(read.is_ok() && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

fn left(out: &mut String, left: &[LeftOut]) {
    if left.is_empty() {
        return;
    }
    line(out, "\nnot made:");
    for (why, ones) in reasons(left) {
        let settings: Vec<&str> = ones.iter().map(|one| one.setting.as_str()).collect();
        line(out, &format!("  {}: {why}", settings.join(", ")));
    }
}

fn since(begun: u64) -> String {
    let seconds = linerate_treat::surroundings::today().saturating_sub(begun);
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// A count with its noun: `1 change`, `3 changes`.
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn row(out: &mut String, label: &str, text: &str) {
    line(out, &format!("   {label:5} {text}"));
}

fn line(out: &mut String, text: &str) {
    // Values and names of ports come from the host, so they are escaped. Writing to a String doesn't fail.
    let _ = writeln!(
        out,
        "{}",
        text.split('\n').map(|part| printable(part.as_bytes()).to_string()).collect::<Vec<_>>().join("\n")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(setting: Setting) -> PlannedStep {
        PlannedStep {
            checks: vec!["x".into()],
            setting,
            before: "0-3".into(),
            new: "1".into(),
            owner: None,
            kept: None,
        }
    }

    #[test]
    fn many_interrupts_are_a_line_each() {
        let mut steps = vec![step(Setting::Governor)];
        steps.extend((24..40).map(|irq| step(Setting::IrqAffinity { irq })));
        let text = plan(&PlanReport::of(linerate_treat::plan::TreatmentPlan { steps, ..Default::default() }));
        assert!(text.contains("\n2-17. 16 interrupts  [x]\n"), "{text}");
        assert!(text.contains("new   the processors of interrupt 39: 0-3 -> 1\n"), "{text}");
        assert_eq!(text.lines().count(), 30, "a line each: {text}");
    }

    #[test]
    fn commands_that_name_a_port_hold_for_this_start() {
        let of = |setting: Setting| {
            let steps = vec![step(setting)];
            plan(&PlanReport::of(linerate_treat::plan::TreatmentPlan { steps, ..Default::default() }))
        };
        let text = of(Setting::Mtu { port: "eth0".into() });
        assert!(
            text.contains("undo  ip link set eth0 mtu") && text.contains("until the host restarts or a port"),
            "{text}"
        );
        assert!(!of(Setting::Governor).contains("or a port"));
    }
}
