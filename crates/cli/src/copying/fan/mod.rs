//! Copies one tree to several hosts. Each host has its own copy; the copies share the data that is read from
//! the sources.

pub mod args;
mod chain;
mod ended;
mod progress;
mod roll;

use linerate_transfer::fan::FanReading;
use linerate_transfer::lock::lock;
use linerate_transfer::problem::Observer;
use linerate_transfer::sender::FoundSources;
use linerate_transfer::session::Meters;
use linerate_wire::control::Totals;
use linerate_wire::path::printable;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use super::copy::Copy;
use super::task::Task;
use crate::common::failure::Failure;
use crate::common::member::MemberOutput;
use crate::common::output::Output;
use crate::common::signals::interrupted;
use crate::common::spec::Spec;
use crate::exit::Code;
use args::FanPlaces;
use chain::{ChainedPush, OutOfChain};
use ended::{CopyWay, EndedCopy, FanEnd};
use roll::ChainRoll;

/// One of the destinations: a host and a path on it.
struct FanTarget {
    /// The destination as the user wrote it, safe to print.
    written: String,
    host: OsString,
    path: Vec<u8>,
    output: Arc<Output>,
    /// The counters of the copy's last try.
    meters: Arc<Mutex<Meters>>,
    /// The entries that earlier tries have put in place.
    landed: Mutex<Totals>,
}

/// The data that all copies share.
struct FanRun {
    task: Arc<Task>,
    output: Arc<Output>,
    interrupted: Arc<AtomicBool>,
    begun: Instant,
    /// The number of sources that can't be found. They fail in every copy.
    not_found: u64,
    reading: Arc<FanReading>,
    /// The list of the copies that form a chain or tree; `None` for a star.
    roll: Option<ChainRoll>,
    /// The bytes that were read for a chain or tree.
    read: AtomicU64,
}

/// Copies to all destinations, which are on other hosts.
///
/// # Errors
/// If no copy could begin. A failure at one destination is printed, and sets the exit code.
pub fn perform(output: &Arc<Output>, task: Task, to: &FanPlaces) -> Result<Code, Failure> {
    args::check(&task, to, output.metrics().is_wanted())?;
    let destinations = &to.places;
    let begun = Instant::now();
    // The user's ssh agent isn't needed, because each copy has its own keys.
    let task = Arc::new(Task { login: task.login.keeping_agent(), ..task.resumable() });
    let interrupted = interrupted()?;
    let head = Copy::interruptible(task.clone(), output.clone(), interrupted.clone())?;
    let reporter = head.reporter();
    let report = |problem| reporter.problem(problem);
    let found = head.find(task.sources.clone(), &report)?;
    if task.list {
        return Ok(head.survey(&found, &report));
    }
    if task.options.clear {
        output.note("the data travels in clear (--no-encrypt), protected by checksums only");
    }
    let reading = FanReading::new(destinations.len(), task.options.rate_limit);
    let not_found = head.meters.local.failed.load(Ordering::Relaxed);
    let targets = targets(output, destinations);
    let shape = to.handing_on().filter(|_| task.options.sync.is_none());
    let roll = shape.map(|shape| ChainRoll::new(names(&targets), shape, interrupted.clone()));
    let read = AtomicU64::new(0);
    let run = FanRun { roll, read, task, output: output.clone(), interrupted, begun, not_found, reading };
    Ok(run.to_all(&found, &targets))
}

/// The destinations. If a host is named several times, its path is shown too.
fn targets(output: &Output, destinations: &[OsString]) -> Vec<FanTarget> {
    let of_host = |place: &OsString| match Spec::parse(place) {
        Spec::Remote(host, path) => (host, path),
        Spec::Local(path) => (OsString::new(), path.as_bytes().to_vec()),
    };
    let hosts: Vec<_> = destinations.iter().map(of_host).collect();
    let target = |(place, (host, path)): (&OsString, &(OsString, Vec<u8>))| {
        let written = printable(place.as_bytes());
        let is_one = hosts.iter().filter(|(other, _)| other == host).count() == 1;
        let name = if is_one { printable(host.as_bytes()) } else { written.clone() };
        let output = Arc::new(output.of_member(MemberOutput::to(name, written.clone())));
        let (meters, landed) = (Arc::default(), Mutex::default());
        FanTarget { written, host: host.clone(), path: path.clone(), output, meters, landed }
    };
    destinations.iter().zip(&hosts).map(target).collect()
}

fn names(targets: &[FanTarget]) -> Vec<String> {
    let name =
        |target: &FanTarget| target.output.member().map_or_else(String::new, |member| member.name.clone());
    targets.iter().map(name).collect()
}

