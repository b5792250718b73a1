//! Frequency governors that keep processors slow, or raise their frequency late.

use super::{Check, CheckRun};
use crate::remedy::{Remedy, Setting, noted};
use crate::source::{ESNET, PSTATE, RED_HAT};
use crate::{Finding, Host, Severity};

/// Drivers whose `powersave` still follows the load.
const FOLLOWS: [&str; 3] = ["intel_pstate", "amd-pstate-epp", "amd_pstate_epp"];

pub(super) const CHECK: Check = Check {
    name: "governor",
    about: "a frequency governor that saves power",
    sources: &[PSTATE, ESNET, RED_HAT],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let governors = host.facts.cpu.governors.known()?;
    let driver = host.facts.cpu.frequency_driver.known().map(String::as_str);
    let follows = driver.is_some_and(|driver| FOLLOWS.contains(&driver));
    let energy = worst_preference(host);
    let severity = |name: &str| match name {
        // These drivers choose the frequency by the preference, so the governor's name doesn't matter.
        "powersave" if follows => energy.map(|(_, severity)| severity).or(Some(Severity::Note)),
        // With any other driver, powersave always means the lowest frequency.
        "powersave" if driver.is_some() && !follows => Some(Severity::Major),
        "powersave" | "ondemand" | "conservative" => Some(Severity::Minor),
        _ => None,
    };
    let (name, worst) =
        governors.keys().filter_map(|name| Some((name, severity(name)?))).max_by_key(|(_, s)| *s)?;
    let counts =
        governors.iter().map(|(name, count)| format!("{name} on {count}")).collect::<Vec<_>>().join(", ");
    if follows && energy.is_some_and(|(_, severity)| severity == Severity::Note) {
        return None;
    }
    let finding = Finding::new(worst, format!("the processors' governor is {name}"));
    let finding = match energy {
        Some((preference, _)) if follows => {
            finding.evidence(format!("energy_performance_preference: {preference}"))
        }
        _ => finding,
    };
    let finding = finding
        .evidence(format!("{counts}; driver {}", driver.unwrap_or("unknown")))
        .remedied(Remedy::of(Setting::Governor, name, "performance"))
        .conflict(format!("tuned's network profiles and ESnet set performance; {}", slows(name, follows)));
    let finding = if governors.len() > 1 { noting(finding) } else { finding };
    Some(if follows { restoring(finding, host) } else { finding })
}

/// The effect of the governor, according to the kernel's guide.
fn slows(name: &str, follows: bool) -> &'static str {
    match name {
        "powersave" if follows => {
            "this driver's powersave follows the load, and so slows only the first milliseconds of a burst"
        }
        "powersave" => "with this driver, powersave keeps the lowest frequency whatever the load",
        _ => "this governor follows the load, and so slows only the first milliseconds of a burst",
    }
}

/// The fix first saves the governors in a file, because the facts have only the number of processors of each governor.
fn noting(finding: Finding) -> Finding {
    let (note, back) = noted(&Setting::Governor.file().unwrap_or_default(), "governors");
    let fix = finding.fix.clone().unwrap_or_default();
    finding.fix(format!("{note}; {fix}")).undo(back)
}

/// The undo that also restores the preference, which amd-pstate changes with the governor.
fn restoring(finding: Finding, host: &Host<'_>) -> Finding {
    let one = host.facts.cpu.energy.known().filter(|all| all.len() == 1).and_then(|all| all.keys().next());
    match (one, finding.undo.clone()) {
        (Some(one), Some(undo)) => {
            finding.undo(format!("{undo}; {}", Setting::EnergyPreference.command(one)))
        }
        _ => finding,
    }
}

/// The preference between energy and speed that slows most.
fn worst_preference<'a>(host: &Host<'a>) -> Option<(&'a str, Severity)> {
    let all = host.facts.cpu.energy.known()?;
    let severity = |name: &str| match name {
        "power" | "balance_power" => Severity::Minor,
        _ => Severity::Note,
    };
    all.keys().map(|name| (name.as_str(), severity(name))).max_by_key(|(_, severity)| *severity)
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
        assert_eq!(with("powersave", "intel_pstate"), ["governor - note -"]);
        assert_eq!(with("powersave", "acpi-cpufreq"), ["governor - major -"]);
        assert_eq!(with("ondemand", "acpi-cpufreq"), ["governor - minor -"]);
        let preferring = |preference: &str| {
            let mut host = fixture("stock-10g");
            host.cpu.governors = Fact::Known(BTreeMap::from([("powersave".into(), 8)]));
            host.cpu.frequency_driver = Fact::Known("intel_pstate".into());
            host.cpu.energy = Fact::Known(BTreeMap::from([(preference.into(), 8)]));
            lines(&found(&CHECK, &host))
        };
        assert_eq!(preferring("balance_power"), ["governor - minor -"]);
        assert!(preferring("balance_performance").is_empty());
        let says = |governor: &str, driver: &str| {
            let mut host = fixture("stock-10g");
            host.cpu.governors = Fact::Known(BTreeMap::from([(governor.into(), 8)]));
            host.cpu.frequency_driver = Fact::Known(driver.into());
            found(&CHECK, &host).remove(0).conflict.unwrap()
        };
        assert!(says("powersave", "cppc_cpufreq").contains("the lowest frequency"));
        assert!(says("ondemand", "cppc_cpufreq").contains("follows the load"));
        assert!(!says("powersave", "cppc_cpufreq").contains("intel"));
        assert!(with("performance", "acpi-cpufreq").is_empty() && with("schedutil", "x").is_empty());
    }

    #[test]
    fn governors_that_differ_come_back_as_they_were() {
        let mut host = fixture("stock-10g");
        host.cpu.governors =
            Fact::Known(BTreeMap::from([("ondemand".into(), 4), ("conservative".into(), 4)]));
        host.cpu.frequency_driver = Fact::Known("acpi-cpufreq".into());
        let finding = found(&CHECK, &host).remove(0);
        let (fix, undo) = (finding.fix.unwrap(), finding.undo.unwrap());
        assert!(
            fix.starts_with("grep -H . /sys/") && fix.ends_with("do echo performance > $f; done"),
            "{fix}"
        );
        assert!(
            undo.ends_with("done < /root/linerate-governors") && !undo.contains("conservative"),
            "{undo}"
        );
    }

    /// amd-pstate sets the preference to performance with the governor, and leaves it so.
    #[test]
    fn the_undo_restores_the_preference() {
        let mut host = fixture("stock-10g");
        host.cpu.governors = Fact::Known(BTreeMap::from([("powersave".into(), 8)]));
        host.cpu.frequency_driver = Fact::Known("amd-pstate-epp".into());
        host.cpu.energy = Fact::Known(BTreeMap::from([("balance_power".into(), 8)]));
        let undo = found(&CHECK, &host).remove(0).undo.unwrap();
        let files = "/sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference";
        assert!(undo.ends_with(&format!("; for f in {files}; do echo balance_power > $f; done")), "{undo}");
    }

    #[test]
    fn guests_have_none() {
        assert!(found(&CHECK, &fixture("mlx5-25g-tuned")).is_empty());
        assert!(found(&CHECK, &fixture("virtio-one-queue")).is_empty());
    }
}
