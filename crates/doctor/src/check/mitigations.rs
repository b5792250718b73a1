//! Mitigations of the processors' vulnerabilities, as far as they slow transfers.

use std::collections::BTreeMap;

use super::{Check, CheckRun};
use crate::source::PARAMETERS;
use crate::{Citation, Finding, Severity};

/// Mitigations that slow each system call: the vulnerability, the kernel's text, and the effect.
const COSTLY: [(&str, &str, &str); 10] = [
    ("meltdown", "PTI", "each system call changes the page table"),
    ("retbleed", "Mitigation: IBRS", "branch prediction is restricted in the kernel"),
    ("retbleed", "untrained return thunk", "each return in the kernel is slower"),
    ("spec_rstack_overflow", "Safe RET", "each return in the kernel is slower"),
    ("mds", "Clear CPU buffers", "buffers are cleared on the way out of the kernel"),
    ("mmio_stale_data", "Clear CPU buffers", "buffers are cleared on the way out of the kernel"),
    ("reg_file_data_sampling", "Clear Register File", "registers are cleared on the way out of the kernel"),
    ("tsa", "Clear CPU buffers", "buffers are cleared on the way out of the kernel"),
    ("indirect_target_selection", "Mitigation: Aligned branch/return thunks", "indirect branches are slower"),
    ("spectre_v2", "BHI: SW loop", "the history of branches is cleared at each system call"),
];

pub(super) const CHECK: Check = Check {
    name: "mitigations",
    about: "mitigations of processor vulnerabilities that slow each system call",
    sources: &[
        Citation {
            name: "Linux, Documentation/admin-guide/hw-vuln",
            url: "https://docs.kernel.org/admin-guide/hw-vuln/index.html",
        },
        PARAMETERS,
    ],
    run: CheckRun::HostOne(|host| host.facts.cpu.mitigations.known().and_then(of)),
};

fn of(all: &BTreeMap<String, String>) -> Option<Finding> {
    let has = |name: &str, text: &str| all.get(name).is_some_and(|state| state.contains(text));
    // Unless this is true, the buffers are cleared only on the way into a guest (mmio_select_mitigation() in
    // arch/x86/kernel/cpu/bugs.c).
    let clears_always = has("mds", "Clear CPU buffers") || has("tsx_async_abort", "Clear CPU buffers");
    let is_felt = |name: &str| match name {
        "mmio_stale_data" => clears_always,
        "tsa" => !has(name, "buffers: VM"),
        _ => true,
    };
    let is_there = |(name, text, _): &&(&str, &str, &str)| has(name, text) && is_felt(name);
    let costly: Vec<_> = COSTLY.iter().filter(is_there).collect();
    if costly.is_empty() {
        return None;
    }
    let names = costly.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
    let finding =
        Finding::new(Severity::Note, format!("mitigations for {names} make each system call slower"))
            .fix(
                "leave them on: they keep other users and guests from reading the host's secrets. Newer processors need fewer; \
                 larger reads and writes make fewer calls",
            )
            .conflict("guides for benchmarks turn them off (mitigations=off): do so at most on hosts where nobody else runs programs");
    Some(
        costly.iter().fold(finding, |finding, (name, _, why)| {
            finding.evidence(format!("{name}: {}: {why}", all[*name]))
        }),
    )
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn costly_ones_are_found() {
        let mut host = fixture("stock-10g");
        host.cpu.mitigations = Fact::Known(BTreeMap::from([
            ("meltdown".to_owned(), "Mitigation: PTI".to_owned()),
            ("mds".to_owned(), "Mitigation: Clear CPU buffers; SMT vulnerable".to_owned()),
        ]));
        let found = found(&CHECK, &host);
        assert_eq!(lines(&found), ["mitigations - note -"]);
        assert_eq!(found[0].evidence.len(), 2);
    }

    /// Lines of hosts of the TUM: without MDS and TAA, buffers are cleared only on the way into a guest.
    #[test]
    fn what_only_guests_pay_is_not() {
        let with = |all: &[(&str, &str)]| {
            let mut host = fixture("stock-10g");
            let all = all.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
            host.cpu.mitigations = Fact::Known(all.collect());
            found(&CHECK, &host).len()
        };
        let stale = ("mmio_stale_data", "Mitigation: Clear CPU buffers; SMT vulnerable");
        assert_eq!(with(&[stale, ("mds", "Not affected"), ("tsx_async_abort", "Not affected")]), 0);
        assert_eq!(with(&[stale, ("tsx_async_abort", "Mitigation: Clear CPU buffers; SMT vulnerable")]), 1);
        assert_eq!(with(&[("tsa", "Mitigation: Clear CPU buffers: VM")]), 0);
        assert_eq!(
            with(&[("spectre_v2", "Mitigation: Enhanced / Automatic IBRS; BHI: SW loop, KVM: SW loop")]),
            1
        );
    }

    #[test]
    fn cheap_ones_are_not() {
        assert!(found(&CHECK, &fixture("mlx5-25g-tuned")).is_empty());
        assert!(found(&CHECK, &fixture("e1000e-desktop")).is_empty());
    }
}
