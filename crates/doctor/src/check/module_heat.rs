//! A module's temperature, compared with the limits in the module's memory.

use linerate_host::facts::Port;

use super::{Check, CheckRun};
use crate::source::{ETHTOOL, SFF_8472};
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "module-heat",
    about: "modules hotter than they may be",
    sources: &[SFF_8472, ETHTOOL],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.hardware().filter_map(of).collect()
}

fn of(port: &Port) -> Option<Finding> {
    let module = port.module.known()?;
    let heat = module.temperature.known()?;
    let (limits, celsius) = (heat.limits.get()?, heat.lowest()?);
    let (severity, limit, name) = match celsius {
        hot if hot > limits.high_alarm => (Severity::Major, limits.high_alarm, "alarm"),
        warm if warm > limits.high_warning => (Severity::Minor, limits.high_warning, "warning"),
        _ => return None,
    };
    let finding =
        Finding::new(severity, format!("{}'s module is at {celsius:.0} degrees Celsius", port.name))
            .at(&port.name)
            .evidence(format!(
                "the module's limit for an {name} is {limit:.0} degrees: the module may lose its link"
            ))
            .fix("improve the module's cooling, or replace it with a module of a lower power class");
    Some(match module.max_watts.get() {
        Some(watts) => finding.evidence(format!("its power class allows {watts} W")),
        None => finding,
    })
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    /// The fibre host at this temperature; its module's limits are 88 and 93 degrees.
    fn at(celsius: f64) -> Vec<String> {
        let host = edited("fibre-trunk", "eno1", |port| {
            let Fact::Known(module) = &mut port.module else { panic!("no module") };
            let Fact::Known(heat) = &mut module.temperature else { panic!("no temperature") };
            heat.values = vec![celsius];
        });
        lines(&found(&CHECK, &host))
    }

    #[test]
    fn heat_is_found() {
        assert_eq!(
            (at(90.0), at(94.0)),
            (vec!["module-heat eno1 minor -".into()], vec!["module-heat eno1 major -".into()])
        );
    }

    #[test]
    fn a_warm_module_and_none_are_not() {
        assert!(at(87.9).is_empty());
        assert!(
            found(&CHECK, &fixture("fibre-trunk")).is_empty()
                && found(&CHECK, &fixture("stock-10g")).is_empty()
        );
    }
}
