//! Runs the checks, and orders their findings.

use crate::cause::explained;
use crate::check::CHECKS;
use crate::remedy::{Remedy, Setting, commands, undo_commands};
use crate::same_cause::{once_on_host, once_on_path};
use crate::{Finding, Host, Path};

const BELOW: &str = "on the underlying host, because this setting can't be changed here";
const START: &str = "at the start of the container, because /proc/sys can't be written here (Kubernetes: the pod's \
    securityContext.sysctls; a container on the host's own network: on the host)";

/// The findings of all checks on a host, the costliest first.
pub fn examine_host(host: &Host<'_>) -> Vec<Finding> {
    let all = CHECKS.iter().flat_map(|check| check.on_host(host));
    ordered(once_on_host(all.map(|finding| possible(finding, &[*host])).collect()))
}

/// The findings of all checks between two hosts, the costliest first, without the findings on each host.
pub fn examine_path(path: &Path<'_>) -> Vec<Finding> {
    let all = CHECKS.iter().filter_map(|check| check.on_path(path));
    ordered(all.map(|finding| possible(finding, &path.ends())).collect())
}

/// The findings of all checks between two hosts and on each of them, the costliest first.
pub fn examine_path_and_ends(path: &Path<'_>) -> Vec<Finding> {
    let mut found = examine_path(path);
    found.extend(path.ends().iter().flat_map(examine_host));
    ordered(explained(once_on_path(found, path), path))
}

/// The finding without the changes that its host can't make: those of sysctls that belong to a container's host, or
/// that can only be set when the container is started. Words in the fix take their place.
fn possible(mut finding: Finding, hosts: &[Host<'_>]) -> Finding {
    let key = |remedy: &Remedy| match &remedy.setting {
        Setting::Sysctl { key } => Some(key.clone()),
        _ => None,
    };
    let is_fixed = |remedy: &Remedy| {
        let own = hosts.iter().find(|host| host.name == remedy.host);
        let fixed = own.and_then(|host| host.facts.machine.fixed.known());
        key(remedy).is_some_and(|key| fixed.is_some_and(|fixed| fixed.contains(&key)))
    };
    let (fixed, free): (Vec<_>, Vec<_>) = finding.remedies.drain(..).partition(is_fixed);
    if fixed.is_empty() {
        return Finding { remedies: free, ..finding };
    }
    let bare = |remedies: Vec<Remedy>| remedies.into_iter().map(|remedy| remedy.on("")).collect::<Vec<_>>();
    let (inner, below): (Vec<_>, Vec<_>) =
        bare(fixed).into_iter().partition(|remedy| key(remedy).is_some_and(|key| is_of_namespace(&key)));
    let free_bare = bare(free.clone());
    let fix = [commands(&free_bare), at_start(&inner), marked(BELOW, &commands(&below))];
    let undo = [
        undo_commands(&free_bare),
        at_start_as_before(&inner),
        marked("on the underlying host", &undo_commands(&below)),
    ];
    Finding { fix: Some(joined(fix)), undo: Some(joined(undo)), remedies: free, ..finding }
}

/// True for a sysctl of which each network namespace has its own value: no command on the host changes a container's
/// value.
fn is_of_namespace(key: &str) -> bool {
    let is_tcps = key.starts_with("net.ipv4.") && key != "net.ipv4.tcp_mem";
    is_tcps || key == "net.core.somaxconn"
}

/// The fix in words that sets a container's own sysctls.
fn at_start(remedies: &[Remedy]) -> String {
    let part = |remedy: &Remedy| {
        let command = remedy.setting.command(&remedy.new);
        command.strip_prefix("sysctl -w ").map(|set| format!("--sysctl {set}"))
    };
    let parts: Vec<String> = remedies.iter().filter_map(part).collect();
    marked(START, &if parts.is_empty() { String::new() } else { format!("docker run {}", parts.join(" ")) })
}

fn at_start_as_before(remedies: &[Remedy]) -> String {
    if remedies.is_empty() { String::new() } else { "start the container without these sysctls".into() }
}

fn marked(where_: &str, command: &str) -> String {
    if command.is_empty() { String::new() } else { format!("{where_}: {command}") }
}

fn joined(parts: [String; 3]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Orders findings, the costliest first: by severity, then by the lost share, then in the order of the checks.
pub fn ordered(mut findings: Vec<Finding>) -> Vec<Finding> {
    let loss = |finding: &Finding| finding.loss.unwrap_or(0.0);
    findings.sort_by(|a, b| b.severity.cmp(&a.severity).then(loss(b).total_cmp(&loss(a))));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::changed;
    use crate::{Need, Severity};
    use linerate_host::Fact;

    #[test]
    fn nothing_is_proposed_that_this_host_cannot_do() {
        let found = |fixed: &[&str]| {
            let facts = changed("stock-10g", |facts| {
                facts.machine.fixed = Fact::Known(fixed.iter().map(|key| (*key).to_owned()).collect());
                (facts.tcp.core_rmem_max, facts.tcp.core_wmem_max) =
                    (Fact::Known(65_536), Fact::Known(65_536));
            });
            let all = examine_host(&Host::alone("h", &facts, Need::OfPorts));
            all.into_iter().find(|finding| finding.check == "core-buffers").unwrap()
        };
        assert_eq!(found(&[]).remedies.len(), 2);
        let half = found(&["net.core.rmem_max"]);
        assert_eq!(half.remedies.len(), 1);
        let none = found(&["net.core.rmem_max", "net.core.wmem_max"]);
        assert!(none.remedies.is_empty());
        assert!(none.fix.unwrap().starts_with("on the underlying host"), "{half:?}");
    }

    /// A container's network has its own values, which nobody can change from the host.
    #[test]
    fn sysctls_of_a_network_namespace_are_set_where_the_container_is_started() {
        let with = |fixed: &[&str]| {
            let facts = changed("stock-10g", |facts| {
                facts.machine.fixed = Fact::Known(fixed.iter().map(|key| (*key).to_owned()).collect());
                facts.tcp.rmem = Fact::Known([4096, 131_072, 1 << 20]);
                facts.tcp.wmem = Fact::Known([4096, 16_384, 1 << 20]);
            });
            let all = examine_host(&Host::alone("h", &facts, Need::OfPorts));
            all.into_iter().find(|finding| finding.check == "tcp-buffers").unwrap()
        };
        let all = with(&["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"]);
        let fix = all.fix.unwrap();
        assert!(fix.contains("docker run --sysctl net.ipv4.tcp_rmem='4096 131072 "), "{fix}");
        assert!(
            fix.contains("' --sysctl net.ipv4.tcp_wmem='") && fix.contains("securityContext.sysctls"),
            "{fix}"
        );
        assert!(!fix.contains("on the underlying host") && !fix.contains("sysctl -w"), "{fix}");
        assert_eq!(all.undo.as_deref(), Some("start the container without these sysctls"));
        let half = with(&["net.ipv4.tcp_rmem"]).fix.unwrap();
        assert!(
            half.starts_with("sysctl -w net.ipv4.tcp_wmem=")
                && half.contains("; at the start of the container"),
            "{half}"
        );
    }

    #[test]
    fn the_costliest_comes_first() {
        let finding = |loss: f64| Finding::leaves(10.0 - loss, 10.0, "x");
        let found =
            ordered(vec![finding(0.0), Finding::new(Severity::Major, "y"), finding(6.0), finding(3.0)]);
        let losses: Vec<_> = found.iter().map(|f| f.loss.map(|loss| (loss * 10.0).round())).collect();
        assert_eq!(losses, [Some(6.0), Some(3.0), None, Some(0.0)]);
    }
}
