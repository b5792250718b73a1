//! Takes samples: reads all kinds of data at one moment.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use super::recording::{MAGIC, RecordingInfo};
use super::source::TextSource;
use super::{KINDS, SampleKind};

/// The default time between two samples.
pub const DEFAULT_INTERVAL: Duration = Duration::from_millis(250);
/// The shortest and the longest time between two samples. With shorter times, the sampler would mostly measure itself.
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(60);
/// The share of one processor's time that all kinds of data together may take. If the kinds take more, costly kinds are
/// read less often.
const ALL: f64 = 0.008;
/// The share of one processor's time that each kind may take if all kinds together take more than [`ALL`].
const SHARE: f64 = ALL / KINDS.len() as f64;
/// Each kind is read at least once in this number of seconds, unless it alone would take more than the share [`ALL`].
/// The limiter of a command is determined from the command's connections, and many commands last only a few seconds.
const LONGEST_SKIP: f64 = 1.0;
/// The largest number of processes, and of program names, to follow.
const MOST_WATCHED: usize = 64;

/// Options of a sampler.
#[derive(Clone, Debug)]
pub struct SamplerOptions {
    /// The time between two samples.
    pub interval: Duration,
    /// The IDs of the processes to follow, together with their descendants.
    pub processes: Vec<u32>,
    /// Names of programs, as in /proc/PID/comm, whose processes are followed as well.
    pub names: Vec<String>,
    /// The directory that is used in place of `/`. Data that doesn't come from files is recorded only if this directory
    /// is `/` itself.
    pub root: PathBuf,
}

impl Default for SamplerOptions {
    fn default() -> Self {
        Self { interval: DEFAULT_INTERVAL, processes: Vec::new(), names: Vec::new(), root: "/".into() }
    }
}

/// The interval, limited to the range from 20 ms to 1 minute.
pub fn clamped(interval: Duration) -> Duration {
    interval.clamp(SHORTEST, LONGEST)
}

/// Reads a host's counters. The network counters are those of the calling thread's network namespace.
pub struct Sampler {
    begun: Instant,
    interval: Duration,
    channels: Vec<OpenKind>,
}

impl Sampler {
    /// Opens the sources. If a source can't be read, the recording states the reason.
    pub fn new(options: &SamplerOptions) -> Self {
        let mut options = options.clone();
        options.processes.truncate(MOST_WATCHED);
        options.names.truncate(MOST_WATCHED);
        let channels = KINDS.iter().map(|kind| OpenKind::open(kind, &options)).collect();
        Self { begun: Instant::now(), interval: clamped(options.interval), channels }
    }

    /// The head of a recording. It contains the start time, so this must be called before the first sample.
    pub fn heading(&self) -> Vec<u8> {
        let boot = clock_gettime(ClockId::Boottime);
        let elapsed = self.begun.elapsed();
        let started =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(elapsed);
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let about = RecordingInfo {
            host: host.trim().to_owned(),
            started: started.as_secs_f64(),
            boot: boot.tv_sec as f64 + boot.tv_nsec as f64 * 1e-9 - elapsed.as_secs_f64(),
            interval: self.interval.as_secs_f64(),
            ticks_per_second: rustix::param::clock_ticks_per_second(),
        };
        format!("{MAGIC}\n{about}").into_bytes()
    }

    /// Appends one sample to `recording`. If `whole` is false, costly kinds of data may be omitted. `whole` must be
    /// true for the first and the last sample.
    pub fn sample(&mut self, whole: bool, recording: &mut Vec<u8>) {
        recording.extend_from_slice(format!("@ {:.6}\n", self.begun.elapsed().as_secs_f64()).as_bytes());
        let interval = self.interval.as_secs_f64();
        let all: f64 = self.channels.iter().map(|channel| channel.cost).sum();
        for channel in &mut self.channels {
            if channel.sample(whole, recording) && all > ALL * interval {
                channel.spare(interval);
            }
        }
    }
}

/// A kind of data with its open source.
struct OpenKind {
    name: &'static str,
    source: Box<dyn TextSource>,
    text: Vec<u8>,
    /// The number of samples that this kind will skip.
    out: u32,
    /// The processor seconds that the last reading took.
    last: f64,
    /// The lower of the costs of the last two readings, in processor seconds, so that a single costly reading, such as
    /// the first reading, has no effect.
    cost: f64,
    /// True once the recording states why this kind can't be read.
    reported: bool,
}

