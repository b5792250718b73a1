//! The largest buffers that programs may request: a limit for those that set their own (iperf3 -w, bbcp,
//! GridFTP).

use super::{Check, CheckRun};
use crate::formula::{buffer, bytes, flow, gbit, trip};
use crate::remedy::Remedy;
use crate::source::{ESNET, NET_SYSCTL};
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "core-buffers",
    about: "programs that set their own buffers can't reach the needed rate",
    sources: &[NET_SYSCTL, ESNET],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let tcp = &host.facts.tcp;
    let (receive, send) = (tcp.core_rmem_max.get()?, tcp.core_wmem_max.get()?);
    // The kernel doubles the requested size, and uses half of it for its own bookkeeping.
    let (window, need) = (receive.min(send) as f64, host.rate());
    let one = flow::rate(window, host.near_trip());
    if one >= need {
        return None;
    }
    let (near, far) = (trip::text(host.near_trip()), host.far_trip());
    let title = format!(
        "a connection whose program sets its own buffers gets {} at most at a round trip of {near}",
        gbit(one)
    );
    // The kernel doubles the requested size.
    let size = |now| buffer::proposed(host.facts, flow::in_flight(need, far) / 2.0, now);
    let changes = [
        Remedy::sysctl("net.core.rmem_max", receive, size(receive)),
        Remedy::sysctl("net.core.wmem_max", send, size(send)),
    ];
    let finding = Finding::leaves(one, need, title)
        .at_most(Severity::Note)
        .evidence(format!("rmem_max {}, wmem_max {}", bytes(receive as f64), bytes(send as f64)))
        .evidence(format!("{} at a round trip of {near} needs {} in flight", gbit(need), bytes(flow::in_flight(need, host.near_trip()))))
        .evidence("programs that leave the window to the kernel, as linerate does, aren't affected")
        .remedied_or(
            changes.into_iter().flatten(),
            "let programs leave the window to the kernel: this host's memory, or its tcp_mem, allows no larger buffer",
        )
        .conflict(
            "tuned sets 16 MiB, ESnet 64 MiB to 2 GiB by the port's rate; \
             large fixed windows cause queues in the network",
        );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn the_kernels_default_is_short_of_ten_gigabits() {
        assert_eq!(lines(&found(&CHECK, &fixture("stock-10g"))), ["core-buffers - note 8.52 Gbit/s"]);
    }

    #[test]
    fn larger_ones_do() {
        assert!(found(&CHECK, &fixture("bare-gen1-x4")).is_empty());
    }

    #[test]
    fn the_larger_one_is_left_as_it_is() {
        let host = changed("stock-10g", |facts| {
            (facts.tcp.core_rmem_max, facts.tcp.core_wmem_max) =
                (Fact::Known(256 << 20), Fact::Known(212_992));
        });
        let fix = found(&CHECK, &host)[0].fix.clone().unwrap();
        assert_eq!(fix, "sysctl -w net.core.wmem_max=16777216");
    }
}
