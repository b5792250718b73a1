//! Tasks that wait for a processor.

use super::{Check, CheckRun};
use crate::source::PSI;
use crate::{Finding, Host, Severity};

/// Percent of the last minute (and of the last five) in which a task waited, at or above which other work loads the
/// host.
const WAITS: f64 = 10.0;

pub(super) const CHECK: Check = Check {
    name: "pressure-cpu",
    about: "tasks that wait for a processor",
    sources: &[PSI],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let stall = host.facts.strain.cpu.known()?;
    // A backup may load the host for a minute; a load of five minutes is usual for the host.
    if stall.some_60 < WAITS || stall.some_300 < WAITS {
        return None;
    }
    let processors = host.facts.cpu.threads().get().map_or("?".into(), |count| count.to_string());
    let finding = Finding::new(Severity::Minor, "other programs compete for the processors")
        .evidence(format!(
            "tasks waited for a processor in {:.0} % of the last minute, and {:.0} % of the last ten seconds",
            stall.some_60, stall.some_10
        ))
        .evidence(format!(
            "{processors} processors; how much a transfer loses depends on the number of waiting tasks"
        ))
        .fix(
            "find the programs: top; \
             lower their priority: nice -n 10, or a cgroup with a smaller cpu.weight; or transfer later",
        );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;
    use linerate_host::facts::StallShares;

    #[test]
    fn waiting_is_found() {
        let busy = changed("stock-10g", |facts| {
            facts.strain.cpu =
                Fact::Known(StallShares { some_60: 40.0, some_300: 30.0, ..StallShares::default() })
        });
        assert_eq!(lines(&found(&CHECK, &busy)), ["pressure-cpu - minor -"]);
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
