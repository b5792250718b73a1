//! Windows of both ends, compared with the bytes in flight on a measured path.

use super::{Check, CheckRun};
use crate::formula::{buffer, bytes, flow, gbit};
use crate::remedy::Remedy;
use crate::source::{ESNET, IP_SYSCTL, LEARNED_WINDOW};
use crate::{Finding, Host, Path};

pub(super) const CHECK: Check = Check {
    name: "window-vs-bdp",
    about: "buffers smaller than the bandwidth-delay product of a path",
    sources: &[IP_SYSCTL, LEARNED_WINDOW, ESNET],
    run: CheckRun::Path(of),
};

fn of(path: &Path<'_>) -> Option<Finding> {
    let (rtt, need) = (path.measured.rtt?, path.rate());
    let (from, to) = (&path.from.facts.tcp, &path.to.facts.tcp);
    let (send, receive) = (from.wmem.get()?, to.rmem.get()?);
    let window = window(path)?;
    let one = flow::rate(window, rtt);
    if one >= need {
        return None;
    }
    let streams = path.measured.streams.unwrap_or(1).max(1);
    let title = format!("windows limit one connection to {}", gbit(one));
    let flight = flow::in_flight(need, rtt);
    let finding = Finding::leaves(one * f64::from(streams), need, title)
        .evidence(in_flight(need, rtt, flight))
        .evidence(format!(
            "{} sends from a buffer of {}, {} receives into {}",
            path.from.name,
            bytes(send[2] as f64),
            path.to.name,
            bytes(receive[2] as f64)
        ))
        .evidence(announced(path))
        .evidence(format!("{streams} streams were used; {:.0} would fill the path", (need / one).ceil()))
        .conflict(
            "more streams help as well, and recover sooner from a loss; but they take more than their share",
        );
    let finding = unscaled(path).fold(finding, |finding, host| {
        finding.evidence(format!("no window exceeds 64 KiB: tcp_window_scaling of {} is 0", host.name))
    });
    let scaled = unscaled(path)
        .filter_map(|host| Some(Remedy::sysctl("net.ipv4.tcp_window_scaling", 0, 1)?.on(host.name)));
    let buffers = buffers(path)?;
    let changes = scaled.chain(buffers.iter().filter_map(|end| end.remedy(flight)));
    Some(finding.remedied_or(
        changes,
        "use more streams: the memory of these hosts, or their tcp_mem, allows no larger buffer",
    ))
}

/// A text about the bytes in flight that the rate needs.
fn in_flight(need: f64, rtt: f64, flight: f64) -> String {
    format!("{} at a round trip of {:.1} ms needs {} in flight", gbit(need), rtt * 1e3, bytes(flight))
}

/// A text about the window from which the ceiling was computed.
fn announced(path: &Path<'_>) -> String {
    let to = path.to.name;
    match path.measured.window {
        Some(window) if path.measured.is_window_limited() => {
            format!("{to} announced a window of {}, and the sender filled it", bytes(window as f64))
        }
        Some(window) => {
            format!(
                "the largest window that {to} announced was {}, and the sender didn't fill it",
                bytes(window as f64)
            )
        }
        None if buffer::is_learned(path.to.facts) => format!(
            "no window of {to} was measured: half of its buffer is assumed, because kernels from Linux 6.6 on measure the share themselves"
        ),
        None => {
            format!("no window of {to} was measured: it was computed from tcp_rmem and tcp_adv_win_scale")
        }
    }
}

/// The sender's buffer and the receiver's.
fn buffers<'a>(path: &'a Path<'a>) -> Option<[Buffer<'a>; 2]> {
    let (from, to) = (&path.from, &path.to);
    let (send, receive) = (from.facts.tcp.wmem.get()?, to.facts.tcp.rmem.get()?);
    // A window without scaling doesn't show how large the buffer's window can be.
    let window = match unscaled(path).next() {
        Some(_) => buffer::received(to.facts, receive[2]),
        None => buffer::received_on(path)?,
    };
    let sends = Buffer { host: from, name: "tcp_wmem", now: send, window: buffer::sent(send[2]) };
    Some([sends, Buffer { host: to, name: "tcp_rmem", now: receive, window }])
}

/// One end's buffer.
struct Buffer<'a> {
    host: &'a Host<'a>,
    name: &'a str,
    /// The least, first and largest size in bytes.
    now: [u64; 3],
    /// The part of the buffer that may be in flight, in bytes.
    window: f64,
}

impl Buffer<'_> {
    /// The change that makes the buffer large enough; `None` if this end isn't at fault, or can't have a larger buffer.
    fn remedy(&self, flight: f64) -> Option<Remedy> {
        let [least, first, most] = self.now;
        let value = |most| format!("{least} {first} {most}");
        let size = buffer::proposed(self.host.facts, flight, most);
        let change = Remedy::sysctl(&format!("net.ipv4.{}", self.name), value(most), value(size))?;
        (self.window < flight).then(|| change.on(self.host.name))
    }
}

