//! Claims: if several tasks want to move a part of a plan, exactly one of them makes the next attempt.
//!
//! The claim is the attempt's file: the task that makes attempt N creates `NAME.N.json`, where NAME is the part's name,
//! by a hard link, which can't be made if the name exists. Clocks of other hosts don't matter: a waiting task watches
//! whether the file changes, and takes over with attempt N + 1 if the file hasn't changed for a certain time. If the
//! earlier task is still alive, it finds the file of attempt N + 1 and stops.

use anyhow::{Context, ensure};
use linerate_sys::replace::replace;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::attempt::{Attempt, AttemptMaker, AttemptState, now};
use crate::plan::FleetPart;

/// The interval at which a waiting task checks the attempt's file.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// An attempt that this process makes.
#[derive(Debug)]
pub struct Claim {
    runs: PathBuf,
    part: FleetPart,
    /// The attempt's number, from 1.
    pub number: u32,
    /// The contents of the attempt's file.
    pub attempt: Attempt,
}

/// The result of claiming a part.
#[derive(Debug)]
pub enum Claimed {
    /// This process has claimed the part.
    Ours(Box<Claim>),
    /// An earlier attempt has already moved the part.
    Done(u32, Box<Attempt>),
    /// Another process is moving the part.
    Busy(u32, Box<Attempt>),
}

/// How long an attempt may be silent before another task takes over, and whether a task waits for it.
#[derive(Clone, Copy, Debug)]
pub struct ClaimPatience {
    /// The time after which an attempt that doesn't write its file is presumed dead.
    pub lease: Duration,
    /// Whether to wait for attempts of other tasks to end.
    pub waits: bool,
}

/// All attempts at a part, by number; `None` for a file that can't be read.
pub type Attempts = BTreeMap<u32, Option<Attempt>>;

/// Claims `part` unless another attempt has moved it or is moving it. `to` returns the destination of the attempt with
/// a given number. A wait for another task ends when `goes_on` returns false.
///
/// # Errors
/// If the plan's directory can't be read or written.
pub fn claim(
    runs: &Path,
    part: FleetPart,
    patience: ClaimPatience,
    to: impl Fn(u32) -> String,
    goes_on: impl Fn() -> bool,
) -> anyhow::Result<Claimed> {
    let mut watched = WatchedAttempt::default();
    loop {
        let attempts = attempts(runs, part)?;
        if let Some((number, done)) = done(&attempts) {
            return Ok(Claimed::Done(number, Box::new(done.clone())));
        }
        let last = attempts.last_key_value();
        let held = last.filter(|(_, attempt)| {
            attempt.as_ref().is_none_or(|attempt| attempt.state == AttemptState::Running)
        });
        let Some((&number, attempt)) = held.filter(|(_, attempt)| !is_gone(attempt.as_ref())) else {
            let next = last.map_or(1, |(number, _)| number.saturating_add(1));
            match Claim::make(runs, part, next, to(next))? {
                Some(claim) => return Ok(Claimed::Ours(Box::new(claim))),
                // Another task has created the file first.
                None => continue,
            }
        };
        let is_silent = watched.is_silent(number, attempt.as_ref(), patience.lease);
        if is_silent {
            let next = number.saturating_add(1);
            if let Some(claim) = Claim::make(runs, part, next, to(next))? {
                return Ok(Claimed::Ours(Box::new(claim)));
            }
        } else if !patience.waits || !goes_on() {
            let unknown = || Attempt { maker: AttemptMaker::default(), ..Attempt::begin(String::new()) };
            return Ok(Claimed::Busy(number, Box::new(attempt.clone().unwrap_or_else(unknown))));
        } else {
            std::thread::sleep(CHECK_INTERVAL.min(patience.lease / 4));
        }
    }
}

fn is_gone(attempt: Option<&Attempt>) -> bool {
    attempt.is_some_and(|attempt| attempt.maker.is_gone(&AttemptMaker::of_this_process()))
}

/// The attempt that has moved the part, if any, with its number.
pub fn done(attempts: &Attempts) -> Option<(u32, &Attempt)> {
    let mut known = attempts.iter().filter_map(|(number, attempt)| Some((*number, attempt.as_ref()?)));
    known.find(|(_, attempt)| attempt.state == AttemptState::Done)
}

/// An attempt that is watched, and the time since which its file hasn't changed.
#[derive(Default)]
struct WatchedAttempt {
    seen: Option<(u32, Option<u64>)>,
    since: Option<Instant>,
}

impl WatchedAttempt {
    fn is_silent(&mut self, number: u32, attempt: Option<&Attempt>, lease: Duration) -> bool {
        let seen = Some((number, attempt.map(|attempt| attempt.beat)));
        if self.seen != seen {
            (self.seen, self.since) = (seen, Some(Instant::now()));
        }
        self.since.is_some_and(|since| since.elapsed() >= lease)
    }
}

