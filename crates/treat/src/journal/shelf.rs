//! The directory of journals.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::{
    FORM, JournalHead, MOST_JOURNAL_BYTES, PlannedStep, Stamped, TreatmentEvent, TreatmentJournal,
    TreatmentStanding, line,
};
use crate::Controls;
use crate::course::outstanding;
use crate::port::of_settings;
use crate::surroundings::{Entrance, Whereabouts, today};

/// The usual directory of journals.
pub const USUAL: &str = "/var/lib/linerate/doctor";

const FILE: &str = "journal.jsonl";
const LOCK: &str = "lock";
/// The beginning of the name of a journal's directory while it is made.
const NEW: &str = ".new-";
/// Letters of an identifier: no two look alike, and they form no words.
const LETTERS: &[u8] = b"23456789bcdfghjkmnpqrstvwxz";
const LENGTH: usize = 6;
/// The journal of an undone treatment is removed this number of seconds after the treatment began: 90 days.
const OLD: u64 = 90 * 86_400;

/// A directory of journals.
#[derive(Clone, Debug)]
pub struct Shelf(PathBuf);

/// The lock on a directory of journals, held while settings are changed.
#[derive(Debug)]
pub struct ShelfLock(#[expect(dead_code, reason = "held for its drop")] File);

/// A journal without a readable first line, from which a treatment can't be undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadJournal {
    /// The treatment's identifier.
    pub id: String,
    /// The reason why the journal can't be read: a sentence.
    pub why: String,
    /// The journal's directory.
    pub place: PathBuf,
    /// The time at which this directory last changed, in seconds since 1970: about the time at which the treatment
    /// began.
    pub begun: u64,
    /// True if the journal's other lines say that the treatment was undone completely. The undo timer has read the
    /// journal before, so it can undo such a treatment.
    pub is_undone: bool,
}

impl Shelf {
    /// Opens the directory, which is created if it is missing.
    ///
    /// # Errors
    /// The reason, as a sentence, if it can't be created or used, isn't this user's, or others may write to it.
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

    /// The directory, if it exists and this user may use it.
    pub fn existing(path: &Path) -> Option<Self> {
        path.is_dir().then(|| Self::open(path).ok()).flatten()
    }

