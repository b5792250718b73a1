//! Processor time that the hypervisor gave to other guests.

use super::{Check, CheckRun};
use crate::formula::{gbit, percent};
use crate::{Citation, Finding, Host};

/// The share of stolen time below which it is only noise.
const LEAST_STEAL_SHARE: f64 = 0.01;

pub(super) const CHECK: Check = Check {
    name: "steal",
    about: "processor time that the hypervisor gave to other guests",
    sources: &[Citation {
        name: "proc_stat(5): steal",
        url: "https://man7.org/linux/man-pages/man5/proc_stat.5.html",
    }],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let steal = host.facts.strain.steal.get()?;
    if steal < LEAST_STEAL_SHARE {
        return None;
    }
    // The guest's programs lose the stolen share of the time that they asked for, not of all time.
    let asked = steal + host.facts.strain.busy.get().unwrap_or(1.0 - steal);
    let lost = (steal / asked).min(1.0);
    let finding = Finding::leaves(
        host.rate() * (1.0 - steal),
        host.rate(),
        format!("other guests take {} of the processor time", percent(steal)),
    )
    .evidence(format!(
        "stolen since boot: {} of all time, {} of the time that this guest asked for",
        percent(steal),
        percent(lost)
    ))
    .evidence(format!(
        "if processors are the limit, {} of {} are left",
        gbit(host.rate() * (1.0 - steal)),
        gbit(host.rate())
    ))
    .fix(
        "use another host or guest size, fewer virtual processors on the hypervisor, \
         or dedicated processors (pinning, dedicated hosts)",
    )
    .conflict("burstable cloud instances lose processor time by design once their credits are used up");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn six_percent_are_found() {
        assert_eq!(lines(&found(&CHECK, &fixture("gve"))), ["steal - minor 9.40 Gbit/s"]);
        assert!(found(&CHECK, &fixture("ena")).is_empty());
    }
}
