//! A record on the terminal, as JSON, and as a page with its figures.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use linerate_bench::out::{gate_table, headline, table};
use linerate_bench::record::{Outcome, Record};
use linerate_bench::stats::{drift_statement, drifts, gate, summaries};
use linerate_bench::store;
use linerate_sys::replace::replace;

use super::Report;
use crate::exit::Code;

pub(super) fn report_again(report: &Report) -> anyhow::Result<ExitCode> {
    if !has_results(&report.dir) {
        return Ok(Code::Usage.into());
    }
    let loaded = store::load(&report.dir)?;
    if loaded.torn {
        tell!("linerate: the last run was cut off while it was stored; it is left out");
    }
    show(&loaded.record, &report.dir, report.json)
}

/// Writes report.html and prints the figures; a study with bounds decides the exit code.
pub(super) fn show(record: &Record, dir: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let page = dir.join("report.html");
    replace(&page, linerate_report::html(record).as_bytes())
        .with_context(|| format!("writing {}", page.display()))?;
    write_figures(record, dir)?;
    let rows = gate(record);
    let holds = rows.iter().all(linerate_bench::stats::GateRow::holds);
    if json {
        let cases = summaries(record, record.baseline.as_deref());
        let shown = serde_json::json!({
            "schema": 1, "type": "study", "study": record.study, "blocks": record.blocks, "seed": record.seed,
            "cases": cases, "bounds": rows, "ok": holds, "results": dir, "report": page, "drift": drifts(record),
        });
        say!("{shown}");
    } else {
        say!("{}\n\n{}", headline(record), table(record));
        say!("\n{}", drift_statement(&drifts(record)));
        if !rows.is_empty() {
            say!("\n{}", gate_table(record, &rows));
        }
        say!("\nreport: {}", page.display());
    }
    let measured = record.runs.iter().any(|run| matches!(run.outcome, Outcome::Measured(_)));
    Ok(if holds && measured { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Each figure as SVG, with its numbers as CSV, beside the report.
fn write_figures(record: &Record, dir: &Path) -> anyhow::Result<()> {
    for figure in linerate_report::figures(record) {
        for (extension, text) in [("svg", &figure.svg), ("csv", &figure.csv)] {
            let path = dir.join(format!("{}.{extension}", figure.name));
            replace(&path, text.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(())
}

/// True where the directory has stored results; says what is wrong with the argument where it hasn't.
pub(super) fn has_results(dir: &Path) -> bool {
    let has = dir.join("record.json").is_file();
    if !has {
        let dir = dir.display();
        tell!(
            "linerate: {dir} has no stored results: no record.json is there; results are below --out of linerate bench"
        );
    }
    has
}
