//! Kernels that lack later improvements for fast transfers.

use super::{Check, CheckRun};
use crate::formula::buffer::version;
use crate::formula::gbit;
use crate::source::{BBR, ESNET};
use crate::{Citation, Finding, Host, Severity};

/// Improvements, by the version that brought them.
const GAINS: [((u32, u32), &str); 3] = [
    ((4, 9), "bbr"),
    ((4, 13), "pacing without fq"),
    ((4, 18), "segmentation offload for UDP, nor SACK compression (less work for each TCP segment)"),
];
/// Older kernels don't reach 10 Gbit/s even on tuned hosts.
const OLD: (u32, u32) = (4, 9);
/// The first kernel that has all of these improvements.
const OLDEST_WHOLE: (u32, u32) = (4, 18);

/// Bits a second at or above which kernels since 6.8 are faster, according to the paper of 2024.
const LEAST_RATE: f64 = 100e9;
const GAINING: (u32, u32) = (6, 8);

pub(super) const CHECK: Check = Check {
    name: "kernel-old",
    about: "a kernel without bbr, pacing, or SACK compression",
    sources: &[
        ESNET,
        BBR,
        Citation {
            name: "Schwarz, Tierney et al., Recent Linux improvements that impact TCP throughput, INDIS 2024",
            url: "https://sc24.conference-program.com/presentation/?id=ws_indis113&sess=sess750",
        },
    ],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let release = host.facts.kernel.known()?;
    let version = version(release)?;
    if version >= OLDEST_WHOLE {
        return slower(host, release, version);
    }
    let lacks: Vec<_> = GAINS.iter().filter(|(since, _)| version < *since).map(|(_, what)| *what).collect();
    let severity = if version < OLD { Severity::Minor } else { Severity::Note };
    let finding = Finding::new(
        severity,
        format!("Linux {}.{} lacks later improvements for fast transfers", version.0, version.1),
    )
    .evidence(format!("kernel {release}: no {}", lacks.join(", no ")))
    .fix(newer(OLDEST_WHOLE))
    .conflict("enterprise distributions backport some of these to older versions");
    Some(finding)
}

/// The finding at 100 Gbit/s, where later kernels need less time for each byte.
fn slower(host: &Host<'_>, release: &str, version: (u32, u32)) -> Option<Finding> {
    let is_felt = version < GAINING && host.rate() >= LEAST_RATE;
    is_felt.then(|| {
        Finding::new(Severity::Note, format!("Linux {}.{} is slower than later kernels at {}", version.0, version.1, gbit(LEAST_RATE)))
            .evidence(format!("kernel {release}; from 5.15 to 6.8 single streams became up to 30 % faster in a local network, and 38 % on long paths"))
            .fix(newer(GAINING))
            .conflict("enterprise distributions backport some of this to older versions")
    })
}

/// The advice to install this version or a later one: the distribution's own kernels may all be older.
fn newer((major, minor): (u32, u32)) -> String {
    format!(
        "install Linux {major}.{minor} or later: by a newer release of the distribution, or by its backports (HWE, ELRepo) if they are new enough"
    )
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
        assert!(of("odd").is_empty() && of("5.15.0-130-generic").is_empty());
        let fast = changed("stock-10g", |facts| facts.kernel = Fact::Known("5.15.0-130-generic".into()));
        let need = crate::Need::Target(200e9);
        assert_eq!(lines(&crate::testing::found_for(&CHECK, &fast, need)), ["kernel-old - note -"]);
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