/// All attempts at a part, which have consecutive numbers. The files of other parts aren't read, because there may be
/// thousands of them, and thousands of tasks that call this function.
///
/// # Errors
/// If the directory can't be read.
pub fn attempts(runs: &Path, part: FleetPart) -> anyhow::Result<Attempts> {
    ensure!(runs.is_dir(), "{} was removed, or isn't accessible on this host", runs.display());
    let files = (1..).map(|number| (number, attempt_path(runs, part, number)));
    let there = files.take_while(|(_, path)| path.symlink_metadata().is_ok());
    Ok(there.map(|(number, path)| (number, read(&path))).collect())
}

/// The combined result of several parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartsEnd {
    /// This part isn't completed: it has no attempt, or its last attempt is still running, was interrupted, or failed
    /// for another reason than single entries.
    Lacks(FleetPart),
    /// All parts have ended, but some entries couldn't be copied.
    WithFailures,
    /// All parts were moved completely.
    Done,
}

/// The combined result of `parts`. The search ends at the first part that isn't completed.
///
/// # Errors
/// If the directory can't be read.
pub fn end_of(runs: &Path, parts: impl Iterator<Item = FleetPart>) -> anyhow::Result<PartsEnd> {
    let mut end = PartsEnd::Done;
    for part in parts {
        let attempts = attempts(runs, part)?;
        if done(&attempts).is_some() {
            continue;
        }
        let last = attempts.last_key_value().and_then(|(_, last)| last.as_ref());
        if !last.is_some_and(Attempt::has_only_failed_entries) {
            return Ok(PartsEnd::Lacks(part));
        }
        end = PartsEnd::WithFailures;
    }
    Ok(end)
}

fn attempt_path(runs: &Path, part: FleetPart, number: u32) -> PathBuf {
    runs.join(format!("{}.{number}.json", part.name()))
}

/// All attempts at all parts.
///
/// # Errors
/// If the directory can't be read.
pub fn all_attempts(runs: &Path) -> anyhow::Result<BTreeMap<FleetPart, Attempts>> {
    let mut all = BTreeMap::<FleetPart, Attempts>::new();
    let reading = || format!("reading {}", runs.display());
    for entry in fs::read_dir(runs).with_context(reading)? {
        let entry = entry.with_context(reading)?;
        let Some((part, number)) = entry.file_name().to_str().and_then(named) else { continue };
        all.entry(part).or_default().insert(number, read(&entry.path()));
    }
    Ok(all)
}

/// Reads an attempt's file. On a file system without hard links, the file is created before its contents are
/// written, so for a moment it can't be read.
fn read(path: &Path) -> Option<Attempt> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn named(name: &str) -> Option<(FleetPart, u32)> {
    let (part, number) = name.strip_suffix(".json")?.split_once('.')?;
    Some((FleetPart::named(part)?, number.parse().ok()?))
}

impl Claim {
    /// Creates the file of an attempt; `None` if another task has already created it.
    fn make(runs: &Path, part: FleetPart, number: u32, to: String) -> anyhow::Result<Option<Self>> {
        let claim = Self { runs: runs.to_owned(), part, number, attempt: Attempt::begin(to) };
        let made = claim.make_file(&serde_json::to_vec(&claim.attempt)?);
        let made = made.with_context(|| format!("making {}", claim.path(number).display()))?;
        Ok(made.then_some(claim))
    }

    fn make_file(&self, text: &[u8]) -> io::Result<bool> {
        let (path, own) = (self.path(self.number), self.runs.join(format!(".{:016x}", fastrand::u64(..))));
        let linked = File::create_new(&own)
            .and_then(|mut file| file.write_all(text).and_then(|()| file.sync_all()))
            .and_then(|()| match fs::hard_link(&own, &path) {
                // If the reply of a file server was lost, the repeated request fails although the first one succeeded.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    Ok(own.metadata().is_ok_and(|it| it.nlink() == 2))
                }
                linked => linked.map(|()| true),
            });
        // The temporary name is no longer needed.
        let _ = fs::remove_file(&own);
        match linked {
            Err(error) if has_no_links(&error) => match File::create_new(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
                made => made.and_then(|mut file| file.write_all(text)).map(|()| true),
            },
            linked => linked,
        }
    }

    fn path(&self, number: u32) -> PathBuf {
        attempt_path(&self.runs, self.part, number)
    }

    /// Whether another attempt has taken over the part.
    pub fn is_overtaken(&self) -> bool {
        self.path(self.number.saturating_add(1)).exists()
    }

    /// Writes the attempt's state.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write(&mut self) -> anyhow::Result<()> {
        self.attempt.beat += 1;
        self.attempt.written = now();
        let path = self.path(self.number);
        ensure!(self.runs.is_dir(), "{} was removed", self.runs.display());
        replace(&path, &serde_json::to_vec(&self.attempt)?)
            .with_context(|| format!("writing {}", path.display()))
    }
}

