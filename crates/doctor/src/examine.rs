//! Runs the checks, and orders their findings.

use crate::cause::explained;
use crate::check::CHECKS;
use crate::remedy::{Remedy, Setting, commands, undo_commands};
use crate::{Finding, Host, Path};

/// The findings of all checks on a host, the costliest first.
pub fn examine_host(host: &Host<'_>) -> Vec<Finding> {
    let all = CHECKS.iter().flat_map(|check| check.on_host(host));
    ordered(all.map(|finding| possible(finding, &[*host])).collect())
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
    ordered(explained(found, path))
}

/// The finding without the changes that its host can't make: sysctls that belong to a container's host.
fn possible(mut finding: Finding, hosts: &[Host<'_>]) -> Finding {
    let is_fixed = |remedy: &Remedy| {
        let Setting::Sysctl { key } = &remedy.setting else { return false };
        let own = hosts.iter().find(|host| host.name == remedy.host);
        own.and_then(|host| host.facts.machine.fixed.known()).is_some_and(|fixed| fixed.contains(key))
    };
    let (fixed, free): (Vec<_>, Vec<_>) = finding.remedies.drain(..).partition(is_fixed);
    if fixed.is_empty() {
        return Finding { remedies: free, ..finding };
    }
    let bare = |remedies: &[Remedy]| remedies.iter().map(|remedy| remedy.clone().on("")).collect::<Vec<_>>();
    let below = format!("on the host below, because it can't be changed here: {}", commands(&bare(&fixed)));
    let fix = if free.is_empty() { below } else { format!("{}; {below}", commands(&bare(&free))) };
    let undo = undo_commands(&bare(&fixed));
    let undo = if free.is_empty() {
        format!("on the host below: {undo}")
    } else {
        format!("{}; on the host below: {undo}", undo_commands(&bare(&free)))
    };
    Finding { fix: Some(fix), undo: Some(undo), remedies: free, ..finding }
}

/// The costliest first: by severity, by the lost share, then in the order of the checks.
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
            let all = examine_host(&Host { name: "h", facts: &facts, need: Need::OfPorts });
            all.into_iter().find(|finding| finding.check == "core-buffers").unwrap()
        };
        assert_eq!(found(&[]).remedies.len(), 2);
        let half = found(&["net.core.rmem_max"]);
        assert_eq!(half.remedies.len(), 1);
        let none = found(&["net.core.rmem_max", "net.core.wmem_max"]);
        assert!(none.remedies.is_empty());
        assert!(none.fix.unwrap().starts_with("on the host below"), "{half:?}");
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
