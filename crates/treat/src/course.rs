//! The course of a treatment: each step with its entries in the journal, and the undoing of all steps.

use linerate_doctor::remedy::Setting;

use crate::Controls;
use crate::journal::{PlannedStep, RESTART, Shelf, TreatmentEvent, TreatmentJournal, TreatmentStanding};
use crate::port::{MovedControls, PresentPorts};
use crate::side_effects;
use crate::surroundings::Whereabouts;

/// The largest number of times that all settings are restored: restoring one setting may change another, as a new
/// number of queues changes the queues' masks.
const ROUNDS: usize = 3;

/// The result of making a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepFate {
    /// The step was made; this value was read back.
    Holds(String),
    /// The step was refused for this reason, and the former value holds.
    Refused(String),
}

/// The result of undoing a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WayBack {
    /// The former value holds.
    Restored,
    /// Another value holds, for this reason.
    Left(String),
    /// A value holds that somebody else has set since the step; the reason names this value.
    SetByOthers(String),
}

impl WayBack {
    /// The reason why the setting wasn't restored.
    pub fn why(&self) -> Option<&str> {
        match self {
            WayBack::Restored => None,
            WayBack::Left(why) | WayBack::SetByOthers(why) => Some(why),
        }
    }
}

/// The person or process that undoes a treatment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoneBy {
    /// The user. Settings that others have changed since the treatment keep their values.
    User,
    /// The user with `--force`: settings that others have changed since the treatment are restored too.
    InsistingUser,
    /// The undo timer, at the deadline.
    UndoTimer,
    /// A later run, which finds that the undo timer no longer runs.
    NextRun,
}

/// Makes all steps. `reported` is called with the result of each step.
///
/// # Errors
/// The reason, as a sentence, if the journal can't be written; then the remaining steps aren't made.
pub fn apply(
    journal: &mut TreatmentJournal,
    controls: &mut dyn Controls,
    reported: &mut dyn FnMut(usize, &StepFate),
) -> Result<(), String> {
    for step in 0..journal.head.steps.len() {
        let fate = make(journal, controls, step)?;
        reported(step, &fate);
    }
    journal.note(TreatmentEvent::Applied)
}

fn make(
    journal: &mut TreatmentJournal,
    controls: &mut dyn Controls,
    step: usize,
) -> Result<StepFate, String> {
    let PlannedStep { setting, new, .. } = journal.head.steps[step].clone();
    let before = match value_before(journal, controls, step)? {
        Ok(before) => before,
        Err(fate) => return Ok(fate),
    };
    let beside = side_effects::values(controls, &setting);
    journal.note(TreatmentEvent::Changing { step, before: before.clone(), beside: beside.clone() })?;
    let written = controls.write(&setting, &new).and_then(|()| controls.read(&setting));
    match written {
        Ok(holds) if setting.is_same(&holds, &before) => {
            refused(journal, step, format!("the host accepted it, but kept {before}"))
        }
        Ok(holds) if !setting.lowers(&before, &holds) => {
            let after = side_effects::again(controls, &beside);
            journal.note(TreatmentEvent::Changed { step, holds: holds.clone(), beside: after })?;
            Ok(StepFate::Holds(holds))
        }
        failed => {
            let why = match failed {
                Ok(holds) => format!("the host set {holds} instead, which is less than before"),
                Err(why) => why,
            };
            let back = restore(controls, &journal.head.steps[step].setting, &before);
            match back.and_then(|()| side_effects::restore(controls, &beside)) {
                Ok(()) => refused(journal, step, why),
                Err(error) => {
                    let why = format!("{why}; and {before} can't be set again: {error}");
                    journal.note(TreatmentEvent::Left { step, why: why.clone() })?;
                    refused(journal, step, why)
                }
            }
        }
    }
}

/// The setting's value before a step, or the fate of a step that isn't made.
fn value_before(
    journal: &mut TreatmentJournal,
    controls: &mut dyn Controls,
    step: usize,
) -> Result<Result<String, StepFate>, String> {
    let PlannedStep { setting, before, new, .. } = journal.head.steps[step].clone();
    let found =
        PresentPorts::of(journal, controls).check_name(&setting).and_then(|()| controls.read(&setting));
    let why = match found {
        Ok(now) if setting.is_same(&now, &before) => return Ok(Ok(now)),
        // An earlier step has brought it about: a bridge takes the least MTU of its ports. Undoing that step takes it back.
        Ok(now) if step > 0 && setting.is_same(&now, &new) => {
            journal.note(TreatmentEvent::Refused { step, why: format!("it is {now} already") })?;
            return Ok(Err(StepFate::Holds(now)));
        }
        Ok(now) => format!("it is {now} now, but was {before} in the plan"),
        Err(why) => why,
    };
    refused(journal, step, why).map(Err)
}

fn refused(journal: &mut TreatmentJournal, step: usize, why: String) -> Result<StepFate, String> {
    journal.note(TreatmentEvent::Refused { step, why: why.clone() })?;
    Ok(StepFate::Refused(why))
}

