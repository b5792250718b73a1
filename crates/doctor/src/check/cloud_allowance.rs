//! Packets that a cloud queued or dropped because the guest had used up its allowance.

use linerate_host::facts::Port;

use super::{Check, CheckRun};
use crate::formula::percent;
use crate::{Citation, Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "cloud-allowance",
    about: "packets that Amazon queued or dropped because of its limits",
    sources: &[Citation {
        name: "Amazon EC2, Monitor network performance for ENA settings",
        url: "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-network-performance-ena.html",
    }],
    run: CheckRun::Host(|host: &Host<'_>| host.devices().filter_map(|port| of(host, port)).collect()),
};

/// Shares of a port's packets that exceeded the allowance: from MANY on, transfers are slow; from LEAST_EXCEEDING_SHARE
/// on, the cause may be more than short bursts.
const MANY: f64 = 1e-2;
const LEAST_EXCEEDING_SHARE: f64 = 1e-4;

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let all =
        port.statistics.known().filter(|_| port.driver.known().is_some_and(|driver| driver == "ena"))?;
    let beyond: Vec<_> =
        all.iter().filter(|(name, count)| name.ends_with("_allowance_exceeded") && **count > 0).collect();
    if beyond.is_empty() {
        return None;
    }
    let count = |names: &[&str]| -> u64 {
        let named = beyond.iter().filter(|(name, _)| names.iter().any(|start| name.starts_with(start)));
        named.fold(0, |sum, (_, count)| sum.saturating_add(**count))
    };
    let (rate, connections) = (count(&["bw_", "pps_"]), count(&["conntrack_"]));
    let counters = &port.counters;
    let packets =
        counters.rx_packets.get().zip(counters.tx_packets.get()).map(|(rx, tx)| rx.saturating_add(tx));
    let share = packets.filter(|packets| *packets > 0).map(|packets| rate as f64 / packets as f64);
    let severity = match share {
        Some(share) if share >= MANY => Severity::Major,
        Some(share) if share >= LEAST_EXCEEDING_SHARE => Severity::Minor,
        None if rate > 0 => Severity::Minor,
        _ if connections > 0 => Severity::Minor,
        _ => Severity::Note,
    };
    let since = match host.facts.counted_seconds.known() {
        Some(_) => host.since(),
        None => "since the driver was loaded".into(),
    };
    let named = beyond.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ");
    let finding = Finding::new(severity, format!("{} exceeded the instance's network allowance", port.name))
        .at(&port.name)
        .evidence(format!("packets queued or dropped {since}: {named}"));
    let finding = match share.filter(|_| rate > 0) {
        Some(share) => {
            finding.evidence(format!("{} of the port's packets; short bursts count too", percent(share)))
        }
        None => finding,
    };
    Some(finding.fix(advice(port, rate, connections)))
}

fn advice(port: &Port, rate: u64, connections: u64) -> String {
    let watch = format!("watch ethtool -S {} | grep allowance during a transfer", port.name);
    match (rate, connections) {
        (_, 1..) => format!(
            "{watch}; conntrack: fewer connections, shorter idle timeouts, or security groups that don't track connections (all traffic allowed in both directions)"
        ),
        (1.., _) => {
            format!(
                "{watch}; if the counter grows: use a larger instance, or an instance whose rate isn't given as 'up to'"
            )
        }
        _ => format!("{watch}; link-local: cache answers of DNS and of the metadata service"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{edited, fixture, found, lines};
    use linerate_host::Fact;

    fn with(name: &str, count: u64) -> Vec<Finding> {
        let host = edited("ena", "ens5", |port| {
            port.statistics = Fact::Known([(name.to_owned(), count)].into());
            (port.counters.rx_packets, port.counters.tx_packets) =
                (Fact::Known(600_000), Fact::Known(400_000));
        });
        found(&CHECK, &host)
    }

    #[test]
    fn packets_beyond_it_are_found_by_their_share() {
        assert_eq!(lines(&with("bw_in_allowance_exceeded", 17)), ["cloud-allowance ens5 note -"]);
        assert_eq!(lines(&with("bw_in_allowance_exceeded", 1_000)), ["cloud-allowance ens5 minor -"]);
        assert_eq!(lines(&with("bw_out_allowance_exceeded", 30_000)), ["cloud-allowance ens5 major -"]);
    }

    #[test]
    fn what_a_measurement_counted_is_of_the_measurement() {
        let host = crate::testing::changed("ena", |facts| {
            facts.counted_seconds = Fact::Known(2.0);
            crate::testing::port_of(facts, "ens5").statistics =
                Fact::Known([("bw_out_allowance_exceeded".to_owned(), 7)].into());
        });
        let reported = &found(&CHECK, &host)[0].evidence[0];
        assert_eq!(
            reported,
            "packets queued or dropped in the 2 s of the measurement: bw_out_allowance_exceeded 7"
        );
    }

    #[test]
    fn a_larger_instance_is_no_cure_for_connections() {
        let connections = with("conntrack_allowance_exceeded", 5);
        assert_eq!(lines(&connections), ["cloud-allowance ens5 minor -"]);
        assert!(!connections[0].fix.as_ref().unwrap().contains("instance"), "{connections:?}");
        assert_eq!(lines(&with("linklocal_allowance_exceeded", 5)), ["cloud-allowance ens5 note -"]);
    }

    #[test]
    fn none_beyond_it_is_right() {
        assert!(with("bw_in_allowance_exceeded", 0).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
