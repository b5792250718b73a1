//! The limit that a cloud sets for the rate of one connection, independent of the guest's own rate.

use linerate_host::facts::Port;

use super::{Check, CheckRun};
use crate::formula::gbit;
use crate::subject::Cloud;
use crate::{Citation, Finding, Host, Severity};

/// The driver's statistic that holds ENA Express's switches.
const SRD_MODE: &str = "ena_srd_mode";

pub(super) const CHECK: Check = Check {
    name: "cloud-flow-limit",
    about: "a cloud that limits the rate of each connection",
    sources: &[
        Citation {
            name: "Amazon EC2, Instance network bandwidth: 5 Gbit/s a flow, 10 within a placement group",
            url: "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-network-bandwidth.html",
        },
        Citation {
            name: "Amazon EC2, ENA Express: up to 25 Gbit/s a flow between instances of a region, if both have it",
            url: "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ena-express.html",
        },
        Citation {
            name: "Google Compute Engine, Network bandwidth: 3 Gbit/s a flow to external addresses",
            url: "https://cloud.google.com/compute/docs/network-bandwidth",
        },
    ],
    run: CheckRun::Host(|host| host.devices().filter_map(|port| of(host, port)).collect()),
};

/// A cloud's limit of one connection.
struct Flow {
    most: f64,
    /// The connections for which this is the limit, as the end of a text.
    to: &'static str,
    conflict: &'static str,
}

const AMAZONS: Flow = Flow {
    most: 5e9,
    to: "outside a cluster placement group",
    conflict: "10 Gbit/s within a placement group, 25 with ENA Express at both ends",
};
/// Connections with ENA Express, whose packets travel as Scalable Reliable Datagrams.
const EXPRESS: Flow = Flow {
    most: 25e9,
    to: "with ENA Express",
    conflict: "5 Gbit/s, or 10 within a placement group, to instances without ENA Express and out of the region",
};
const GOOGLES: Flow = Flow {
    most: 3e9,
    to: "to addresses outside the cloud",
    conflict: "within the cloud one flow may use the guest's whole rate",
};

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let express = express(port);
    let flow = match host.cloud(port)? {
        Cloud::Amazon if express == Some(true) => EXPRESS,
        Cloud::Amazon => AMAZONS,
        Cloud::Google => GOOGLES,
    };
    let (most, need) = (flow.most, host.rate_of(port)?);
    if most >= need {
        return None;
    }
    let streams = (need / most).ceil().min(64.0);
    let finding = Finding::leaves(most, need, format!("the cloud limits one connection to {}", gbit(most)))
        .at_most(Severity::Note)
        .at(&port.name)
        .evidence(format!("limit of a connection {}: {}; needed: {}", flow.to, gbit(most), gbit(need)))
        .fix(format!("use {streams:.0} streams or more: linerate cp --streams {streams:.0}"))
        .conflict(flow.conflict);
    Some(if express == Some(false) {
        finding.evidence("ENA Express is on, but has carried no packets: no other end had ENA Express, or all other ends were in other regions")
    } else {
        finding
    })
}

/// True if ENA Express is on and has carried packets; false if it is on and has carried none, because the other ends
/// didn't have it. `None` if it is off, or if the driver (before 2.8) doesn't report it.
fn express(port: &Port) -> Option<bool> {
    let all = port.statistics.known()?;
    let count = |name: &str| all.get(name).copied().unwrap_or(0);
    // Bit 1 turns ENA Express on for UDP.
    let is_on = count(SRD_MODE) & 1 == 1;
    is_on.then(|| count("ena_srd_tx_pkts") > 0 || count("ena_srd_rx_pkts") > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Need;
    use crate::testing::{fixture, found, found_for, lines};

    #[test]
    fn both_clouds_are_found() {
        assert_eq!(lines(&found(&CHECK, &fixture("ena"))), ["cloud-flow-limit ens5 note 5.00 Gbit/s"]);
        assert_eq!(lines(&found(&CHECK, &fixture("gve"))), ["cloud-flow-limit ens4 note 3.00 Gbit/s"]);
    }

    /// Google's name is on its Chromeboxes, too.
    #[test]
    fn a_chromebox_is_no_clouds_guest() {
        let by = |product: &str| {
            let host = crate::testing::changed("stock-10g", |facts| {
                facts.machine.vendor = linerate_host::Fact::Known("Google".into());
                facts.machine.product = linerate_host::Fact::Known(product.into());
            });
            lines(&found(&CHECK, &host))
        };
        assert_eq!(by("Puff"), [""; 0]);
        assert_eq!(by("Google Compute Engine"), ["cloud-flow-limit eno1 note 3.00 Gbit/s"]);
    }

    /// Both clouds also have guests with other ports.
    #[test]
    fn a_clouds_guest_is_known_by_its_machine() {
        let by = |vendor: &str| {
            let guest = crate::testing::changed("virtio-one-queue", |facts| {
                facts.machine.vendor = linerate_host::Fact::Known(vendor.into());
            });
            lines(&found(&CHECK, &guest))
        };
        assert_eq!(by("Google"), ["cloud-flow-limit eth0 note 3.00 Gbit/s"]);
        assert_eq!(by("Amazon EC2"), ["cloud-flow-limit eth0 note 5.00 Gbit/s"]);
        assert!(by("QEMU").is_empty());
    }

    /// With ENA Express at both ends, one connection may have five times the rate.
    #[test]
    fn ena_express_raises_the_limit_where_both_ends_have_it() {
        let with = |statistics: &[(&str, u64)], need| {
            let guest = crate::testing::edited("ena", "ens5", |port| {
                let all = statistics.iter().map(|(name, count)| ((*name).to_owned(), *count));
                port.statistics = linerate_host::Fact::Known(all.collect());
            });
            found_for(&CHECK, &guest, Need::Target(need))
        };
        let used = [("ena_srd_mode", 1), ("ena_srd_tx_pkts", 9), ("ena_srd_eligible_tx_pkts", 9)];
        assert!(with(&used, 20e9).is_empty());
        assert_eq!(lines(&with(&used, 100e9)), ["cloud-flow-limit ens5 note 25.0 Gbit/s"]);
        let unused = with(&[("ena_srd_mode", 3)], 20e9);
        assert_eq!(lines(&unused), ["cloud-flow-limit ens5 note 5.00 Gbit/s"]);
        assert!(unused[0].evidence[1].contains("has carried no packets"), "{unused:?}");
        // ENA Express is off for TCP; it isn't known for how long.
        let off = with(&[("ena_srd_mode", 2), ("ena_srd_tx_pkts", 9)], 20e9);
        assert_eq!(lines(&off), ["cloud-flow-limit ens5 note 5.00 Gbit/s"]);
    }

    #[test]
    fn less_need_and_other_hosts_are_not() {
        assert!(found_for(&CHECK, &fixture("ena"), Need::Target(2e9)).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
