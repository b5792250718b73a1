//! Frequency governors that keep processors slow, or raise their frequency late.

use super::{Check, CheckRun};
use crate::remedy::{Remedy, Setting};
use crate::source::{ESNET, RED_HAT};
use crate::{Citation, Finding, Host, Severity};

/// Drivers whose `powersave` still follows the load.
const FOLLOWS: [&str; 3] = ["intel_pstate", "amd-pstate-epp", "amd_pstate_epp"];

pub(super) const CHECK: Check = Check {
    name: "governor",
    about: "a frequency governor that saves power",
    sources: &[
        Citation {
            name: "Linux, Documentation/admin-guide/pm/cpufreq.rst and intel_pstate.rst",
            url: "https://docs.kernel.org/admin-guide/pm/intel_pstate.html",
        },
        ESNET,
        RED_HAT,
    ],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let governors = host.facts.cpu.governors.known()?;
    let driver = host.facts.cpu.frequency_driver.known().map(String::as_str);
    let follows = driver.is_some_and(|driver| FOLLOWS.contains(&driver));
    let severity = |name: &str| match name {
        // With any other driver it means the lowest frequency, always.
        "powersave" if driver.is_some() && !follows => Some(Severity::Major),
        "powersave" | "ondemand" | "conservative" => Some(Severity::Minor),
        _ => None,
    };
    let (name, worst) =
        governors.keys().filter_map(|name| Some((name, severity(name)?))).max_by_key(|(_, s)| *s)?;
    let counts =
        governors.iter().map(|(name, count)| format!("{name} on {count}")).collect::<Vec<_>>().join(", ");
    let finding = Finding::new(worst, format!("the processors' governor is {name}"))
        .evidence(format!("{counts}; driver {}", driver.unwrap_or("unknown")))
        .remedied(Remedy::of(Setting::Governor, name, "performance"))
        .conflict(
            "tuned's network profiles and ESnet set performance; \
             by the kernel's guide, intel_pstate's powersave follows the load, \
             and so slows only the first milliseconds of a burst",
        );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use linerate_host::Fact;

    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn saving_power_is_found_by_its_driver() {
        let mut host = fixture("stock-10g");
        let mut with = |governor: &str, driver: &str| {
            host.cpu.governors = Fact::Known(BTreeMap::from([(governor.into(), 8)]));
            host.cpu.frequency_driver = Fact::Known(driver.into());
            lines(&found(&CHECK, &host))
        };
        assert_eq!(with("powersave", "intel_pstate"), ["governor - minor -"]);
        assert_eq!(with("powersave", "acpi-cpufreq"), ["governor - major -"]);
        assert_eq!(with("ondemand", "acpi-cpufreq"), ["governor - minor -"]);
        assert!(with("performance", "acpi-cpufreq").is_empty() && with("schedutil", "x").is_empty());
    }

    #[test]
    fn guests_have_none() {
        assert!(found(&CHECK, &fixture("mlx5-25g-tuned")).is_empty());
        assert!(found(&CHECK, &fixture("virtio-one-queue")).is_empty());
    }
}
