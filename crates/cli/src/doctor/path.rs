//! `linerate doctor --path`: examines both ends of a path, and measures the path between them.

use linerate_doctor::formula::gbit;
use linerate_doctor::{Need, Path, PathMeasurements, along_route, examine_path_and_ends};
use linerate_host::facts::TakenRoute;
use linerate_host::{Fact, Facts};
use linerate_wire::path::printable;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use super::server_probe::ServerProbe;
use super::{HERE, NamedHost, Needed, Places, Report, far, host, server_probe};
use crate::common::failure::Failure;
use crate::common::login::LoginOptions;
use crate::common::summary::Summary;
use crate::exit::Code;
use crate::stream::probe;

/// RT_TABLE_MAIN, the number of the main routing table.
const MAIN_TABLE: u32 = 254;

/// The port over which a host reaches its own addresses.
const LOOPBACK: &str = "lo";

/// Both ends of a path.
type NamedEnds = (NamedHost, NamedHost);

/// Asks both ends for their facts, measures the path, and examines both ends and the path.
pub fn examine(from: &OsStr, to: &OsStr, need: Need, places: &Places<'_>) -> Result<Report, Failure> {
    let login = places.login;
    if from == to {
        let message = format!("--path {0} {0}: a path has two ends", from.to_string_lossy());
        return Err(Failure(message, Code::Usage));
    }
    // This host measures the path if it is one of the ends; otherwise the first end measures it.
    let is_here = from == HERE || to == HERE;
    if !is_here {
        let before = (host(from, places)?, host(to, places)?);
        let begun = Instant::now();
        let (measured, routes) = measure_there(from, to, login);
        let ends = counted(before, begun, &measured, || Ok((host(from, places)?, host(to, places)?)))?;
        return Ok(report(over(ends, routes), need, measured));
    }
    let other = if to == HERE { from } else { to };
    // The server is probed first, because if full packets vanish, ssh would wait forever for the server's keys or for
    // the facts.
    let seen = server_probe::probe(other, login);
    let near = host(OsStr::new(HERE), places)?;
    if seen.black_hole.is_some() {
        return Ok(report(routed((near, unasked(other)), seen.address), need, of_server(seen)));
    }
    let far = host(other, places)?;
    let begun = Instant::now();
    let measured = measure(other, seen, login);
    let again = || Ok((host(OsStr::new(HERE), places)?, host(other, places)?));
    let ends = counted((near, far), begun, &measured, again)?;
    Ok(report(routed(ends, seen.address), need, measured))
}

/// Both ends after a measurement, with only the losses that they have counted since `begun`, because earlier losses
/// may have happened on other paths. `again` asks both ends for their facts once more. If no rate was measured,
/// returns the ends as they were `before`.
fn counted(
    before: NamedEnds,
    begun: Instant,
    measured: &PathMeasurements,
    again: impl FnOnce() -> Result<NamedEnds, Failure>,
) -> Result<NamedEnds, Failure> {
    if measured.rate.is_none() {
        return Ok(before);
    }
    let now = again()?;
    let seconds = begun.elapsed().as_secs_f64();
    let since = |now: NamedHost, before: NamedHost| NamedHost {
        facts: now.facts.since(&before.facts, seconds),
        ..now
    };
    Ok((since(now.0, before.0), since(now.1, before.1)))
}

/// Both ends with their routes: `near` is this host, with its route to `address`, and the facts of `far` contain the
/// route by which that host answers the login. If ssh doesn't connect directly, the route of the data isn't known: the
/// login goes through another host, or to a port of this host that ssh forwards.
fn routed((near, far): NamedEnds, address: Option<SocketAddr>) -> NamedEnds {
    let there = address.filter(|address| !address.ip().to_canonical().is_loopback()).map(TakenRoute::to);
    let there = there.filter(|there| there.known().is_none_or(|route| route.ports != [LOOPBACK]));
    let routes = there.map(|there| [there, far.facts.route.clone()]);
    over((near, far), routes.unwrap_or([Fact::NotApplicable, Fact::NotApplicable]))
}

/// Both ends with these routes, and without the ports that the routes don't use.
fn over((near, far): NamedEnds, [there, back]: [Fact<TakenRoute>; 2]) -> NamedEnds {
    let along =
        |host: NamedHost, route| NamedHost { facts: along_route(Facts { route, ..host.facts }), ..host };
    (along(near, there), along(far, back))
}

/// A host without facts, because it can't be asked for them.
fn unasked(name: &OsStr) -> NamedHost {
    NamedHost { name: name.to_string_lossy().into_owned(), facts: Facts::default() }
}

