//! Limits of the rate that somebody has set: shapers and policers on the ports, and rules of the packet filter.

use super::{Check, CheckRun, processors, shell};
use crate::finding::Way;
use crate::formula::gbit;
use crate::source::ESNET_PACING;
use crate::{Citation, Finding, Host, Severity};
use linerate_host::facts::{Port, Qdisc, TxQueue};

pub(super) const CHECK: Check = Check {
    name: "rate-limit",
    about: "shapers, policers and rules of the packet filter that limit the rate",
    sources: &[
        Citation {
            name: "tc(8): tbf, htb, cake, fq, police",
            url: "https://man7.org/linux/man-pages/man8/tc.8.html",
        },
        Citation { name: "nft(8): limit", url: "https://man7.org/linux/man-pages/man8/nft.8.html" },
        ESNET_PACING,
    ],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    let on_ports = host.linked().flat_map(|port| {
        let all = shapers(host, port).into_iter().chain(policed(host, port)).chain(queues(host, port));
        all.map(|finding| if is_anothers(host, port) { finding.at_most(Severity::Note) } else { finding })
    });
    on_ports.chain(filtered(host)).collect()
}

/// True for a port of a container or a guest on this host, and for a port that only such ports redirect their packets to: its
/// limit isn't the host's own.
fn is_anothers(host: &Host<'_>, port: &Port) -> bool {
    let mut redirecting = host.linked().filter(|other| redirects(other, port).is_some()).peekable();
    if redirecting.peek().is_some() {
        return redirecting.all(|other| is_of_another(host, other));
    }
    is_of_another(host, port)
}

fn is_of_another(host: &Host<'_>, port: &Port) -> bool {
    // The ports of a path carry the path's own packets.
    if host.facts.route.known().is_some() {
        return false;
    }
    let is_member = port.master.known().is_some();
    let is_tap = port.driver.known().is_some_and(|driver| driver == "tun");
    // A container's own port has no device beside it.
    let leads_away = port.layer.known().is_some_and(|layer| layer.is_elsewhere);
    leads_away && (is_member || host.devices().next().is_some()) || is_tap && is_member
}

/// Disciplines that have another discipline for each transmit queue. Each packet takes one of the queues, so the
/// queues' limits add up.
const BY_QUEUE: [&str; 2] = ["mq", "mqprio"];

/// Disciplines that only hold filters.
const FILTERING: [&str; 2] = ["ingress", "clsact"];

/// The limits of the port's disciplines. Only the root's limit, or all limits below `mq` or `mqprio` together, apply to
/// all packets.
fn shapers(host: &Host<'_>, port: &Port) -> Vec<Finding> {
    let all: Vec<&Qdisc> = port.qdiscs.known().into_iter().flatten().collect();
    let (roots, leaves): (Vec<&Qdisc>, Vec<&Qdisc>) = all.iter().copied().partition(|qdisc| qdisc.root);
    let whole = roots.iter().filter_map(|qdisc| shaped(host, port, qdisc, qdisc.rate?));
    let classes = roots.iter().filter_map(|qdisc| partly(host, port, qdisc.part?, &qdisc.kind));
    let part = of_leaves(host, port, &roots, &leaves).into_iter().chain(classes);
    let paced = all.iter().filter(|qdisc| qdisc.each.is_some()).min_by_key(|qdisc| qdisc.each);
    let paced = paced.and_then(|qdisc| paced_by(host, port, qdisc, qdisc.each? as f64));
    whole.chain(part).chain(paced).collect()
}

/// The finding about the limits below a root discipline, each of which applies to a part of the packets.
fn of_leaves(host: &Host<'_>, port: &Port, roots: &[&Qdisc], leaves: &[&Qdisc]) -> Option<Finding> {
    let least = leaves.iter().filter(|qdisc| qdisc.rate.is_some()).min_by_key(|qdisc| qdisc.rate)?;
    let is_by_queue = roots.iter().any(|root| BY_QUEUE.contains(&root.kind.as_str()));
    let sending = leaves.iter().filter(|qdisc| !FILTERING.contains(&qdisc.kind.as_str()));
    let together =
        sending.map(|qdisc| qdisc.rate).try_fold(0_u64, |sum, rate| Some(sum.saturating_add(rate?)));
    if let Some(together) = together.filter(|_| is_by_queue) {
        return shaped(host, port, least, together);
    }
    partly(host, port, least.rate?, &least.kind)
}

