//! The journal of a treatment: a directory with one file, which has a line of JSON for each step that was done or is about to
//! be done. Every line is on stable storage before the next step. docs/formats.md describes it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linerate_doctor::remedy::Setting;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::course::outstanding;
use crate::surroundings::{Entrance, Whereabouts, today, uptime};

/// The version of the format.
pub const FORM: u32 = 1;
/// The usual directory of journals.
pub const USUAL: &str = "/var/lib/linerate/doctor";

const FILE: &str = "journal.jsonl";
const LOCK: &str = "lock";
/// Letters of an identifier: no two look alike, and they form no words.
const LETTERS: &[u8] = b"23456789bcdfghjkmnpqrstvwxz";
const LENGTH: usize = 6;
/// Seconds after which the journal of an undone treatment is removed: 90 days.
const OLD: u64 = 90 * 86_400;
/// The most bytes of a journal that are read.
const MOST: u64 = 16 << 20;

/// A directory of journals.
#[derive(Clone, Debug)]
pub struct Shelf(PathBuf);

/// One treatment's journal.
#[derive(Debug)]
pub struct TreatmentJournal {
    /// Its identifier.
    pub id: String,
    /// The first line: how the treatment began.
    pub head: JournalHead,
    /// The events since then, in their order.
    pub events: Vec<Stamped>,
    /// Lines that couldn't be read.
    unread: usize,
    file: File,
}

/// The first line of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalHead {
    /// `doctor-journal`.
    pub r#type: String,
    /// [`FORM`].
    pub form: u32,
    /// The version of the program.
    pub program: String,
    /// Seconds since 1970.
    pub begun: u64,
    /// Seconds within which it must be confirmed.
    pub within: u64,
    /// The place to which the settings belong.
    pub place: Whereabouts,
    /// The login that began it.
    pub entrance: Entrance,
    /// The changes, in their order.
    pub steps: Vec<PlannedStep>,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedStep {
    /// The checks that propose it.
    pub checks: Vec<String>,
    /// The setting.
    pub setting: Setting,
    /// Its value when the plan was made.
    pub before: String,
    /// Its new value.
    pub new: String,
    /// The file or profile that sets the setting at each start of the host, in words for people; `None` if none
    /// is known.
    #[serde(default)]
    pub owner: Option<String>,
    /// The file that would keep the new value after a restart; `None` if no file can.
    #[serde(default)]
    pub kept: Option<String>,
}

/// An event and its time, in milliseconds of uptime.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stamped {
    /// The time.
    pub at: u64,
    /// The event.
    #[serde(flatten)]
    pub event: TreatmentEvent,
}

/// A thing in a treatment's course that is about to happen, or has happened. Steps are numbered from 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum TreatmentEvent {
    /// The switch waits: the process that undoes the treatment unless it is confirmed.
    Watching {
        /// The process of the switch.
        pid: u32,
    },
    /// A step is about to be made: from now on the setting may have changed.
    Changing {
        /// The step.
        step: usize,
        /// The value before.
        before: String,
        /// Other settings, which the change may change by the way, with their values before.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        beside: Vec<Beside>,
    },
    /// A step was made.
    Changed {
        /// The step.
        step: usize,
        /// The value that was read back.
        holds: String,
        /// The other settings, as they were read back.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        beside: Vec<Beside>,
    },
    /// The host has refused a step; nothing changed, or the former value is set again.
    Refused {
        /// The step.
        step: usize,
        /// Why.
        why: String,
    },
    /// All steps were made or refused.
    Applied,
    /// The user has confirmed the treatment from another login.
    Confirmed,
    /// Some steps are kept after a restart.
    Kept {
        /// The steps.
        steps: Vec<usize>,
        /// The files.
        files: Vec<String>,
        /// The directory that holds these files instead of `/`; `None` in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        system: Option<PathBuf>,
    },
    /// No step is kept after a restart any more.
    Forgotten,
    /// A step's former value was set again, or already held.
    Restored {
        /// The step.
        step: usize,
    },
    /// A step was left as it is.
    Left {
        /// The step.
        step: usize,
        /// Why.
        why: String,
    },
    /// Every change that could be undone was undone.
    TakenBack {
        /// The cause: `user`, `switch`, `restart`, `next run`.
        by: String,
    },
}

/// A setting that a step may change by the way, and its value.
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
    /// The treatment is being applied, or was cut off.
    Applying,
    /// The treatment waits for its confirmation.
    Unconfirmed,
    /// The treatment is confirmed.
    Confirmed,
    /// The treatment was undone.
    TakenBack,
}

