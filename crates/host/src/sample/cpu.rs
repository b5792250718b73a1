//! Processor time by state and processor: the lines of /proc/stat that begin with "cpu" (proc_stat(5)).

use std::collections::BTreeMap;
use std::io;

use super::source::{KeptFile, TextSource};
use super::{Recording, SampleKind, TimeSeries};
use crate::cpu_times::{self, CpuSeconds, CpuTimes};

const NAME: &str = "cpu";

pub(super) const KIND: SampleKind = SampleKind {
    name: NAME,
    open: |options| Box::new(Processors(KeptFile::new(&options.root, "proc/stat"))),
    series,
};

/// The lines of /proc/stat about processors. The counts of interrupts are omitted, since /proc/interrupts has
/// them for each processor.
struct Processors(KeptFile);

impl TextSource for Processors {
    fn read(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        let start = text.len();
        self.0.read(text)?;
        let end = text[start..].windows(5).position(|part| part == b"\nintr");
        text.truncate(end.map_or(text.len(), |end| start + end));
        Ok(())
    }
}

/// The processor time of the whole host between the first and the last sample, in seconds by state. `None` if
/// there are fewer than two samples.
pub fn cpu_seconds(recording: &Recording) -> Option<CpuSeconds> {
    let mut times = recording.texts(NAME).filter_map(|(_, text)| cpu_times::parse(text));
    let first = times.next()?;
    let last = CpuTimes { ticks_per_second: recording.about.ticks_per_second, ..times.last()? };
    Some(last.since(&first))
}

/// How far, in seconds, a window may extend beyond the samples. This is necessary because the offset of another host's
/// clock is known only with a precision of a few milliseconds.
const BEYOND: f64 = 0.1;

/// The smallest share of a window that complete intervals must cover so that they can stand for the whole window.
const LEAST_COVERED_SHARE: f64 = 0.5;

/// The processor time of the whole host from one second of the recording to another, in seconds by state. Only the
/// intervals between samples that are completely inside this window are used, and stand for the whole window: an
/// interval that is only partly inside may contain the beginning or the end of the load. If these complete intervals
/// cover less than half of the window, intervals that are partly inside are also used, each by the share that is
/// inside. `None` if the recording doesn't cover the window.
pub fn cpu_seconds_within(recording: &Recording, from: f64, to: f64) -> Option<CpuSeconds> {
    let ticks_per_second = recording.about.ticks_per_second;
    let at = |(at, text)| Some((at, CpuTimes { ticks_per_second, ..cpu_times::parse(text)? }));
    let times: Vec<(f64, CpuTimes)> = recording.texts(NAME).filter_map(at).collect();
    let holds = times.first()?.0 <= from + BEYOND && times.last()?.0 >= to - BEYOND;
    if !holds || from >= to {
        return None;
    }
    let whole: Vec<_> = times.iter().filter(|(at, _)| (from..=to).contains(at)).collect();
    if let [(begin, earlier), .., (end, later)] = whole[..]
        && end - begin >= LEAST_COVERED_SHARE * (to - from)
    {
        let mut all = CpuSeconds::default();
        all.add(&later.since(earlier), (to - from) / (end - begin));
        return Some(all);
    }
    Some(evenly(&times, from, to))
}

/// The processor time of the window `from` to `to`, computed as if the load were constant within each
/// interval.
fn evenly(times: &[(f64, CpuTimes)], from: f64, to: f64) -> CpuSeconds {
    let mut sum = CpuSeconds::default();
    for pair in times.windows(2) {
        let ((begin, earlier), (end, later)) = (&pair[0], &pair[1]);
        let inside = end.min(to) - begin.max(from);
        if inside > 0.0 {
            sum.add(&later.since(earlier), inside / (end - begin));
        }
    }
    sum
}

/// The busy share of all processors in the host's busiest interval, in percent.
pub fn peak_busy_percent(recording: &Recording) -> Option<f64> {
    let of_host = series(recording).into_iter().find(|series| series.name == "all busy")?;
    of_host.points.into_iter().map(|(_, percent)| percent).reduce(f64::max)
}

/// The shares of time by state in percent, for all processors together and for each processor.
fn series(recording: &Recording) -> Vec<TimeSeries> {
    let moments: Vec<_> = recording.texts(NAME).map(|(seconds, text)| (seconds, processors(text))).collect();
    let mut points: BTreeMap<(usize, &str), Vec<(f64, f64)>> = BTreeMap::new();
    for pair in moments.windows(2) {
        let ((_, earlier), (seconds, later)) = (&pair[0], &pair[1]);
        for (place, now) in later {
            let Some(shares) = earlier.get(place).and_then(|before| shares(before, now)) else { continue };
            for (state, percent) in shares {
                points.entry((*place, state)).or_default().push((*seconds, percent));
            }
        }
    }
    let name = |place: usize| if place == ALL { "all".to_owned() } else { format!("cpu{place}") };
    let of =
        |((place, state), points)| TimeSeries::new(NAME, &format!("{} {state}", name(place)), "%", points);
    points.into_iter().map(of).collect()
}

/// The number that means all processors together.
const ALL: usize = usize::MAX;