/// Restores the former value of every step that may have been made, the last one first. This function may be called
/// repeatedly.
///
/// # Errors
/// The reason, as a sentence, if the journal can't be written. The settings are restored nevertheless.
pub fn undo(
    journal: &mut TreatmentJournal,
    controls: &mut dyn Controls,
    undoer: UndoneBy,
) -> Result<Vec<(usize, WayBack)>, String> {
    let (ends, noted) = restore_all(journal, controls, undoer);
    let is_whole = ends.iter().all(|(_, end)| *end == WayBack::Restored);
    noted.map_err(|why| if is_whole { format!("{why}; the settings are as before") } else { why })?;
    Ok(ends)
}

/// Undoes the steps as [`undo`] does, but returns the result of each step even if the journal can't be written.
pub fn restore_all(
    journal: &mut TreatmentJournal,
    controls: &mut dyn Controls,
    undoer: UndoneBy,
) -> (Vec<(usize, WayBack)>, Result<(), String>) {
    // Side effects of an undoing that was interrupted aren't somebody else's changes.
    let is_careful = undoer == UndoneBy::User && !journal.is_half_undone();
    // The settings are restored even if the journal can't be written.
    let _ = journal.note(TreatmentEvent::TakingBack);
    let ends = settled(journal, &mut MovedControls::of(journal, controls), undoer, is_careful);
    let mut noted = Ok(());
    for (step, end) in &ends {
        let event = match end.why() {
            None => TreatmentEvent::Restored { step: *step },
            Some(why) => TreatmentEvent::Left { step: *step, why: why.into() },
        };
        noted = noted.and(journal.note(event));
    }
    let noted = noted.and(journal.note(TreatmentEvent::Undone { by: undoer.name().into() }));
    // A refused step had its former value already.
    let is_reported = |(step, end): &(usize, WayBack)| *end != WayBack::Restored || journal.was_made(*step);
    (ends.into_iter().filter(is_reported).collect(), noted)
}

/// Restores settings that the undoing of other treatments has left because the treatment `of` had changed these
/// settings, or settings on which they depend. The treatment `of` is undone now. Returns the identifiers of the
/// treatments that are thereby undone completely. The caller holds the shelf's lock.
pub fn catch_up(shelf: &Shelf, of: &TreatmentJournal, controls: &mut dyn Controls) -> Vec<String> {
    let is_related = |setting: &Setting| {
        let is_it =
            |other: &Setting| other == setting || other.port().is_some() && other.port() == setting.port();
        of.head.steps.iter().any(|step| is_it(&step.setting))
    };
    let is_left = |journal: &TreatmentJournal| {
        let steps = outstanding(journal);
        let is_alike = |place: &Whereabouts| {
            place.is_same(&of.head.place) || journal.is_of_earlier_start() && of.is_of_earlier_start()
        };
        journal.id != of.id
            && journal.standing() == TreatmentStanding::Undone
            && is_alike(&journal.head.place)
            && steps.iter().any(|step| is_related(&journal.head.steps[*step].setting))
    };
    let mut done = Vec::new();
    for mut journal in shelf.all().0.into_iter().rev().filter(is_left) {
        let (ends, _) = restore_all(&mut journal, controls, UndoneBy::User);
        if ends.iter().all(|(_, end)| *end == WayBack::Restored) {
            done.push(journal.id);
        }
    }
    done
}

/// Notes that a restart of the host undid the treatment.
///
/// # Errors
/// The reason, as a sentence, if the journal can't be written.
pub fn ended_by_restart(journal: &mut TreatmentJournal) -> Result<(), String> {
    journal.note(TreatmentEvent::Undone { by: RESTART.into() })
}

/// The steps that may have been made, and whose former values aren't known to be restored, the last one first.
pub fn outstanding(journal: &TreatmentJournal) -> Vec<usize> {
    // A restart undid all steps that weren't kept.
    let kept = journal.is_of_earlier_start().then(|| journal.ever_kept());
    let is_there = |step: &usize| kept.as_ref().is_none_or(|kept| kept.contains(step));
    let made =
        (0..journal.head.steps.len()).rev().filter(|step| journal.before(*step).is_some()).filter(is_there);
    if journal.standing() != TreatmentStanding::Undone {
        return made.collect();
    }
    let is_by_restart =
        |event: &TreatmentEvent| matches!(event, TreatmentEvent::Undone { by } if by == RESTART);
    // A restart undid everything, without an event for each step, unless files that keep some steps were found later.
    let is_any_kept = kept.as_ref().is_some_and(|kept| !kept.is_empty());
    if !is_any_kept && journal.events.iter().any(|stamped| is_by_restart(&stamped.event)) {
        return Vec::new();
    }
    let last = |step: usize| {
        journal.last(|stamped| match &stamped.event {
            TreatmentEvent::Restored { step: of } if *of == step => Some(true),
            TreatmentEvent::Left { step: of, .. } if *of == step => Some(false),
            // Files that couldn't be removed before have set the new value again at the start of the host.
            TreatmentEvent::Forgotten if kept.is_some() => Some(false),
            _ => None,
        })
    };
    made.filter(|step| last(*step) != Some(true)).collect()
}