fn of_server(seen: ServerProbe) -> PathMeasurements {
    PathMeasurements {
        rtt: seen.rtt,
        mtu: seen.mtu,
        black_hole: seen.black_hole,
        ..PathMeasurements::default()
    }
}

/// Lets the host `from` measure the path to `to`. If it can't, prints the reason and returns no measurements.
fn measure_there(
    from: &OsStr,
    to: &OsStr,
    login: &LoginOptions,
) -> (PathMeasurements, [Fact<TakenRoute>; 2]) {
    far::measure(from, to, login).unwrap_or_else(|why| {
        let host = printable(from.as_bytes());
        message!("linerate: nothing was measured from {host}: {why}; {}", far::advice(from, to));
        Default::default()
    })
}

fn report((near, far): NamedEnds, need: Need, measured: PathMeasurements) -> Report {
    let path = Path { from: near.view(need), to: far.view(need), measured }.needing();
    let ends = [near.view(need), far.view(need)];
    let slower = if ends[0].rate() <= ends[1].rate() { ends[0] } else { ends[1] };
    let because = match (need, slower.fastest()) {
        (Need::Target(_), _) => "as asked for",
        (Need::OfPorts, Some(_)) => "the slower end's rate",
        (Need::OfPorts, None) => "assumed: no port of the slower end reports its speed",
    };
    let mut report = Report::of(&path.ends(), examine_path_and_ends(&path));
    for (needed, end) in report.hosts.iter_mut().zip([&near, &far]) {
        (needed.because, needed.route) = (because, end.facts.route.known().cloned());
    }
    Report { measured: Some(measured), ..report }
}

/// Measures the path from this host to `host`. If the rate can't be measured, prints the reason and returns only the
/// measurements that `seen` contains.
fn measure(host: &OsStr, seen: ServerProbe, login: &LoginOptions) -> PathMeasurements {
    match probe(host, login) {
        Ok((summary, windows)) => {
            let measured = of(&summary);
            let window = window(&measured, windows);
            PathMeasurements { rtt: seen.rtt, mtu: seen.mtu, window, ..measured }
        }
        Err(Failure(message, _)) => {
            message!("linerate: the rate can't be measured: {message}");
            of_server(seen)
        }
    }
}

fn of(summary: &Summary) -> PathMeasurements {
    let (bytes, sender) = (summary.landed.bytes as f64, summary.sender.0);
    // If the data went through ssh, the connection belongs to ssh, and its segments can't be counted.
    let is_reported = sender.tcp_busy > 0;
    PathMeasurements {
        rate: (summary.payload_seconds > 0.0).then(|| bytes * 8.0 / summary.payload_seconds),
        streams: Some(summary.streams),
        retransmitted: is_reported.then_some(sender.tcp_retransmits),
        sent: is_reported.then_some(sender.tcp_segments),
        limiter: Some(summary.limiter().limiter.name()),
        ..PathMeasurements::default()
    }
}

/// The mean size of a stream's window in bytes, from the sum over all streams. `None` if the data went through ssh:
/// then `sent` isn't known either.
fn window(measured: &PathMeasurements, windows: u64) -> Option<u64> {
    let streams = measured.streams.filter(|_| measured.sent.is_some())?;
    windows.checked_div(u64::from(streams)).filter(|window| *window > 0)
}

/// The ports that the path uses at both ends, in one line; `None` if no route is known.
pub fn ports(report: &Report) -> Option<String> {
    let end = |needed: &Needed| {
        let route = needed.route.as_ref()?;
        let table = route.table.filter(|table| *table != MAIN_TABLE);
        let table = table.map_or_else(String::new, |table| format!(" (routing table {table})"));
        Some(format!("{} over {}{table}", needed.host, route.words()))
    };
    let ends: Vec<String> = report.hosts.iter().filter_map(end).collect();
    (!ends.is_empty()).then(|| format!("ports: {}", ends.join(", ")))
}

/// The measurements in one line.
pub fn reported(measured: &PathMeasurements) -> String {
    let rtt = measured.rtt.map(|rtt| format!("round trip {:.3} ms", rtt * 1e3));
    let limiter = measured.limit().map_or_else(String::new, |limit| format!(" ({limit})"));
    let rate = measured.rate.map(|rate| format!("memory to memory {}{limiter}", gbit(rate)));
    let loss = measured.retransmitted.map(|count| format!("{count} segments retransmitted"));
    let hole = measured.black_hole.map(|bytes| format!("packets of {bytes} bytes vanish"));
    let mtu = measured.mtu.filter(|_| hole.is_none()).map(|bytes| format!("packets of {bytes} bytes"));
    let parts: Vec<String> = [rtt, mtu, hole, rate, loss].into_iter().flatten().collect();
    format!("path: {}", if parts.is_empty() { "nothing measured".into() } else { parts.join(", ") })
}

