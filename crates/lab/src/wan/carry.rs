//! Two threads for each link. Each thread carries packets from one interface to the other.

use std::convert::Infallible;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use linerate_sys::netns;
use linerate_sys::tun::Tun;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::line::{LinkLine, ReadTimes};
use super::{SegmentCounts, Wan};
use crate::rate::Rate;
use crate::state::write_private;

/// The interval at which the counts are written to their file.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// The counts of each thread.
type SharedCounts = Arc<Mutex<Vec<[SegmentCounts; 2]>>>;

/// The greatest number of packets that are read before packets are delivered, and vice versa.
const BATCH: usize = 16;

/// The job of an emulator, as JSON on its command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EmulatorJob {
    /// The two ends of each link.
    pub(crate) links: Vec<[TunInterface; 2]>,
    /// The rate of each link in each direction; `None` for open links.
    pub(crate) rate: Option<Rate>,
    pub(crate) wan: Wan,
    /// The file for the counts.
    pub(crate) counts: PathBuf,
}

/// An interface to create.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TunInterface {
    /// The file of its network namespace.
    pub(crate) namespace: PathBuf,
    pub(crate) name: String,
}

/// Runs as an emulator: creates the interfaces of `job`, prints `ready` or the error, and carries packets
/// until the process is killed. A program that makes labs calls this function when it is started with
/// [`super::SUBCOMMAND`] and a job.
///
/// # Errors
/// If the job can't be parsed, an interface can't be created (this error is also printed on standard output),
/// or an interface was removed.
pub fn serve(job: &str) -> io::Result<()> {
    let prepared = prepare(job);
    let reported = prepared.as_ref().map_or_else(|error| error.to_string(), |_| "ready".into());
    writeln!(io::stdout(), "{}", reported.replace('\n', " "))?;
    let (job, links) = prepared?;
    // A packet that is delivered late would make the link's delay wrong. Only root may raise the priority, so an error
    // is ignored.
    let _ = rustix::process::setpriority_process(None, -10);
    run(&job, links)
}

fn prepare(job: &str) -> io::Result<(EmulatorJob, Vec<[Arc<Tun>; 2]>)> {
    let job: EmulatorJob = serde_json::from_str(job)?;
    let made = |[near, far]: &[TunInterface; 2]| Ok([Arc::new(make(near)?), Arc::new(make(far)?)]);
    let links = job.links.iter().map(made).collect::<io::Result<_>>()?;
    Ok((job, links))
}

fn make(interface: &TunInterface) -> io::Result<Tun> {
    let TunInterface { namespace, name } = interface;
    let failed =
        |what: String| move |error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"));
    let file = std::fs::File::open(namespace).map_err(failed(format!("opening {}", namespace.display())))?;
    netns::inside(file.as_fd(), || Tun::make(name))
        .and_then(|made| made)
        .map_err(failed(format!("making the interface {name} in {}", namespace.display())))
}

/// Carries packets until one thread fails, and writes the counts at intervals.
fn run(job: &EmulatorJob, links: Vec<[Arc<Tun>; 2]>) -> io::Result<()> {
    let counts: SharedCounts = Arc::new(Mutex::new(vec![[SegmentCounts::default(); 2]; links.len()]));
    let (ended, end) = mpsc::channel();
    for (link, [near, far]) in links.into_iter().enumerate() {
        let ways = [(near.clone(), far.clone()), (far, near)];
        for (direction, (from, to)) in ways.into_iter().enumerate() {
            let seed = job.wan.seed.wrapping_add((2 * link + direction) as u64);
            let line = LinkLine::new(job.rate, &job.wan, seed);
            let place = (link, direction);
            let carrier =
                Carrier { from, to, line, clock: Instant::now(), empty: 0, counts: counts.clone(), place };
            let ended = ended.clone();
            // The receiver isn't dropped as long as this process runs.
            let carry = move || drop(ended.send(carrier.run()));
            std::thread::Builder::new().name(format!("link {link}")).spawn(carry)?;
        }
    }
    let mut written = Vec::new();
    loop {
        match end.recv_timeout(TELL_EVERY) {
            Err(RecvTimeoutError::Timeout) => report(job, &counts, &mut written)?,
            Err(error) => return Err(io::Error::other(error)),
            // When this function returns, the process ends, and so do the other threads.
            Ok(end) => return end.map(drop),
        }
    }
}

fn report(job: &EmulatorJob, counts: &SharedCounts, written: &mut Vec<[SegmentCounts; 2]>) -> io::Result<()> {
    let now = counts.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if now != *written {
        let partial = job.counts.with_extension("json.new");
        write_private(&partial, &serde_json::to_vec(&now)?)?;
        std::fs::rename(partial, &job.counts)?;
        *written = now;
    }
    Ok(())
}

/// The state of one thread.
struct Carrier {
    from: Arc<Tun>,
    to: Arc<Tun>,
    line: LinkLine,
    clock: Instant,
    /// The last time at which no packet was waiting to be read.
    empty: u64,
    counts: SharedCounts,
    /// The index of the thread's link, and the direction.
    place: (usize, usize),
}

impl Carrier {
    fn run(mut self) -> io::Result<Infallible> {
        // By default a timer may fire 50 us late. This setting affects only this thread.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        loop {
            let more = self.take()?;
            let all = self.give();
            self.publish();
            if all && !more {
                self.wait()?;
            }
        }
    }

    /// Reads a batch of packets. Returns true if more packets may be waiting.
    fn take(&mut self) -> io::Result<bool> {
        for _ in 0..BATCH {
            match self.from.read(self.line.buffer()) {
                Ok(length) => {
                    let seen = ReadTimes { since: self.empty, now: self.now() };
                    self.line.accept(seen, length);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.empty = self.now();
                    return Ok(false);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Delivers a batch of arrived packets. Returns true if no arrived packet is left.
    fn give(&mut self) -> bool {
        for _ in 0..BATCH {
            let now = self.now();
            let Some(packet) = self.line.arrived(now) else { return true };
            // If the interface is down, or the host has no memory, the packet is lost, as on any host.
            let _ = self.to.write(packet);
            self.line.hand_over(now);
        }
        false
    }

    fn publish(&self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts[self.place.0][self.place.1] = self.line.counts();
    }

    /// Sleeps until there is a packet to read or to deliver.
    fn wait(&self) -> io::Result<()> {
        let left = self.line.next_release().map(|release| release.saturating_sub(self.now()));
        let timeout = left
            .map(|ns| Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ });
        match poll(&mut [PollFd::new(&*self.from, PollFlags::IN)], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