/// The lock on a directory of journals, held while settings are changed.
#[derive(Debug)]
pub struct ShelfLock(#[expect(dead_code, reason = "held for its drop")] File);

impl Shelf {
    /// The directory, which is created if it is missing.
    ///
    /// # Errors
    /// A sentence if it can't be created or used, or others may write to it.
    pub fn open(path: &Path) -> Result<Self, String> {
        let failed =
            |error: io::Error| format!("opening the journals' directory {}: {error}", path.display());
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let found = fs::symlink_metadata(path).map_err(failed)?;
        let is_ours = found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0;
        if !found.is_dir() || !is_ours {
            return Err(format!(
                "{} must be a directory of yours to which nobody else may write",
                path.display()
            ));
        }
        Ok(Self(path.to_owned()))
    }

    /// The directory, if it exists and this user may read it.
    pub fn existing(path: &Path) -> Option<Self> {
        path.is_dir().then(|| Self::open(path).ok()).flatten()
    }

    /// The directory, if it has the journal of this treatment; nothing is created otherwise.
    ///
    /// # Errors
    /// A sentence if it doesn't have it, or can't be used.
    pub fn having(path: &Path, id: &str) -> Result<Self, String> {
        Self(path.to_owned()).file_of(id)?;
        Self::open(path)
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Waits until no other run changes settings.
    ///
    /// # Errors
    /// A sentence if another run still does when the time is over.
    pub fn lock(&self, patience: Duration) -> Result<ShelfLock, String> {
        let path = self.0.join(LOCK);
        let failed = |error: io::Error| format!("locking {}: {error}", path.display());
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let (file, until) = (file.map_err(failed)?, Instant::now() + patience);
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(ShelfLock(file)),
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err("another linerate doctor is changing settings of this host".into());
                }
                Err(error) => return Err(failed(error.into())),
            }
        }
    }

    /// Begins a journal. When this returns, it is on stable storage.
    ///
    /// # Errors
    /// A sentence; then nothing may be changed.
    pub fn begin(&self, steps: Vec<PlannedStep>, within: u64) -> Result<TreatmentJournal, String> {
        let head = JournalHead {
            r#type: "doctor-journal".into(),
            form: FORM,
            program: env!("CARGO_PKG_VERSION").into(),
            begun: today(),
            within,
            place: Whereabouts::here(),
            entrance: Entrance::here(),
            steps,
        };
        let id = self.free_id();
        let made = self.make(&id, &head);
        made.map_err(|error| format!("writing the journal in {}: {error}", self.0.display()))?;
        self.journal(&id)
    }

    /// Removes the journals of treatments that were undone completely long ago.
    pub fn tidy(&self) {
        let is_old = |journal: &TreatmentJournal| today().saturating_sub(journal.head.begun) > OLD;
        let is_done = |journal: &TreatmentJournal| {
            journal.standing() == TreatmentStanding::TakenBack && outstanding(journal).is_empty()
        };
        for journal in self.all().0.iter().filter(|journal| is_old(journal) && is_done(journal)) {
            // A journal that can't be removed is still listed, which does no harm.
            let _ = fs::remove_dir_all(self.0.join(&journal.id));
        }
    }

    /// Writes a new journal. Its directory gets the name `id` only once the journal is complete.
    fn make(&self, id: &str, head: &JournalHead) -> io::Result<()> {
        let (new, place) = (self.0.join(format!(".new-{id}")), self.0.join(id));
        DirBuilder::new().mode(0o700).create(&new)?;
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(new.join(FILE))?;
        file.write_all(&line(head)?)?;
        file.sync_all()?;
        File::open(&new)?.sync_all()?;
        fs::rename(&new, &place)?;
        File::open(&self.0)?.sync_all()
    }

    fn free_id(&self) -> String {
        let letter = || char::from(LETTERS[fastrand::usize(..LETTERS.len())]);
        loop {
            let id: String = (0..LENGTH).map(|_| letter()).collect();
            if !self.0.join(&id).exists() {
                return id;
            }
        }
    }

    /// A treatment's journal.
    ///
    /// # Errors
    /// A sentence if there is none, or it can't be read.
    pub fn journal(&self, id: &str) -> Result<TreatmentJournal, String> {
        let path = self.file_of(id)?;
        let failed = |error: io::Error| format!("reading {}: {error}", path.display());
        let file = OpenOptions::new().read(true).append(true).open(&path).map_err(failed)?;
        TreatmentJournal::read(id, file).map_err(failed)
    }

    fn file_of(&self, id: &str) -> Result<PathBuf, String> {
        let is_id = !id.is_empty() && id.len() <= 32 && id.bytes().all(|b| b.is_ascii_alphanumeric());
        let path = self.0.join(id).join(FILE);
        match is_id && path.is_file() {
            true => Ok(path),
            false => Err(format!("there is no treatment {id:?} here: linerate doctor --applied lists them")),
        }
    }

    /// All treatments, the oldest first; for each that can't be read, a sentence.
    pub fn all(&self) -> (Vec<TreatmentJournal>, Vec<String>) {
        let names = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let names = names
            .filter(|entry| entry.path().is_dir())
            .filter_map(|entry| entry.file_name().into_string().ok());
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for id in names.filter(|name| !name.starts_with('.')) {
            match self.journal(&id) {
                Ok(journal) => good.push(journal),
                Err(why) => bad.push(why),
            }
        }
        good.sort_by_key(|journal| (journal.head.begun, journal.events.first().map(|first| first.at)));
        (good, bad)
    }
}

