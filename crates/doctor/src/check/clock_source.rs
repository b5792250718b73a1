//! A source of time that is slow to read.

use super::{Check, CheckRun};
use crate::{Citation, Finding, Host, Severity};

/// Sources that are registers of a device: reading one takes about a microsecond, but only about 20 ns for a
/// processor's own counter.
const DEVICES: [&str; 4] = ["hpet", "acpi_pm", "pit", "jiffies"];

pub(super) const CHECK: Check = Check {
    name: "clock-source",
    about: "a kernel that reads the time from a device",
    sources: &[Citation {
        name: "Linux, Documentation/timers/timekeeping.rst",
        url: "https://docs.kernel.org/timers/timekeeping.html",
    }],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let machine = &host.facts.machine;
    let source = machine.clock_source.known().filter(|source| DEVICES.contains(&source.as_str()))?;
    let has_tsc = machine.clock_sources.known().is_some_and(|all| all.iter().any(|name| name == "tsc"));
    let finding = Finding::new(Severity::Minor, format!("the kernel reads the time from {source}"))
        .evidence("each reading needs a system call and an access to a device, about a microsecond; TCP and programs read the time for each packet")
        .conflict("the kernel uses this source because the processors' counters (TSC) didn't agree, or because somebody configured it");
    let set = |name: &str| {
        format!("echo {name} > /sys/devices/system/clocksource/clocksource0/current_clocksource")
    };
    Some(if has_tsc {
        finding.fix(set("tsc")).undo(set(source))
    } else {
        finding.fix("dmesg | grep -i -e tsc -e clocksource shows why; newer firmware, or clocksource= on the kernel's command line, may help")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn a_device_is_found_and_a_processors_counter_is_not() {
        let with = |source: &str, all: &[&str]| {
            found(
                &CHECK,
                &changed("stock-10g", |facts| {
                    facts.machine.clock_source = Fact::Known(source.into());
                    facts.machine.clock_sources =
                        Fact::Known(all.iter().map(|name| (*name).to_owned()).collect());
                }),
            )
        };
        let unstable = with("hpet", &["hpet", "acpi_pm"]);
        assert_eq!(lines(&unstable), ["clock-source - minor -"]);
        assert!(unstable[0].undo.is_none(), "{unstable:?}");
        let chosen = with("hpet", &["tsc", "hpet"]);
        assert!(chosen[0].fix.as_ref().unwrap().starts_with("echo tsc > "), "{chosen:?}");
        for good in ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "xen"] {
            assert!(with(good, &["tsc"]).is_empty(), "{good}");
        }
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
