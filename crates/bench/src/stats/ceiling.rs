//! The largest goodput of a link. A higher result is an error of the measurement.

use super::figure::estimate;
use crate::record::{Link, Measures, Record};

/// Bytes of headers inside a packet with TCP over IPv4: 20 of IPv4, 20 of TCP, and 12 of TCP timestamps, which Linux
/// uses by default (RFC 791, RFC 9293, RFC 7323).
const PACKET_HEADERS: u32 = 52;

/// Rates above the ceiling by less than this factor aren't reported. A far end without timestamps sends 12 more payload
/// bytes in each packet, which is 0.8 % at an MTU of 1500. Clocks and counters are also slightly inexact.
const TOLERANCE: f64 = 1.01;

/// The amount of data, in seconds at the link's rate, that receive buffers may hold when a counted window begins. A
/// receiver that has many connections and gets too little processor time reads this data within the window.
const BUFFERED: f64 = 0.5;

/// If a case reaches this share of its link's ceiling, mainly the link limits it.
const AT_CEILING: f64 = 0.97;

/// The largest payload rate of TCP over IPv4 with timestamps, in bit/s: `rate * (MTU - 52) / (MTU + overhead)`. The
/// overhead is 38 bytes on Ethernet, and 14 if a kernel's shaper counts the frame without preamble, checksum and gap.
/// `None` if the link has no known rate.
pub fn payload_ceiling(link: &Link) -> Option<f64> {
    let payload = link.mtu.checked_sub(PACKET_HEADERS).filter(|payload| *payload > 0)?;
    let share = f64::from(payload) / (f64::from(link.mtu) + f64::from(link.frame_overhead_bytes));
    link.bits_per_second.map(|rate| rate as f64 * share)
}

/// An error message if a run's payload was faster than the link allows, in the direction that had more payload; `None`
/// if the rate is possible.
pub fn above_ceiling(measures: &Measures, link: &Link) -> Option<String> {
    let ceiling = payload_ceiling(link)?;
    let seconds = measures.payload_seconds.unwrap_or(measures.seconds);
    // A token bucket passes its burst at once, at any rate.
    let before = measures.window.map_or(0.0, |window| window.begin.clamp(0.0, BUFFERED));
    let most = ceiling * (seconds * TOLERANCE + before) + link.burst_bytes as f64 * 8.0;
    let bits = measures.one_way_bytes() as f64 * 8.0;
    if bits <= most {
        return None;
    }
    Some(format!(
        "{:.2} Gbit/s of payload is above the link's ceiling of {:.2}: the time or the bytes are wrong",
        measures.one_way_gbit_per_second(),
        ceiling * 1e-9
    ))
}

/// The payload ceiling of a case's link in bit/s, if the case reaches it.
pub fn reached_ceiling(record: &Record, case: &str) -> Option<u64> {
    let case = record.cases.iter().find(|known| known.id == case)?;
    let ceiling = payload_ceiling(&record.links.iter().find(|link| link.name == case.link)?.link)?;
    let rate = estimate(record, &case.id, |run| Some(run.one_way_gbit_per_second()))?.median * 1e9;
    (rate >= AT_CEILING * ceiling).then_some(ceiling as u64)
}

