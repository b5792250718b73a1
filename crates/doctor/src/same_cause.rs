//! One cause, one finding: of two checks that find the same cause, one check reports it. The other check's finding
//! becomes a sentence of that finding, or a note.

use crate::cause::{RATE, is_against, is_close};
use crate::limiter::Limiter;
use crate::{Finding, Path, Severity};

/// A check that may find effects of a cause that another check reports.
struct Effect {
    check: &'static str,
    /// The ending of the findings' places if the rule applies only to some findings of the check; otherwise empty.
    part: &'static str,
    /// The checks that report the cause.
    causes: &'static [&'static str],
    at: At,
    becomes: Becomes,
}

/// The place of the cause's finding, relative to the effect's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// At the same port, disk or tool of the same host.
    Place,
    /// At the same place, if the effect's advice refers to the cause's finding.
    Advice,
    /// On the same host.
    Host,
    /// At an end of the path, unless the cause limits only the other direction.
    End,
    /// At an end, unless the cause limits only the other direction, or between the ends; with a ceiling near the
    /// measured rate. A cause without a ceiling explains only a loss.
    Limit,
    /// The cause is between the ends, and the effect was found at one end.
    Path,
}

/// The form in which the effect's finding is reported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Becomes {
    /// A sentence of the cause's finding, because the effect's advice would be the same as the cause's, or would undo
    /// it.
    Sentence,
    /// A note that names the cause, because the effect's finding reports a measurement or has advice of its own.
    Note,
}

/// The end of the first line of evidence of an effect that has become a note.
const COUNTED: &str = "reports the cause, and is counted instead of this finding";

use At::{Advice, End, Host, Limit, Place};
use Becomes::{Note, Sentence};

/// Checks that find that one queue or one processor has too much work.
const QUEUES: &[&str] =
    &["irq-one-cpu", "queues-vs-cores", "virtio-one-queue", "vmxnet3-one-queue", "rps-off-one-queue"];
/// Checks whose advice is more queues.
const MORE_QUEUES: &[&str] = &["queues-vs-cores", "virtio-one-queue", "vmxnet3-one-queue"];
/// Checks of limits. If a measured rate is near such a limit, the rate needs no other cause.
const LIMITS: &[&str] = &[
    "rate-limit",
    "vf-rate",
    "pcie-width",
    "pcie-bridge",
    "nic-speed",
    "bond-hash",
    "irq-one-cpu",
    "queues-vs-cores",
    "virtio-one-queue",
    "vmxnet3-one-queue",
    "offload-off",
    "path-loss",
    "tcp-window-scaling",
    "tcp-autotuning",
    "window-vs-bdp",
];

const EFFECTS: &[Effect] = &[
    effect("pcie-width", "", &["pcie-bridge"], Place, Sentence),
    effect("drops-by-cause", "rx_fifo", &["pcie-bridge", "pcie-width", "pcie-payload"], Place, Sentence),
    effect("drops-by-cause", "rx_crc", &["module-light", "fec"], Place, Sentence),
    effect("drops-by-cause", "carrier", &["module-light", "module-heat"], Place, Sentence),
    effect("fec", "", &["module-light"], Place, Note),
    effect("irq-far-node", "", &["irq-one-cpu"], Place, Sentence),
    effect("irq-smt-siblings", "", &["irq-one-cpu", "irq-far-node"], Place, Sentence),
    effect("idle-queues", "", &["rss-indirection"], Place, Sentence),
    effect("netqueue-mismatch", "", &["queues-vs-cores"], Place, Sentence),
    effect("virtio-one-queue", "", &["rps-off-one-queue"], Advice, Note),
    effect("rps-off-one-queue", "", MORE_QUEUES, Place, Note),
    effect("rx-ring", "", QUEUES, Place, Note),
    effect("flow-control", "", QUEUES, Place, Sentence),
    effect("softnet-squeezed", "", QUEUES, Host, Note),
    effect("swap-used", "", &["memory-pressure"], Host, Note),
    effect("cipher-slow", "", &["no-aes"], Host, Note),
    effect("disk-encryption", "", &["no-aes"], Host, Note),
    effect("mtu-black-hole", "", &["mtu-mismatch", "overlay"], End, Note),
    effect("path-mtu", "", &["jumbo-frames"], End, Note),
    effect("window-vs-bdp", "", &["tcp-window-scaling", "tcp-autotuning"], End, Note),
    effect("tcp-buffers", "", &["window-vs-bdp"], At::Path, Note),
    effect("path-loss", "", &["rate-limit", "vf-rate", "cloud-allowance"], Limit, Note),
    effect("retransmits", "", &["path-loss"], At::Path, Note),
    effect("path-rate", "", LIMITS, Limit, Note),
];

