//! The section with the hosts' facts, side by side.

use linerate_bench::record::{Host, Measures, Record};
use linerate_bench::stats::good_runs;
use linerate_host::{Fact, Interface, Profile};
use maud::{Markup, html};

use super::scrolling;
use crate::number::{bytes, grouped};

/// The facts of all hosts, with a column for each host.
pub(crate) fn section(record: &Record) -> Markup {
    if record.hosts.is_empty() {
        return html! {};
    }
    html! {
        section {
            h2 id="hosts" { "Hosts" }
            (scrolling("Facts of the hosts", &table(&record.hosts, roles(record))))
        }
    }
}

/// A row of the table: its name, and the function that makes its cells.
type FactRow = (&'static str, fn(&Profile) -> Markup);

const ROWS: [FactRow; 12] = [
    ("Host name", |f| fact(&f.hostname, Clone::clone)),
    ("Kernel", |f| fact(&f.kernel, Clone::clone)),
    ("Distribution", |f| fact(&f.distribution, Clone::clone)),
    ("Processor", |f| fact(&f.cpu_model, Clone::clone)),
    ("Processors on line", |f| fact(&f.processors, u32::to_string)),
    ("Processor features", |f| fact(&f.cpu_features, |names| names.join(" "))),
    ("Frequency governor", |f| fact(&f.governor, Clone::clone)),
    ("Hypervisor", |f| fact(&f.hypervisor, Clone::clone)),
    ("Memory", |f| fact(&f.memory_bytes, |count| bytes(*count))),
    ("Congestion control", |f| fact(&f.congestion_control, Clone::clone)),
    ("Receive buffer, bytes", |f| fact(&f.tcp_rmem, buffer)),
    ("Send buffer, bytes", |f| fact(&f.tcp_wmem, buffer)),
];

fn table(hosts: &[Host], roles: [&str; 2]) -> Markup {
    html! {
        table class="facts" {
            thead {
                tr {
                    td {}
                    @for (index, host) in hosts.iter().enumerate() { th scope="col" { (host.name) (role(roles, index)) } }
                }
            }
            tbody {
                @for (name, value) in &ROWS {
                    tr { th scope="row" { (name) } @for host in hosts { td { (value(&host.facts)) } } }
                }
                tr {
                    th scope="row" { "Interfaces" }
                    @for host in hosts { td { (interfaces(&host.facts.interfaces)) } }
                }
            }
        }
    }
}

/// The roles of the first and of the second host (sender or receiver); empty if the roles differ between
/// cases.
fn roles(record: &Record) -> [&'static str; 2] {
    let asks = |m: &Measures| m.transactions.is_some() || m.score.is_some();
    let good = || record.cases.iter().flat_map(|case| good_runs(record, &case.id)).map(|(_, run)| run);
    match (good().any(asks), good().all(asks)) {
        (false, _) => ["sends", "receives"],
        (true, true) => ["asks", "answers"],
        (true, false) => [""; 2],
    }
}

fn role(roles: [&str; 2], index: usize) -> Markup {
    let words = roles.get(index).filter(|words| !words.is_empty());
    html! { @if let Some(words) = words { span class="soft" { " (" (words) ")" } } }
}

fn fact<T>(fact: &Fact<T>, show: impl Fn(&T) -> String) -> Markup {
    match fact {
        Fact::Known(value) => html! { (show(value)) },
        Fact::NotApplicable => html! { span class="soft" { "not applicable" } },
        Fact::Unreadable(reason) => html! { span class="soft" { "unknown: " (reason) } },
    }
}

/// The minimum, default and maximum size of a buffer, as text.
fn buffer(sizes: &[u64; 3]) -> String {
    sizes.map(grouped).join(" / ")
}

fn interfaces(all: &[Interface]) -> Markup {
    html! {
        @if all.is_empty() { span class="soft" { "none" } }
        @for interface in all {
            div {
                strong { (interface.name) }
                @if let Some(reason) = unseen(interface) { span class="soft" { ": unknown: " (reason) } }
                @else { (details(interface)) }
            }
        }
    }
}

/// The reason why nothing but the name of an interface is known; `None` if anything else is known, or if there are
/// several reasons.
fn unseen(interface: &Interface) -> Option<&str> {
    let Interface { driver, speed_mbps, mtu, rx_queues, tx_queues, .. } = interface;
    let reasons = [reason(driver), reason(speed_mbps), reason(mtu), reason(rx_queues), reason(tx_queues)];
    reasons[0].filter(|first| reasons.iter().all(|reason| *reason == Some(first)))
}

fn reason<T>(fact: &Fact<T>) -> Option<&str> {
    if let Fact::Unreadable(reason) = fact { Some(reason) } else { None }
}

fn details(interface: &Interface) -> Markup {
    html! {
        ": driver " (fact(&interface.driver, Clone::clone))
        ", speed " (fact(&interface.speed_mbps, |speed| format!("{} Mbit/s", grouped(*speed))))
        ", MTU " (fact(&interface.mtu, u32::to_string))
        ", queues rx " (fact(&interface.rx_queues, u32::to_string))
        " tx " (fact(&interface.tx_queues, u32::to_string))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unreadable<T>(reason: &str) -> Fact<T> {
        Fact::Unreadable(reason.to_owned())
    }

    fn unseen_interface() -> Interface {
        Interface {
            name: "to-b".to_owned(),
            driver: unreadable("hidden"),
            speed_mbps: unreadable("hidden"),
            mtu: unreadable("hidden"),
            rx_queues: unreadable("hidden"),
            tx_queues: unreadable("hidden"),
        }
    }

    #[test]
    fn one_reason_for_all_is_said_once() {
        let shown = interfaces(&[unseen_interface()]).into_string();
        assert_eq!(shown.matches("hidden").count(), 1, "{shown}");
        assert!(shown.contains("to-b"), "{shown}");
    }

    #[test]
    fn what_differs_is_said_apart() {
        let known = Interface { mtu: Fact::Known(1500), ..unseen_interface() };
        let other = Interface { driver: unreadable("denied"), ..unseen_interface() };
        for (interface, words, hidden) in [(known, "MTU 1500", 4), (other, "denied", 4)] {
            let shown = interfaces(&[interface]).into_string();
            assert!(shown.contains(words), "{shown}");
            assert_eq!(shown.matches("hidden").count(), hidden, "{shown}");
        }
    }
}
