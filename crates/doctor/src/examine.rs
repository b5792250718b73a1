//! Runs the checks, and orders what they find.

use crate::check::CHECKS;
use crate::{Finding, Host, Path};

/// What all checks find on a host, the dearest first.
pub fn examine_host(host: &Host<'_>) -> Vec<Finding> {
    ordered(CHECKS.iter().flat_map(|check| check.on_host(host)).collect())
}

/// What all checks find between two hosts, the dearest first; not what they find on each of them.
pub fn examine_path(path: &Path<'_>) -> Vec<Finding> {
    ordered(CHECKS.iter().filter_map(|check| check.on_path(path)).collect())
}

/// What all checks find between two hosts and on each of them, the dearest first.
pub fn examine_path_and_ends(path: &Path<'_>) -> Vec<Finding> {
    let mut found = examine_path(path);
    found.extend(path.ends().iter().flat_map(examine_host));
    ordered(found)
}

/// The dearest first: by severity, by what is lost, then in the order of the checks.
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
    fn the_dearest_comes_first() {
        let finding = |loss: f64| Finding::leaves(10.0 - loss, 10.0, "x");
        let found =
            ordered(vec![finding(0.0), Finding::new(Severity::Major, "y"), finding(6.0), finding(3.0)]);
        let losses: Vec<_> = found.iter().map(|f| f.loss.map(|loss| (loss * 10.0).round())).collect();
        assert_eq!(losses, [Some(6.0), Some(3.0), None, Some(0.0)]);
    }
}
