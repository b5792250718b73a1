//! Time that the hypervisor gave to others.

use super::{Check, Run};
use crate::formula::{gbit, percent};
use crate::{Finding, Host, Source};

/// Below it, it is noise.
const SOME: f64 = 0.01;

pub(super) const CHECK: Check = Check {
    name: "steal",
    about: "processor time that the hypervisor gave to others",
    sources: &[Source {
        name: "proc_stat(5): steal",
        url: "https://man7.org/linux/man-pages/man5/proc_stat.5.html",
    }],
    run: Run::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let steal = host.facts.strain.steal.get()?;
    if steal < SOME {
        return None;
    }
    // What was ready to run and didn't: of the time that the guest asked for, not of all of it.
    let asked = steal + host.facts.strain.busy.get().unwrap_or(1.0 - steal);
    let lost = (steal / asked).min(1.0);
    let finding = Finding::leaves(
        host.rate() * (1.0 - steal),
        host.rate(),
        format!("others take {} of the time", percent(steal)),
    )
    .evidence(format!(
        "stolen since boot: {} of all time, {} of what was asked for",
        percent(steal),
        percent(lost)
    ))
    .evidence(format!(
        "where processors are the limit, {} are left of {}",
        gbit(host.rate() * (1.0 - steal)),
        gbit(host.rate())
    ))
    .fix(
        "another host or size for the guest; fewer virtual processors on the hypervisor; processors of its own (pinning, dedicated hosts)",
    )
    .conflict("burstable sizes in clouds steal by design, when credits are used up");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn six_percent_are_found() {
        assert_eq!(lines(&found(&CHECK, &fixture("gve"))), ["steal - minor 9.4 Gbit/s"]);
        assert!(found(&CHECK, &fixture("ena")).is_empty());
    }
}
