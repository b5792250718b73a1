//! Packets that a cloud queued or dropped because the guest had used up its allowance.

use linerate_host::facts::Port;

use super::{Check, CheckRun};
use crate::{Citation, Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "cloud-allowance",
    about: "packets that Amazon queued or dropped because of its limits",
    sources: &[Citation {
        name: "Amazon EC2, Monitor network performance for ENA settings",
        url: "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-network-performance-ena.html",
    }],
    run: CheckRun::Host(|host: &Host<'_>| host.devices().filter_map(of).collect()),
};

fn of(port: &Port) -> Option<Finding> {
    let all =
        port.statistics.known().filter(|_| port.driver.known().is_some_and(|driver| driver == "ena"))?;
    let beyond: Vec<_> =
        all.iter().filter(|(name, count)| name.ends_with("_allowance_exceeded") && **count > 0).collect();
    if beyond.is_empty() {
        return None;
    }
    let bandwidth = beyond.iter().any(|(name, _)| name.starts_with("bw_"));
    let named = beyond.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ");
    let severity = if bandwidth { Severity::Major } else { Severity::Minor };
    let finding = Finding::new(severity, format!("{} exceeded the instance's network allowance", port.name))
        .at(&port.name)
        .evidence(format!("packets queued or dropped since the driver was loaded: {named}"))
        .evidence("many instance sizes keep their advertised rate for a while only")
        .fix(format!(
            "use a larger instance, or one whose rate isn't given as 'up to'; \
             watch with ethtool -S {} | grep allowance",
            port.name
        ));
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{edited, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn packets_beyond_it_are_found() {
        let beyond = edited("ena", "ens5", |port| {
            port.statistics = Fact::Known([("bw_in_allowance_exceeded".to_owned(), 17)].into());
        });
        assert_eq!(lines(&found(&CHECK, &beyond)), ["cloud-allowance ens5 major -"]);
    }

    #[test]
    fn none_beyond_it_is_right() {
        let within = edited("ena", "ens5", |port| {
            port.statistics = Fact::Known([("bw_in_allowance_exceeded".to_owned(), 0)].into())
        });
        assert!(found(&CHECK, &within).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
