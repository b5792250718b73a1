//! The rate that a cloud gives one connection, whatever the guest's own rate.

use linerate_host::facts::Port;

use super::{Check, CheckRun};
use crate::formula::gbit;
use crate::subject::Cloud;
use crate::{Citation, Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "cloud-flow-limit",
    about: "a cloud that limits the rate of each connection",
    sources: &[
        Citation {
            name: "Amazon EC2, Instance network bandwidth: 5 Gbit/s a flow, 10 within a placement group",
            url: "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-network-bandwidth.html",
        },
        Citation {
            name: "Google Compute Engine, Network bandwidth: 3 Gbit/s a flow to external addresses",
            url: "https://cloud.google.com/compute/docs/network-bandwidth",
        },
    ],
    run: CheckRun::Host(|host| host.devices().filter_map(|port| of(host, port)).collect()),
};

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let (flow, where_, conflict) = match host.cloud(port)? {
        Cloud::Amazon => (
            5e9,
            "outside a cluster placement group",
            "10 Gbit/s within a placement group, 25 with ENA Express",
        ),
        Cloud::Google => (
            3e9,
            "to addresses outside the cloud",
            "within the cloud one flow may use the guest's whole rate",
        ),
    };
    let need = host.rate_of(port)?;
    if flow >= need {
        return None;
    }
    let streams = (need / flow).ceil().min(64.0);
    let finding = Finding::leaves(flow, need, format!("the cloud limits one connection to {}", gbit(flow)))
        .at_most(Severity::Note)
        .at(&port.name)
        .evidence(format!("limit of a connection {where_}: {}; needed: {}", gbit(flow), gbit(need)))
        .fix(format!("use {streams:.0} streams or more: linerate cp --streams {streams:.0}"))
        .conflict(conflict);
    Some(finding)
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

    #[test]
    fn less_need_and_other_hosts_are_not() {
        assert!(found_for(&CHECK, &fixture("ena"), Need::Target(2e9)).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
