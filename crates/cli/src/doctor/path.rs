//! Both ends of a path, and what is measured between them.

use linerate_doctor::formula::gbit;
use linerate_doctor::{Measured, Need, Path, examine_path_and_ends};
use linerate_wire::path::printable;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::{HERE, Named, Report, far, host, rtt};
use crate::cp::{Failure, Summary};
use crate::exit::Code;
use crate::reach::Reach;
use crate::stream::probe;

/// Asks both, measures, and examines all three.
pub fn examine(from: &OsStr, to: &OsStr, need: Need, reach: &Reach) -> Result<Report, Failure> {
    if from == to {
        let message = format!("--path {0} {0}: a path has two ends", from.to_string_lossy());
        return Err(Failure(message, Code::Usage));
    }
    let hosts = [host(from, reach)?, host(to, reach)?];
    // What is measured goes out from here, or else from the first.
    let (near, far, other) = if to == HERE { (1, 0, from) } else { (0, 1, to) };
    let is_here = from == HERE || to == HERE;
    let measured = if is_here { measure(other, reach) } else { measure_there(from, to, reach) };
    Ok(report(&hosts[near], &hosts[far], need, measured))
}

/// What can't be measured is left out, and why is told.
fn measure_there(from: &OsStr, to: &OsStr, reach: &Reach) -> Measured {
    far::measure(from, to, reach).unwrap_or_else(|why| {
        let host = printable(from.as_bytes());
        tell!("linerate: nothing was measured from {host}: {why}; {}", far::advice(from, to));
        Measured::default()
    })
}

fn report(near: &Named, far: &Named, need: Need, measured: Measured) -> Report {
    let path = Path { from: near.view(need), to: far.view(need), measured }.needing();
    let because = if need == Need::OfPorts { "what the slower end can" } else { "as asked for" };
    let mut report = Report::of(&path.ends(), examine_path_and_ends(&path));
    report.hosts.iter_mut().for_each(|host| host.because = because);
    Report { measured: Some(measured), ..report }
}

/// What can't be measured is left out, and why is told.
fn measure(host: &OsStr, reach: &Reach) -> Measured {
    let rtt = rtt::to(host, reach);
    match probe(host, reach) {
        Ok(summary) => Measured { rtt, ..of(&summary) },
        Err(Failure(message, _)) => {
            tell!("linerate: the rate can't be measured: {message}");
            Measured { rtt, ..Measured::default() }
        }
    }
}

fn of(summary: &Summary) -> Measured {
    let (bytes, sender) = (summary.landed.bytes as f64, summary.sender.0);
    // Through ssh the connections aren't ours, and nobody tells of their segments.
    let is_told = sender.tcp_busy > 0;
    Measured {
        rtt: None,
        rate: (summary.payload_seconds > 0.0).then(|| bytes * 8.0 / summary.payload_seconds),
        streams: Some(summary.streams),
        retransmitted: is_told.then_some(sender.tcp_retransmits),
        sent: is_told.then_some(sender.tcp_segments),
        limiter: Some(summary.limiter().limiter.name()),
    }
}

/// One line of what was measured.
pub fn told(measured: &Measured) -> String {
    let rtt = measured.rtt.map(|rtt| format!("round trip {:.3} ms", rtt * 1e3));
    let limiter = measured.limiter.map_or_else(String::new, |name| format!(" (held back by: {name})"));
    let rate = measured.rate.map(|rate| format!("memory to memory {}{limiter}", gbit(rate)));
    let loss = measured.retransmitted.map(|count| format!("{count} segments sent again"));
    let parts: Vec<String> = [rtt, rate, loss].into_iter().flatten().collect();
    format!("path: {}", if parts.is_empty() { "nothing measured".into() } else { parts.join(", ") })
}
