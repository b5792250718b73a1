//! Processor time of a whole host, or of the processors that a process may use, from /proc/stat (proc_stat(5)).

use std::io;
use std::path::Path;

use rustix::thread::CpuSet;
use serde::{Deserialize, Serialize};

use crate::root::Root;
use crate::{Fact, Pressure, pressure};

/// The counters of processor time at one moment, in ticks since boot, summed over all processors.
///
/// The kernel counts the time of guests both in `user` and in `guest`, and the time of guests with a positive nice
/// value both in `nice` and in `guest_nice`. In this type, each tick is in only one field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuTimes {
    /// The number of ticks in a second (USER_HZ) on the host.
    pub ticks_per_second: u64,
    /// The number of online processors.
    pub processors: u32,
    /// Ticks in user mode, without the time of guests.
    pub user: u64,
    /// Ticks in user mode with a positive nice value, without the time of guests.
    pub nice: u64,
    /// Ticks in the kernel.
    pub system: u64,
    /// Idle ticks.
    pub idle: u64,
    /// Idle ticks with I/O outstanding. This counter may go backwards.
    pub iowait: u64,
    /// Ticks in hard interrupts.
    pub irq: u64,
    /// Ticks in soft interrupts.
    pub softirq: u64,
    /// Ticks that the hypervisor gave to other guests.
    pub steal: u64,
    /// Ticks spent running guests of this host.
    pub guest: u64,
    /// Ticks spent running guests with a positive nice value.
    pub guest_nice: u64,
    /// The time in which tasks waited for a processor.
    pub pressure: Fact<Pressure>,
}

/// Processor time between two readings, in seconds summed over all processors. The fields don't overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSeconds {
    /// The number of online processors at the later reading.
    pub processors: u32,
    /// Seconds in user mode, without the time of guests.
    pub user: f64,
    /// Seconds in user mode with a positive nice value, without the time of guests.
    pub nice: f64,
    /// Seconds in the kernel.
    pub system: f64,
    /// Idle seconds.
    pub idle: f64,
    /// Idle seconds with I/O outstanding.
    pub iowait: f64,
    /// Seconds in hard interrupts.
    pub irq: f64,
    /// Seconds in soft interrupts.
    pub softirq: f64,
    /// Seconds that the hypervisor gave to other guests.
    pub steal: f64,
    /// Seconds spent running guests of this host, including guests with a positive nice value.
    pub guest: f64,
    /// Wall-clock seconds in which at least one task waited for a processor; `None` if the kernel doesn't count this
    /// time.
    pub pressure: Option<f64>,
}

impl CpuTimes {
    /// Reads the counters of the host whose `/` is `root`.
    ///
    /// # Errors
    /// If /proc/stat can't be read, or its first line isn't the total.
    pub fn read(root: &Path) -> io::Result<CpuTimes> {
        let root = &Root::dir(root);
        let text = stat(root)?;
        let mut times = parse(&text).ok_or_else(|| invalid(&text))?;
        times.pressure = pressure::read(root);
        Ok(times)
    }

    /// Reads the counters of this host's processors on which the calling thread may run (sched_getaffinity(2)).
    ///
    /// # Errors
    /// If /proc/stat can't be read, or lacks the processors' lines.
    pub fn of_own_processors() -> io::Result<CpuTimes> {
        let own = rustix::thread::sched_getaffinity(None)?;
        let text = stat(&Root::dir(Path::new("/")))?;
        parse_some(&text, |processor| processor < CpuSet::MAX_CPU && own.is_set(processor))
            .ok_or_else(|| invalid(&text))
    }

    /// The counters of these processors and of `other` ones.
    fn and(self, other: &CpuTimes) -> CpuTimes {
        CpuTimes {
            processors: self.processors + other.processors,
            user: self.user + other.user,
            nice: self.nice + other.nice,
            system: self.system + other.system,
            idle: self.idle + other.idle,
            iowait: self.iowait + other.iowait,
            irq: self.irq + other.irq,
            softirq: self.softirq + other.softirq,
            steal: self.steal + other.steal,
            guest: self.guest + other.guest,
            guest_nice: self.guest_nice + other.guest_nice,
            ..self
        }
    }

    /// The processor time since an earlier reading of the same host. A counter that went backwards counts as
    /// 0.
    pub fn since(&self, earlier: &CpuTimes) -> CpuSeconds {
        let hz = self.ticks_per_second.max(1) as f64;
        let passed = |now: u64, then: u64| now.saturating_sub(then) as f64 / hz;
        CpuSeconds {
            processors: self.processors,
            user: passed(self.user, earlier.user),
            nice: passed(self.nice, earlier.nice),
            system: passed(self.system, earlier.system),
            idle: passed(self.idle, earlier.idle),
            iowait: passed(self.iowait, earlier.iowait),
            irq: passed(self.irq, earlier.irq),
            softirq: passed(self.softirq, earlier.softirq),
            steal: passed(self.steal, earlier.steal),
            guest: passed(self.guest, earlier.guest) + passed(self.guest_nice, earlier.guest_nice),
            pressure: match (&self.pressure, &earlier.pressure) {
                (Fact::Known(now), Fact::Known(then)) => Some(now.since(then)),
                _ => None,
            },
        }
    }
}