const fn effect(
    check: &'static str,
    part: &'static str,
    causes: &'static [&'static str],
    at: At,
    becomes: Becomes,
) -> Effect {
    Effect { check, part, causes, at, becomes }
}

/// A host's findings, each cause counted once.
pub(crate) fn once_on_host(findings: Vec<Finding>) -> Vec<Finding> {
    let on_hosts = EFFECTS.iter().filter(|effect| matches!(effect.at, Place | Advice | Host));
    on_hosts.fold(findings, |found, effect| effect.joined(found, None))
}

/// A path's findings with those of its ends, each cause counted once.
pub(crate) fn once_on_path(findings: Vec<Finding>, path: &Path<'_>) -> Vec<Finding> {
    let between = EFFECTS.iter().filter(|effect| matches!(effect.at, End | Limit | At::Path));
    between.fold(findings, |found, effect| effect.joined(found, Some(path)))
}

/// A check's findings, merged into one for each device that their places share: the costliest finding, with the other
/// places as evidence.
pub(crate) fn once_at_each<K: PartialEq>(
    found: impl Iterator<Item = (K, Finding)>,
    says: impl Fn(&str) -> String,
) -> Vec<Finding> {
    let mut all: Vec<(K, Finding)> = Vec::new();
    for (at, mut finding) in found {
        let Some((_, first)) = all.iter_mut().find(|(other, _)| *other == at) else {
            all.push((at, finding));
            continue;
        };
        if finding.loss > first.loss {
            std::mem::swap(&mut finding, first);
        }
        first.evidence.push(says(finding.place.as_deref().unwrap_or_default()));
    }
    all.into_iter().map(|(_, finding)| finding).collect()
}

impl Effect {
    fn joined(&self, mut findings: Vec<Finding>, path: Option<&Path<'_>>) -> Vec<Finding> {
        for index in (0..findings.len()).rev() {
            let Some(effect) = findings.get(index).filter(|finding| self.is_of(finding)).cloned() else {
                continue;
            };
            let causes = findings.iter_mut().filter(|cause| self.explains(cause, &effect, path));
            // Among equal findings the first one is chosen.
            let worst =
                causes.reduce(|worst, other| if other.severity > worst.severity { other } else { worst });
            let Some(cause) = worst else { continue };
            hold(cause, &effect);
            let name = cause.check;
            match self.becomes {
                Sentence => drop(findings.remove(index)),
                Note => findings[index] = noted(effect, name),
            }
        }
        findings
    }

    fn is_of(&self, finding: &Finding) -> bool {
        let place = finding.place.as_deref().unwrap_or_default();
        finding.check == self.check && place.ends_with(self.part)
    }

    /// True if `cause` reports the cause of `effect`. A note explains only notes, and a finding that is itself an
    /// effect explains nothing.
    fn explains(&self, cause: &Finding, effect: &Finding, path: Option<&Path<'_>>) -> bool {
        let is_enough = cause.severity > Severity::Note || effect.severity == Severity::Note;
        let is_there = match (self.at, path) {
            (Place, _) => cause.host == effect.host && spot(cause) == spot(effect),
            (Advice, _) => {
                let sees = effect.fix.as_ref().is_some_and(|fix| fix.contains(cause.check));
                cause.host == effect.host && spot(cause) == spot(effect) && sees
            }
            (Host, _) => cause.host == effect.host,
            (End, Some(path)) => !is_against(cause, path),
            (Limit, Some(path)) => !is_against(cause, path) && is_felt(cause, effect, path),
            (At::Path, Some(path)) => [path.from.name, path.to.name].contains(&effect.host.as_str()),
            (End | Limit | At::Path, None) => false,
        };
        self.causes.contains(&cause.check) && is_enough && is_there && !is_noted(cause)
    }
}

