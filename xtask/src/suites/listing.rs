//! The list of a suite's cases with their expected results.

use anyhow::{Context, bail};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The expected result of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    Passes,
    /// The case doesn't apply, because it tests a feature that linerate doesn't have. The case isn't run.
    NotApplicable,
    /// The case fails, because linerate differs on purpose.
    DiffersOnPurpose,
    /// The case fails, although it should pass.
    NotYet,
}

/// Cases that are expected to fail for the same reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseGroup {
    standing: Standing,
    reason: String,
    cases: Vec<String>,
}

/// The list of a suite.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Listing {
    /// The Debian source package that contains the suite.
    pub package: String,
    /// The versions of the program to whose suite the list applies, the best version first. Each stands for all
    /// versions that begin with it.
    pub versions: Vec<String>,
    passes: Vec<String>,
    /// Passing cases that can't be run on some machines, each with a text that names what those machines lack.
    #[serde(default)]
    may_skip: BTreeMap<String, String>,
    #[serde(rename = "group")]
    groups: Vec<CaseGroup>,
}

impl Listing {
    /// # Errors
    /// If the list can't be read, or names a case twice or without a reason.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        Self::parse(&text).with_context(|| format!("in {}", file.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let listing: Self = toml::from_str(text)?;
        let mut seen = BTreeSet::new();
        let grouped = listing.groups.iter().flat_map(|group| &group.cases);
        for case in listing.passes.iter().chain(grouped) {
            if !seen.insert(case) {
                bail!("{case} is listed twice");
            }
        }
        if let Some(group) = listing.groups.iter().find(|group| group.reason.is_empty()) {
            bail!("no reason is given for {}", group.cases.join(", "));
        }
        if let Some(case) = listing.may_skip.keys().find(|case| !listing.passes.contains(case)) {
            bail!("{case} may be skipped, and isn't listed as passing");
        }
        Ok(listing)
    }

    /// The expected result of a case; `None` if the case isn't listed.
    pub fn standing(&self, case: &str) -> Option<Standing> {
        let is = |name: &String| name == case;
        let group = || self.groups.iter().find(|group| group.cases.iter().any(is));
        self.passes.iter().any(is).then_some(Standing::Passes).or_else(|| Some(group()?.standing))
    }

    pub fn may_skip(&self, case: &str) -> bool {
        self.may_skip.contains_key(case)
    }

    /// The cases to run: all applicable ones, or only those with the names in `only`.
    ///
    /// # Errors
    /// If a name isn't listed.
    pub fn wanted(&self, only: &[String]) -> anyhow::Result<Vec<String>> {
        if let Some(name) = only.iter().find(|name| self.standing(name).is_none()) {
            bail!("there is no case '{name}' in the list of {}'s suite", self.package);
        }
        let applying = self.groups.iter().filter(|group| group.standing != Standing::NotApplicable);
        let all = self.passes.iter().chain(applying.flat_map(|group| &group.cases));
        let mut wanted: Vec<_> = all.filter(|case| only.is_empty() || only.contains(case)).cloned().collect();
        wanted.sort();
        Ok(wanted)
    }

    /// The number of cases that don't apply.
    pub fn foreign(&self) -> usize {
        let groups = self.groups.iter().filter(|group| group.standing == Standing::NotApplicable);
        groups.map(|group| group.cases.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "package = 'p'\nversions = ['1']\npasses = ['a', 'b']\n";
    const GROUP: &str = "[[group]]\nstanding = 'not-applicable'\nreason = 'a daemon'\n";

    #[test]
    fn a_case_has_one_standing() {
        let listing = Listing::parse(&format!("{HEAD}{GROUP}cases = ['c']")).unwrap();
        assert_eq!(listing.standing("a"), Some(Standing::Passes));
        assert_eq!((listing.standing("c"), listing.foreign()), (Some(Standing::NotApplicable), 1));
        assert_eq!(listing.standing("d"), None);
        assert_eq!(listing.wanted(&[]).unwrap(), ["a", "b"]);
        assert!(listing.wanted(&["d".to_owned()]).is_err());
    }

    #[test]
    fn a_case_twice_or_without_a_reason_is_an_error() {
        assert!(Listing::parse(&format!("{HEAD}{GROUP}cases = ['a']")).is_err());
        let unexplained = GROUP.replace("a daemon", "");
        assert!(Listing::parse(&format!("{HEAD}{unexplained}cases = ['c']")).is_err());
        assert!(Listing::parse(&format!("{HEAD}[may-skip]\nc = 'no xattrs'\n{GROUP}cases = ['c']")).is_err());
    }
}