#[cfg(test)]
mod tests {
    use super::super::table::{Detail, rows, text};
    use super::*;
    use linerate_host::Snapshot;
    use linerate_host::facts::{Port, PortKind};
    use std::path::Path as FilePath;

    fn host(mbps: Fact<u64>) -> NamedHost {
        let port = Port {
            name: "eth0".into(),
            kind: Fact::Known(PortKind::Physical),
            state: Fact::Known("up".into()),
            speed_mbps: mbps,
            ..Port::default()
        };
        NamedHost { name: "a".into(), facts: Facts { ports: Fact::Known(vec![port]), ..Facts::default() } }
    }

    #[test]
    fn a_window_is_that_of_one_stream() {
        let own = PathMeasurements { streams: Some(2), sent: Some(7), ..PathMeasurements::default() };
        assert_eq!(window(&own, 1_380_992), Some(690_496));
        assert_eq!(window(&PathMeasurements { sent: None, ..own }, 1_380_992), None, "ssh's");
        assert_eq!(window(&PathMeasurements { streams: Some(0), ..own }, 7), None);
        assert_eq!(window(&own, 0), None, "an older kernel");
    }

    #[test]
    fn only_losses_during_the_measurement_count() {
        let ends = |lost: u64| {
            let of = |name: &str| {
                let mut host = host(Fact::Known(10_000));
                host.facts.tcp.counters = Fact::Known([("RetransSegs".to_owned(), lost)].into());
                NamedHost { name: name.into(), ..host }
            };
            (of("one"), of("two"))
        };
        let lost = |rate| {
            let measured = PathMeasurements { rate, ..PathMeasurements::default() };
            let (from, to) =
                counted(ends(700), Instant::now(), &measured, || Ok(ends(705))).unwrap_or_else(|_| panic!());
            [from, to].map(|end| end.facts.tcp.counters.known().map(|counters| counters["RetransSegs"]))
        };
        assert_eq!(lost(Some(9e9)), [Some(5), Some(5)]);
        assert_eq!(lost(None), [Some(700), Some(700)], "nothing was measured");
    }

    #[test]
    fn what_a_need_comes_from_is_reported() {
        let because = |mbps: [Fact<u64>; 2], need| {
            let [near, far] = mbps.map(host);
            report((near, far), need, PathMeasurements::default()).hosts[0].because
        };
        let of_ports = |mbps| because(mbps, Need::OfPorts);
        assert_eq!(of_ports([Fact::Known(1000), Fact::Known(25_000)]), "the slower end's rate");
        assert_eq!(of_ports([Fact::Known(1000), Fact::NotApplicable]), "the slower end's rate");
        let assumed = "assumed: no port of the slower end reports its speed";
        assert_eq!(of_ports([Fact::Known(25_000), Fact::NotApplicable]), assumed);
        assert_eq!(of_ports([Fact::NotApplicable, Fact::NotApplicable]), assumed);
        assert_eq!(because([Fact::NotApplicable, Fact::NotApplicable], Need::Target(1e9)), "as asked for");
    }

    fn fixture(name: &str) -> NamedHost {
        let file = format!("../host/tests/fixtures/{name}.txt");
        let snapshot = Snapshot::open(&FilePath::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        NamedHost { name: name.into(), facts: Facts::of_snapshot(&snapshot) }
    }

    #[test]
    fn a_path_takes_a_screen() {
        let clean = PathMeasurements {
            rtt: Some(0.0002),
            rate: Some(9.3e9),
            streams: Some(4),
            sent: Some(1_600_000),
            retransmitted: Some(0),
            limiter: Some("network"),
            ..PathMeasurements::default()
        };
        let slow = PathMeasurements { rate: Some(4e9), ..clean };
        for (from, to, measured) in [
            ("stock-10g", "stock-10g", clean),
            ("stock-10g", "stock-10g", slow),
            ("mlx5-25g-tuned", "stock-10g", clean),
            ("stock-10g", "bond-layer2", slow),
        ] {
            let report = report((fixture(from), fixture(to)), Need::OfPorts, measured);
            let short = text(&report, Detail::default());
            assert!(rows(&short) <= 30, "{} rows\n{short}", rows(&short));
        }
    }
}
