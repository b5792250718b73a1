//! `linerate compare`: compares two results of one study.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use linerate_bench::compare::{Comparison, Equal, Row, compare, equal};
use linerate_bench::out::{compare_table, equal_table};
use linerate_bench::record::Record;
use linerate_bench::store;
use serde::Serialize;

use crate::common::failure::Failure;
use crate::exit::{Code, Meaning, USAGE, table};
use crate::print::json;

/// The version of the JSON objects [`ComparisonLine`] and [`EqualLine`].
const SCHEMA: u32 = 1;

const EXAMPLES: &str = "\
Examples:
  linerate compare results/quick-2026-05-01T10-00-00Z results/quick-2026-05-02T10-00-00Z
  linerate compare --fail-on 5% --json baseline results/quick-2026-05-02T10-00-00Z
";

const MEANINGS: [Meaning; 3] = [
    (Code::Done, "compared; with --fail-on, no case is worse by more than PERCENT"),
    (Code::Failed, "--fail-on: a case is worse by more than PERCENT or newly fails; or the output was lost"),
    USAGE,
];

/// Arguments of `linerate compare`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = table(&MEANINGS))]
pub struct CompareArgs {
    /// Results: a directory of `linerate bench`, or a file record.json
    base: PathBuf,
    /// Results of the same study, to compare with BASE
    #[arg(required_unless_present = "equal")]
    new: Option<PathBuf>,
    /// Exit with 1 if a case is worse by more than PERCENT, or newly fails
    ///
    /// Only statistically significant differences count.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_on: Option<f64>,
    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
    /// Count how often equal cases are called different
    ///
    /// BASE must be the results of a study with two equal cases.
    #[arg(long, conflicts_with_all = ["new", "fail_on"])]
    equal: bool,
}

/// Carries out `linerate compare`.
///
/// # Errors
/// If the results can't be read or compared.
pub fn run(args: CompareArgs) -> Result<Code, Failure> {
    let outcome = match &args.new {
        Some(new) => two(&args, &args.base, new),
        None => count_equal(&args),
    };
    outcome.map_err(|error| Failure(format!("{error:#}"), Code::Usage))
}

fn two(args: &CompareArgs, base: &Path, new: &Path) -> anyhow::Result<Code> {
    let comparison = compare(&read(base)?, &read(new)?);
    if comparison.rows.is_empty() {
        let (base, new) = (base.display(), new.display());
        bail!("{base} and {new} have no case in common; compare two results of the same study");
    }
    let beyond = args.fail_on.map(|limit| comparison.beyond(limit));
    let ok = beyond.as_ref().is_none_or(Vec::is_empty);
    if args.json {
        json(&ComparisonLine {
            schema: SCHEMA,
            r#type: "comparison",
            base,
            new,
            comparison: &comparison,
            fail_on_percent: args.fail_on,
            beyond: beyond.as_deref(),
            ok,
        });
    } else {
        output!("BASE {}\nNEW  {}\n\n{}", base.display(), new.display(), compare_table(&comparison));
        say_limit(args, &comparison);
    }
    Ok(if ok { Code::Done } else { Code::Failed })
}

fn say_limit(args: &CompareArgs, comparison: &Comparison) {
    let Some(limit) = args.fail_on else { return };
    let beyond = comparison.beyond(limit);
    if beyond.is_empty() {
        output!("\nNo case is significantly worse by more than {limit} %, and no case newly fails.");
        return;
    }
    let mut cases: Vec<&str> = beyond.iter().map(|row| row.case.as_str()).collect();
    cases.dedup();
    output!("\nWORSE by more than {limit} %, or newly failing: {}", cases.join(", "));
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct ComparisonLine<'a> {
    schema: u32,
    r#type: &'static str,
    base: &'a Path,
    new: &'a Path,
    #[serde(flatten)]
    comparison: &'a Comparison,
    fail_on_percent: Option<f64>,
    beyond: Option<&'a [&'a Row]>,
    ok: bool,
}

/// The object that `--equal --json` prints.
#[derive(Serialize)]
struct EqualLine<'a> {
    schema: u32,
    r#type: &'static str,
    base: &'a Path,
    quantities: &'a [Equal],
}

fn count_equal(args: &CompareArgs) -> anyhow::Result<Code> {
    let found =
        equal(&read(&args.base)?).map_err(|error| anyhow::anyhow!("{}: {error}", args.base.display()))?;
    if args.json {
        json(&EqualLine { schema: SCHEMA, r#type: "equal", base: &args.base, quantities: &found });
    } else {
        output!("{}", equal_table(&found));
    }
    Ok(Code::Done)
}

fn read(path: &Path) -> anyhow::Result<Record> {
    let loaded = store::load_any(path)?;
    if loaded.torn {
        message!(
            "linerate: {}: the record of the last run is incomplete, so that run is left out",
            path.display()
        );
    }
    Ok(loaded.record)
}

/// Parses a percentage: `5%` or `5`.
fn percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
    number
        .filter(|percent| percent.is_finite() && *percent >= 0.0)
        .ok_or_else(|| format!("'{text}' isn't a percentage; write 5% or 5"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_read_with_and_without_their_sign() {
        assert_eq!((percent("5%"), percent("2.5"), percent("0 %")), (Ok(5.0), Ok(2.5), Ok(0.0)));
        assert!(["", "-5%", "five", "NaN", "inf%"].iter().all(|text| percent(text).is_err()));
    }
}
