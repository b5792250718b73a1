//! Explicit congestion notification, with which switches mark packets instead of dropping them.

use super::{Check, CheckRun};
use crate::remedy::Remedy;
use crate::source::{IP_SYSCTL, RED_HAT};
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "tcp-ecn",
    about: "a host that refuses ECN, with which switches mark packets instead of dropping them",
    sources: &[IP_SYSCTL, RED_HAT],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    if host.facts.tcp.ecn.get()? != 0 {
        return None;
    }
    let finding = Finding::new(
        Severity::Note,
        "ECN is refused: switches can signal congestion only by dropping packets",
    )
    .evidence("tcp_ecn is 0; the kernel's default is 2: ECN if the other end asks for it")
    .remedied(Remedy::sysctl("net.ipv4.tcp_ecn", 0, 2))
    .conflict(
        "Red Hat advises 1 in networks whose switches mark; \
             some old firewalls drop connections that ask for ECN",
    );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn off_is_noted_and_the_kernels_value_is_not() {
        let off = changed("stock-10g", |facts| facts.tcp.ecn = Fact::Known(0));
        assert_eq!(lines(&found(&CHECK, &off)), ["tcp-ecn - note -"]);
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
