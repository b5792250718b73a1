//! The section with all runs.

use linerate_bench::metric::Metric;
use linerate_bench::record::{Measures, Outcome, Record, Run};
use maud::{Markup, html};

use super::scrolling;
use crate::number::count;
use crate::summary::case_name;

/// All runs as a section that is folded until the reader opens it.
pub(crate) fn section(record: &Record) -> Markup {
    html! {
        section {
            h2 id="runs" { "Every run" }
            details {
                summary { (count(record.runs.len() as u64, "run", "runs")) " in the order in which they were made" }
                (scrolling("Every run", &table(record)))
            }
        }
    }
}

/// The metrics for which any run has a value.
fn present(record: &Record) -> Vec<Metric> {
    let any = |metric: &Metric| record.runs.iter().any(|run| cell(record, run, *metric).is_some());
    Metric::all().filter(any).collect()
}

/// The cell with a run's value of a metric.
fn cell(record: &Record, run: &Run, metric: Metric) -> Option<String> {
    let Outcome::Measured(measures) = &run.outcome else { return None };
    let text = metric.text(metric.shown(measures, record.counts_cpu_once())?);
    match &measures.found {
        Some(found) if metric == Metric::Found => Some(format!("{text} {}", found.parameter)),
        _ => Some(text),
    }
}

fn table(record: &Record) -> Markup {
    let metrics = present(record);
    html! {
        table class="runs" {
            thead {
                tr {
                    th scope="col" class="number" { "#" }
                    th scope="col" class="number" { "Block" }
                    th scope="col" { "Case" }
                    th scope="col" { "Begun" }
                    @for about in metrics.iter().map(|metric| metric.about()) {
                        th scope="col" class="number" { (about.heading) @if !about.unit.is_empty() { br; (about.unit) } }
                    }
                    th scope="col" { "Remarks" }
                }
            }
            tbody { @for run in &record.runs { (row(record, run, &metrics)) } }
        }
    }
}

fn row(record: &Record, run: &Run, metrics: &[Metric]) -> Markup {
    let case = record.cases.iter().find(|case| case.id == run.case);
    let label = case.map_or_else(|| run.case.clone(), |case| case_name(record, case));
    html! {
        tr {
            td class="number" { (u64::from(run.order) + 1) }
            td class="number" { (u64::from(run.block) + 1) }
            th scope="row" { (label) }
            td { (run.started) }
            @match &run.outcome {
                Outcome::Measured(measures) => {
                    @for metric in metrics { td class="number" { (cell(record, run, *metric).unwrap_or_else(|| "–".into())) } }
                    (remarks(measures))
                },
                Outcome::Failed { reason } => { td colspan=(metrics.len() + 1) class="bad" { "failed: " (reason) } }
                Outcome::Unavailable { reason } => { td colspan=(metrics.len() + 1) class="soft" { "not there: " (reason) } }
            }
        }
    }
}

fn remarks(m: &Measures) -> Markup {
    let limiter = m.limiter.iter().map(|limiter| format!("limited by {limiter}"));
    let remarks = limiter.chain(m.notes.iter().cloned()).collect::<Vec<_>>().join("; ");
    html! {
        td {
            @if let Some(why) = &m.disturbed {
                span class="warn" { "disturbed: " (why) }
                @if !remarks.is_empty() { "; " }
            }
            @if let Some(part) = &m.limited_by_bed {
                span class="warn" { "limited by the test bed: " (part) }
                @if !remarks.is_empty() { "; " }
            }
            (remarks)
        }
    }
}
