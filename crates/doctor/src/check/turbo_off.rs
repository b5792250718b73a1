//! Processors that are limited to their nominal frequency.

use super::{Check, CheckRun};
use crate::source::{ESNET, FEDEX, PSTATE};
use crate::{Finding, Host, Severity};

/// The driver of Arm's servers. Even on processors without turbo frequencies the driver has the switch (off by
/// default), but there it refuses to turn it on (cppc_cpufreq.c).
const UNSURE: &str = "cppc_cpufreq";

pub(super) const CHECK: Check = Check {
    name: "turbo-off",
    about: "processors whose turbo frequencies are off",
    sources: &[FEDEX, PSTATE, ESNET],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let cpu = &host.facts.cpu;
    if cpu.turbo.get()? {
        return None;
    }
    let driver = cpu.frequency_driver.known().map_or("unknown", String::as_str);
    let (file, on, off) =
        if driver.starts_with("intel") { ("intel_pstate/no_turbo", 0, 1) } else { ("cpufreq/boost", 1, 0) };
    let set = |value: u32| format!("echo {value} > /sys/devices/system/cpu/{file}");
    let severity = if driver == UNSURE { Severity::Note } else { Severity::Minor };
    let finding = Finding::new(severity, "the processors' turbo is off")
        .evidence(format!("driver {driver}; a single thread that encrypts or copies is slower without turbo"))
        .fix(set(on))
        .undo(set(off))
        .conflict("guides for steady delay turn turbo off; the firmware may have locked the setting");
    Some(if driver == UNSURE {
        finding.evidence("the driver doesn't report whether the processors have a turbo: if the command fails (EINVAL), they have none")
    } else {
        finding
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn off_is_found() {
        let found = found(&CHECK, &fixture("stock-10g"));
        assert_eq!(lines(&found), ["turbo-off - minor -"]);
        assert_eq!(found[0].undo.as_deref(), Some("echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo"));
    }

    /// Ampere's processors have no turbo, but the kernel has the file nonetheless.
    #[test]
    fn a_switch_that_may_do_nothing_is_a_note() {
        let arm = crate::testing::changed("stock-10g", |facts| {
            facts.cpu.frequency_driver = linerate_host::Fact::Known("cppc_cpufreq".into());
        });
        let found = found(&CHECK, &arm);
        assert_eq!(lines(&found), ["turbo-off - note -"]);
        assert_eq!(found[0].fix.as_deref(), Some("echo 1 > /sys/devices/system/cpu/cpufreq/boost"));
        assert!(found[0].evidence[1].contains("EINVAL"), "{found:?}");
    }

    #[test]
    fn on_or_unknown_is_not() {
        assert!(found(&CHECK, &fixture("mlx5-25g-tuned")).is_empty());
        assert!(found(&CHECK, &fixture("e1000")).is_empty());
    }
}
