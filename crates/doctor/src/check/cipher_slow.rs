//! The rate at which all cores together encrypt and hash, compared with the needed rate.

use super::{Check, CheckRun};
use crate::formula::cpu::sealing;
use crate::formula::gbit;
use crate::source::FEDEX;
use crate::{Citation, Finding, Host};

pub(super) const CHECK: Check = Check {
    name: "cipher-slow",
    about: "all cores together encrypt and hash less than is needed",
    sources: &[
        FEDEX,
        Citation {
            name: "RFC 5288, AES-GCM cipher suites for TLS",
            url: "https://www.rfc-editor.org/rfc/rfc5288",
        },
    ],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let cpu = &host.facts.cpu;
    let (aes, blake) = (cpu.aes_128_gcm.get()?, cpu.blake3.get()?);
    let cores = cpu.cores_at_most()?;
    if aes <= 0.0 || blake <= 0.0 {
        return None;
    }
    // Every byte is encrypted once, and hashed once.
    let one = sealing(aes, blake);
    let all = one * f64::from(cores);
    if all >= host.rate() {
        return None;
    }
    // POWER has AES instructions, but the kernel doesn't list them.
    let lacks_aes = host.facts.cpu.has("aes").get() == Some(false);
    let more = if lacks_aes { "a processor with AES instructions" } else { "more or faster cores" };
    let finding =
        Finding::leaves(all, host.rate(), format!("all cores together encrypt and hash {}", gbit(all)))
            .evidence(format!(
                "one thread: AES-128-GCM {}, BLAKE3 {}, both {}",
                gbit(aes * 8.0),
                gbit(blake * 8.0),
                gbit(one)
            ))
            .evidence(format!("{cores} cores; needed: {}", gbit(host.rate())))
            .fix(format!("linerate cp --no-encrypt, in a trusted network; or {more}"))
            .undo("linerate cp without --no-encrypt")
            .conflict(
                "without encryption, anybody on the path can read and change the data; checksums remain",
            );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Need;
    use crate::testing::{changed, fixture, found, found_for, lines};

    #[test]
    fn few_cores_are_too_few_for_much() {
        let found = found_for(&CHECK, &fixture("virtio-one-queue"), Need::Target(100e9));
        assert_eq!(lines(&found), ["cipher-slow - critical 26.2 Gbit/s"]);
    }

    #[test]
    fn aes_instructions_arent_advised_where_they_are() {
        let fix = |features: &str| {
            let mut facts = fixture("virtio-one-queue");
            facts.cpu.features = linerate_host::Fact::Known(features.split(' ').map(str::to_owned).collect());
            found_for(&CHECK, &facts, Need::Target(100e9)).remove(0).fix.unwrap()
        };
        assert!(fix("fpu aes").ends_with("or more or faster cores"));
        assert!(fix("fpu").ends_with("or a processor with AES instructions"));
        let power = changed("bare-gen1-x4", |facts| {
            facts.cpu.features = linerate_host::Fact::NotApplicable;
            facts.cpu.aes_128_gcm = linerate_host::Fact::Known(1e8);
        });
        assert!(found(&CHECK, &power)[0].fix.as_ref().unwrap().ends_with("or more or faster cores"));
    }

    #[test]
    fn enough_is_enough() {
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
