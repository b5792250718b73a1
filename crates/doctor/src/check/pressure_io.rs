//! Tasks that wait for storage.

use super::{Check, CheckRun};
use crate::source::PSI;
use crate::{Finding, Host, Severity};

/// Percent of the last minute (and of the last five) in which a task waited, at or above which other work loads the
/// storage.
const WAITS: f64 = 10.0;

pub(super) const CHECK: Check = Check {
    name: "pressure-io",
    about: "tasks that wait for storage",
    sources: &[PSI],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let stall = host.facts.strain.io.known()?;
    // A backup may load the host for a minute; a load of five minutes is usual for the host.
    if stall.some_60 < WAITS || stall.some_300 < WAITS {
        return None;
    }
    let full = stall.full_10.get().map_or_else(String::new, |share| {
        format!("; all tasks at once in {share:.0} % of the last ten seconds")
    });
    let finding = Finding::new(Severity::Minor, "other programs compete for storage")
        .evidence(format!("tasks waited for storage in {:.0} % of the last minute{full}", stall.some_60))
        .fix(
            "find the programs: pidstat -d 1; \
             lower their priority: ionice -c 3, or a cgroup with a smaller io.weight; or transfer later",
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
            facts.strain.io =
                Fact::Known(StallShares { some_60: 40.0, some_300: 30.0, ..StallShares::default() })
        });
        assert_eq!(lines(&found(&CHECK, &busy)), ["pressure-io - minor -"]);
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
