//! Limits of control groups: the rate that they leave, and the commands that lift them.

use crate::formula::cpu::sealing;
use crate::formula::gbit;
use crate::{Finding, Host, Severity};

/// A finding on a host where linerate may use only some processors. Every byte is encrypted once and hashed once. If
/// the rate of this work isn't known, the ceiling isn't known either.
pub fn leaves(host: &Host<'_>, processors: f64, title: String) -> Finding {
    let cpu = &host.facts.cpu;
    let one = cpu.aes_128_gcm.get().zip(cpu.blake3.get()).map(|(aes, blake)| sealing(aes, blake));
    match one.filter(|one| *one > 0.0) {
        Some(one) => Finding::leaves(one * processors, host.rate(), title).evidence(format!(
            "a processor encrypts and hashes {} at most, and has other work too; needed: {}",
            gbit(one),
            gbit(host.rate())
        )),
        None => Finding::new(Severity::Minor, title)
            .evidence("the rate at which a processor encrypts wasn't measured, so the loss isn't known"),
    }
}

/// Adds the command that sets a property of a group's systemd unit until the next boot, and the command that sets it
/// back. A container's group, and a group that isn't a systemd unit's, gets the fix in words.
pub fn lifted(finding: Finding, group: &str, property: &str, none: &str, now: &str, words: &str) -> Finding {
    match unit(group) {
        Some(unit) => finding
            .fix(format!("systemctl set-property --runtime {unit} {property}={none}"))
            .undo(format!("systemctl set-property --runtime {unit} {property}={now}")),
        None => finding.fix(words),
    }
}

/// The systemd unit of a group; none if a container runtime made it, because the runtime then sets its limits.
fn unit(group: &str) -> Option<&str> {
    let is_unit = |name: &&str| [".service", ".scope", ".slice"].iter().any(|end| name.ends_with(end));
    let is_plain =
        |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte));
    let is_container = |part: &str| {
        ["kubepods", "docker", "cri-", "crio-", "libpod-", "machine"]
            .iter()
            .any(|start| part.starts_with(start))
    };
    let name = group.rsplit('/').next().filter(is_unit).filter(is_plain)?;
    (!group.split('/').any(is_container)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_systemds_own_units_are_set_by_systemd() {
        assert_eq!(unit("/user.slice/user-1000.slice"), Some("user-1000.slice"));
        assert_eq!(unit("/system.slice/ssh.service"), Some("ssh.service"));
        let others = [
            "/kubepods.slice/kubepods-podxxx.slice",
            "/system.slice/docker-3f8.scope",
            "/",
            "/low",
            "/a b.slice",
        ];
        for other in others {
            assert_eq!(unit(other), None, "{other}");
        }
    }
}
