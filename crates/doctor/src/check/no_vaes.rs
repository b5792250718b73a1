//! No vector instructions for AES, while the needed rate exceeds that of one thread without them.

use super::{Check, CheckRun};
use crate::formula::gbit;
use crate::{Citation, Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "no-vaes",
    about: "no vector AES instructions, while one thread can't encrypt at the needed rate",
    sources: &[Citation {
        name: "Drucker, Gueron and Krasnov, Making AES great again: the forthcoming vectorized AES instruction",
        url: "https://eprint.iacr.org/2018/392",
    }],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let cpu = &host.facts.cpu;
    let one = cpu.aes_128_gcm.get().filter(|bytes| *bytes > 0.0)? * 8.0;
    // Arm's `aes` has no vector form.
    let is_x86 = cpu.has("pclmulqdq").get()?;
    if !is_x86 || cpu.has("vaes").get()? || !cpu.has("aes").get()? || one >= host.rate() {
        return None;
    }
    let threads = (host.rate() / one).ceil().min(64.0);
    let finding = Finding::new(Severity::Note, format!("one thread encrypts {}", gbit(one)))
        .evidence(format!(
            "the processor has 'aes' but not 'vaes'; AES-128-GCM: {}; needed: {}",
            gbit(one),
            gbit(host.rate())
        ))
        .evidence(format!("{threads:.0} threads encrypt at the needed rate"))
        .fix(format!("use {threads:.0} threads or more: linerate cp --streams {threads:.0}"))
        .conflict("processors since 2019 (Ice Lake, Zen 3) encrypt about twice as fast on each core");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Need;
    use crate::testing::{fixture, found_for, lines};

    #[test]
    fn it_matters_at_rates_of_today() {
        let at = |name, rate| lines(&found_for(&CHECK, &fixture(name), Need::Target(rate)));
        assert_eq!(at("virtio-one-queue", 100e9), ["no-vaes - note -"]);
        assert!(at("virtio-one-queue", 10e9).is_empty());
        assert!(at("stock-10g", 100e9).is_empty(), "it has them");
    }
}