impl TreatmentJournal {
    fn read(id: &str, mut file: File) -> io::Result<Self> {
        let mut text = Vec::new();
        (&mut file).take(MOST).read_to_end(&mut text)?;
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
                // A power cut may have left it incomplete, or something has damaged it.
                Err(_) => unread += 1,
            }
        }
        Ok(Self { id: id.into(), head, events, unread, file })
    }

    /// Adds an event. When this returns, it is on stable storage.
    ///
    /// # Errors
    /// A sentence; then the step may not be made.
    pub fn note(&mut self, event: TreatmentEvent) -> Result<(), String> {
        let stamped = Stamped { at: uptime(), event };
        // An empty line ends a line that was cut off.
        let written = line(&stamped).and_then(|line| self.file.write_all(&[b"\n", &line[..]].concat()));
        let written = written.and_then(|()| self.file.sync_data());
        written.map_err(|error| format!("writing the journal of {}: {error}", self.id))?;
        self.events.push(stamped);
        Ok(())
    }

    /// Reads the events that other processes have added. Events that this process knows stay, even if the file has lost them.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn refresh(&mut self) -> io::Result<()> {
        use std::io::Seek;
        let mut file = self.file.try_clone()?;
        file.rewind()?;
        let found = Self::read(&self.id, file)?;
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
        if has(|event| matches!(event, TreatmentEvent::TakenBack { .. })) {
            TreatmentStanding::TakenBack
        } else if has(|event| *event == TreatmentEvent::Confirmed) {
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

    /// The uptime in milliseconds until which the treatment may be confirmed. It is extended while steps are made.
    pub fn deadline(&self) -> u64 {
        let is_step = |event: &TreatmentEvent| {
            !matches!(
                event,
                TreatmentEvent::Restored { .. }
                    | TreatmentEvent::Left { .. }
                    | TreatmentEvent::TakenBack { .. }
            )
        };
        let last =
            self.events.iter().filter(|stamped| is_step(&stamped.event)).map(|stamped| stamped.at).max();
        last.map_or(0, |last| last + self.head.within * 1000)
    }

    /// True if the host has restarted since.
    pub fn is_of_earlier_start(&self) -> bool {
        self.head.place.boot != Whereabouts::here().boot
    }

    /// The steps that are kept after a restart.
    pub fn kept(&self) -> &[usize] {
        let last = self.events.iter().rev().find_map(|stamped| match &stamped.event {
            TreatmentEvent::Kept { steps, .. } => Some(steps.as_slice()),
            TreatmentEvent::Forgotten => Some(&[][..]),
            _ => None,
        });
        last.unwrap_or_default()
    }

    /// The directories whose files may hold the steps: those of all `--persist`, also of one whose files were rewritten since.
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

    /// A step's value before, if it may have been changed. If the events don't have it, the plan does.
    pub fn before(&self, step: usize) -> Option<&str> {
        let planned = || self.head.steps.get(step).filter(|_| self.is_damaged());
        self.noted(step).or_else(|| planned().map(|planned| planned.before.as_str()))
    }

    /// True if it says anything of a step, or may have lost that.
    pub(crate) fn knows(&self, step: usize) -> bool {
        self.before(step).is_some() || self.holds(step).is_some() || self.is_refused(step)
    }

    /// True if a step was made, or may have been made: it wasn't refused, or its former value couldn't be set again.
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

    /// The settings beside a step, with their values before it.
    pub fn beside(&self, step: usize) -> &[Beside] {
        self.changing(step).map(|(_, beside)| beside).unwrap_or_default()
    }

    /// The value of a setting beside a step after it, if it was read.
    pub fn beside_after(&self, step: usize, setting: &Setting) -> Option<&str> {
        let (_, after) = self.changed(step)?;
        after.iter().find(|one| one.setting == *setting).map(|one| one.value.as_str())
    }

    /// The value that was read back when a step had been made.
    pub fn holds(&self, step: usize) -> Option<&str> {
        self.changed(step).map(|(holds, _)| holds)
    }

    /// The values that were noted before a step: its own, and those beside it.
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

fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}
