//! What the kernel does about the processors' weaknesses, as far as it costs transfers.

use std::collections::BTreeMap;

use super::{Check, Run};
use crate::{Finding, Severity, Source};

/// What makes each system call, or each switch to a guest, dearer: by what the kernel says of it.
const DEAR: [(&str, &str, &str); 6] = [
    ("meltdown", "PTI", "each system call changes the page table"),
    ("retbleed", "Mitigation: IBRS", "the kernel's branches aren't predicted"),
    ("retbleed", "untrained return thunk", "each return is made slower"),
    ("spec_rstack_overflow", "Safe RET", "each return is made slower"),
    ("mds", "Clear CPU buffers", "buffers are cleared on the way out of the kernel"),
    ("l1tf", "cache flushes", "the cache is flushed on the way into a guest"),
];

pub(super) const CHECK: Check = Check {
    name: "mitigations",
    about: "what the kernel does about the processors' weaknesses, where it costs",
    sources: &[
        Source {
            name: "Linux, Documentation/admin-guide/hw-vuln",
            url: "https://docs.kernel.org/admin-guide/hw-vuln/index.html",
        },
        Source {
            name: "Linux, Documentation/admin-guide/kernel-parameters: mitigations=",
            url: "https://docs.kernel.org/admin-guide/kernel-parameters.html",
        },
    ],
    run: Run::HostOne(|host| host.facts.cpu.mitigations.known().and_then(of)),
};

fn of(all: &BTreeMap<String, String>) -> Option<Finding> {
    let is_there =
        |(name, says, _): &&(&str, &str, &str)| all.get(*name).is_some_and(|text| text.contains(says));
    let dear: Vec<_> = DEAR.iter().filter(is_there).collect();
    if dear.is_empty() {
        return None;
    }
    let names = dear.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
    let finding = Finding::new(Severity::Note, format!("each system call is dearer by what guards against {names}"))
        .fix("newer processors; larger reads and writes make fewer calls. Measure first: linerate stream, then with mitigations=off")
        .undo("start the kernel without mitigations=off")
        .conflict("without it others on the host can read its secrets: only where nobody else runs anything, if at all");
    Some(
        dear.iter().fold(finding, |finding, (name, _, why)| {
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
    fn dear_ones_are_told() {
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
