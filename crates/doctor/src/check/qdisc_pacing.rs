//! Bursts of packets, which leave at the port's rate although the path is slower.

use linerate_host::facts::Port;

use super::{Check, CheckRun, shell};
use crate::remedy::{Remedy, Setting, handle};
use crate::source::{BBR, ESNET_PACING, RED_HAT};
use crate::{Finding, Host, Severity};

/// The rate in bits a second at or above which ESnet's guides advise pacing.
const LEAST_PACED_RATE: f64 = 10e9;

pub(super) const CHECK: Check = Check {
    name: "qdisc-pacing",
    about: "a queueing discipline that doesn't pace",
    sources: &[BBR, ESNET_PACING, RED_HAT],
    run: CheckRun::Host(|host| host.devices().filter_map(|port| of(host, port)).collect()),
};

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let control = host.facts.tcp.congestion_control.known()?;
    let kind = bursty(port)?;
    let severity = severity(control, kind, host.rate_of(port)?)?;
    let all = port.qdiscs.known()?;
    let queues = all.iter().filter(|qdisc| !qdisc.root).count();
    let root = all.iter().find(|qdisc| qdisc.root).map_or("another discipline", |qdisc| qdisc.kind.as_str());
    let finding = Finding::new(severity, format!("{} sends through {kind}, which doesn't pace", port.name))
        .at(&port.name)
        .evidence(format!(
            "{kind}{}, congestion control {control}",
            if queues > 0 { format!(" below {root}") } else { String::new() }
        ))
        .evidence(
            "without fq, the kernel paces only bbr, by a timer for each connection (since Linux 4.13)",
        )
        .conflict(
            "ESnet and bbr's authors advise fq; distributions and Red Hat use fq_codel, which is fairer but doesn't pace; keep fq_codel on a shared host",
        );
    if host.facts.tcp.has_fq.get() == Some(false) {
        return Some(finding.fix("use a kernel with fq (CONFIG_NET_SCH_FQ): this kernel lacks it"));
    }
    // Only the queues of mq are the kernel's own. Any other discipline with queues has classes that somebody has made.
    let is_own = queues > 0 && (root != "mq" || !is_alike(port, kind));
    Some(if is_own { words(finding, root) } else { remedy(finding, host, port, kind, queues) })
}

fn words(finding: Finding, root: &str) -> Finding {
    finding.fix(format!(
        "give fq to the leaves of the classes, in the place that sets {root}: pacing belongs on the leaves of the classes that somebody has set up; \
         another root discipline would delete the classes"
    ))
}

/// Adds the change of a root without classes, or of mq if all of its queues have this discipline.
fn remedy(finding: Finding, host: &Host<'_>, port: &Port, kind: &str, queues: usize) -> Finding {
    let setting = Setting::Qdisc { port: port.name.clone() };
    let is_default = host.facts.tcp.default_qdisc.known().is_some_and(|default| default == kind);
    match queues {
        0 if is_default => finding.remedied(Remedy::of(setting, kind, "fq")),
        // Somebody has chosen this discipline, perhaps with options.
        0 => finding.remedied(Remedy::of(setting, kind, "fq")).fix_words(&format!(
            "note {kind}'s options first (tc qdisc show dev {}), because the undo doesn't restore them",
            port.name
        )),
        _ if is_default => {
            let default = Remedy::sysctl("net.core.default_qdisc", kind, "fq");
            let queues = Remedy::of(setting, format!("mq {kind}"), "mq fq");
            finding.remedied(default.into_iter().chain(queues))
        }
        // On the way back, the previous default would give the queues a discipline that they don't have now.
        _ => finding
            .fix(format!("modprobe sch_fq && {{ {}; }}", below_mq(port, "fq")))
            .undo(below_mq(port, kind) + &default_as_now(host, kind)),
    }
}

/// A discipline of the port that lets bursts through.
fn bursty(port: &Port) -> Option<&str> {
    let all = port.qdiscs.known()?;
    let leaves = all.iter().filter(|qdisc| !["mq", "mqprio", "multiq"].contains(&qdisc.kind.as_str()));
    leaves
        .map(|qdisc| qdisc.kind.as_str())
        .find(|kind| ["pfifo_fast", "pfifo", "bfifo", "fq_codel", "sfq"].contains(kind))
}

fn severity(control: &str, kind: &str, need: f64) -> Option<Severity> {
    let paces = control.starts_with("bbr");
    match kind {
        "fq_codel" if paces || need >= LEAST_PACED_RATE => Some(Severity::Note),
        "fq_codel" => None,
        _ if paces => Some(Severity::Minor),
        _ if need >= LEAST_PACED_RATE => Some(Severity::Note),
        _ => None,
    }
}

/// True if mq's queues all have this discipline.
fn is_alike(port: &Port, kind: &str) -> bool {
    let all = port.qdiscs.known().into_iter().flatten();
    all.filter(|qdisc| !qdisc.root).all(|qdisc| qdisc.kind == kind)
}

