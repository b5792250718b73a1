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
    if cpu.has("aes").get()? {
        return None;
    }
    let title = "AES is computed without AES instructions";
    let finding = match cpu.aes_128_gcm.get().filter(|bytes| *bytes > 0.0).map(|bytes| bytes * 8.0) {
        Some(one) if one >= host.rate() => return None,
        Some(one) => Finding::leaves(one, host.rate(), title)
            .at_most(Severity::Major)
            .evidence(format!("AES-128-GCM on one thread: {}", gbit(one))),
        None => Finding::new(Severity::Minor, title),
    };
    let model = cpu.model.known().map_or("the processor", String::as_str);
    let finding = finding.evidence(format!("{model} has no 'aes' flag"));
    let is_changeable = host.facts.machine.guest.get() == Some(true) && host.fixed_by().is_none();
    Some(match is_changeable {
        true => finding
            .fix(
                "give the guest the host's processor model: \
                 libvirt <cpu mode='host-passthrough'/>, QEMU -cpu host",
            )
            .undo("the previous processor model")
            .conflict("a guest with the host's processor model can only migrate to similar hosts"),
        false => finding.fix(
            "turn AES-NI on in the firmware, if the processor has it; \
             otherwise ssh -c chacha20-poly1305@openssh.com, \
             or linerate cp --no-encrypt in a trusted network",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn an_old_processor_is_found() {
        assert_eq!(lines(&found(&CHECK, &fixture("bare-gen1-x4"))), ["no-aes - major 1.52 Gbit/s"]);
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