fn settled(
    journal: &TreatmentJournal,
    controls: &mut MovedControls<'_>,
    undoer: UndoneBy,
    is_careful: bool,
) -> Vec<(usize, WayBack)> {
    let steps = in_order_back(journal, [unseen(journal, controls), outstanding(journal)].concat());
    let beside: Vec<_> =
        steps.iter().map(|step| side_effects::of_step(journal, controls, *step, is_careful)).collect();
    let mut ends: Vec<(usize, WayBack)> = Vec::new();
    for _ in 0..ROUNDS {
        let before = ends;
        // A setting that one round has restored counts as set by this program, even if a later round finds another
        // value.
        let was_restored = |at: usize| before.get(at).is_some_and(|(_, end)| *end == WayBack::Restored);
        let undoer = |at| if was_restored(at) { UndoneBy::InsistingUser } else { undoer };
        ends = (0..)
            .zip(&steps)
            .map(|(at, step)| (*step, give_back(journal, controls, *step, undoer(at))))
            .collect();
        for ((_, end), beside) in ends.iter_mut().zip(&beside) {
            if let (WayBack::Restored, Err(why)) = (&end, beside.restore(controls)) {
                *end = WayBack::Left(why);
            }
        }
        if before == ends {
            break;
        }
    }
    ends
}

/// Puts the steps into the order in which they are undone. Queueing disciplines come last, because the kernel takes a
/// discipline's options from the port's MTU, and the discipline itself from a sysctl.
fn in_order_back(journal: &TreatmentJournal, mut steps: Vec<usize>) -> Vec<usize> {
    steps.sort_by_key(|step| matches!(journal.head.steps[*step].setting, Setting::Qdisc { .. }));
    steps
}

/// In a treatment that was interrupted, the steps without an event whose new values nevertheless hold: the end of the
/// journal may be lost. The last step comes first.
fn unseen(journal: &TreatmentJournal, controls: &mut dyn Controls) -> Vec<usize> {
    let is_cut_off = journal.standing() == TreatmentStanding::Applying && !journal.is_of_earlier_start();
    let mut is_made = |PlannedStep { setting, before, new, .. }: &PlannedStep| {
        controls.read(setting).is_ok_and(|now| setting.holds(&now, new) && !setting.is_same(&now, before))
    };
    let steps = journal.head.steps.iter().enumerate().rev();
    let steps = steps.filter(|(step, _)| is_cut_off && !journal.knows(*step));
    steps.filter(|(_, planned)| is_made(planned)).map(|(step, _)| step).collect()
}

fn give_back(
    journal: &TreatmentJournal,
    controls: &mut dyn Controls,
    step: usize,
    undoer: UndoneBy,
) -> WayBack {
    let planned = &journal.head.steps[step];
    let before = journal.before(step).unwrap_or(&planned.before);
    // A setting that can't be read may still be written.
    let foreign = (undoer == UndoneBy::User).then(|| set_by_others(journal, controls, step)).flatten();
    if let Some(now) = foreign {
        let left = |who| format!("it is {now}, {who}; --force restores {before}");
        return match journal.holds(step) {
            Some(_) => WayBack::SetByOthers(left("which somebody else has set since then")),
            None => WayBack::Left(left("and the journal is damaged where it says who set it")),
        };
    }
    match restore(controls, &planned.setting, before) {
        Ok(()) => WayBack::Restored,
        Err(why) => WayBack::Left(why),
    }
}

/// The present value of a step's setting, if somebody else has set this value since the step.
pub(crate) fn set_by_others(
    journal: &TreatmentJournal,
    controls: &mut dyn Controls,
    step: usize,
) -> Option<String> {
    let planned = &journal.head.steps[step];
    let before = journal.before(step).unwrap_or(&planned.before);
    let now = controls.read(&planned.setting).ok()?;
    (is_others(journal, step, &now) && !planned.setting.is_same(&now, before)).then_some(now)
}

/// True if this program didn't set the value `now`. For a step that was interrupted this isn't known, and the result is
/// false unless the journal is damaged.
fn is_others(journal: &TreatmentJournal, step: usize, now: &str) -> bool {
    let PlannedStep { setting, new, .. } = &journal.head.steps[step];
    let is_held = match journal.holds(step) {
        Some(holds) => setting.is_same(now, holds),
        None => !journal.is_damaged(),
    };
    // A driver that adapts its coalescing changes the other values by itself.
    !is_held && !setting.holds(now, new)
}

pub(crate) fn restore(controls: &mut dyn Controls, setting: &Setting, before: &str) -> Result<(), String> {
    if controls.check_back(setting, before).is_ok() {
        return Ok(());
    }
    controls.write(setting, before)?;
    controls.check_back(setting, before)
}

impl UndoneBy {
    fn name(self) -> &'static str {
        match self {
            Self::User | Self::InsistingUser => "user",
            Self::UndoTimer => "undo timer",
            Self::NextRun => "next run",
        }
    }
}

#[cfg(test)]
mod tests;