impl FanTarget {
    /// The entries that are known to be in place.
    fn in_place(&self) -> Totals {
        let (before, now) = (*lock(&self.landed), lock(&lock(&self.meters).remote).landed);
        if before.entries() > now.entries() { before } else { now }
    }
}

impl FanRun {
    fn to_all(&self, found: &FoundSources, targets: &[FanTarget]) -> Code {
        let progress = progress::show(&self.output, targets, self.begun);
        let ended: Vec<EndedCopy> = thread::scope(|scope| {
            if self.roll.is_none() {
                scope.spawn(|| self.reading.scan(found, &self.task.options, &self.task.selection));
            }
            let started = targets.iter().enumerate().map(|(number, target)| {
                scope.spawn(move || {
                    let ended = self.to_one(found, target, number);
                    ended.show(&self.output);
                    ended
                })
            });
            let started: Vec<_> = started.collect();
            let join = |(thread, target): (thread::ScopedJoinHandle<'_, EndedCopy>, &FanTarget)| {
                thread.join().unwrap_or_else(|_| EndedCopy::broken(target))
            };
            started.into_iter().zip(targets).map(join).collect()
        });
        drop(progress);
        let read = self.reading.read() + self.read.load(Ordering::Relaxed);
        let sync = self.task.options.sync.as_ref();
        let end = FanEnd { read, begun: self.begun, is_dry: sync.is_some_and(|sync| sync.dry_run) };
        ended::show_all(&self.output, &ended, &end)
    }

    fn to_one(&self, found: &FoundSources, target: &FanTarget, number: usize) -> EndedCopy {
        let begun = Instant::now();
        let chained = self.roll.as_ref().and_then(|roll| self.in_chain(roll, found, target, number));
        let directly = || (CopyWay::Shared, self.directly(found, target, number));
        let (way, result) = chained.unwrap_or_else(directly);
        let result = result.inspect_err(|_| target.output.losses());
        let way = if self.reading.was_left_behind(number) { CopyWay::LeftBehind } else { way };
        EndedCopy::new(target, result, way, begun.elapsed())
    }

    fn copy(&self, target: &FanTarget) -> Result<Copy, Failure> {
        Copy::interruptible(self.task.clone(), target.output.clone(), self.interrupted.clone())
    }

    /// Prepares the counters for a new try. A host that an earlier try has reached, and entries that it has
    /// put in place, are counted for all tries.
    fn begins(&self, copy: &Copy, target: &FanTarget) {
        let counters = &copy.meters.local;
        counters.failed.fetch_add(self.not_found, Ordering::Relaxed);
        *lock(&target.landed) = target.in_place();
        let before = std::mem::replace(&mut *lock(&target.meters), copy.meters.clone());
        counters.reached.fetch_or(before.local.reached.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn directly(&self, found: &FoundSources, target: &FanTarget, number: usize) -> Result<Code, Failure> {
        let mut member = Some(match self.roll {
            // If a host of a chain has failed, the copies to the hosts behind it all continue at the same
            // time.
            Some(_) => self.reading.orphan(number),
            None => self.reading.member(number),
        });
        self.copy(target)?.run_as(&mut |copy| {
            // Only the first try shares the data that it reads. A second try reads by itself.
            let member = member.take();
            self.begins(copy, target);
            copy.push_found(found, OsStr::new(&target.host), &target.path, member.as_ref())
        })
    }

    /// Copies through the other hosts. Returns `None` if the host isn't in a chain or tree, so that this host
    /// sends the missing data.
    fn in_chain(
        &self,
        roll: &ChainRoll,
        found: &FoundSources,
        target: &FanTarget,
        number: usize,
    ) -> Option<(CopyWay, Result<Code, Failure>)> {
        let member = roll.member(number);
        let (inside, outside) = (CopyWay::HandedOn(roll.shape()), CopyWay::Outside(roll.shape()));
        let copy = match self.copy(target) {
            Ok(copy) => copy,
            Err(failure) => return Some((outside, Err(failure))),
        };
        self.begins(&copy, target);
        let (host, destination) = (OsStr::new(&target.host), &target.path[..]);
        let reading = self.reading.latecomer(number);
        let push = ChainedPush { found, host, destination, reading: &reading, read: &self.read };
        match copy.push_chained(push, &member) {
            Ok(code) => Some((inside, Ok(code))),
            Err(OutOfChain::Inside(failure)) => Some((inside, Err(failure))),
            Err(OutOfChain::Outside(failure)) => Some((outside, Err(failure))),
            Err(OutOfChain::Direct(why)) => {
                target.output.note(&format!("{why}; this host sends the missing data directly"));
                None
            }
        }
    }
}
