//! The CPU of both hosts over the part of a run in which the run's tool counted, from the samplers' recordings.

use linerate_host::sample::{Recording, cpu_seconds_within};

use super::attempt::recorded;
use super::reading::BootTimes;
use crate::record::{CountedWindow, Cpu};

/// The window that a tool reported, and the CPU of the hosts in this window. `times` are by the clock of the sending
/// host, whose recording contains its own start time by the same clock. The other host's recording began `lag` seconds
/// later.
///
/// # Errors
/// A message with the reason why the CPU isn't known.
pub(super) fn counted(
    times: BootTimes,
    recordings: &[(&'static str, Vec<u8>)],
    shares_processors: bool,
    lag: f64,
) -> Result<CountedWindow, String> {
    let a = parsed(recordings, "a")?;
    let (begin, end) = (times.begin - a.about.boot, times.end - a.about.boot);
    let cpu_a = within(&a, "a", begin, end)?;
    let cpu_b = if shares_processors {
        cpu_a
    } else {
        within(&parsed(recordings, "b")?, "b", begin - lag, end - lag)?
    };
    Ok(CountedWindow { begin, end, cpu_a, cpu_b })
}

fn parsed(recordings: &[(&'static str, Vec<u8>)], host: &str) -> Result<Recording, String> {
    let bytes = recordings.iter().find(|(name, _)| *name == host).map(|(_, bytes)| bytes);
    let bytes = bytes.ok_or_else(|| unknown(host, "nothing was recorded on that host"))?;
    Recording::parse(bytes).map_err(|e| unknown(host, &e.to_string()))
}

fn within(recording: &Recording, host: &str, begin: f64, end: f64) -> Result<Cpu, String> {
    let cpu = cpu_seconds_within(recording, begin, end);
    let outside = || {
        format!("the tool reports the time from {begin:.2} to {end:.2} s, which isn't inside the recording")
    };
    cpu.map(|cpu| recorded(&cpu)).ok_or_else(|| unknown(host, &outside()))
}

/// A note for the run, which states that the CPU of the counted time is unknown. The CPU of the whole command is used
/// instead.
fn unknown(host: &str, why: &str) -> String {
    format!("warning: host {host}'s CPU during the tool's counted time isn't known: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording. For each second, `user` holds the hundredths of a second that processors spent in user mode.
    fn recording(boot: f64, user: &[u32]) -> Vec<u8> {
        let head = format!("linerate recording 1\nhost x\nstarted 1.0\nboot {boot}\ninterval 1\nticks 100\n");
        let mut sum = 0;
        let samples = (0..=user.len()).map(|second| {
            let text = format!("cpu  {sum} 0 0 {} 0 0 0 0 0 0", second * 100);
            sum += user.get(second).copied().unwrap_or(0);
            format!("@ {second}.0\n# cpu {}\n{text}\n", text.len())
        });
        (head + &samples.collect::<String>()).into_bytes()
    }

    #[test]
    fn the_ramp_costs_the_window_nothing_whatever_its_length() {
        // Two runs have ramps of 1 s and of 3 s; the measured interval of 2 s that follows is the same.
        let short = [("a", recording(50.0, &[90, 40, 40, 0])), ("b", recording(9.0, &[80, 30, 30, 0]))];
        let long = [
            ("a", recording(80.0, &[90, 90, 90, 40, 40, 0])),
            ("b", recording(9.0, &[80, 80, 80, 30, 30, 0])),
        ];
        let of = |recordings, begin, end| counted(BootTimes { begin, end }, recordings, false, 0.0).unwrap();
        let (one, other) = (of(&short, 51.0, 53.0), of(&long, 83.0, 85.0));
        assert_eq!((one.begin, one.end, other.begin, other.end), (1.0, 3.0, 3.0, 5.0));
        assert_eq!((one.cpu_a, one.cpu_b), (other.cpu_a, other.cpu_b));
        assert!((one.cpu_a.user - 0.8).abs() < 1e-9 && (one.cpu_b.user - 0.6).abs() < 1e-9, "{one:?}");
    }

    #[test]
    fn the_other_host_began_to_record_later() {
        let recordings = [("a", recording(50.0, &[0, 40, 40, 0])), ("b", recording(9.0, &[30, 30, 0]))];
        let lagging = counted(BootTimes { begin: 51.0, end: 53.0 }, &recordings, false, 1.0).unwrap();
        assert!((lagging.cpu_b.user - 0.6).abs() < 1e-9, "{lagging:?}");
        let one = counted(BootTimes { begin: 51.0, end: 53.0 }, &recordings, true, 1.0).unwrap();
        assert_eq!(one.cpu_b, one.cpu_a);
    }

    #[test]
    fn a_window_that_was_not_recorded_is_reported() {
        let recordings = [("a", recording(50.0, &[0, 40]))];
        let reported =
            |begin, end, shares| counted(BootTimes { begin, end }, &recordings, shares, 0.0).unwrap_err();
        assert!(reported(49.0, 51.0, true).contains("from -1.00 to 1.00 s"));
        assert!(
            reported(50.5, 51.5, false).contains("host b's CPU")
                && reported(50.5, 51.5, false).contains("nothing was recorded")
        );
        assert!(counted(BootTimes { begin: 50.5, end: 51.5 }, &[("a", b"x".to_vec())], true, 0.0).is_err());
    }
}