/// Bytes that one connection may have in flight.
pub(super) fn window(path: &Path<'_>) -> Option<f64> {
    let buffers = buffer::received_on(path)?.min(buffer::sent(path.from.facts.tcp.wmem.get()?[2]));
    Some(if unscaled(path).next().is_some() { buffers.min(flow::MAX_UNSCALED_WINDOW) } else { buffers })
}

/// The ends that don't scale windows. Windows are scaled only if both ends do.
fn unscaled<'a>(path: &Path<'a>) -> impl Iterator<Item = Host<'a>> {
    path.ends().into_iter().filter(|host| host.facts.tcp.window_scaling.get() == Some(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathMeasurements;
    use crate::testing::{changed, fixture, found_between, lines};
    use linerate_host::Fact;

    fn at(rtt: f64) -> Vec<Finding> {
        let measured = PathMeasurements { rtt: Some(rtt), streams: Some(2), ..PathMeasurements::default() };
        found_between(&CHECK, &fixture("stock-10g"), &fixture("stock-10g"), measured)
    }

    #[test]
    fn a_long_path_needs_more_than_the_usual_buffers() {
        let found = at(0.05);
        assert_eq!(lines(&found), ["window-vs-bdp - critical 1.01 Gbit/s"]);
        assert!(found[0].evidence[3].contains("20 would fill the path"), "{:?}", found[0].evidence);
    }

    /// Measured in a lab of 20 ms on Linux 6.18, where the share of window was 66 %.
    #[test]
    fn the_announced_window_counts_where_it_was_the_limit() {
        let host = changed("stock-10g", |facts| {
            facts.kernel = Fact::Known("6.18.44".into());
            facts.tcp.rmem = Fact::Known([4096, 262_144, 1_048_576]);
        });
        let at = |window, limiter| {
            let measured = PathMeasurements {
                rtt: Some(0.0202),
                streams: Some(1),
                window,
                limiter: Some(limiter),
                ..PathMeasurements::default()
            };
            let found = found_between(&CHECK, &host, &host, measured).remove(0);
            (found.line(), found.evidence[2].clone())
        };
        let (filled, because) = at(Some(690_560), "window");
        assert_eq!(filled, "window-vs-bdp - critical 273 Mbit/s");
        assert_eq!(because, "b announced a window of 674 KiB, and the sender filled it");
        // The window is smaller than the buffer allows, because it had no reason to grow.
        let (open, because) = at(Some(262_144), "network");
        assert_eq!(open, "window-vs-bdp - critical 208 Mbit/s");
        assert!(because.ends_with("the sender didn't fill it"), "{because}");
        assert!(at(Some(262_144), "window").0.ends_with("104 Mbit/s"), "less than half is learned as well");
        let (unknown, because) = at(None, "network");
        assert_eq!(unknown, "window-vs-bdp - critical 208 Mbit/s");
        assert!(because.contains("kernels from Linux 6.6 on measure"), "{because}");
    }

    #[test]
    fn the_end_that_is_not_at_fault_keeps_its_buffer() {
        let from = changed("stock-10g", |facts| facts.tcp.wmem = Fact::Known([4096, 16384, 256 << 20]));
        let to = changed("stock-10g", |facts| facts.tcp.rmem = Fact::Known([4096, 131072, 65536]));
        let measured = PathMeasurements { rtt: Some(0.01), streams: Some(1), ..PathMeasurements::default() };
        let fix = found_between(&CHECK, &from, &to, measured).remove(0).fix.unwrap();
        assert!(!fix.contains("tcp_wmem") && fix.contains("tcp_rmem='4096 131072 33554432'"), "{fix}");
    }

    #[test]
    fn a_window_without_scaling_is_named_at_the_end_that_has_it() {
        let large = |facts: &mut linerate_host::Facts| {
            facts.tcp.wmem = Fact::Known([4096, 16384, 256 << 20]);
            facts.tcp.rmem = Fact::Known([4096, 131072, 256 << 20]);
        };
        let (from, mut to) = (changed("stock-10g", large), changed("stock-10g", large));
        to.tcp.window_scaling = Fact::Known(false);
        let measured = PathMeasurements { rtt: Some(0.01), streams: Some(1), ..PathMeasurements::default() };
        let found = found_between(&CHECK, &from, &to, measured);
        assert_eq!(lines(&found), ["window-vs-bdp - critical 52.4 Mbit/s"]);
        let fix = Some("b: sysctl -w net.ipv4.tcp_window_scaling=1");
        assert_eq!(found[0].fix.as_deref(), fix);
        let measured =
            PathMeasurements { rtt: Some(0.1), window: Some(65_535), limiter: Some("window"), ..measured };
        let found = found_between(&CHECK, &from, &to, measured);
        assert_eq!(
            found[0].fix.as_deref(),
            fix,
            "the buffer of 256 MiB is large enough for 10 Gbit/s at 0.1 s"
        );
    }

    #[test]
    fn no_number_is_proposed_that_the_kernel_refuses() {
        let found = at(60.0);
        let fix = found[0].fix.as_ref().unwrap();
        let numbers = fix.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u64>().ok());
        assert!(numbers.clone().max().is_some_and(|most| most <= i32::MAX as u64), "{fix}");
    }

    #[test]
    fn a_short_one_does_not() {
        assert!(at(0.0005).is_empty());
    }
}