fn processors(text: &str) -> BTreeMap<usize, CpuTimes> {
    let lines = text.lines().filter_map(|line| {
        let (number, rest) = line.strip_prefix("cpu")?.split_once(' ')?;
        let place = if number.is_empty() { ALL } else { number.parse().ok()? };
        Some((place, cpu_times::parse_values(rest)?))
    });
    lines.collect()
}

/// The share of each state in the time between two readings; `None` if no time has passed.
fn shares(earlier: &CpuTimes, later: &CpuTimes) -> Option<[(&'static str, f64); 10]> {
    let passed = later.since(earlier);
    let total = passed.total();
    let CpuSeconds { user, nice, system, idle, iowait, irq, softirq, steal, guest, .. } = passed;
    let states = [
        ("busy", passed.busy()),
        ("guest", guest),
        ("idle", idle),
        ("iowait", iowait),
        ("irq", irq),
        ("nice", nice),
        ("softirq", softirq),
        ("steal", steal),
        ("system", system),
        ("user", user),
    ];
    (total > 0.0).then(|| states.map(|(state, seconds)| (state, 100.0 * seconds / total)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{SamplerOptions, recording_of};

    #[test]
    fn states_are_reported_for_the_host_and_for_each_processor() {
        let first = "cpu  100 0 100 1000 0 0 0 0 0 0\ncpu0 50 0 50 500 0 0 0 0 0 0\ncpu1 50 0 50 500 0 0 0 0";
        let last =
            "cpu  150 0 100 1040 0 0 10 0 0 0\ncpu0 100 0 50 500 0 0 0 0 0 0\ncpu1 50 0 50 540 0 0 10 0";
        let recording = recording_of(NAME, &[first, last]);
        let all = series(&recording);
        let value = |name: &str| all.iter().find(|series| series.name == name).unwrap().points[0].1;
        assert_eq!((value("all busy"), value("all user"), value("all idle")), (60.0, 50.0, 40.0));
        assert_eq!((value("cpu0 user"), value("cpu1 softirq")), (100.0, 20.0));
        assert_eq!(peak_busy_percent(&recording), Some(60.0));
        let seconds = cpu_seconds(&recording).unwrap();
        assert_eq!((seconds.user, seconds.softirq, seconds.processors), (0.5, 0.1, 2));
    }

    #[test]
    fn a_window_has_its_share_of_the_samples_that_it_cuts() {
        // The four intervals of 1 s have no user time, then 20 % user time, then only user time, then no user time.
        let texts = [
            "cpu  0 0 0 0 0 0 0",
            "cpu  0 0 0 100 0 0 0",
            "cpu  20 0 0 180 0 0 0",
            "cpu  120 0 0 180 0 0 0",
            "cpu  120 0 0 280 0 0 0",
        ];
        let mut recording = recording_of(NAME, &texts);
        for (second, sample) in (0u32..).zip(&mut recording.samples) {
            sample.seconds = f64::from(second);
        }
        let user =
            |from, to| cpu_seconds_within(&recording, from, to).map(|cpu| (cpu.user * 1e6).round() / 1e6);
        assert_eq!((user(1.0, 3.0), user(1.5, 2.25), user(2.25, 2.75)), (Some(1.2), Some(0.35), Some(0.5)));
        let all = cpu_seconds_within(&recording, 1.5, 2.25).unwrap();
        assert!((all.total() - 0.75).abs() < 1e-9, "{all:?}");
        assert_eq!(user(0.0, 4.0), Some(cpu_seconds(&recording).unwrap().user));
        assert_eq!((user(-0.2, 1.0), user(3.0, 4.2), user(2.0, 2.0)), (None, None, None));
    }

    #[test]
    fn the_ends_of_a_load_that_share_an_interval_with_rest_are_not_counted() {
        // The load occupies one processor from 0.8 s to 3.3 s, so the first and the last interval also
        // contain idle time.
        let busy = [0.0, 0.2, 1.2, 2.2, 2.5, 2.5];
        let texts = busy.map(|busy: f64| format!("cpu  {:.0} 0 0 0 0 0 0", 100.0 * busy));
        let recording = recording_of(NAME, &texts.each_ref().map(String::as_str));
        for (from, to) in [(0.9, 3.3), (1.0, 3.3), (0.9, 3.0), (0.8, 3.3)] {
            let user = cpu_seconds_within(&recording, from, to).unwrap().user;
            assert!((user - (to - from)).abs() < 1e-9, "{from} to {to}: {user}");
        }
        let beyond = cpu_seconds_within(&recording, -0.05, 5.05).unwrap().user;
        assert!((beyond - 2.5 * 5.1 / 5.0).abs() < 1e-9, "{beyond}");
    }

    #[test]
    fn only_the_lines_of_processors_are_recorded() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        std::fs::write(root.path().join("proc/stat"), "cpu  1 2\ncpu0 1 2\nintr 5 0 0\nctxt 7\n").unwrap();
        let options = SamplerOptions { root: root.path().into(), ..SamplerOptions::default() };
        let mut text = Vec::new();
        (KIND.open)(&options).read(&mut text).unwrap();
        assert_eq!(text, b"cpu  1 2\ncpu0 1 2");
    }
}
