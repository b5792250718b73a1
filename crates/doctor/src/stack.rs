//! A device with the ports above it, up to the one that has the address. Each port has its own MTU, which can't be
//! larger than that of the port below.

use linerate_host::Facts;
use linerate_host::facts::Port;

use crate::Host;
use crate::along::is_of;
use crate::subject::is_up;

/// The most ports that may be above each other: a bond, a VLAN and a bridge are usual. The bound ends loops, which only
/// a snapshot can contain.
const DEEPEST: usize = 6;
/// Kinds of ports that send their packets as they are over the port below, apart from a tag.
const PLAIN: [&str; 3] = ["vlan", "macvlan", "ipvlan"];

/// The ports that packets pass before a device sends them, the lowest first.
pub(crate) struct Stack<'a> {
    /// The device (or the bond or team that gives its MTU to the device), and the ports above it.
    pub ports: Vec<&'a Port>,
    /// The ports above the last port of the stack.
    pub top: Top<'a>,
}

/// The ports above the last port of a stack.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Top<'a> {
    /// No port: the last port has the address.
    Address,
    /// A bridge that has other ports too. It takes the lowest MTU of its ports (br_mtu_auto_adjust() in
    /// net/bridge/br_if.c).
    Bridge(&'a str),
    /// Several ports, each of which may carry the data.
    Several(Vec<&'a str>),
    /// A port about which nothing is known.
    Unknown(&'a str),
}

/// The next port above another one.
enum Step<'a> {
    /// A bond or a team, which takes the place of its member, because it gives its MTU to its members
    /// (bond_change_mtu(); team_change_mtu(), and a team's members refuse another).
    Instead(&'a Port),
    Above(&'a Port),
    End(Top<'a>),
    /// Another device above this one: Hyper-V's port above its virtual function. The MTU of the lower one has no
    /// effect.
    Device,
}

impl<'a> Stack<'a> {
    /// The stack above a device; `None` if another device is above it, or if more than `DEEPEST` ports are.
    pub(crate) fn above(host: &Host<'a>, device: &'a Port) -> Option<Self> {
        let mut ports = vec![device];
        for _ in 0..DEEPEST {
            match next(host, ports.last()?) {
                Step::Instead(master) => {
                    ports.pop();
                    ports.push(master);
                }
                Step::Above(port) => ports.push(port),
                Step::End(top) => return Some(Self { ports, top }),
                Step::Device => return None,
            }
        }
        None
    }

    /// True if a port of the stack sends larger packets than the port below accepts.
    pub(crate) fn is_mismatched(&self) -> bool {
        self.ports.windows(2).any(|pair| matches!(pair, [lower, upper] if upper.mtu.get() > lower.mtu.get()))
    }
}

fn next<'a>(host: &Host<'a>, port: &'a Port) -> Step<'a> {
    let Some(name) = port.master.known() else { return over(host.facts, port) };
    let Some(master) = host.facts.port(name) else { return Step::End(Top::Unknown(name)) };
    if ["bonding", "bond", "team"].iter().any(|kind| is_of(master, kind)) {
        Step::Instead(master)
    } else if is_of(master, "vrf") {
        // A VRF is only a table of routes.
        Step::End(Top::Address)
    } else if host.devices().any(|device| device.name == master.name) {
        Step::Device
    } else if master.bridge_ports.known().is_some_and(|ports| ports == std::slice::from_ref(&port.name)) {
        Step::Above(master)
    } else {
        Step::End(Top::Bridge(name))
    }
}

/// The step to the ports directly above this one.
fn over<'a>(facts: &'a Facts, port: &Port) -> Step<'a> {
    let all = facts.ports.known().into_iter().flatten();
    let uppers: Vec<&Port> = all.filter(|upper| is_up(upper) && lower(upper) == Some(&port.name)).collect();
    match uppers.as_slice() {
        [] => Step::End(Top::Address),
        [upper] => Step::Above(upper),
        several => Step::End(Top::Several(several.iter().map(|upper| upper.name.as_str()).collect())),
    }
}

/// The port directly below a port, if the packets don't become larger there.
fn lower(port: &Port) -> Option<&String> {
    let stands = |layer: &'_ linerate_host::facts::PortLayer| {
        !layer.is_elsewhere && layer.kind.as_deref().is_some_and(|kind| PLAIN.contains(&kind))
    };
    let below = port.layer.known().filter(|layer| stands(layer)).and_then(|layer| layer.below.as_ref());
    port.vlan.known().map(|vlan| &vlan.lower).or(below)
}

/// A port and the ports below it, the lowest first.
pub(crate) fn with_lower<'a>(facts: &'a Facts, port: &'a Port) -> Vec<&'a Port> {
    let mut ports = vec![port];
    while let Some(below) = ports.last().and_then(|port| facts.port(lower(port)?)) {
        if ports.len() > DEEPEST {
            break;
        }
        ports.push(below);
    }
    ports.reverse();
    ports
}