/// The finding about a discipline's limit on a part of the packets.
fn partly(host: &Host<'_>, port: &Port, rate: u64, kind: &str) -> Option<Finding> {
    let rate = Some(rate as f64).filter(|rate| *rate < host.need_of(port))?;
    let title = format!("{} sends a part of its packets at {} at most ({kind})", port.name, gbit(rate));
    let finding = Finding::new(Severity::Note, title)
        .only(Way::Sends)
        .at(&port.name)
        .evidence(format!("the limit is that of a class of {kind}, or of a discipline below the root"))
        .evidence(PART);
    Some(set_on_purpose(finding, &shown(port), "give the transfer's packets another class"))
}

/// The evidence that a limit isn't known to apply to a transfer.
const PART: &str = "the doctor doesn't check whether a transfer's packets belong to that part";

/// The commands that show the disciplines and classes of a port.
fn shown(port: &Port) -> String {
    format!("tc qdisc show dev {0}; tc class show dev {0}", shell::word(&port.name))
}

fn shaped(host: &Host<'_>, port: &Port, qdisc: &Qdisc, rate: u64) -> Option<Finding> {
    let need = host.need_of(port);
    let rate = Some(rate as f64).filter(|rate| *rate < need)?;
    let detour = redirected(host, port);
    let title = match detour {
        Some((name, way)) => format!(
            "{name} {} at most {}: a filter redirects its packets to {}, whose queueing discipline {} limits them",
            way.verb(),
            gbit(rate),
            port.name,
            qdisc.kind
        ),
        None => format!(
            "{} sends at most {}: its queueing discipline {} limits it",
            port.name,
            gbit(rate),
            qdisc.kind
        ),
    };
    // A discipline delays what its port sends; a filter may have redirected received packets to that port.
    let way = detour.map_or(Way::Sends, |(_, way)| way);
    let finding = Finding::leaves(rate, need, title).only(way).at(&port.name).evidence(format!(
        "qdisc {}: {}, {} packets above the rate waited or were dropped",
        qdisc.kind,
        gbit(rate),
        qdisc.overlimits
    ));
    Some(set_on_purpose(finding, &shown(port), "raise or remove it"))
}

/// The finding about a limit of each connection, if the connections of a usual transfer together don't reach the needed
/// rate. Otherwise the limit is only pacing, as ESnet advises it.
fn paced_by(host: &Host<'_>, port: &Port, qdisc: &Qdisc, each: f64) -> Option<Finding> {
    let (need, together) = (host.need_of(port), each * processors::STREAMS);
    if together >= need {
        return None;
    }
    let title = format!(
        "{} lets each connection send at most {}: its queueing discipline {} paces it",
        port.name,
        gbit(each),
        qdisc.kind
    );
    let finding = Finding::leaves(together, need, title).only(Way::Sends).at(&port.name).evidence(format!(
        "{} connections together send at most {}; {:.0} would reach {}",
        processors::STREAMS,
        gbit(together),
        (need / each.max(1.0)).ceil(),
        gbit(need)
    ));
    let show = format!("tc qdisc show dev {}", shell::word(&port.name));
    Some(set_on_purpose(finding, &show, "use more connections, or raise it"))
}

/// The port whose packets a filter redirects to the port `over`, and whether it receives or sends these packets.
fn redirected<'a>(host: &Host<'a>, over: &Port) -> Option<(&'a str, Way)> {
    host.linked().find_map(|port| Some((port.name.as_str(), redirects(port, over)?)))
}

