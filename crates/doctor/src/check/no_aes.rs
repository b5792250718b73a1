//! Processors without AES instructions, or guests that can't see them.

use super::{Check, CheckRun};
use crate::formula::gbit;
use crate::source::{FEDEX, LIBVIRT};
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "no-aes",
    about: "a processor that has no AES instructions, or hides them from the guest",
    sources: &[FEDEX, LIBVIRT],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let cpu = &host.facts.cpu;
    let lacking = lacking(host)?;
    let title = "AES is computed without AES instructions";
    let finding = match cpu.aes_128_gcm.get().filter(|bytes| *bytes > 0.0).map(|bytes| bytes * 8.0) {
        Some(one) if one >= host.rate() => return None,
        Some(one) => Finding::leaves(one, host.rate(), title)
            .at_most(Severity::Major)
            .evidence(format!("AES-128-GCM on one thread: {}", gbit(one))),
        None => Finding::new(Severity::Minor, title),
    };
    let model = cpu.model.known().map_or("the processor", String::as_str);
    Some(remedy(finding.evidence(format!("{model} {lacking}")), host))
}

/// The features that the processor lacks, as the end of a sentence; `None` if it lacks nothing, or if its features are
/// unknown, as on processors other than x86 and Arm. GCM also needs an instruction that multiplies: x86 processors with
/// AES have it.
fn lacking(host: &Host<'_>) -> Option<&'static str> {
    let has = |name| host.facts.cpu.has(name).get();
    match (host.facts.machine.is_arm(), has("aes")?, has("pmull")?) {
        (true, true, true) | (false, true, _) => None,
        (true, _, _) => Some("lacks the features 'aes' and 'pmull', Arm's cryptographic extension"),
        (false, false, _) => Some("has no 'aes' flag"),
    }
}

fn remedy(finding: Finding, host: &Host<'_>) -> Finding {
    let machine = &host.facts.machine;
    if host.is_guest() && host.fixed_by().is_none() {
        return finding
            .fix(
                "give the guest the host's processor model: \
                 libvirt <cpu mode='host-passthrough'/>, QEMU -cpu host",
            )
            .undo("the previous processor model")
            .conflict("a guest with the host's processor model can only migrate to similar hosts");
    }
    let without = "ssh -c chacha20-poly1305@openssh.com, or linerate cp --no-encrypt in a trusted network";
    if machine.is_arm() {
        return finding
            .evidence("no firmware can turn the extension on: the processor has it only if its maker licensed it (Raspberry Pi: from model 5 on)")
            .fix(without);
    }
    finding.fix(format!("turn AES-NI on in the firmware, if the processor has it; otherwise {without}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn an_old_processor_is_found() {
        assert_eq!(lines(&found(&CHECK, &fixture("bare-gen1-x4"))), ["no-aes - major 1.52 Gbit/s"]);
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }

    /// On Arm the kernel names other features, and no firmware has a switch for them.
    #[test]
    fn each_kind_of_processor_has_its_own_words() {
        let with = |guest: Fact<bool>, features: &[&str], vendor: &str| {
            let facts = changed("bare-gen1-x4", |facts| {
                facts.machine.guest = guest;
                facts.machine.vendor = Fact::Known(vendor.into());
                facts.cpu.features = Fact::Known(features.iter().map(|name| (*name).to_owned()).collect());
            });
            found(&CHECK, &facts).pop().map(|finding| (finding.evidence.concat(), finding.fix.unwrap()))
        };
        let arm = |features: &[&str], vendor| with(Fact::NotApplicable, features, vendor);
        let (evidence, fix) = arm(&[], "").unwrap();
        assert!(evidence.contains("'aes' and 'pmull'") && !fix.contains("AES-NI"), "{evidence} {fix}");
        assert!(arm(&["aes"], "").is_some(), "GCM multiplies without an instruction");
        assert!(arm(&["aes", "pmull"], "").is_none());
        assert!(arm(&[], "QEMU").unwrap().1.contains("host-passthrough"));
        let x86 = with(Fact::Known(false), &[], "").unwrap();
        assert!(x86.0.contains("no 'aes' flag") && x86.1.contains("AES-NI"), "{x86:?}");
        assert!(with(Fact::Known(false), &["aes", "pclmulqdq"], "").is_none());
        let power = changed("bare-gen1-x4", |facts| facts.cpu.features = Fact::NotApplicable);
        assert!(found(&CHECK, &power).is_empty(), "POWER reports no features");
    }
}
