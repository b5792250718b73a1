//! Without scaling, no window exceeds 64 KiB.

use super::{Check, CheckRun};
use crate::formula::flow;
use crate::remedy::Remedy;
use crate::source::{IP_SYSCTL, RFC_7323};
use crate::{Finding, Host};

pub(super) const CHECK: Check = Check {
    name: "tcp-window-scaling",
    about: "windows that are limited to 64 KiB",
    sources: &[RFC_7323, IP_SYSCTL],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    if host.facts.tcp.window_scaling.get()? {
        return None;
    }
    let rate = |rtt| flow::rate(flow::MAX_UNSCALED_WINDOW, rtt);
    let finding = Finding::leaves(rate(host.near_trip()), host.rate(), "no TCP window exceeds 64 KiB")
        .evidence("tcp_window_scaling is 0")
        .evidence(host.reached(rate))
        .remedied(Remedy::sysctl("net.ipv4.tcp_window_scaling", 0, 1));
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, found_over, lines};
    use linerate_host::Fact;

    #[test]
    fn small_windows_are_costly() {
        let off = changed("stock-10g", |facts| facts.tcp.window_scaling = Fact::Known(false));
        assert_eq!(lines(&found(&CHECK, &off)), ["tcp-window-scaling - critical 2.62 Gbit/s"]);
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        assert_eq!(lines(&found_over(&CHECK, &off, 0.01)), ["tcp-window-scaling - critical 52.4 Mbit/s"]);
        assert_eq!(lines(&found_over(&CHECK, &off, 0.00005)), ["tcp-window-scaling - note 10.5 Gbit/s"]);
    }
}