impl OpenKind {
    fn open(kind: &SampleKind, options: &SamplerOptions) -> Self {
        let source = (kind.open)(options);
        Self { name: kind.name, source, text: Vec::new(), out: 0, last: 0.0, cost: 0.0, reported: false }
    }

    /// Reads this kind for a sample; false if the kind skips this sample.
    fn sample(&mut self, whole: bool, recording: &mut Vec<u8>) -> bool {
        if self.out > 0 && !whole {
            self.out -= 1;
            return false;
        }
        let before = thread_seconds();
        self.text.clear();
        let result = self.source.read(&mut self.text);
        let cost = thread_seconds() - before;
        (self.cost, self.last) = (cost.min(self.last), cost);
        self.report(result, recording);
        true
    }

    /// Lets this kind skip as many samples as are necessary so that it takes at most its share on average, but not more
    /// than [`LONGEST_SKIP`] allows. `interval` is the time between two samples in seconds.
    fn spare(&mut self, interval: f64) {
        let samples = |share: f64| (self.cost / (share * interval)) as u32;
        let longest = ((LONGEST_SKIP / interval) as u32).saturating_sub(1);
        self.out = samples(SHARE).min(longest.max(samples(ALL)));
    }

    fn report(&mut self, result: io::Result<()>, recording: &mut Vec<u8>) {
        match result {
            Ok(()) => {
                recording.extend_from_slice(format!("# {} {}\n", self.name, self.text.len()).as_bytes());
                recording.extend_from_slice(&self.text);
                recording.push(b'\n');
            }
            Err(error) if !self.reported => {
                self.reported = true;
                let reason = error.to_string().replace('\n', " ");
                recording.extend_from_slice(format!("! {} {reason}\n", self.name).as_bytes());
            }
            Err(_) => {}
        }
    }
}

/// The processor time of this thread in seconds. Unlike wall-clock time, it doesn't include delays on a busy
/// host.
pub(crate) fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source whose reading takes this number of processor seconds; 3 ms are more than 0.8 % of 250 ms.
    struct Dear(f64);

    impl TextSource for Dear {
        fn read(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
            text.extend_from_slice(b"x");
            let begun = thread_seconds();
            while thread_seconds() < begun + self.0 {}
            Ok(())
        }
    }

    fn sampler(kind: &SampleKind) -> Sampler {
        let channels = vec![OpenKind::open(kind, &SamplerOptions::default())];
        Sampler { begun: Instant::now(), interval: DEFAULT_INTERVAL, channels }
    }

    fn is_read(sampler: &mut Sampler, whole: bool) -> bool {
        let mut recording = Vec::new();
        sampler.sample(whole, &mut recording);
        recording.contains(&b'#')
    }

    #[test]
    fn what_costs_much_is_read_less_often_but_in_a_whole_sample() {
        let mut sampler =
            sampler(&SampleKind { name: "dear", open: |_| Box::new(Dear(0.1)), series: |_| Vec::new() });
        let mut read = |whole| is_read(&mut sampler, whole);
        assert!(read(true) && read(false) && read(false), "one dear reading alone is forgiven");
        assert!((0..40).all(|_| !read(false)), "100 ms are 50 times all that kinds may take in a sample");
        assert!(read(true));
        assert!((0..500).any(|_| read(false)), "its time comes again");
    }

    /// On a slow processor, reading the connections may take a few milliseconds. Even then, the recording of a command
    /// of a few seconds must contain connections.
    #[test]
    fn what_costs_little_more_is_read_each_second() {
        let mut sampler =
            sampler(&SampleKind { name: "dear", open: |_| Box::new(Dear(0.003)), series: |_| Vec::new() });
        let read: Vec<bool> = (0..23).map(|_| is_read(&mut sampler, false)).collect();
        assert!(read[..3].iter().all(|is_read| *is_read), "one dear reading alone is forgiven");
        assert_eq!(read[3..].iter().filter(|is_read| **is_read).count(), 5, "{read:?}");
    }

    #[test]
    fn silly_intervals_are_clamped() {
        assert_eq!(clamped(Duration::ZERO), SHORTEST);
        assert_eq!(clamped(Duration::from_micros(1)), SHORTEST);
        assert_eq!(clamped(Duration::MAX), LONGEST);
        assert_eq!(clamped(DEFAULT_INTERVAL), DEFAULT_INTERVAL);
    }
}