/// Adds an effect to the finding of its cause. The cause gets the severity of its worst effect.
fn hold(cause: &mut Finding, effect: &Finding) {
    cause.evidence.push(format!("{} has the same cause: {}", effect.check, effect.title));
    if effect.severity > cause.severity {
        (cause.severity, cause.loss) = (effect.severity, effect.loss.or(cause.loss));
        cause.ceiling = cause.ceiling.or(effect.ceiling);
    }
    if cause.remedies.is_empty() && !effect.remedies.is_empty() {
        lend(cause, effect);
    }
}

/// Gives the effect's changes to a cause that only somebody else, such as the hypervisor's owner, can remove: until
/// then the changes help.
fn lend(cause: &mut Finding, effect: &Finding) {
    let (Some(own), Some(now)) = (&cause.fix, &effect.fix) else { return };
    cause.fix = Some(format!("{now}; better: {own}"));
    (cause.remedies, cause.undo) = (effect.remedies.clone(), effect.undo.clone());
}

/// The finding of an effect as a note that names its cause.
fn noted(effect: Finding, cause: &str) -> Finding {
    let mut note = effect.at_most(Severity::Note);
    note.evidence.insert(0, format!("{cause} {COUNTED}"));
    note
}

fn is_noted(finding: &Finding) -> bool {
    finding.evidence.first().is_some_and(|line| line.ends_with(COUNTED))
}

/// The port, disk or tool of a finding, without the name of a part of it.
fn spot(finding: &Finding) -> Option<&str> {
    finding.place.as_deref().and_then(|place| place.split(' ').next())
}

/// True if the cause's ceiling is near the measured rate. A window is the limit only if the measurement filled it. A
/// cause without a ceiling may explain a loss, but no rate.
fn is_felt(cause: &Finding, effect: &Finding, path: &Path<'_>) -> bool {
    let filled = [Limiter::Window, Limiter::SendBuffer].map(Limiter::name);
    match (cause.check, cause.ceiling, path.measured.rate) {
        // The ceilings of tcp-window-scaling and tcp-autotuning are those of one connection.
        ("window-vs-bdp" | "tcp-window-scaling" | "tcp-autotuning", _, _) => {
            path.measured.limiter.is_some_and(|name| filled.contains(&name))
        }
        (_, Some(ceiling), Some(rate)) => is_close(ceiling, rate),
        (_, Some(_), None) => true,
        (_, None, _) => effect.check != RATE,
    }
}

#[cfg(test)]
mod tests {
    use linerate_host::facts::{Offload, Policers, Qdisc};
    use linerate_host::{Fact, Facts};

    use super::*;
    use crate::check::CHECKS;
    use crate::testing::{changed, edited, fixture, port_of};
    use crate::{Host as End, Need, PathMeasurements, examine_host, examine_path_and_ends};

    fn on_host(facts: &Facts) -> Vec<Finding> {
        examine_host(&End::alone("h", facts, Need::OfPorts))
    }

    fn on_path(from: &Facts, to: &Facts, measured: PathMeasurements) -> Vec<Finding> {
        let host = |name, facts| End::alone(name, facts, Need::OfPorts);
        examine_path_and_ends(&Path { from: host("a", from), to: host("b", to), measured })
    }

    fn severity(all: &[Finding], check: &str) -> Option<Severity> {
        all.iter().filter(|finding| finding.check == check).map(|finding| finding.severity).max()
    }

    #[test]
    fn each_name_is_a_checks() {
        let is_check = |name: &str| CHECKS.iter().any(|check| check.name == name);
        for effect in EFFECTS {
            assert!(is_check(effect.check), "{}", effect.check);
            assert!(
                effect.causes.iter().all(|name| is_check(name) && *name != effect.check),
                "{}",
                effect.check
            );
        }
    }

