//! The metrics of an examination, for `--metrics`.

use linerate_doctor::Severity;
use std::collections::BTreeSet;

use super::{Needed, Report};
use crate::common::metrics::{Gauge, RunMetrics};

impl RunMetrics {
    /// Sets the metrics of an examination. The number of findings of each severity is set even if it is 0.
    pub fn examined(&self, report: &Report) {
        for Needed { host, rate, unreadable, .. } in &report.hosts {
            self.set(Gauge::DoctorNeeded, &[("host", host)], rate / 8.0);
            self.set(Gauge::DoctorUnreadable, &[("host", host)], *unreadable as f64);
        }
        let of_hosts = report.hosts.iter().map(|needed| needed.host.as_str());
        let hosts: BTreeSet<_> = of_hosts.chain(report.findings.iter().map(|it| it.host.as_str())).collect();
        for host in hosts {
            let of_host = || report.findings.iter().filter(|finding| finding.host == host);
            for severity in Severity::ALL {
                let count = of_host().filter(|finding| finding.severity == severity).count();
                let labels = [("host", host), ("severity", &*severity.to_string())];
                self.set(Gauge::DoctorFindings, &labels, count as f64);
            }
            let lost = of_host().filter_map(|finding| finding.loss).fold(0.0, f64::max);
            self.set(Gauge::DoctorLost, &[("host", host)], lost);
        }
    }
}