/// The packets of `port` that its filters redirect to `over`: those that it receives or sends.
fn redirects(port: &Port, over: &Port) -> Option<Way> {
    let filters = port.policers.known()?;
    match over.name.as_str() {
        name if filters.inwards_over.iter().any(|other| other == name) => Some(Way::Receives),
        name if filters.outwards_over.iter().any(|other| other == name) => Some(Way::Sends),
        _ => None,
    }
}

/// The finding about transmit queues whose rate the card limits (tx_maxrate). A connection stays in its queue, so the
/// queue's limit applies to the connection.
fn queues(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let (all, need) = (port.tx_queues.known()?, host.need_of(port));
    let limit = |queue: &TxQueue| queue.max_mbps.get().filter(|mbps| *mbps > 0).map(|mbps| mbps as f64 * 1e6);
    let limits: Vec<f64> = all.iter().filter_map(limit).collect();
    let least = limits.iter().copied().min_by(f64::total_cmp).filter(|least| *least < need)?;
    let title = format!(
        "{} lets a connection send at most {}: its transmit queue has a limit",
        port.name,
        gbit(least)
    );
    let finding = Finding::leaves(least, need, title).only(Way::Sends).at(&port.name).evidence(format!(
        "{} of {} transmit queues have a limit (tx_maxrate); the lowest is {}",
        limits.len(),
        all.len(),
        gbit(least)
    ));
    let finding = if limits.len() == all.len() {
        finding.evidence(format!("together the queues send at most {}", gbit(limits.iter().sum())))
    } else {
        // Only the connections that get such a queue are slower.
        finding.at_most(Severity::Minor)
    };
    let show = format!("grep . /sys/class/net/{}/queues/tx-*/tx_maxrate", shell::word(&port.name));
    Some(set_on_purpose(finding, &show, "raise or remove it (0: no limit)"))
}

fn policed(host: &Host<'_>, port: &Port) -> Vec<Finding> {
    let Some(policers) = port.policers.known() else { return Vec::new() };
    let ways = [
        (policers.inwards, policers.inwards_part, Way::Receives, "ingress"),
        (policers.outwards, policers.outwards_part, Way::Sends, "egress"),
    ];
    let of = |rate: Option<u64>, way: Way, hook: &str, is_whole: bool| {
        let need = host.need_of(port);
        let rate = rate.map(|rate| rate as f64).filter(|rate| *rate < need)?;
        let what = if is_whole { "" } else { " of a part of its packets" };
        let title = format!(
            "{} {} at most {}{what}: a policer drops packets above that rate",
            port.name,
            way.verb(),
            gbit(rate)
        );
        let finding = if is_whole {
            Finding::leaves(rate, need, title)
        } else {
            Finding::new(Severity::Note, title).evidence(PART)
        };
        let finding = finding
            .only(way)
            .at(&port.name)
            .evidence(format!("a filter on its {hook} has a policer of {}", gbit(rate)))
            .evidence("dropped packets are retransmitted, and each drop slows its connection: TCP stays well below the limit");
        let show = format!("tc -s filter show dev {} {hook}", shell::word(&port.name));
        Some(set_on_purpose(
            finding,
            &show,
            "raise or remove it; a shaper (tbf, htb, fq's maxrate) at the sender loses nothing",
        ))
    };
    let both = |(whole, part, way, hook)| [of(whole, way, hook, true), of(part, way, hook, false)];
    ways.into_iter().flat_map(both).flatten().collect()
}

/// The finding about the lowest limit in bytes among the packet filter's rules. It isn't known to which packets the
/// rule applies.
fn filtered(host: &Host<'_>) -> Option<Finding> {
    let rates = host.facts.tcp.rule_rates.known()?;
    let rate = rates.iter().copied().min().map(|rate| rate as f64).filter(|rate| *rate < host.rate())?;
    let title = format!("a rule of nftables limits packets to {}", gbit(rate));
    let finding = Finding::leaves(rate, host.rate(), title)
        .at_most(Severity::Minor)
        .at("nftables")
        .evidence(format!(
            "{} rules of nftables limit bytes; the lowest limit is {}",
            rates.len(),
            gbit(rate)
        ))
        .evidence("the doctor doesn't check whether a transfer's packets match the rule");
    Some(set_on_purpose(finding, "nft list ruleset", "accept the transfers' packets before that rule"))
}

