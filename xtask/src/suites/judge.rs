//! Compares the results of a suite's cases with the list of expected results.

use anyhow::bail;
use std::collections::BTreeMap;

use super::listing::{Listing, Standing};

/// The result of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseEnd {
    Passed,
    Failed,
    Skipped,
}

/// Prints each disagreement and a summary.
///
/// # Errors
/// If a case's result differs from the list, or a case isn't listed.
pub fn judge(
    listing: &Listing,
    unlisted: &[String],
    wanted: &[String],
    ends: &BTreeMap<String, CaseEnd>,
) -> anyhow::Result<()> {
    let mut wrong: Vec<String> =
        wanted.iter().filter_map(|case| disagreement(listing, case, ends.get(case).copied())).collect();
    wrong.extend(unlisted.iter().map(|case| format!("{case}: is not in the list")));
    for line in &wrong {
        println!("disagrees: {line}");
    }
    println!("{}", summary(listing, wanted, ends));
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("{} of {}'s cases disagree with the list", wrong.len(), listing.package)
}

/// The cases whose result differs from the list.
pub fn disagreeing(listing: &Listing, wanted: &[String], ends: &BTreeMap<String, CaseEnd>) -> Vec<String> {
    let disagrees = |case: &&String| disagreement(listing, case, ends.get(*case).copied()).is_some();
    wanted.iter().filter(disagrees).cloned().collect()
}

fn disagreement(listing: &Listing, case: &str, end: Option<CaseEnd>) -> Option<String> {
    let passes = listing.standing(case) == Some(Standing::Passes);
    match end {
        Some(CaseEnd::Passed) if passes => None,
        Some(CaseEnd::Failed) if !passes => None,
        // A case that first checks the program's abilities may skip itself.
        Some(CaseEnd::Skipped) if !passes || listing.may_skip(case) => None,
        Some(CaseEnd::Passed) => Some(format!("{case}: passes, and is listed as failing")),
        Some(CaseEnd::Failed) => Some(format!("{case}: fails, and is listed as passing")),
        Some(CaseEnd::Skipped) => Some(format!("{case}: was skipped")),
        None => Some(format!("{case}: was not run")),
    }
}

/// A line with the number of applicable cases that pass.
fn summary(listing: &Listing, wanted: &[String], ends: &BTreeMap<String, CaseEnd>) -> String {
    let count = |end: CaseEnd| wanted.iter().filter(|case| ends.get(*case) == Some(&end)).count();
    let standing = |standing| wanted.iter().filter(|case| listing.standing(case) == Some(standing)).count();
    let skipped =
        wanted.iter().filter(|case| listing.may_skip(case) && ends.get(*case) == Some(&CaseEnd::Skipped));
    let (passed, skipped) = (count(CaseEnd::Passed), skipped.count());
    let applying = wanted.len() - skipped;
    let share = if applying == 0 { 0.0 } else { 100.0 * passed as f64 / applying as f64 };
    format!(
        "{}'s suite: {passed} of {applying} applicable cases pass ({share:.1} %), {} don't (listed: {} differ on purpose, \
         {} not yet); {skipped} can't be run here, {} not applicable",
        listing.package,
        applying - passed,
        standing(Standing::DiffersOnPurpose),
        standing(Standing::NotYet),
        listing.foreign(),
    )
}