impl CpuSeconds {
    /// Adds the processor time of a later interval, multiplied by `share`.
    pub(crate) fn add(&mut self, later: &CpuSeconds, share: f64) {
        let CpuSeconds { processors, user, nice, system, idle, iowait, irq, softirq, steal, guest, .. } =
            *later;
        self.processors = processors;
        self.user += user * share;
        self.nice += nice * share;
        self.system += system * share;
        self.idle += idle * share;
        self.iowait += iowait * share;
        self.irq += irq * share;
        self.softirq += softirq * share;
        self.steal += steal * share;
        self.guest += guest * share;
    }

    /// The seconds for which the processors of this host were busy, summed over processors.
    pub fn busy(&self) -> f64 {
        self.user + self.nice + self.system + self.irq + self.softirq + self.guest
    }

    /// The seconds of all states together, which is the number of processors times the wall-clock seconds.
    pub fn total(&self) -> f64 {
        self.busy() + self.idle + self.iowait + self.steal
    }
}

fn stat(root: &Root) -> io::Result<String> {
    match root.needed("proc/stat") {
        Fact::Known(text) => Ok(text),
        Fact::NotApplicable => Err(io::Error::other("/proc/stat is missing")),
        Fact::Unreadable(reason) => Err(io::Error::other(reason)),
    }
}

/// Parses the text of /proc/stat, and adds up the processors for whose numbers `counts` returns true; `None` if there are
/// none.
fn parse_some(stat: &str, counts: impl Fn(usize) -> bool) -> Option<CpuTimes> {
    let lines = stat.lines().filter_map(|line| line.strip_prefix("cpu")?.split_once(' '));
    let counted = lines.filter(|(number, _)| number.parse().is_ok_and(&counts));
    counted.map(|(_, values)| parse_values(values)).reduce(|sum, next| Some(sum?.and(&next?)))?
}

/// Parses the totals of all processors from the text of /proc/stat.
pub(crate) fn parse(stat: &str) -> Option<CpuTimes> {
    let total = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    Some(CpuTimes { processors: processors(stat), ..parse_values(total)? })
}

/// Parses the values of one line, without the line's name; `processors` of the result is 1.
pub(crate) fn parse_values(line: &str) -> Option<CpuTimes> {
    let values = line.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
    if values.len() < 4 {
        return None;
    }
    // Kernels before 2.6.33 have fewer fields; missing fields count as 0.
    let at = |i: usize| values.get(i).copied().unwrap_or(0);
    let (guest, guest_nice) = (at(8), at(9));
    Some(CpuTimes {
        ticks_per_second: rustix::param::clock_ticks_per_second(),
        processors: 1,
        user: at(0).saturating_sub(guest),
        nice: at(1).saturating_sub(guest_nice),
        system: at(2),
        idle: at(3),
        iowait: at(4),
        irq: at(5),
        softirq: at(6),
        steal: at(7),
        guest,
        guest_nice,
        pressure: Fact::NotApplicable,
    })
}

/// The number of lines that begin with "cpu0", "cpu1" and so on; each online processor has one such line.
fn processors(stat: &str) -> u32 {
    let n = stat
        .lines()
        .filter_map(|line| line.strip_prefix("cpu"))
        .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        .count();
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn invalid(stat: &str) -> io::Error {
    let line = stat.lines().next().unwrap_or_default();
    let start: String = line.chars().take(80).collect();
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("/proc/stat begins with {start:?}, not with the CPU total"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  1000 200 300 4000 50 6 70 8 100 20\ncpu0 1 1\ncpu1 1 1\nintr 1\n";

    #[test]
    fn counts_a_guest_once() {
        let times = parse(STAT).unwrap();
        assert_eq!((times.user, times.nice, times.guest, times.guest_nice), (900, 180, 100, 20));
        assert_eq!((times.system, times.idle, times.iowait), (300, 4000, 50));
        assert_eq!((times.irq, times.softirq, times.steal, times.processors), (6, 70, 8, 2));
    }

    #[test]
    fn processors_that_may_not_be_used_are_left_out() {
        let stat = "cpu  11 0 0 0\ncpu0 1 0 0 20\ncpu1 4 0 0 40\ncpu10 6 0 0 80\nintr 1\n";
        let some = parse_some(stat, |processor| processor != 1).unwrap();
        assert_eq!((some.user, some.idle, some.processors), (7, 100, 2));
        assert_eq!(parse_some(stat, |processor| processor == 2), None);
        assert_eq!(parse_some("cpu 1 2 3 4\n", |_| true), None);
        let own = CpuTimes::of_own_processors().unwrap();
        assert!((1..=CpuTimes::read(Path::new("/")).unwrap().processors).contains(&own.processors));
    }

    #[test]
    fn takes_an_old_kernels_short_line() {
        let times = parse("cpu 1 2 3 4\n").unwrap();
        assert_eq!((times.user, times.idle, times.steal), (1, 4, 0));
        assert!(parse("cpu 1 2 x 4\n").is_none());
        assert!(parse("cpu 1 2 3\n").is_none());
        assert!(parse("").is_none());
    }

    #[test]
    fn a_difference_is_in_seconds_and_never_negative() {
        let earlier = parse(STAT).unwrap();
        let mut later = earlier.clone();
        later.user += 250;
        later.guest += 50;
        later.iowait -= 10;
        later.ticks_per_second = 100;
        let passed = later.since(&earlier);
        assert_eq!((passed.user, passed.guest, passed.iowait), (2.5, 0.5, 0.0));
        assert_eq!(passed.busy(), 3.0);
        assert_eq!(passed.total(), 3.0);
    }
}
