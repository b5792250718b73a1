//! ssh's preferred cipher, on processors with instructions for another one.

use linerate_host::facts::Ssh;

use super::{Check, CheckRun};
use crate::formula::{gbit, ssh};
use crate::source::{HPN, OPENSSH};
use crate::{Finding, Host, Severity};

const FASTER: &str = "aes128-gcm@openssh.com";
const PREFERRED: &str = "chacha20-poly1305@openssh.com";

pub(super) const CHECK: Check = Check {
    name: "ssh-cipher",
    about: "ssh that prefers ChaCha20 on a processor that is faster at AES",
    sources: &[OPENSSH, HPN],
    // Only for paths: without a path, every fast host would have this finding.
    run: CheckRun::Path(|path| of(&path.from)),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let (client, ciphers) = (host.facts.ssh.client.known()?, host.facts.ssh.ciphers.known()?);
    let knows = |name: &str| ciphers.iter().any(|cipher| cipher == name);
    let aes = ssh::thread(host.facts.cpu.aes_128_gcm.get()?);
    let chacha = ssh::chacha();
    let prefers = ciphers.first().is_some_and(|first| first == PREFERRED);
    let is_better = host.facts.cpu.has("aes").get()? && knows(FASTER) && prefers && aes.low > chacha.low;
    if !is_better || chacha.low >= host.rate() || Ssh::is_hpn(client) {
        return None;
    }
    let finding = Finding::leaves(
        chacha.low,
        host.rate(),
        format!("ssh's preferred cipher reaches {} to {}", gbit(chacha.low), gbit(chacha.high)),
    )
    .at_most(Severity::Note)
    .at("ssh")
    .evidence(format!("{client} prefers ChaCha20-Poly1305, but the processor has AES instructions"))
    .evidence(format!("with AES-128-GCM, a thread of ssh reaches {} to {}", gbit(aes.low), gbit(aes.high)))
    .fix(format!("scp -c {FASTER}; rsync -e 'ssh -c {FASTER}'"))
    .undo("scp without -c")
    .conflict(
        "this concerns ssh's own tools only: linerate's data uses AES-128-GCM anyway; \
         the rates are for a core of about 2.5 GHz",
    );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathMeasurements;
    use crate::testing::{changed, fixture, found_between, lines};
    use linerate_host::{Fact, Facts};

    fn found(facts: &Facts) -> Vec<Finding> {
        found_between(&CHECK, facts, facts, PathMeasurements::default())
    }

    #[test]
    fn it_is_noted_where_the_port_is_faster() {
        assert_eq!(lines(&found(&fixture("stock-10g"))), ["ssh-cipher ssh note 2.67 Gbit/s"]);
        assert!(found(&fixture("e1000e-desktop")).is_empty());
        let other = changed("stock-10g", |facts| {
            let ciphers = ["aes256-gcm@openssh.com", FASTER, PREFERRED];
            facts.ssh.ciphers = Fact::Known(ciphers.map(str::to_owned).to_vec());
        });
        assert!(found(&other).is_empty(), "ChaCha20 isn't the first");
        assert!(found(&fixture("bare-gen1-x4")).is_empty(), "no instructions for AES");
    }
}
