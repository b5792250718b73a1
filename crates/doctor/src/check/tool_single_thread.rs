//! What one scp or rsync can do: its ssh has one thread.

use super::{Check, Run};
use crate::formula::{gbit, ssh};
use crate::source::{FEDEX, HPN};
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "tool-single-thread",
    about: "one scp or rsync can't have the need, since its ssh has one thread",
    sources: &[FEDEX, HPN],
    run: Run::HostOne(of),
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
        format!("one scp or rsync over ssh does {} to {} with AES-128-GCM", gbit(one.low), gbit(one.high)),
    )
    .at_most(Severity::Note)
    .at("scp, rsync")
    .evidence(format!(
        "AES-128-GCM on one thread: {}; ssh's own work takes 0.5 to 1 ns a byte beside it",
        gbit(cipher * 8.0)
    ))
    .evidence(format!("{threads} processors, of which it uses one"))
    .fix(format!("linerate cp; or {copies:.0} of them at once, each with its part of the files"))
    .conflict("the papers measured eight at once: five times one, not eight");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn one_thread_is_short_of_ten_gigabits() {
        assert_eq!(
            lines(&found(&CHECK, &fixture("stock-10g"))),
            ["tool-single-thread scp, rsync note 6.7 Gbit/s"]
        );
        assert_eq!(
            lines(&found(&CHECK, &fixture("bare-gen1-x4"))),
            ["tool-single-thread scp, rsync note 1.3 Gbit/s"]
        );
    }

    #[test]
    fn one_gigabit_is_easy() {
        assert!(found(&CHECK, &fixture("e1000e-desktop")).is_empty());
    }
}