fn set_on_purpose(finding: Finding, show: &str, what: &str) -> Finding {
    finding
        .fix(format!("{show}: find out who set the limit, and {what}"))
        .conflict("somebody set the limit on purpose: a container runtime's bandwidth limit, a provider's agent, or fairness to others")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, edited, fixture, found, lines};
    use linerate_host::Fact;
    use linerate_host::facts::{Policers, PortKind, PortLayer};

    fn with(qdisc: Qdisc) -> Vec<Finding> {
        found(&CHECK, &edited("stock-10g", "eno1", |port| port.qdiscs = Fact::Known(vec![qdisc])))
    }

    #[test]
    fn a_shaper_below_the_need_is_named() {
        let tbf = Qdisc { kind: "tbf".into(), root: true, rate: Some(1_000_000_000), ..Qdisc::default() };
        let named = with(tbf.clone());
        assert_eq!(lines(&named), ["rate-limit eno1 critical 1.00 Gbit/s"]);
        assert!(named[0].title.contains("tbf"), "{named:?}");
        assert!(with(Qdisc { rate: Some(12_000_000_000), ..tbf }).is_empty(), "above the need");
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }

    /// A class of `prio` is for the packets that a filter sends there; the queues of `mq` together carry all packets.
    #[test]
    fn a_limit_below_the_root_is_for_a_part_of_the_packets() {
        let with = |root: &str, rates: &[Option<u64>]| {
            let leaf = |rate: &Option<u64>| Qdisc { kind: "tbf".into(), rate: *rate, ..Qdisc::default() };
            let root = Qdisc { kind: root.into(), root: true, ..Qdisc::default() };
            let all: Vec<Qdisc> = [root].into_iter().chain(rates.iter().map(leaf)).collect();
            let port = edited("stock-10g", "eno1", |port| port.qdiscs = Fact::Known(all));
            lines(&found(&CHECK, &port))
        };
        assert_eq!(with("prio", &[None, None, Some(20_000)]), ["rate-limit eno1 note -"]);
        assert_eq!(with("mq", &[Some(1_000_000_000); 4]), ["rate-limit eno1 critical 4.00 Gbit/s"]);
        assert!(with("mq", &[Some(3_000_000_000); 4]).is_empty(), "together they reach the need");
        assert_eq!(with("mq", &[None, Some(1_000_000_000)]), ["rate-limit eno1 note -"]);
        let htb = Qdisc { kind: "htb".into(), root: true, part: Some(100_000_000), ..Qdisc::default() };
        let found = |change: &dyn Fn(&mut Port)| lines(&found(&CHECK, &edited("stock-10g", "eno1", change)));
        assert_eq!(found(&|port| port.qdiscs = Fact::Known(vec![htb.clone()])), ["rate-limit eno1 note -"]);
        let icmp = Policers { inwards_part: Some(1_000_000), ..Policers::default() };
        assert_eq!(found(&|port| port.policers = Fact::Known(icmp.clone())), ["rate-limit eno1 note -"]);
    }

    /// ESnet's guide: on a host of 10 Gbit/s that uses four streams, `fq maxrate 2gbit`.
    #[test]
    fn pacing_that_eight_connections_outrun_is_no_limit() {
        let each = |rate| with(Qdisc { kind: "fq".into(), each: Some(rate), ..Qdisc::default() });
        assert!(each(2_000_000_000).is_empty());
        let slow = each(500_000_000);
        assert_eq!(lines(&slow), ["rate-limit eno1 critical 4.00 Gbit/s"]);
        assert!(slow[0].title.starts_with("eno1 lets each connection send at most 500 Mbit/s"), "{slow:?}");
        assert!(
            slow[0].evidence[0].contains("8 connections together")
                && slow[0].evidence[0].contains("20 would")
        );
    }

    #[test]
    fn limits_of_containers_and_slower_ports_are_not_the_hosts() {
        let with = |change: fn(&mut Port)| {
            let limited = changed("stock-10g", |facts| {
                let Fact::Known(ports) = &mut facts.ports else { panic!("none") };
                let own = ports.iter().find(|port| port.name == "eno1").expect("a port");
                let tbf =
                    Qdisc { kind: "tbf".into(), root: true, rate: Some(900_000_000), ..Qdisc::default() };
                let mut other = Port { name: "other".into(), qdiscs: Fact::Known(vec![tbf]), ..own.clone() };
                change(&mut other);
                ports.push(other);
            });
            lines(&found(&CHECK, &limited))
        };
        let pod = |port: &mut Port| {
            port.speed_mbps = Fact::NotApplicable;
            port.kind = Fact::Known(PortKind::Software);
            port.layer = Fact::Known(PortLayer { is_elsewhere: true, ..PortLayer::default() });
        };
        assert_eq!(with(pod), ["rate-limit other note 900 Mbit/s"]);
        let slow = |port: &mut Port| port.speed_mbps = Fact::Known(1000);
        assert_eq!(with(slow), ["rate-limit other minor 900 Mbit/s"]);
    }

    /// Packets that a filter redirects to a port of the kind ifb wait at that port.
    #[test]
    fn a_shaper_of_redirected_packets_names_the_port_that_receives_them() {
        let limited = changed("stock-10g", |facts| {
            let Fact::Known(ports) = &mut facts.ports else { panic!("none") };
            let own = ports.iter_mut().find(|port| port.name == "eno1").expect("a port");
            own.policers = Fact::Known(Policers { inwards_over: vec!["ifb0".into()], ..Policers::default() });
            let tbf = Qdisc { kind: "tbf".into(), root: true, rate: Some(50_000_000), ..Qdisc::default() };
            let ifb = Port { name: "ifb0".into(), qdiscs: Fact::Known(vec![tbf]), ..own.clone() };
            ports.push(Port { policers: Fact::NotApplicable, ..ifb });
        });
        let named = found(&CHECK, &limited);
        assert_eq!(lines(&named), ["rate-limit ifb0 critical 50.0 Mbit/s"]);
        assert!(named[0].title.starts_with("eno1 receives at most 50.0 Mbit/s: a filter"), "{named:?}");
    }

    #[test]
    fn limits_of_queues_are_named() {
        let with = |mbps: &[u64]| {
            let host = edited("stock-10g", "eno1", |port| {
                let Fact::Known(queues) = &mut port.tx_queues else { panic!("no queues") };
                queues.truncate(mbps.len());
                queues.iter_mut().zip(mbps).for_each(|(queue, mbps)| queue.max_mbps = Fact::Known(*mbps));
            });
            found(&CHECK, &host)
        };
        let all = with(&[1000, 2000, 1000, 1000]);
        assert_eq!(lines(&all), ["rate-limit eno1 critical 1.00 Gbit/s"]);
        assert!(all[0].evidence[1].ends_with("at most 5.00 Gbit/s") && all[0].remedies.is_empty(), "{all:?}");
        assert_eq!(lines(&with(&[0, 1000, 0, 0])), ["rate-limit eno1 minor 1.00 Gbit/s"]);
        assert!(with(&[0, 0, 0, 0]).is_empty() && with(&[20_000, 0]).is_empty());
    }

    #[test]
    fn policers_and_rules_are_named() {
        let policers = Policers { inwards: Some(100_000_000), ..Policers::default() };
        let policed = edited("stock-10g", "eno1", |port| port.policers = Fact::Known(policers));
        assert_eq!(lines(&found(&CHECK, &policed)), ["rate-limit eno1 critical 100 Mbit/s"]);
        let ruled =
            changed("stock-10g", |facts| facts.tcp.rule_rates = Fact::Known(vec![400_000_000, 100_000_000]));
        assert_eq!(lines(&found(&CHECK, &ruled)), ["rate-limit nftables minor 100 Mbit/s"]);
    }
}
