//! The time that a sleeping processor takes to wake, compared with a round trip, and with the time in which packets
//! fill a ring.

use linerate_host::facts::{Idle, Port};

use super::{Check, CheckRun};
use crate::formula::goodput::Segments;
use crate::formula::{gbit, percent, trip};
use crate::source::{CPUIDLE, RED_HAT};
use crate::{Citation, Finding, Host, Severity};

/// Share of a round trip within a data centre at or above which the time to wake matters.
const FELT: f64 = 0.25;

pub(super) const CHECK: Check = Check {
    name: "idle-states",
    about: "processors that sleep so deeply that waking them delays transfers",
    sources: &[
        CPUIDLE,
        Citation {
            name: "tuned, profile network-latency: force_latency",
            url: "https://github.com/redhat-performance/tuned/blob/master/profiles/network-latency/tuned.conf",
        },
        RED_HAT,
    ],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let cpu = &host.facts.cpu;
    let (state, latency) = cpu.idle.deepest(cpu.threads().get()?)?;
    let seconds = f64::from(latency) * 1e-6;
    let full: Vec<String> = host.hardware().filter_map(|port| overflows(host, port, seconds)).collect();
    let share = seconds / trip::DATA_CENTRE;
    if full.is_empty() && share < FELT {
        return None;
    }
    let severity = if full.is_empty() { Severity::Note } else { Severity::Minor };
    let name = state.name.known().map_or("the deepest", String::as_str);
    let finding = Finding::new(severity, format!("idle processors take up to {latency} us to wake"))
        .evidence(format!(
            "state {name} of {}, governor {}",
            cpu.idle.driver.known().map_or("an unknown driver", String::as_str),
            cpu.idle.governor.known().map_or("unknown", String::as_str)
        ))
        .evidence(format!(
            "this is {} of a round trip of 0.2 ms; each small file and each pause may add this delay",
            percent(share)
        ));
    Some(remedy(full.into_iter().fold(finding, Finding::evidence), &cpu.idle))
}

/// Evidence that more packets reach a port while a processor wakes than its ring holds.
fn overflows(host: &Host<'_>, port: &Port, seconds: f64) -> Option<String> {
    let (need, ring) = (host.rate_of(port)?, port.rings.known()?.rx);
    let packets = Segments::usual(port.mtu.get()?).packets(need) * seconds;
    (ring > 0 && packets > f64::from(ring)).then(|| {
        format!(
            "at {}, {packets:.0} packets arrive during this time; a ring of {} holds {ring}",
            gbit(need),
            port.name
        )
    })
}

/// The commands that enable all states again, and disable those that are disabled now.
fn back(idle: &Idle) -> String {
    let states = idle.states.known().into_iter().flatten();
    let now = states.filter(|state| state.disabled.get().is_some_and(|processors| processors > 0));
    now.fold("cpupower idle-set -E".into(), |all, state| {
        format!("{all}; cpupower idle-set -d {}", state.number)
    })
}

fn remedy(finding: Finding, idle: &Idle) -> Finding {
    finding
        .fix("cpupower idle-set -D 50, which forbids states that take longer than 50 us")
        .undo(back(idle))
        .conflict(
            "tuned's latency profile forbids deep states and its throughput profile allows them: \
             sleeping cores let others run faster, and under load the governor seldom chooses deep states",
        )
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{changed, fixture, found, lines, port_of};

    #[test]
    fn deep_sleep_is_noted_and_a_ring_that_overflows_is_more() {
        let noted = found(&CHECK, &fixture("smt-siblings"));
        assert_eq!(lines(&noted), ["idle-states - note -"]);
        assert!(noted[0].title.contains("133 us") && noted[0].evidence[0].contains("C6"), "{noted:?}");
        let small = changed("smt-siblings", |facts| {
            let Fact::Known(rings) = &mut port_of(facts, "ens1f0np0").rings else { panic!("no rings") };
            rings.rx = 32;
        });
        assert_eq!(lines(&found(&CHECK, &small)), ["idle-states - minor -"]);
    }

    #[test]
    fn light_sleep_and_forbidden_states_are_not() {
        let forbidden = changed("smt-siblings", |facts| {
            let Fact::Known(states) = &mut facts.cpu.idle.states else { panic!("no states") };
            states[3].disabled = Fact::Known(16);
        });
        assert!(found(&CHECK, &forbidden).is_empty());
        let unknown = changed("smt-siblings", |facts| facts.cpu.idle.states = Fact::default());
        assert!(found(&CHECK, &unknown).is_empty());
        assert!(found(&CHECK, &fixture("virtio-one-queue")).is_empty());
    }
}