/// Whether two or more cases all reach the same ceiling. If so, the link hides other differences between
/// them.
pub fn are_at_one_ceiling<'c>(record: &Record, cases: impl IntoIterator<Item = &'c str>) -> bool {
    let all: Option<Vec<u64>> = cases.into_iter().map(|case| reached_ceiling(record, case)).collect();
    all.is_some_and(|all| all.len() > 1 && all.iter().all(|ceiling| *ceiling == all[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{CountedWindow, NamedLink};
    use crate::testing::{measured, record};

    fn link(overhead: u32, burst: u64) -> Link {
        Link {
            bits_per_second: Some(10_000_000_000),
            mtu: 1500,
            kind: String::new(),
            frame_overhead_bytes: overhead,
            burst_bytes: burst,
        }
    }

    fn run(gbit: f64, seconds: f64) -> Measures {
        Measures { bytes: (gbit * 1.25e8 * seconds) as u64, seconds, ..Measures::default() }
    }

    #[test]
    fn the_ceiling_is_that_of_the_textbooks() {
        let ceiling = |link: &Link| payload_ceiling(link).unwrap() * 1e-9;
        assert!((ceiling(&link(38, 0)) - 9.415).abs() < 0.001);
        assert!((ceiling(&link(14, 0)) - 9.564).abs() < 0.001);
        assert!((ceiling(&Link { mtu: 9000, ..link(38, 0) }) - 9.900).abs() < 0.001);
        assert_eq!(payload_ceiling(&Link { bits_per_second: None, ..link(38, 0) }), None);
        assert_eq!(payload_ceiling(&Link { mtu: 40, ..link(38, 0) }), None);
    }

    #[test]
    fn faster_than_the_link_is_an_error_and_a_burst_is_not() {
        assert_eq!(above_ceiling(&run(9.41, 3.0), &link(38, 0)), None);
        assert!(above_ceiling(&run(9.99, 3.0), &link(38, 0)).unwrap().contains("9.99"));
        let short = run(9.8, 0.2);
        assert!(above_ceiling(&short, &link(14, 0)).is_some());
        assert_eq!(above_ceiling(&short, &link(14, 4 << 20)), None);
        assert_eq!(above_ceiling(&run(40.0, 1.0), &Link { bits_per_second: None, ..link(38, 0) }), None);
    }

    #[test]
    fn each_direction_has_the_whole_link() {
        let both = run(17.0, 3.0);
        assert!(above_ceiling(&both, &link(38, 0)).is_some(), "as if all of it went one way");
        let half = Measures { bytes_back: Some(both.bytes / 2), ..both.clone() };
        assert_eq!(above_ceiling(&half, &link(38, 0)), None);
        for most in [both.bytes / 10, both.bytes / 10 * 9, both.bytes, u64::MAX] {
            let uneven = Measures { bytes_back: Some(most), ..both.clone() };
            assert!(above_ceiling(&uneven, &link(38, 0)).is_some(), "{most}");
        }
    }

    #[test]
    fn what_was_buffered_before_a_window_may_be_read_in_it() {
        let late = |gbit, begin| {
            let window = Some(CountedWindow { begin, end: begin + 4.0, ..CountedWindow::default() });
            above_ceiling(&Measures { window, ..run(gbit, 4.0) }, &link(38, 0)).is_some()
        };
        assert!(above_ceiling(&run(9.7, 4.0), &link(38, 0)).is_some());
        assert!(!late(9.7, 1.0) && late(9.7, 0.01) && late(11.0, 60.0));
    }

    #[test]
    fn cases_at_one_ceiling_are_distinguished_by_nothing_else() {
        let rates = [("a", 9.4), ("b", 9.3), ("c", 9.0), ("d", 18.8)];
        let runs = rates.map(|(case, rate)| crate::testing::run(case, 0, measured(rate, 1.0)));
        let mut record = record(&["a", "b", "c", "d"], 1, runs.to_vec());
        let double = Link { bits_per_second: Some(20_000_000_000), ..link(38, 0) };
        let links = [("10gbit", link(38, 0)), ("two", double)];
        record.links = links.map(|(name, link)| NamedLink { name: name.into(), link }).to_vec();
        record.cases.iter_mut().for_each(|case| case.link = "10gbit".into());
        record.cases[3].link = "two".into();
        assert!(are_at_one_ceiling(&record, ["a", "b"]));
        for others in [&["a"][..], &["a", "c"], &["a", "d"], &["a", "x"]] {
            assert!(!are_at_one_ceiling(&record, others.iter().copied()), "{others:?}");
        }
        assert!(reached_ceiling(&record, "d").is_some() && reached_ceiling(&record, "c").is_none());
        record.links[0].link.bits_per_second = None;
        assert!(!are_at_one_ceiling(&record, ["a", "b"]), "an open link has no ceiling");
    }

    #[test]
    fn the_tools_own_time_counts() {
        let mut lying = run(5.0, 2.0);
        lying.payload_seconds = Some(0.5);
        assert!(above_ceiling(&lying, &link(38, 0)).is_some());
    }
}
