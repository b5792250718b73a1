//! Runs the checks, and orders their findings.

use crate::check::CHECKS;
use crate::{Finding, Host, Path};

/// The findings of all checks on a host, the costliest first.
pub fn examine_host(host: &Host<'_>) -> Vec<Finding> {
    ordered(CHECKS.iter().flat_map(|check| check.on_host(host)).collect())
}

/// The findings of all checks between two hosts, the costliest first; without those on each host.
pub fn examine_path(path: &Path<'_>) -> Vec<Finding> {
    ordered(CHECKS.iter().filter_map(|check| check.on_path(path)).collect())
}

/// The findings of all checks between two hosts and on each of them, the costliest first.
pub fn examine_path_and_ends(path: &Path<'_>) -> Vec<Finding> {
    let mut found = examine_path(path);
    found.extend(path.ends().iter().flat_map(examine_host));
    ordered(found)
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
    use crate::Severity;

    #[test]
    fn the_costliest_comes_first() {
        let finding = |loss: f64| Finding::leaves(10.0 - loss, 10.0, "x");
        let found =
            ordered(vec![finding(0.0), Finding::new(Severity::Major, "y"), finding(6.0), finding(3.0)]);
        let losses: Vec<_> = found.iter().map(|f| f.loss.map(|loss| (loss * 10.0).round())).collect();
        assert_eq!(losses, [Some(6.0), Some(3.0), None, Some(0.0)]);
    }
}
