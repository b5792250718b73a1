//! The journal of a treatment: a directory with a file that has a line of JSON for each step that was done or is about
//! to be done. Every line is on stable storage before the next step. docs/formats.md describes the format.

mod shelf;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use linerate_doctor::remedy::Setting;
use serde::{Deserialize, Serialize};

use crate::port::PortIdentity;
use crate::surroundings::{Entrance, Whereabouts, uptime};

pub use shelf::{Shelf, ShelfLock, USUAL, UnreadJournal};

/// The version of the format.
pub const FORM: u32 = 1;

/// The most bytes of a journal that are read.
const MOST_JOURNAL_BYTES: u64 = 16 << 20;

/// The cause of [`TreatmentEvent::Undone`] by a restart.
pub(crate) const RESTART: &str = "restart";

/// A file beside the journal that means the same as [`TreatmentEvent::Confirmed`], even if the journal is damaged
/// later.
const CONFIRMED: &str = "confirmed";

/// One treatment's journal.
#[derive(Debug)]
pub struct TreatmentJournal {
    /// The treatment's identifier.
    pub id: String,
    /// The first line: how the treatment began.
    pub head: JournalHead,
    /// The events after the first line, in their order.
    pub events: Vec<Stamped>,
    /// The number of lines that couldn't be read.
    unread: usize,
    file: File,
    /// The journal's directory.
    place: PathBuf,
    /// True if the file [`CONFIRMED`] exists, so that the treatment is confirmed.
    is_marked: bool,
    /// For some steps, a value that replaces the journal's value from before the step: see [`Shelf::reach_back`].
    reached: BTreeMap<usize, String>,
}

/// The first line of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalHead {
    /// The type of the file, which is always `doctor-journal`.
    pub r#type: String,
    /// The version of the format, [`FORM`].
    pub form: u32,
    /// The version of the program.
    pub program: String,
    /// The time at which the treatment began, in seconds since 1970.
    pub begun: u64,
    /// The number of seconds within which the treatment must be confirmed.
    pub within: u64,
    /// The place to which the settings belong.
    pub place: Whereabouts,
    /// The login that began the treatment.
    pub entrance: Entrance,
    /// The changes, in their order.
    pub steps: Vec<PlannedStep>,
    /// The ports of the changes; journals of earlier versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortIdentity>,
}

/// A planned change of a setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedStep {
    /// The checks that propose the change.
    pub checks: Vec<String>,
    /// The setting.
    pub setting: Setting,
    /// The setting's value when the plan was made.
    pub before: String,
    /// The setting's new value.
    pub new: String,
    /// The file or profile that sets the setting at each start of the host, in words for people; `None` if none is
    /// known.
    #[serde(default)]
    pub owner: Option<String>,
    /// The file that would keep the new value after a restart; `None` if no file can.
    #[serde(default)]
    pub kept: Option<String>,
}

/// An event and its time, in milliseconds of uptime.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stamped {
    /// The time, in milliseconds of uptime.
    pub at: u64,
    /// The event.
    #[serde(flatten)]
    pub event: TreatmentEvent,
}

/// An event in the course of a treatment: an action that is about to happen or has happened. Steps are numbered from 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum TreatmentEvent {
    /// The undo timer, which undoes the treatment unless the user confirms it, is waiting.
    Watching {
        /// The process ID of the undo timer.
        pid: u32,
    },
    /// A step is about to be made: from now on the setting may have changed.
    Changing {
        /// The number of the step.
        step: usize,
        /// The value before the step.
        before: String,
        /// Other settings, which the change may change as a side effect, with their values before.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        beside: Vec<Beside>,
    },
    /// A step was made.
    Changed {
        /// The number of the step.
        step: usize,
        /// The value that was read back.
        holds: String,
        /// The other settings, as they were read back.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        beside: Vec<Beside>,
    },
    /// The host has refused a step; nothing has changed, or the former value was set again.
    Refused {
        /// The number of the step.
        step: usize,
        /// The reason.
        why: String,
    },
    /// All steps were made or refused.
    Applied,
    /// The user has confirmed the treatment from another login.
    Confirmed,
    /// Some steps are kept after a restart.
    Kept {
        /// The numbers of the steps.
        steps: Vec<usize>,
        /// The files that keep the steps.
        files: Vec<String>,
        /// The directory that holds these files instead of `/`; `None` in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        system: Option<PathBuf>,
        /// True if the files find ports by their permanent addresses; files of earlier versions use the ports' names.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_address: bool,
    },
    /// No step is kept after a restart any more.
    Forgotten,
    /// The changes are about to be undone: from now on, settings that a step changes as a side effect may change, too.
    TakingBack,
    /// A step's former value was set again, or already held.
    Restored {
        /// The number of the step.
        step: usize,
    },
    /// A step's former value wasn't restored.
    Left {
        /// The number of the step.
        step: usize,
        /// The reason.
        why: String,
    },
    /// Every change that could be undone was undone.
    Undone {
        /// The cause: `user`, `undo timer`, `restart` or `next run`.
        by: String,
    },
}

