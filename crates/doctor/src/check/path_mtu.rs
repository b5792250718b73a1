//! Ends whose ports have different MTUs.

use super::{Check, CheckRun};
use crate::formula::gbit;
use crate::formula::goodput::Segments;
use crate::source::{ESNET_MTU, IP_SYSCTL};
use crate::{Finding, Host, Path, Severity};

pub(super) const CHECK: Check = Check {
    name: "path-mtu",
    about: "ends whose fastest ports have different MTUs",
    sources: &[ESNET_MTU, IP_SYSCTL],
    run: CheckRun::Path(of),
};

fn of(path: &Path<'_>) -> Option<Finding> {
    if let Some(packet) = path.measured.mtu {
        return smaller_than_port(path, packet);
    }
    let (from, to) = (mtu(&path.from)?, mtu(&path.to)?);
    if from == to {
        return None;
    }
    let (small, large) = (from.min(to), from.max(to));
    let need = path.rate();
    let payload = |mtu| Segments::usual(mtu).share() * need;
    let receiver = if small == from { path.from.name } else { path.to.name };
    let finding = Finding::leaves(
        payload(small),
        payload(large),
        format!("{receiver} takes packets of {small} bytes, the other end packets of {large}"),
    )
    .at_most(Severity::Minor)
    .evidence(format!("MTU of {}: {from}; of {}: {to}", path.from.name, path.to.name))
    .evidence(format!("payload {} instead of {}", gbit(payload(small)), gbit(payload(large))))
    .evidence(format!(
        "without a router between the ends, \
         full packets to {receiver} are lost unless TCP's MSS accounts for the smaller MTU"
    ))
    .fix(format!("{receiver}: ip link set PORT mtu {large}, if the switches allow it"))
    .undo(format!("{receiver}: ip link set PORT mtu {small}"));
    Some(finding)
}

/// The finding that a connection's packets are smaller than the larger of the MTUs of both ends' ports.
fn smaller_than_port(path: &Path<'_>, packet: u32) -> Option<Finding> {
    let own = path.ends().into_iter().filter_map(|host| Some((host.name, largest(&host)?)));
    let (name, port) = own.max_by_key(|(_, mtu)| *mtu).filter(|(_, mtu)| *mtu > packet)?;
    let need = path.rate();
    let payload = |mtu| Segments::usual(mtu).share() * need;
    Some(
        Finding::leaves(payload(packet), payload(port), format!("the path takes packets of {packet} bytes, {name}'s port packets of {port}"))
            .at_most(Severity::Minor)
            .evidence(format!("a connection's segments fill packets of {packet} bytes: the other end's port, or a router, takes no more"))
            .evidence(format!("payload {} instead of {}", gbit(payload(packet)), gbit(payload(port))))
            .fix(format!(
                "give the ports of both ends, and the switches between them, the same MTU ({port}), if they allow it; \
                 tracepath -n to the other end shows where the MTU falls"
            ))
            .conflict("overlays, VPNs and PPPoE need room for their headers: there the smaller MTU is right"),
    )
}

/// The MTU of the fastest device; if there is no device, as in containers, the largest MTU of all ports.
fn largest(host: &Host<'_>) -> Option<u32> {
    mtu(host).or_else(|| host.linked().filter_map(|port| port.mtu.get()).max())
}

/// MTU of the fastest device.
fn mtu(host: &Host<'_>) -> Option<u32> {
    host.devices().max_by_key(|port| port.speed_mbps.get())?.mtu.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathMeasurements;
    use crate::testing::{fixture, found_between, lines};

    #[test]
    fn different_ends_are_found_and_equal_ones_not() {
        let (small, large) = (fixture("stock-10g"), fixture("narrow-bridge"));
        let found = found_between(&CHECK, &small, &large, PathMeasurements::default());
        assert_eq!(lines(&found), ["path-mtu - minor 9.41 Gbit/s"]);
        assert!(found_between(&CHECK, &large, &large, PathMeasurements::default()).is_empty());
    }
}
