//! Kernels that lack later improvements for fast transfers.

use super::{Check, CheckRun};
use crate::formula::buffer::version;
use crate::source::{BBR, ESNET};
use crate::{Finding, Host, Severity};

/// Improvements, by the version that brought them.
const GAINS: [((u32, u32), &str); 3] = [
    ((4, 9), "bbr"),
    ((4, 13), "pacing without fq"),
    ((4, 18), "segmentation offload for UDP, nor SACK compression (less work for each TCP segment)"),
];
/// Older kernels don't reach 10 Gbit/s even on tuned hosts.
const OLD: (u32, u32) = (4, 9);

pub(super) const CHECK: Check = Check {
    name: "kernel-old",
    about: "a kernel without bbr, pacing, or SACK compression",
    sources: &[ESNET, BBR],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let release = host.facts.kernel.known()?;
    let version = version(release)?;
    let lacks: Vec<_> = GAINS.iter().filter(|(since, _)| version < *since).map(|(_, what)| *what).collect();
    if lacks.is_empty() {
        return None;
    }
    let severity = if version < OLD { Severity::Minor } else { Severity::Note };
    let finding = Finding::new(
        severity,
        format!("Linux {}.{} lacks later improvements for fast transfers", version.0, version.1),
    )
    .evidence(format!("kernel {release}: no {}", lacks.join(", no ")))
    .fix("install a newer kernel of the distribution")
    .conflict("enterprise distributions port some of these back to older versions");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn old_ones_are_found() {
        let of = |release: &str| {
            lines(&found(&CHECK, &changed("stock-10g", |facts| facts.kernel = Fact::Known(release.into()))))
        };
        assert_eq!(of("2.6.32-754.el6.x86_64"), ["kernel-old - minor -"]);
        assert_eq!(of("4.14.1"), ["kernel-old - note -"]);
        assert!(of("odd").is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
