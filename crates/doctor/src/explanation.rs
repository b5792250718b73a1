//! The explanations of the checks. The guide's page about them is their text, so the two always agree.

use crate::check::Check;

/// The page: a table of shared formulas, and a section for each check.
const PAGE: &str = include_str!("checks.md");
/// The heading of the table of shared formulas.
const FORMULAS: &str = "| name | formula | source |";

/// The text about a check. Commands, and words from files, are in backticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The facts that the check uses.
    pub looks_at: String,
    /// How the finding and its severity are decided.
    pub decision: Decision,
    /// The formulas that the decision names.
    pub formulas: Vec<SharedFormula>,
    /// When the finding may be a false alarm.
    pub wrong: String,
    /// The causes that the check can't find.
    pub misses: String,
    /// The commands that show the same facts.
    pub by_hand: String,
}

/// How a finding and its severity are decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// By a number that the check computes.
    Formula(String),
    /// By a state, or by a comparison with a limit.
    Rule(String),
}

/// A formula that several checks use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedFormula {
    /// The formula's name in the sections.
    pub name: String,
    /// The formula, or a description in words.
    pub says: String,
    /// The formula's source.
    pub source: String,
}

impl Explanation {
    /// The section about a check; `None` if it has none, or if a part of it is missing.
    pub fn of(check: &Check) -> Option<Self> {
        let section = Section::of(check.name)?;
        let decision = section.part("formula").map(Decision::Formula);
        let decision = decision.or_else(|| section.part("rule").map(Decision::Rule))?;
        Some(Self {
            looks_at: plain(&section.part("looks at")?),
            formulas: shared_formulas().filter(|formula| formula.is_named_in(decision.text())).collect(),
            decision: decision.plain(),
            wrong: plain(&section.part("wrong")?),
            misses: plain(&section.part("misses")?),
            by_hand: plain(&section.part("by hand")?),
        })
    }
}

impl Decision {
    /// The formula or rule.
    pub fn text(&self) -> &str {
        match self {
            Self::Formula(text) | Self::Rule(text) => text,
        }
    }

    /// The name of the section's part that has the text: `formula` or `rule`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Formula(_) => "formula",
            Self::Rule(_) => "rule",
        }
    }

    fn plain(self) -> Self {
        match self {
            Self::Formula(text) => Self::Formula(plain(&text)),
            Self::Rule(text) => Self::Rule(plain(&text)),
        }
    }
}

impl SharedFormula {
    /// True if a text with markup names this formula in italics.
    fn is_named_in(&self, text: &str) -> bool {
        text.contains(&format!("*{}*", self.name))
    }
}

/// All formulas that several checks use.
pub fn shared_formulas() -> impl Iterator<Item = SharedFormula> {
    let table = PAGE.split("\n\n").find(|block| block.starts_with(FORMULAS)).unwrap_or_default();
    table.lines().skip(2).filter_map(|row| {
        let mut cells = row.trim_matches('|').split(" | ").map(|cell| plain(cell.trim()));
        Some(SharedFormula { name: cells.next()?, says: cells.next()?, source: cells.next()? })
    })
}

/// The names of all sections, in the page's order.
pub fn explained() -> impl Iterator<Item = &'static str> {
    PAGE.lines().filter_map(|line| line.strip_prefix("### "))
}

/// The lines below a check's heading.
struct Section(&'static str);

impl Section {
    fn of(name: &str) -> Option<Self> {
        let (_, after) = PAGE.split_once(&format!("\n### {name}\n"))?;
        Some(Self(after.split("\n#").next().unwrap_or(after)))
    }

    /// The text of one part, in one line and with its markup.
    fn part(&self, name: &str) -> Option<String> {
        let (_, after) = self.0.split_once(&format!("\n- **{name}**: "))?;
        let item = after.split("\n- **").next().unwrap_or(after);
        let words = item.split_whitespace().collect::<Vec<_>>().join(" ");
        (!words.is_empty()).then_some(words)
    }
}

/// A text without the marks of shared formulas.
fn plain(text: &str) -> String {
    let is_code = |at: usize| at % 2 == 1;
    // Asterisks within code are patterns of file names.
    let parts = text.split('`').enumerate();
    let bare = |(at, part): (usize, &str)| if is_code(at) { part.into() } else { part.replace('*', "") };
    parts.map(bare).collect::<Vec<String>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_left_out_and_patterns_are_kept() {
        assert_eq!(
            plain("the *lost share* of `tx-*/xps_cpus`: `a`"),
            "the lost share of `tx-*/xps_cpus`: `a`"
        );
    }

    #[test]
    fn formulas_have_names_and_sources() {
        let names: Vec<String> = shared_formulas().map(|formula| formula.name).collect();
        assert!(names.iter().any(|name| name == "bandwidth-delay") && names.len() > 8, "{names:?}");
        assert!(shared_formulas().all(|formula| !formula.says.is_empty() && !formula.source.is_empty()));
    }
}