/// The commands that make mq anew, after a change of the default discipline: when mq is made, it gives its queues the
/// default discipline.
fn below_mq(port: &Port, kind: &str) -> String {
    let handle = handle(&format!("mq {kind}"));
    format!(
        "sysctl -w net.core.default_qdisc={kind}; tc qdisc replace dev {} root handle {handle}: mq",
        port.name
    )
}

/// The command that restores the default discipline, if the undo changes the default.
fn default_as_now(host: &Host<'_>, kind: &str) -> String {
    match host.facts.tcp.default_qdisc.known() {
        Some(now) if now != kind => format!("; sysctl -w net.core.default_qdisc={}", shell::word(now)),
        None => "; then restore the previous default: note it first (sysctl net.core.default_qdisc)".into(),
        Some(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines, port_of};
    use linerate_host::Fact;

    #[test]
    fn fq_codel_at_ten_gigabits_is_noted() {
        assert_eq!(lines(&found(&CHECK, &fixture("stock-10g"))), ["qdisc-pacing eno1 note -"]);
    }

    #[test]
    fn bbr_by_a_plain_queue_is_worse() {
        let plain = changed("e1000", |facts| {
            let Fact::Known(all) = &mut port_of(facts, "eth0").qdiscs else { panic!("no qdiscs") };
            all[0].kind = "pfifo_fast".into();
        });
        assert_eq!(lines(&found(&CHECK, &plain)), ["qdisc-pacing eth0 minor -"]);
    }

    #[test]
    fn the_default_of_before_is_restored() {
        let undo = |default: &str| {
            let host = changed("stock-10g", |facts| facts.tcp.default_qdisc = Fact::Known(default.into()));
            found(&CHECK, &host).remove(0).undo.unwrap()
        };
        assert!(undo("fq_codel").ends_with(": mq"), "{}", undo("fq_codel"));
        let pfifo = undo("pfifo_fast");
        assert!(pfifo.starts_with("sysctl -w net.core.default_qdisc=fq_codel; tc"), "{pfifo}");
        assert!(pfifo.ends_with(": mq; sysctl -w net.core.default_qdisc=pfifo_fast"), "{pfifo}");
    }

    #[test]
    fn options_of_a_chosen_discipline_are_to_be_noted() {
        let of = |kind: &str| {
            let host = changed("e1000", |facts| {
                facts.tcp.default_qdisc = Fact::Known("pfifo_fast".into());
                let Fact::Known(all) = &mut port_of(facts, "eth0").qdiscs else { panic!("no qdiscs") };
                all[0].kind = kind.into();
            });
            let finding = found(&CHECK, &host).remove(0);
            (finding.fix.unwrap(), finding.undo.unwrap())
        };
        let own = of("pfifo_fast");
        assert_eq!(own.0, "tc qdisc replace dev eth0 root fq");
        assert_eq!(own.1, "tc qdisc replace dev eth0 root pfifo_fast");
        let chosen = of("pfifo");
        assert!(
            chosen.0.starts_with("tc qdisc replace dev eth0 root fq; note pfifo's options"),
            "{chosen:?}"
        );
        assert_eq!(chosen.1, "tc qdisc replace dev eth0 root pfifo");
    }

    /// Somebody has made the classes of these roots. A new root would delete the classes.
    #[test]
    fn classes_of_somebody_are_left_alone() {
        for root in ["htb", "prio", "mqprio", "hfsc", "multiq", "taprio"] {
            for leaf in ["fq_codel", "pfifo"] {
                let host = changed("stock-10g", |facts| {
                    let Fact::Known(all) = &mut port_of(facts, "eno1").qdiscs else { panic!("no qdiscs") };
                    let names = |qdisc: &mut linerate_host::facts::Qdisc| {
                        qdisc.kind = if qdisc.root { root.into() } else { leaf.into() };
                    };
                    all.iter_mut().for_each(names);
                });
                let finding = found(&CHECK, &host).remove(0);
                assert!(finding.remedies.is_empty() && finding.undo.is_none(), "{finding:?}");
                let fix = finding.fix.unwrap();
                assert!(fix.contains("leaves of the classes") && !fix.contains("tc qdisc"), "{fix}");
                assert!(
                    finding.evidence[0].contains(&format!("{leaf} below {root}")),
                    "{:?}",
                    finding.evidence
                );
            }
        }
    }

    /// Somebody has given one of mq's queues another discipline.
    #[test]
    fn a_queue_of_somebody_is_left_alone() {
        let host = changed("stock-10g", |facts| {
            let Fact::Known(all) = &mut port_of(facts, "eno1").qdiscs else { panic!("no qdiscs") };
            all.iter_mut().rfind(|qdisc| !qdisc.root).unwrap().kind = "htb".into();
        });
        let finding = found(&CHECK, &host).remove(0);
        assert!(finding.undo.is_none() && finding.fix.unwrap().contains("leaves of the classes"));
    }

    #[test]
    fn fq_paces() {
        assert!(found(&CHECK, &fixture("mlx5-25g-tuned")).is_empty());
    }
}
