//! Both ends of a path, and what is measured between them.

use linerate_doctor::formula::{gbit, percent};
use linerate_doctor::{Measured, Need, Path, examine_path, ordered};
use std::ffi::OsStr;

use super::{Report, host};
use crate::cp::Failure;
use crate::reach::Reach;

/// Asks both, measures, and examines all three.
pub fn examine(from: &OsStr, to: &OsStr, need: Need, reach: &Reach) -> Result<Report, Failure> {
    let hosts = [host(from, reach)?, host(to, reach)?];
    let measured = Measured::default();
    let slower = hosts.iter().map(|host| host.view(need).rate()).fold(f64::INFINITY, f64::min);
    let need = Need::Target(slower);
    let mut report = Report::of(&hosts, need);
    let path = Path { from: hosts[0].view(need), to: hosts[1].view(need), measured };
    report.findings.extend(examine_path(&path));
    report.findings = ordered(report.findings);
    report.measured = Some(measured);
    Ok(report)
}

/// One line of what was measured.
pub fn told(measured: &Measured) -> String {
    let rtt = measured.rtt.map(|rtt| format!("round trip {:.3} ms", rtt * 1e3));
    let rate = measured.rate.map(|rate| format!("memory to memory {}", gbit(rate)));
    let loss = measured.loss().map(|loss| format!("sent again {}", percent(loss)));
    let parts: Vec<String> = [rtt, rate, loss].into_iter().flatten().collect();
    format!("path: {}", if parts.is_empty() { "nothing measured".into() } else { parts.join(", ") })
}
