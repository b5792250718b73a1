//! Cached metrics of earlier connections that slow later ones.

use super::{Check, CheckRun};
use crate::remedy::Remedy;
use crate::source::{ESNET, IP_SYSCTL};
use crate::{Finding, Host, Severity};

/// The share of retransmitted segments at or above which cached thresholds are low.
const LOSSY: f64 = 1e-5;

pub(super) const CHECK: Check = Check {
    name: "tcp-metrics",
    about: "cached metrics of a lossy connection that slow the next one's start",
    sources: &[ESNET, IP_SYSCTL],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let tcp = &host.facts.tcp;
    // Since Linux 5.6 the threshold, which alone slows the start, isn't saved by default.
    if tcp.no_metrics_save.get()? || tcp.no_ssthresh_metrics_save.get() == Some(true) {
        return None;
    }
    let counters = tcp.counters.known()?;
    let (sent, again) = (*counters.get("OutSegs")?, *counters.get("RetransSegs")?);
    let loss = again as f64 / sent.max(1) as f64;
    if loss < LOSSY {
        return None;
    }
    let finding =
        Finding::new(Severity::Note, "cached metrics of a lossy connection slow the next one's start")
            .evidence(format!(
                "tcp_no_metrics_save is 0, and {:.4} % of the segments were retransmitted",
                loss * 100.0
            ))
            .remedied(Remedy::sysctl("net.ipv4.tcp_no_metrics_save", 0, 1))
            .fix_words("ip tcp_metrics flush, which discards the measurements of all hosts; it can't be undone, but later connections measure again")
            .conflict(
                "ESnet sets 1 for tests and transfers; the kernel's cache helps where paths don't change",
            );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn it_matters_where_segments_are_lost() {
        let remembers = changed("stock-10g", |facts| facts.tcp.no_metrics_save = Fact::Known(false));
        assert_eq!(lines(&found(&CHECK, &remembers)), ["tcp-metrics - note -"]);
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        let mut recent = remembers;
        recent.tcp.no_ssthresh_metrics_save = Fact::Known(true);
        assert!(found(&CHECK, &recent).is_empty());
    }
}
