//! A profile of tuned that saves power.

use super::{Check, CheckRun};
use crate::source::TUNED;
use crate::{Finding, Host, Severity};

/// tuned's profiles that prefer power over speed.
const SAVING: [&str; 6] =
    ["balanced", "powersave", "balanced-battery", "desktop", "laptop-battery-powersave", "spindown-disk"];

pub(super) const CHECK: Check = Check {
    name: "tuned-profile",
    about: "a profile of tuned that saves power",
    sources: &[TUNED],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let profile = host.facts.machine.tuned_profile.known()?;
    // Several profiles may be active, with spaces between them.
    let saving = profile.split_whitespace().find(|name| SAVING.contains(name))?;
    let finding = Finding::new(Severity::Note, format!("tuned's active profile is {saving}"))
        .evidence("tuned sets its profile's values at each start: governor, preference for energy, buffers, read-ahead")
        .fix("tuned-adm profile network-throughput")
        .undo(format!("tuned-adm profile {profile}"))
        .conflict("a profile sets many values at once: tuned-adm profile_info network-throughput describes it");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn profiles_that_save_power_are_noted() {
        let with = |name: &str| {
            lines(&found(
                &CHECK,
                &changed("stock-10g", |facts| {
                    facts.machine.tuned_profile = Fact::Known(name.into());
                }),
            ))
        };
        assert_eq!(with("balanced"), ["tuned-profile - note -"]);
        assert_eq!(with("virtual-guest powersave"), ["tuned-profile - note -"]);
        assert!(with("network-throughput").is_empty() && with("throughput-performance").is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