    /// One shaper: neither the loss that the shaper causes nor the rate that it allows is a second finding.
    #[test]
    fn a_shaper_is_reported_once() {
        let shaped = edited("stock-10g", "eno1", |port| {
            let tbf = Qdisc { kind: "tbf".into(), root: true, rate: Some(1_000_000_000), ..Qdisc::default() };
            port.qdiscs = Fact::Known(vec![tbf]);
        });
        let measured = PathMeasurements {
            rtt: Some(2e-4),
            rate: Some(0.94e9),
            streams: Some(4),
            sent: Some(100_000),
            retransmitted: Some(3_000),
            ..PathMeasurements::default()
        };
        let all = on_path(&shaped, &fixture("stock-10g"), measured);
        let severe: Vec<&str> =
            all.iter().filter(|finding| finding.severity >= Severity::Major).map(|it| it.check).collect();
        assert_eq!(severe, ["rate-limit"], "{all:#?}");
        let reported = all[0].evidence.join("; ");
        assert!(
            reported.contains("path-loss has the same cause: 3.0 %")
                && reported.contains("path-rate has the same cause"),
            "{reported}"
        );
        assert_eq!(severity(&all, "path-loss"), Some(Severity::Note));
        // A limit of ten times the measured rate, or a limit in the other direction, isn't the cause.
        let elsewhere = on_path(&fixture("stock-10g"), &shaped, measured);
        assert_eq!(severity(&elsewhere, "path-rate"), Some(Severity::Note), "by the loss");
        assert_eq!(severity(&elsewhere, "path-loss"), Some(Severity::Critical));
        let far = on_path(&shaped, &fixture("stock-10g"), PathMeasurements { rate: Some(0.2e9), ..measured });
        assert_eq!(severity(&far, "path-loss"), Some(Severity::Critical));
    }

    /// Segmentation by the kernel, packets sent in turn, and half duplex don't show how fast a path is.
    #[test]
    fn what_has_no_ceiling_explains_no_rate() {
        let measured = PathMeasurements {
            rtt: Some(2e-4),
            rate: Some(50e6),
            streams: Some(4),
            ..PathMeasurements::default()
        };
        let unsegmented = edited("stock-10g", "eno1", |port| {
            let Fact::Known(all) = &mut port.offloads else { panic!("no features") };
            all.insert("tx-tcp-segmentation".into(), Offload { on: false, fixed: false });
        });
        let in_turn = edited("bond-layer2", "bond0", |port| {
            let Fact::Known(bond) = &mut port.bond else { panic!("no bond") };
            bond.mode = Fact::Known("balance-rr".into());
        });
        let half = edited("stock-10g", "eno1", |port| port.duplex = Fact::Known("half".into()));
        let each = [
            (unsegmented, "offload-off", Severity::Minor),
            (in_turn, "bond-hash", Severity::Minor),
            (half, "nic-speed", Severity::Major),
        ];
        for (facts, check, own) in each {
            let all = on_path(&facts, &fixture("stock-10g"), measured);
            assert_eq!(severity(&all, "path-rate"), Some(Severity::Critical), "{check}: {all:#?}");
            assert_eq!(severity(&all, check), Some(own));
            let cause = all.iter().find(|finding| finding.check == check).unwrap();
            assert_eq!((cause.ceiling, cause.loss), (None, None), "{check}");
        }
    }

    /// A rule that may limit is minor; a rule that limits the measured rate has the severity of the loss.
    #[test]
    fn a_cause_is_as_bad_as_its_worst_effect() {
        let ruled = changed("stock-10g", |facts| facts.tcp.rule_rates = Fact::Known(vec![100_000_000]));
        let measured = PathMeasurements {
            rtt: Some(2e-4),
            rate: Some(94e6),
            streams: Some(4),
            sent: Some(24_000),
            retransmitted: Some(2_051),
            ..PathMeasurements::default()
        };
        let all = on_path(&fixture("stock-10g"), &ruled, measured);
        assert_eq!((all[0].check, all[0].severity), ("rate-limit", Severity::Critical));
        assert_eq!(severity(&all, "path-rate"), Some(Severity::Note));
        let policed = edited("stock-10g", "eno1", |port| {
            port.policers = Fact::Known(Policers { outwards: Some(100_000_000), ..Policers::default() });
        });
        let back = on_path(&fixture("stock-10g"), &policed, measured);
        assert_eq!(
            severity(&back, "path-loss"),
            Some(Severity::Critical),
            "the policer limits the other direction"
        );
    }

    #[test]
    fn one_queue_is_reported_once() {
        let one = edited("stock-10g", "eno1", |port| {
            let Fact::Known(all) = &mut port.rx_queues else { panic!("no queues") };
            all.truncate(1);
            port.speed_mbps = Fact::Known(100_000);
        });
        let all = on_host(&one);
        assert_eq!(severity(&all, "queues-vs-cores"), Some(Severity::Critical), "{all:#?}");
        for other in ["rps-off-one-queue", "rx-ring"] {
            assert!(
                severity(&all, other).is_none_or(|severity| severity == Severity::Note),
                "{other}: {all:#?}"
            );
        }
    }

