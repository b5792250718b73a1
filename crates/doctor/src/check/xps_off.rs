//! Several transmit queues, none of which is bound to processors.

use linerate_host::facts::Port;

use super::{Check, CheckRun};
use crate::source::{RED_HAT, SCALING};
use crate::{Finding, Host, Severity};

/// Bits a second below which the queues' locks don't matter.
const SLOW: f64 = 5e9;
/// Prints the mask of processor `$i` as the kernel reads it: words of 32 bits, the highest first, between
/// commas.
const ONE: &str =
    "m=$(printf %x $((1 << i % 32))); for w in $(seq $((i / 32))); do m=$m,00000000; done; echo $m";

pub(super) const CHECK: Check = Check {
    name: "xps-off",
    about: "transmit queues that aren't bound to processors",
    sources: &[SCALING, RED_HAT],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.hardware()
        .filter(|port| host.rate_of(port).is_some_and(|need| need >= SLOW))
        .filter_map(of)
        .collect()
}

fn of(port: &Port) -> Option<Finding> {
    let queues = port.tx_queues.known().filter(|queues| queues.len() > 1)?;
    let is_empty = |cpus: &Vec<u32>| cpus.is_empty();
    if !queues.iter().all(|queue| queue.xps_cpus.known().is_some_and(is_empty)) {
        return None;
    }
    let last = queues.len() - 1;
    let script = |value: &str| {
        format!(
            "for i in $(seq 0 {last}); do {value} > /sys/class/net/{}/queues/tx-$i/xps_cpus; done",
            port.name
        )
    };
    let finding = Finding::new(
        Severity::Note,
        format!("all processors share {}'s {} transmit queues", port.name, queues.len()),
    )
    .at(&port.name)
    .evidence("xps_cpus is empty for each queue: processors wait for each other's locks")
    .fix(script(ONE))
    .undo(script("echo 0"))
    .conflict(
        "this needs as many queues as processors; \
        with fewer, give each queue the processors that share a cache",
    );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    #[test]
    fn queues_without_processors_are_found() {
        let host = edited("stock-10g", "eno1", |port| {
            let Fact::Known(queues) = &mut port.tx_queues else { panic!("no queues") };
            queues.iter_mut().for_each(|queue| queue.xps_cpus = Fact::Known(Vec::new()));
        });
        assert_eq!(lines(&found(&CHECK, &host)), ["xps-off eno1 note -"]);
    }

    /// As the kernel wants it: it refuses more than eight digits without a comma.
    #[test]
    fn masks_of_many_processors_are_words_with_commas() {
        let mask = |cpu: u32| {
            let output = std::process::Command::new("sh").args(["-c", &format!("i={cpu}; {ONE}")]).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        assert_eq!((mask(0), mask(31)), ("1\n".into(), "80000000\n".into()));
        assert_eq!((mask(32), mask(70)), ("1,00000000\n".into(), "40,00000000,00000000\n".into()));
    }

    #[test]
    fn bound_queues_and_slow_ports_are_not() {
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        assert!(found(&CHECK, &fixture("igb-sriov")).is_empty());
    }
}
