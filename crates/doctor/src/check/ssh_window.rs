//! ssh's own window, inside TCP's.

use linerate_host::facts::Ssh;

use super::{Check, CheckRun};
use crate::formula::{bytes, flow, gbit, ssh};
use crate::source::HPN;
use crate::{Citation, Finding, Path, Severity};

pub(super) const CHECK: Check = Check {
    name: "ssh-window",
    about: "scp and rsync over ssh, limited by ssh's window of 2 MiB",
    sources: &[
        HPN,
        Citation {
            name: "hpn-ssh, issue 58: 11.8 MB/s at 167 ms",
            url: "https://github.com/rapier1/hpn-ssh/issues/58",
        },
    ],
    run: CheckRun::Path(of),
};

fn of(path: &Path<'_>) -> Option<Finding> {
    let (rtt, need) = (path.measured.rtt?, path.rate());
    let (client, server) = (path.from.facts.ssh.client.known()?, path.to.facts.ssh.server.known()?);
    let rate = flow::rate(ssh::CHANNEL, rtt);
    if rate >= need || Ssh::is_hpn(server) {
        return None;
    }
    let finding = Finding::leaves(rate, need, format!("scp and rsync over ssh reach at most {}", gbit(rate)))
        .at_most(Severity::Minor)
        .at("ssh")
        .evidence(format!(
            "an ssh channel has at most {} in flight; {} at a round trip of {:.1} ms needs {}",
            bytes(ssh::CHANNEL),
            gbit(need),
            rtt * 1e3,
            bytes(flow::in_flight(need, rtt))
        ))
        .evidence(format!("client {client}, server {server}"))
        .fix(
            "linerate cp, whose data doesn't go through ssh; or HPN-SSH on the receiving end; \
             or several copies at once",
        )
        .conflict("larger TCP buffers don't help: the window is ssh's own");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathMeasurements;
    use crate::testing::{changed, fixture, found_between, lines};
    use linerate_host::Fact;

    fn at(rtt: f64, server: &str) -> Vec<String> {
        let to = changed("stock-10g", |facts| facts.ssh.server = Fact::Known(server.into()));
        let measured = PathMeasurements { rtt: Some(rtt), ..PathMeasurements::default() };
        lines(&found_between(&CHECK, &fixture("stock-10g"), &to, measured))
    }

    #[test]
    fn far_hosts_are_held_back() {
        assert_eq!(at(0.167, "OpenSSH_9.2"), ["ssh-window ssh minor 100 Mbit/s"]);
    }

    #[test]
    fn near_ones_and_patched_ones_are_not() {
        assert!(at(0.001, "OpenSSH_9.2").is_empty());
        assert!(at(0.167, "OpenSSH_9.2 hpn18.0").is_empty());
    }
}
