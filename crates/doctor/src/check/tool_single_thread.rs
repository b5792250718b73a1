//! The rate of one scp or rsync, whose ssh has one thread.

use super::{Check, CheckRun};
use crate::formula::{gbit, ssh};
use crate::source::{FEDEX, HPN};
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "tool-single-thread",
    about: "one scp or rsync that can't reach the need, because its ssh has one thread",
    sources: &[FEDEX, HPN],
    // Only for paths: without a path, every fast host would have this finding.
    run: CheckRun::Path(|path| of(&path.from)),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let (cipher, threads) = (host.facts.cpu.aes_128_gcm.get()?, host.facts.cpu.threads().get()?);
    let one = ssh::thread(cipher);
    if one.low >= host.rate() {
        return None;
    }
    let copies = (host.rate() / one.low).ceil();
    let finding = Finding::leaves(
        one.low,
        host.rate(),
        format!("one scp or rsync over ssh reaches {} to {} with AES-128-GCM", gbit(one.low), gbit(one.high)),
    )
    .at_most(Severity::Note)
    .at("scp, rsync")
    .evidence(format!(
        "AES-128-GCM on one thread: {}; ssh's other work takes 0.5 to 1 ns a byte",
        gbit(cipher * 8.0)
    ))
    .evidence(format!("ssh uses one of {threads} processors"))
    .fix(format!("linerate cp; or {copies:.0} copies at once, each with its part of the files"))
    .conflict("in the papers, eight copies at once were five times as fast as one, not eight times");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathMeasurements;
    use crate::testing::{fixture, found_between, lines};
    use linerate_host::Facts;

    fn found(facts: &Facts) -> Vec<Finding> {
        found_between(&CHECK, facts, facts, PathMeasurements::default())
    }

    #[test]
    fn one_thread_is_short_of_ten_gigabits() {
        assert_eq!(lines(&found(&fixture("stock-10g"))), ["tool-single-thread scp, rsync note 6.71 Gbit/s"]);
        assert_eq!(
            lines(&found(&fixture("bare-gen1-x4"))),
            ["tool-single-thread scp, rsync note 1.28 Gbit/s"]
        );
    }

    #[test]
    fn one_gigabit_is_easy() {
        assert!(found(&fixture("e1000e-desktop")).is_empty());
    }
}
