//! Processors whose highest frequency is limited.

use super::{Check, CheckRun};
use crate::remedy::noted;
use crate::{Citation, Finding, Host, Severity};

/// Drivers round frequencies to a step of 100 MHz.
const STEP: u64 = 100_000;

pub(super) const CHECK: Check = Check {
    name: "frequency-cap",
    about: "processors whose highest frequency is limited",
    sources: &[Citation {
        name: "Linux, Documentation/admin-guide/pm/cpufreq.rst: scaling_max_freq",
        url: "https://docs.kernel.org/admin-guide/pm/cpufreq.html",
    }],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let cpu = &host.facts.cpu;
    // Without turbo both limits may be the nominal one, which `turbo-off` reports.
    if cpu.turbo.get() == Some(false) {
        return None;
    }
    let pairs =
        || cpu.allowed_khz.known().into_iter().flatten().zip(cpu.highest_khz.known().into_iter().flatten());
    let capped: Vec<(u64, u64)> = pairs()
        .map(|(now, most)| (*now, *most))
        .filter(|(now, most)| now.saturating_add(STEP) < *most)
        .collect();
    let (now, most) = *capped.iter().min()?;
    let (fix, undo) = commands(now, pairs().all(|(allowed, _)| *allowed == now));
    let finding = Finding::new(Severity::Minor, format!("processors may run at {} GHz at most; the hardware allows {} GHz", ghz(now), ghz(most)))
        .evidence(format!("scaling_max_freq of {} of {} processors", capped.len(), pairs().count()))
        .fix(fix)
        .undo(undo)
        .conflict("a daemon (thermald, tuned, power-profiles-daemon) or somebody limits power or heat, and may set the limit again");
    Some(finding)
}

/// The command that lifts the limits, and the command that sets them again.
fn commands(now: u64, is_same_everywhere: bool) -> (String, String) {
    let lift = "for f in /sys/devices/system/cpu/cpu*/cpufreq; do cat $f/cpuinfo_max_freq > $f/scaling_max_freq; done";
    if is_same_everywhere {
        let back = format!(
            "for f in /sys/devices/system/cpu/cpu*/cpufreq; do echo {now} > $f/scaling_max_freq; done"
        );
        return (lift.into(), back);
    }
    let (note, back) = noted("/sys/devices/system/cpu/cpu*/cpufreq/scaling_max_freq", "frequencies");
    (format!("{note}; {lift}"), back)
}

fn ghz(khz: u64) -> String {
    format!("{:.1}", khz as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    fn with(allowed: &[u64], highest: &[u64], turbo: bool) -> Vec<Finding> {
        let facts = changed("stock-10g", |facts| {
            facts.cpu.allowed_khz = Fact::Known(allowed.to_vec());
            facts.cpu.highest_khz = Fact::Known(highest.to_vec());
            facts.cpu.turbo = Fact::Known(turbo);
        });
        found(&CHECK, &facts)
    }

    #[test]
    fn a_lower_limit_is_found() {
        let capped = with(&[2_000_000, 3_500_000], &[3_500_000, 3_500_000], true);
        assert_eq!(lines(&capped), ["frequency-cap - minor -"]);
        assert!(
            capped[0].title.contains("at 2.0 GHz at most") && capped[0].evidence[0].contains("1 of 2"),
            "{capped:?}"
        );
    }

    #[test]
    fn limits_that_differ_come_back_as_they_were() {
        let undo = |allowed: &[u64]| with(allowed, &[3_500_000; 2], true).remove(0).undo.unwrap();
        assert!(undo(&[2_000_000, 2_000_000]).contains("echo 2000000 >"));
        for differing in [[2_000_000, 3_000_000], [2_000_000, 3_500_000]] {
            let undo = undo(&differing);
            assert!(undo.ends_with("< /root/linerate-frequencies") && !undo.contains("2000000"), "{undo}");
        }
    }

    #[test]
    fn a_rounded_one_and_one_without_turbo_are_not() {
        assert!(with(&[3_400_000], &[3_450_000], true).is_empty());
        assert!(with(&[2_000_000], &[3_500_000], false).is_empty(), "turbo-off says so");
        // Processors of two kinds.
        assert!(with(&[4_700_000, 3_600_000], &[4_700_000, 3_600_000], true).is_empty());
        assert!(found(&CHECK, &fixture("firecracker")).is_empty());
    }
}
