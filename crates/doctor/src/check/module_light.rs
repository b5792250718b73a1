//! Light that reaches a module, compared with the limits in the module's memory.

use linerate_host::facts::Port;

use super::{Check, CheckRun};
use crate::source::{ETHTOOL, SFF_8472};
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "module-light",
    about: "modules that receive less light than they need",
    sources: &[SFF_8472, ETHTOOL],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.hardware().filter_map(of).collect()
}

fn of(port: &Port) -> Option<Finding> {
    let light = port.module.known()?.rx_power.known()?;
    let (limits, lowest) = (light.limits.get()?, light.lowest()?);
    let (severity, limit, name) = match lowest {
        dark if dark < limits.low_alarm => (Severity::Major, limits.low_alarm, "alarm"),
        dim if dim < limits.low_warning => (Severity::Minor, limits.low_warning, "warning"),
        _ => return None,
    };
    let finding = Finding::new(severity, format!("{}'s module receives too little light", port.name))
        .at(&port.name)
        .evidence(format!("{lowest} mW arrive; the module's limit for an {name} is {limit} mW"))
        .evidence("frames that arrive damaged are lost, and each loss slows a connection")
        .fix(
            "clean the fibre's ends, then compare the optical power at both ends with linerate facts, as root; if the power stays low, replace the fibre or the other end's module",
        );
    Some(match port.counters.rx_crc.get() {
        Some(count) => finding.evidence(format!("{count} frames with wrong checksums so far")),
        None => finding,
    })
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    /// The fibre host with this light.
    fn with(milliwatts: f64) -> Vec<String> {
        let host = edited("fibre-trunk", "eno1", |port| {
            let Fact::Known(module) = &mut port.module else { panic!("no module") };
            let Fact::Known(light) = &mut module.rx_power else { panic!("no light") };
            light.values = vec![0.5, milliwatts];
        });
        lines(&found(&CHECK, &host))
    }

    #[test]
    fn dim_light_is_found() {
        assert_eq!(lines(&found(&CHECK, &fixture("fibre-trunk"))), ["module-light eno1 major -"]);
        assert_eq!(with(0.012), ["module-light eno1 minor -"]);
    }

    #[test]
    fn enough_light_and_no_module_are_not() {
        assert!(with(0.3).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