/// Whether an error of link(2) means that the file system has no hard links: `EPERM`, `EOPNOTSUPP` or
/// `ENOSYS`.
fn has_no_links(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    const PART: FleetPart = FleetPart::Shard(3);
    const NOW: ClaimPatience = ClaimPatience { lease: Duration::from_millis(200), waits: false };

    fn ask(runs: &Path, patience: ClaimPatience) -> Claimed {
        claim(runs, PART, patience, |number| format!("h{number}:/x"), || true).unwrap()
    }

    fn ours(claimed: Claimed) -> Claim {
        match claimed {
            Claimed::Ours(claim) => *claim,
            other => panic!("{other:?}"),
        }
    }

    /// Changes the claim as if its process were on another host.
    fn move_away(claim: &mut Claim) {
        claim.attempt.maker.host = "elsewhere".into();
        claim.write().unwrap();
    }

    #[test]
    fn one_of_many_gets_a_part() {
        let runs = tempfile::tempdir().unwrap();
        let won = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| match ask(runs.path(), NOW) {
                    Claimed::Ours(_) => drop(won.fetch_add(1, Ordering::SeqCst)),
                    Claimed::Busy(number, _) => assert_eq!(number, 1),
                    other => panic!("{other:?}"),
                });
            }
        });
        assert_eq!(won.into_inner(), 1);
        assert_eq!(fs::read_dir(runs.path()).unwrap().count(), 1, "nothing else stays");
    }

    #[test]
    fn what_is_done_is_not_done_again_and_what_failed_is() {
        let runs = tempfile::tempdir().unwrap();
        for state in [AttemptState::Failed, AttemptState::Interrupted] {
            let mut claim = ours(ask(runs.path(), NOW));
            claim.attempt.state = state;
            claim.write().unwrap();
        }
        let mut third = ours(ask(runs.path(), NOW));
        assert_eq!((third.number, third.attempt.to.as_str()), (3, "h3:/x"));
        third.attempt.state = AttemptState::Done;
        third.write().unwrap();
        assert!(matches!(ask(runs.path(), NOW), Claimed::Done(3, _)));
        assert!(all_attempts(runs.path()).unwrap()[&PART].len() == 3);
    }

    #[test]
    fn a_dead_process_of_this_host_is_succeeded_at_once() {
        let runs = tempfile::tempdir().unwrap();
        let mut first = ours(ask(runs.path(), NOW));
        first.attempt.maker.started += 1;
        first.write().unwrap();
        let begun = Instant::now();
        let long = ClaimPatience { lease: Duration::from_secs(3600), waits: true };
        assert_eq!(ours(ask(runs.path(), long)).number, 2);
        assert!(begun.elapsed() < Duration::from_secs(5) && first.is_overtaken());
    }

    #[test]
    fn a_silent_attempt_elsewhere_is_taken_over_and_a_living_one_waited_for() {
        let runs = tempfile::tempdir().unwrap();
        let mut first = ours(ask(runs.path(), NOW));
        move_away(&mut first);
        let waits = ClaimPatience { lease: Duration::from_millis(400), waits: true };
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| ask(runs.path(), waits));
            for _ in 0..15 {
                std::thread::sleep(Duration::from_millis(100));
                assert!(!first.is_overtaken());
                first.write().unwrap();
            }
            assert_eq!(ours(asking.join().unwrap()).number, 2);
        });
        assert!(begun.elapsed() >= Duration::from_millis(1800), "{:?}", begun.elapsed());
        assert!(first.is_overtaken());
    }

    #[test]
    fn the_end_of_anothers_attempt_is_waited_for() {
        let runs = tempfile::tempdir().unwrap();
        let mut first = ours(ask(runs.path(), NOW));
        move_away(&mut first);
        let waits = ClaimPatience { lease: Duration::from_secs(60), waits: true };
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| ask(runs.path(), waits));
            std::thread::sleep(Duration::from_millis(300));
            first.attempt.state = AttemptState::Done;
            first.write().unwrap();
            assert!(matches!(asking.join().unwrap(), Claimed::Done(1, _)));
        });
    }

    #[test]
    fn a_file_that_says_nothing_is_somebodys_until_it_has_been_silent() {
        let runs = tempfile::tempdir().unwrap();
        fs::write(runs.path().join("00003.1.json"), "").unwrap();
        fs::write(runs.path().join("foreign"), "").unwrap();
        assert!(matches!(ask(runs.path(), NOW), Claimed::Busy(1, _)));
        assert_eq!(ours(ask(runs.path(), ClaimPatience { waits: true, ..NOW })).number, 2);
        let lacks = PartsEnd::Lacks(FleetPart::Shard(0));
        assert_eq!(end_of(runs.path(), [FleetPart::Shard(0), PART].into_iter()).unwrap(), lacks);
        assert_eq!(end_of(runs.path(), std::iter::empty()).unwrap(), PartsEnd::Done);
        assert!(attempts(&runs.path().join("missing"), PART).is_err());
    }
}
