//! A module's standards, compared with the speeds of its port.

use linerate_host::facts::Port;

use super::nic_speed::wanted;
use super::{Check, CheckRun};
use crate::formula::gbit;
use crate::source::{ETHTOOL, SFF_8472};
use crate::subject::speed;
use crate::{Finding, Host, Need, Severity};

pub(super) const CHECK: Check = Check {
    name: "module-speed",
    about: "modules slower than the port that they are in",
    sources: &[SFF_8472, ETHTOOL],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.hardware().filter_map(|port| of(host, port)).collect()
}

/// There is a finding only if the link has the module's speed: a module that names too few standards isn't blamed. A
/// module that is slower than its port costs nothing unless more is needed: a line of 10 Gbit/s between ports for 25
/// Gbit/s is an ordinary plan.
fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let module = port.module.known()?;
    let fastest = module.fastest_mbps()? as f64 * 1e6;
    let able = port.modes.known()?.supported.iter().map(|mode| mode.mbps).max()? as f64 * 1e6;
    let need = wanted(host, able);
    if speed(port)? != fastest || need <= fastest {
        return None;
    }
    let standards = module.standards.known()?.join(", ");
    let title = format!("{}'s module carries {}; the port supports {}", port.name, gbit(fastest), gbit(able));
    let is_asked_for = matches!(host.need, Need::Target(_));
    let finding = Finding::leaves(fastest, need, title)
        .at_most(if is_asked_for { Severity::Critical } else { Severity::Note })
        .at(&port.name)
        .evidence(format!("the module's standards: {standards}"))
        .fix(format!("plug modules for {} into both ends", gbit(able)));
    Some(finding)
}

#[cfg(test)]
mod tests {
    use linerate_host::{Fact, Facts};

    use super::*;
    use crate::testing::{edited, fixture, found, found_for, lines};

    /// The fibre host with a module of this standard, and a link of this speed.
    fn with(standard: &str, mbps: u64) -> Facts {
        edited("fibre-trunk", "eno1", |port| {
            let Fact::Known(module) = &mut port.module else { panic!("no module") };
            module.standards = Fact::Known(vec![standard.into()]);
            port.speed_mbps = Fact::Known(mbps);
        })
    }

    #[test]
    fn a_slow_module_in_a_fast_port_is_found() {
        let slow = with("1000BASE-SX", 1_000);
        let for_target = |target| lines(&found_for(&CHECK, &slow, Need::Target(target)));
        assert_eq!(for_target(10e9), ["module-speed eno1 critical 1.00 Gbit/s"]);
        assert_eq!(for_target(1.5e9), ["module-speed eno1 major 1.00 Gbit/s"]);
        assert!(for_target(1e9).is_empty(), "as fast as asked for");
        assert_eq!(lines(&found(&CHECK, &slow)), ["module-speed eno1 note 1.00 Gbit/s"]);
    }

    #[test]
    fn a_fitting_module_and_a_faster_link_are_not() {
        assert!(found(&CHECK, &fixture("fibre-trunk")).is_empty());
        assert!(found(&CHECK, &with("1000BASE-SX", 10_000)).is_empty(), "it can do more than it says");
        assert!(found(&CHECK, &with("40G active cable", 1_000)).is_empty(), "no standard of Ethernet");
    }
}
