//! Undoes the treatments of this host that nobody confirmed in time and whose undo timers are gone.

use linerate_treat::LiveControls;
use linerate_treat::course::{self, UndoneBy, WayBack};
use linerate_treat::journal::{Shelf, TreatmentJournal, TreatmentStanding};
use linerate_treat::persist::System;
use linerate_treat::surroundings::uptime;

use super::here::{LOCK_TIMEOUT, is_here, report_damage, report_others};
use super::{TreatmentArgs, show};

/// The milliseconds that must pass after an undo timer's deadline before another run undoes the changes instead.
const GRACE: u64 = 2000;

/// Undoes treatments that nobody confirmed in time, if their undo timers haven't done so, and records which treatments
/// a restart has undone. Returns the IDs of all these treatments.
pub fn sweep(wanted: &TreatmentArgs) -> Vec<String> {
    let Some(shelf) = Shelf::existing(&wanted.state) else { return Vec::new() };
    let is_over = |journal: &TreatmentJournal| journal.is_open() && uptime() > journal.deadline() + GRACE;
    let is_due = |journal: &TreatmentJournal| is_past(journal) || is_here(journal) && is_over(journal);
    let due: Vec<String> = shelf.all().0.into_iter().filter(is_due).map(|journal| journal.id).collect();
    for id in &due {
        if let Err(why) = sweep_one(wanted, &shelf, id) {
            message!("linerate: {id} wasn't confirmed, and can't be undone: {why}");
        }
    }
    due
}

/// True if a restart of the host has undone the treatment, according to its journal.
fn is_past(journal: &TreatmentJournal) -> bool {
    journal.is_of_earlier_start()
        && journal.standing() != TreatmentStanding::Undone
        && journal.ever_kept().is_empty()
}

fn sweep_one(wanted: &TreatmentArgs, shelf: &Shelf, id: &str) -> Result<(), String> {
    let _lock = shelf.lock(LOCK_TIMEOUT)?;
    let mut journal = shelf.journal(id)?;
    System::below(&wanted.system).recall(&mut journal)?;
    if is_past(&journal) {
        return course::ended_by_restart(&mut journal);
    }
    if !journal.is_open() {
        return Ok(());
    }
    report_damage(&journal);
    let why = if journal.is_damaged() {
        "has a damaged journal that doesn't show whether it was confirmed"
    } else {
        "wasn't confirmed in time"
    };
    shelf.reach_back(&mut journal);
    let ends = course::undo(&mut journal, &mut LiveControls, UndoneBy::NextRun)?;
    report_others(shelf, &journal);
    let restored = ends.iter().filter(|(_, end)| *end == WayBack::Restored).count();
    let restored = show::counted(restored, "setting");
    message!("linerate: {id} {why}, and was undone now: {restored}");
    for (step, end) in ends {
        if let Some(why) = end.why() {
            message!("linerate: {} couldn't be restored: {why}", journal.head.steps[step].setting);
        }
    }
    Ok(())
}
