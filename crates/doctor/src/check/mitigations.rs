//! Mitigations of the processors' vulnerabilities, as far as they slow transfers.

use std::collections::BTreeMap;

use super::{Check, CheckRun};
use crate::source::PARAMETERS;
use crate::{Citation, Finding, Severity};

/// Mitigations that slow each system call or each switch to a guest: vulnerability, the kernel's text,
/// effect.
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
    ("l1tf", "cache flushes", "the cache is flushed on the way into a guest"),
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
    let is_there =
        |(name, says, _): &&(&str, &str, &str)| all.get(*name).is_some_and(|text| text.contains(says));
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

    #[test]
    fn cheap_ones_are_not() {
        assert!(found(&CHECK, &fixture("mlx5-25g-tuned")).is_empty());
        assert!(found(&CHECK, &fixture("e1000e-desktop")).is_empty());
    }
}