    /// The directory, if it has the journal of this treatment; nothing is created otherwise.
    ///
    /// # Errors
    /// The reason, as a sentence, if the directory doesn't have this journal, or can't be used.
    pub fn having(path: &Path, id: &str) -> Result<Self, String> {
        Self(path.to_owned()).file_of(id)?;
        Self::open(path)
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Waits until no other run changes settings, and locks the directory.
    ///
    /// # Errors
    /// The reason, as a sentence, if another run still changes settings after the time `patience`.
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

    /// Begins a journal. When this method returns, the journal is on stable storage.
    ///
    /// # Errors
    /// The reason, as a sentence; then nothing may be changed.
    pub fn begin(
        &self,
        steps: Vec<PlannedStep>,
        within: u64,
        controls: &mut dyn Controls,
    ) -> Result<TreatmentJournal, String> {
        let ports = of_settings(controls, steps.iter().map(|step| &step.setting))?;
        let head = JournalHead {
            r#type: "doctor-journal".into(),
            form: FORM,
            program: env!("CARGO_PKG_VERSION").into(),
            begun: today(),
            within,
            place: Whereabouts::here(),
            entrance: Entrance::here(),
            steps,
            ports,
        };
        let id = self.free_id();
        let made = self.make(&id, &head);
        if made.is_err() {
            self.remove_unfinished();
        }
        made.map_err(|error| format!("writing the journal in {}: {error}", self.0.display()))?;
        self.journal(&id)
    }

    /// Removes the journals of completely undone treatments that began more than 90 days ago, and the remains of
    /// journals that were never completed. The caller holds the directory's lock.
    pub fn tidy(&self) {
        self.remove_unfinished();
        let is_old = |journal: &TreatmentJournal| today().saturating_sub(journal.head.begun) > OLD;
        let is_done = |journal: &TreatmentJournal| {
            journal.standing() == TreatmentStanding::Undone && outstanding(journal).is_empty()
        };
        for journal in self.all().0.iter().filter(|journal| is_old(journal) && is_done(journal)) {
            // A journal that can't be removed is still listed, which does no harm.
            let _ = fs::remove_dir_all(self.0.join(&journal.id));
        }
    }

    fn remove_unfinished(&self) {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(NEW)) {
            // No treatment uses the directory, so it does no harm if it stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }

    /// Writes a new journal. Its directory gets the name `id` only once the journal is complete.
    fn make(&self, id: &str, head: &JournalHead) -> io::Result<()> {
        let (new, place) = (self.0.join(format!("{NEW}{id}")), self.0.join(id));
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
    /// The reason, as a sentence, if there is none, or it can't be read.
    pub fn journal(&self, id: &str) -> Result<TreatmentJournal, String> {
        let path = self.file_of(id)?;
        let failed = |error: io::Error| format!("reading {}: {error}", path.display());
        let file = OpenOptions::new().read(true).append(true).open(&path).map_err(failed)?;
        TreatmentJournal::read(id, &self.0.join(id), file).map_err(failed)
    }

    /// Lets a treatment restore the values from before earlier treatments of the same settings, if those treatments
    /// have ended since this one began: the values that this treatment found had been set by those.
    pub fn reach_back(&self, journal: &mut TreatmentJournal) {
        let all = self.all().0;
        let earlier =
            all.iter().take_while(|one| one.id != journal.id).filter(|one| one.ended_during(journal));
        for one in earlier.collect::<Vec<_>>().into_iter().rev() {
            for step in 0..journal.head.steps.len() {
                let setting = &journal.head.steps[step].setting;
                let found = |at: &usize| one.head.steps[*at].setting == *setting;
                let value =
                    (0..one.head.steps.len()).find(found).and_then(|at| one.holds(at).zip(one.before(at)));
                let now = journal.before(step);
                if let Some((_, before)) =
                    value.filter(|(holds, _)| now.is_some_and(|now| setting.is_same(now, holds)))
                {
                    journal.reached.insert(step, before.to_owned());
                }
            }
        }
    }

    fn file_of(&self, id: &str) -> Result<PathBuf, String> {
        let path = self.0.join(id).join(FILE);
        match is_id(id) && self.0.join(id).is_dir() {
            true => Ok(path),
            false => Err(format!("there is no treatment {id:?} here: linerate doctor --applied lists them")),
        }
    }

    /// A treatment's journal that can't be read; `None` if it can be read, or there is none.
    pub fn unread(&self, id: &str) -> Option<UnreadJournal> {
        let place = self.0.join(id);
        let why = self.journal(id).err().filter(|_| is_id(id) && place.is_dir())?;
        let begun = fs::metadata(&place).map_or(0, |found| u64::try_from(found.mtime()).unwrap_or(0));
        let is_undone = is_undone(&place.join(FILE));
        Some(UnreadJournal { id: id.into(), why, place, begun, is_undone })
    }

    /// The journals of all treatments, the oldest first, and the journals that can't be read.
    pub fn all(&self) -> (Vec<TreatmentJournal>, Vec<UnreadJournal>) {
        let names = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let names = names
            .filter(|entry| entry.path().is_dir())
            .filter_map(|entry| entry.file_name().into_string().ok());
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for id in names.filter(|name| is_id(name)) {
            match self.journal(&id) {
                Ok(journal) => good.push(journal),
                Err(_) => bad.extend(self.unread(&id)),
            }
        }
        good.sort_by_key(|journal| (journal.head.begun, journal.events.first().map(|first| first.at)));
        (good, bad)
    }
}

fn is_id(name: &str) -> bool {
    !name.is_empty() && name.len() <= 32 && name.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// True if the lines that can be read say that everything was undone.
fn is_undone(path: &Path) -> bool {
    let mut text = Vec::new();
    // Nothing is known about a file that can't be read.
    let _ = File::open(path).and_then(|file| file.take(MOST_JOURNAL_BYTES).read_to_end(&mut text));
    let lines = text.split(|byte| *byte == b'\n');
    let events: Vec<Stamped> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let mut left = BTreeSet::new();
    for stamped in &events {
        match stamped.event {
            TreatmentEvent::Left { step, .. } => drop(left.insert(step)),
            TreatmentEvent::Restored { step } => drop(left.remove(&step)),
            _ => {}
        }
    }
    let is_end = |stamped: &Stamped| matches!(stamped.event, TreatmentEvent::Undone { .. });
    left.is_empty() && events.iter().any(is_end)
}