/// A setting that a step may change as a side effect, and its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// The setting.
    pub setting: Setting,
    /// The value.
    pub value: String,
}

/// The state of a treatment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TreatmentStanding {
    /// The treatment is being applied, or was interrupted.
    Applying,
    /// The treatment waits for its confirmation.
    Unconfirmed,
    /// The treatment is confirmed.
    Confirmed,
    /// The treatment was undone.
    Undone,
}

impl TreatmentJournal {
    fn read(id: &str, place: &Path, mut file: File) -> io::Result<Self> {
        let mut text = Vec::new();
        (&mut file).take(MOST_JOURNAL_BYTES).read_to_end(&mut text)?;
        let mut lines = text.split(|byte| *byte == b'\n');
        let head: JournalHead = serde_json::from_slice(lines.next().unwrap_or_default())?;
        if head.form != FORM || head.r#type != "doctor-journal" {
            return Err(io::Error::other(format!("it has form {}; this program knows {FORM}", head.form)));
        }
        if head.steps.iter().any(|step| !step.setting.is_sound()) {
            return Err(io::Error::other("it names settings that no host has"));
        }
        let (mut events, mut unread) = (Vec::new(), 0);
        for line in lines.filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(event) => events.push(event),
                // A power cut may have left the line incomplete, or something has damaged it.
                Err(_) => unread += 1,
            }
        }
        let is_marked = place.join(CONFIRMED).exists();
        Ok(Self {
            id: id.into(),
            head,
            events,
            unread,
            file,
            place: place.into(),
            is_marked,
            reached: BTreeMap::new(),
        })
    }

    /// Adds an event. When this method returns, the event is on stable storage.
    ///
    /// # Errors
    /// The reason, as a sentence; then the step may not be made.
    pub fn note(&mut self, event: TreatmentEvent) -> Result<(), String> {
        let stamped = Stamped { at: uptime(), event };
        // The first newline ends a line that was left incomplete.
        let before = self.file.metadata().map(|found| found.len());
        let written = line(&stamped).and_then(|line| self.file.write_all(&[b"\n", &line[..]].concat()));
        let written = written.and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // A part of a line, which a full disk may leave, isn't damage: it is removed, or ended before the next
            // event.
            let _ = before.and_then(|length| self.file.set_len(length));
            return Err(format!("writing the journal of {}: {error}", self.id));
        }
        self.events.push(stamped);
        Ok(())
    }

    /// Notes the user's confirmation in the journal and in a file beside it; the treatment's undo timer reads both.
    ///
    /// # Errors
    /// The reason, as a sentence; then the treatment isn't confirmed.
    pub fn confirm(&mut self) -> Result<(), String> {
        if self.events.iter().all(|stamped| stamped.event != TreatmentEvent::Confirmed) {
            self.note(TreatmentEvent::Confirmed)?;
        }
        // If the file can't be made, the event in the journal is enough.
        self.is_marked |= mark(&self.place).is_ok();
        Ok(())
    }

    /// Reads the events that other processes have added. Events that this process knows stay, even if the file has lost
    /// them.
    ///
    /// # Errors
    /// If the journal can't be read.
    pub fn refresh(&mut self) -> io::Result<()> {
        use std::io::Seek;
        self.is_marked |= self.place.join(CONFIRMED).exists();
        let mut file = self.file.try_clone()?;
        file.rewind()?;
        let found = Self::read(&self.id, &self.place, file)?;
        let new: Vec<_> = found.events.into_iter().filter(|event| !self.events.contains(event)).collect();
        self.events.extend(new);
        self.events.sort_by_key(|stamped| stamped.at);
        self.unread = self.unread.max(found.unread);
        Ok(())
    }

    /// True if events are missing: then any step may have been made.
    pub fn is_damaged(&self) -> bool {
        let ended = |step: usize| self.holds(step).is_some() || self.is_refused(step);
        let is_applied = self.events.iter().any(|stamped| stamped.event == TreatmentEvent::Applied);
        let mut steps = 0..self.head.steps.len();
        self.unread > 0
            || steps.clone().any(|step| self.holds(step).is_some() && self.noted(step).is_none())
            || is_applied && !steps.all(ended)
    }

    /// The treatment's state.
    pub fn standing(&self) -> TreatmentStanding {
        let has =
            |wanted: fn(&TreatmentEvent) -> bool| self.events.iter().any(|stamped| wanted(&stamped.event));
        if has(|event| matches!(event, TreatmentEvent::Undone { .. })) {
            TreatmentStanding::Undone
        } else if self.is_marked || has(|event| *event == TreatmentEvent::Confirmed) {
            TreatmentStanding::Confirmed
        } else if has(|event| *event == TreatmentEvent::Applied) {
            TreatmentStanding::Unconfirmed
        } else {
            TreatmentStanding::Applying
        }
    }

    /// True if the treatment is neither confirmed nor undone.
    pub fn is_open(&self) -> bool {
        matches!(self.standing(), TreatmentStanding::Applying | TreatmentStanding::Unconfirmed)
    }

    /// The uptime in milliseconds until which the treatment may be confirmed; each event before an undoing extends it.
    pub fn deadline(&self) -> u64 {
        let is_step = |event: &TreatmentEvent| {
            !matches!(
                event,
                TreatmentEvent::TakingBack
                    | TreatmentEvent::Restored { .. }
                    | TreatmentEvent::Left { .. }
                    | TreatmentEvent::Undone { .. }
            )
        };
        let last =
            self.events.iter().filter(|stamped| is_step(&stamped.event)).map(|stamped| stamped.at).max();
        last.map_or(0, |last| last + self.head.within * 1000)
    }

    /// True if the host has restarted since the treatment began.
    pub fn is_of_earlier_start(&self) -> bool {
        self.head.place.boot != Whereabouts::here().boot
    }

    /// Calls `select` on the events, the latest first, and returns its first `Some`.
    pub(crate) fn last<'a, T>(&'a self, select: impl Fn(&'a Stamped) -> Option<T>) -> Option<T> {
        self.events.iter().rev().find_map(select)
    }

    /// True if an undoing began and never ended: then it may have changed settings as a side effect.
    pub fn is_half_undone(&self) -> bool {
        let last = self.last(|stamped| match stamped.event {
            TreatmentEvent::TakingBack => Some(true),
            TreatmentEvent::Undone { .. } => Some(false),
            _ => None,
        });
        last.unwrap_or(false)
    }

    /// The steps that are kept after a restart.
    pub fn kept(&self) -> &[usize] {
        let last = self.last(|stamped| match &stamped.event {
            TreatmentEvent::Kept { steps, .. } => Some(steps.as_slice()),
            TreatmentEvent::Forgotten => Some(&[][..]),
            _ => None,
        });
        last.unwrap_or_default()
    }

    /// True if the files that keep steps find ports by their permanent addresses, and not by their names.
    pub fn goes_by_address(&self) -> bool {
        let last = self.last(|stamped| match stamped.event {
            TreatmentEvent::Kept { by_address, .. } => Some(by_address),
            _ => None,
        });
        last.unwrap_or(false)
    }

    /// The directories that may have files which keep the steps: that of every `--persist`, not only of the last one.
    pub fn systems(&self) -> Vec<&Path> {
        let mut systems: Vec<_> = self
            .events
            .iter()
            .filter_map(|stamped| match &stamped.event {
                TreatmentEvent::Kept { system, .. } => system.as_deref(),
                _ => None,
            })
            .collect();
        systems.sort();
        systems.dedup();
        systems
    }

    /// The steps that were ever kept.
    pub fn ever_kept(&self) -> Vec<usize> {
        let steps = self.events.iter().filter_map(|stamped| match &stamped.event {
            TreatmentEvent::Kept { steps, .. } => Some(steps.clone()),
            _ => None,
        });
        steps.flatten().filter(|step| *step < self.head.steps.len()).collect()
    }

    /// The value from before a step that may have been made; the plan's value, if a damaged journal has lost it.
    pub fn before(&self, step: usize) -> Option<&str> {
        let planned = || self.head.steps.get(step).filter(|_| self.is_damaged());
        let reached = || self.reached.get(&step).map(String::as_str);
        self.noted(step)
            .map(|noted| reached().unwrap_or(noted))
            .or_else(|| planned().map(|planned| planned.before.as_str()))
    }

    /// True if this treatment ended while `other` was active, which began later during the same start of the host.
    fn ended_during(&self, other: &Self) -> bool {
        let began = other.events.first().map_or(0, |first| first.at);
        let end = self.last(|stamped| match &stamped.event {
            // A restart ends all treatments together.
            TreatmentEvent::Undone { by } => Some(by == RESTART || stamped.at >= began),
            _ => None,
        });
        self.head.place.is_same(&other.head.place) && end.unwrap_or(false)
    }

    /// True if the journal has an event of a step, or may have lost one.
    pub(crate) fn knows(&self, step: usize) -> bool {
        self.before(step).is_some() || self.holds(step).is_some() || self.is_refused(step)
    }

    /// True if a step was or may have been made: it wasn't refused, or its former value couldn't be set again.
    pub fn was_made(&self, step: usize) -> bool {
        let is_left =
            |event: &TreatmentEvent| matches!(event, TreatmentEvent::Left { step: of, .. } if *of == step);
        !self.is_refused(step) || self.events.iter().any(|stamped| is_left(&stamped.event))
    }

    fn is_refused(&self, step: usize) -> bool {
        let is_it =
            |event: &TreatmentEvent| matches!(event, TreatmentEvent::Refused { step: of, .. } if *of == step);
        self.events.iter().any(|stamped| is_it(&stamped.event))
    }

    fn noted(&self, step: usize) -> Option<&str> {
        self.changing(step).map(|(before, _)| before)
    }

    /// The settings that a step may change as a side effect, with their values before the step.
    pub fn beside(&self, step: usize) -> &[Beside] {
        self.changing(step).map(|(_, beside)| beside).unwrap_or_default()
    }

    /// The value of a setting that `step` may have changed as a side effect, as it was read after the last of the
    /// treatment's steps with this side effect; `None` if it wasn't read after `step`.
    pub fn beside_after(&self, step: usize, setting: &Setting) -> Option<&str> {
        let of = |all: &'_ [Beside]| all.iter().position(|one| one.setting == *setting);
        of(self.changed(step)?.1)?;
        self.events.iter().rev().find_map(|stamped| match &stamped.event {
            TreatmentEvent::Changed { beside, .. } => Some(beside.get(of(beside)?)?.value.as_str()),
            _ => None,
        })
    }

    /// The time of the last change, in milliseconds of uptime.
    pub fn last_change(&self) -> Option<u64> {
        let is_change = |stamped: &&Stamped| matches!(stamped.event, TreatmentEvent::Changed { .. });
        self.events.iter().rfind(is_change).map(|stamped| stamped.at)
    }

    /// The value that was read back when a step had been made.
    pub fn holds(&self, step: usize) -> Option<&str> {
        self.changed(step).map(|(holds, _)| holds)
    }

    /// The values that were noted before a step: that of its own setting, and those of the settings that it may change
    /// as a side effect.
    fn changing(&self, step: usize) -> Option<(&str, &[Beside])> {
        self.events.iter().find_map(|stamped| match &stamped.event {
            TreatmentEvent::Changing { step: of, before, beside } if *of == step => {
                Some((&**before, &**beside))
            }
            _ => None,
        })
    }

    /// The values that were read back when a step had been made.
    fn changed(&self, step: usize) -> Option<(&str, &[Beside])> {
        self.events.iter().find_map(|stamped| match &stamped.event {
            TreatmentEvent::Changed { step: of, holds, beside } if *of == step => Some((&**holds, &**beside)),
            _ => None,
        })
    }
}

fn mark(place: &Path) -> io::Result<()> {
    let path = place.join(CONFIRMED);
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?.sync_all()?;
    File::open(place)?.sync_all()
}

fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}
