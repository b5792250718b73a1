//! Shows a record on the terminal, as JSON, and as a page with its figures.

use std::path::Path;

use anyhow::Context;
use linerate_bench::out::{bounds_table, headline, printed_table, table};
use linerate_bench::record::{Outcome, Record};
use linerate_bench::stats::{
    BoundRow, CaseSummary, Drift, PrintedRow, bound_rows, drift_statement, drifts, summaries,
};
use linerate_bench::store;
use linerate_sys::replace::replace;
use serde::Serialize;

use super::ReportArgs;
use crate::common::failure::Failure;
use crate::exit::Code;
use crate::print;

pub(super) fn report_again(report: &ReportArgs) -> Result<Code, Failure> {
    check_results(&report.dir)?;
    let loaded = store::load(&report.dir).map_err(anyhow::Error::from)?;
    if loaded.torn {
        message!("linerate: the record of the last run is incomplete, so that run is left out");
    }
    Ok(show(&loaded.record, &report.dir, report.json)?)
}

/// The object that `--json` prints, as docs/formats.md specifies (JSON on stdout).
#[derive(Serialize)]
struct StudyResult<'a> {
    schema: u32,
    r#type: &'static str,
    study: &'a str,
    blocks: u32,
    seed: u64,
    cases: Vec<CaseSummary>,
    bounds: &'a [BoundRow],
    printed: Vec<PrintedRow>,
    ok: bool,
    results: &'a Path,
    report: &'a Path,
    drift: Vec<Drift>,
}

/// Writes report.html and prints the results. Returns [`Code::Failed`] if no run succeeded, or if a bound of the study
/// doesn't hold.
pub(super) fn show(record: &Record, dir: &Path, json: bool) -> anyhow::Result<Code> {
    let page = dir.join("report.html");
    replace(&page, linerate_report::html(record).as_bytes())
        .with_context(|| format!("writing {}", page.display()))?;
    write_figures(record, dir)?;
    let rows = bound_rows(record);
    let fails = rows.iter().any(BoundRow::fails);
    if json {
        let cases = summaries(record, record.baseline.as_deref());
        print::json(&StudyResult {
            schema: 1,
            r#type: "study",
            study: &record.study,
            blocks: record.blocks,
            seed: record.seed,
            printed: PrintedRow::all(record, &cases),
            cases,
            bounds: &rows,
            ok: !fails,
            results: dir,
            report: &page,
            drift: drifts(record),
        });
    } else {
        output!("{}\n\n{}", headline(record), table(record));
        if let Some(printed) = printed_table(record) {
            output!("\n{printed}");
        }
        output!("\n{}", drift_statement(&drifts(record)));
        if !rows.is_empty() {
            output!("\n{}", bounds_table(record, &rows));
        }
        output!("\nreport: {}", page.display());
    }
    let measured = record.runs.iter().any(|run| matches!(run.outcome, Outcome::Measured(_)));
    Ok(if measured && !fails { Code::Done } else { Code::Failed })
}

/// Writes each figure as SVG, and the figure's numbers as CSV, next to the report.
fn write_figures(record: &Record, dir: &Path) -> anyhow::Result<()> {
    for figure in linerate_report::figures(record) {
        for (extension, text) in [("svg", &figure.svg), ("csv", &figure.csv)] {
            let path = dir.join(format!("{}.{extension}", figure.name));
            replace(&path, text.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(())
}

/// Returns an error if the directory contains no stored results.
pub(super) fn check_results(dir: &Path) -> Result<(), Failure> {
    if dir.join("record.json").is_file() {
        return Ok(());
    }
    let dir = dir.display();
    let message = format!(
        "{dir} has no stored results: it lacks record.json; linerate bench stores results below --out"
    );
    Err(Failure(message, Code::Usage))
}