    /// More queues are better than RPS, if somebody can add them.
    #[test]
    fn of_a_queue_and_its_remedy_the_remedy_that_can_be_had_is_reported() {
        let names = |name: &str| -> Vec<(&str, bool)> {
            let facts = fixture(name);
            let all = examine_host(&End::alone("h", &facts, Need::Target(40e9)));
            let queue = all.iter().filter(|finding| finding.check.ends_with("one-queue"));
            queue.map(|finding| (finding.check, finding.severity == Severity::Note)).collect()
        };
        assert_eq!(names("firecracker"), [("rps-off-one-queue", false), ("virtio-one-queue", true)]);
        assert_eq!(names("virtio-one-queue"), [("virtio-one-queue", false), ("rps-off-one-queue", true)]);
    }

    /// Changes that the guest can make stay among the changes that a program makes.
    #[test]
    fn a_cause_that_others_must_remove_has_what_helps_until_then() {
        let facts = fixture("virtio-one-queue");
        let all = examine_host(&End::alone("h", &facts, Need::Target(40e9)));
        let queue = all.iter().find(|finding| finding.check == "virtio-one-queue").unwrap();
        let fix = queue.fix.as_ref().unwrap();
        let both = "echo 3 > /sys/class/net/eth0/queues/rx-0/rps_cpus; better: on the hypervisor: ";
        assert!(fix.starts_with(both), "{fix}");
        assert!(queue.severity > Severity::Note && queue.remedies.len() == 1, "{queue:#?}");
        assert!(queue.undo.as_ref().is_some_and(|undo| undo.starts_with("echo 0 > ")), "{queue:#?}");
    }

    #[test]
    fn damage_by_a_dark_fibre_is_reported_once() {
        let mut dark = fixture("fibre-trunk");
        port_of(&mut dark, "eno1").counters.rx_crc = Fact::Known(900_000);
        let all = on_host(&dark);
        assert_eq!(severity(&all, "module-light"), Some(Severity::Major));
        assert_eq!(severity(&all, "drops-by-cause"), None, "{all:#?}");
        assert!(
            all[0].evidence.iter().any(|line| line.starts_with("drops-by-cause has the same cause")),
            "{all:#?}"
        );
    }

    #[test]
    fn a_card_and_the_bridge_above_it_are_reported_once() {
        let both = edited("narrow-bridge", "enp5s0", |port| {
            let Fact::Known(pci) = &mut port.pci else { panic!("no device") };
            pci.link.width = Fact::Known(2);
        });
        let all = on_host(&both);
        assert_eq!(severity(&all, "pcie-width"), None, "{all:#?}");
        assert_eq!((all[0].check, all[0].severity), ("pcie-bridge", Severity::Critical));
        assert!(
            all[0].evidence.iter().any(|line| line.starts_with("pcie-width has the same cause")),
            "{all:#?}"
        );
    }

    /// With windows of 64 KiB, neither the buffers nor the rate are a second cause.
    #[test]
    fn windows_that_are_not_scaled_are_reported_once() {
        let unscaled = changed("stock-10g", |facts| facts.tcp.window_scaling = Fact::Known(false));
        let measured = PathMeasurements {
            rtt: Some(0.01),
            rate: Some(0.2e9),
            streams: Some(4),
            limiter: Some(Limiter::Window.name()),
            ..PathMeasurements::default()
        };
        let all = on_path(&fixture("stock-10g"), &unscaled, measured);
        let severe: Vec<&str> =
            all.iter().filter(|finding| finding.severity >= Severity::Major).map(|it| it.check).collect();
        assert_eq!(severe, ["tcp-window-scaling"], "{all:#?}");
    }

    /// A note explains no more than a note.
    #[test]
    fn what_costs_nothing_is_no_cause() {
        let path = PathMeasurements { rtt: Some(2e-4), rate: Some(9.4e9), ..PathMeasurements::default() };
        let all = on_path(&fixture("stock-10g"), &fixture("stock-10g"), path);
        assert_eq!(severity(&all, "rx-ring"), Some(Severity::Minor), "{all:#?}");
    }
}
