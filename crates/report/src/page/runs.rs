//! Every run behind the figure.

use linerate_bench::record::{Measures, Outcome, Record, Run};
use linerate_bench::stats::cpu_per_gb;
use maud::{Markup, html};

use super::scrolling;
use crate::number::{bytes, count, short};
use crate::summary::case_name;

/// All runs, folded away until they are asked for.
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

fn table(record: &Record) -> Markup {
    html! {
        table class="runs" {
            thead {
                tr {
                    th scope="col" class="number" { "#" }
                    th scope="col" class="number" { "Block" }
                    th scope="col" { "Case" }
                    th scope="col" { "Begun" }
                    th scope="col" class="number" { "Payload" br; "Gbit/s" }
                    th scope="col" class="number" { "With login" br; "Gbit/s" }
                    th scope="col" class="number" { "Time" br; "s" }
                    th scope="col" class="number" { "Bytes" }
                    th scope="col" class="number" { "Files" }
                    th scope="col" class="number" { "CPU a" br; "% busy" }
                    th scope="col" class="number" { "CPU b" br; "% busy" }
                    th scope="col" class="number" { "CPU-s" br; "per GB" }
                    th scope="col" { "Remarks" }
                }
            }
            tbody { @for run in &record.runs { (row(record, run)) } }
        }
    }
}

fn row(record: &Record, run: &Run) -> Markup {
    let case = record.cases.iter().find(|case| case.id == run.case);
    let label = case.map_or_else(|| run.case.clone(), |case| case_name(record, case));
    html! {
        tr {
            td class="number" { (u64::from(run.order) + 1) }
            td class="number" { (u64::from(run.block) + 1) }
            th scope="row" { (label) }
            td { (run.started) }
            @match &run.outcome {
                Outcome::Measured(measures) => (figures(record, measures)),
                Outcome::Failed { reason } => { td colspan="9" class="bad" { "failed: " (reason) } }
                Outcome::Unavailable { reason } => { td colspan="9" class="soft" { "not there: " (reason) } }
            }
        }
    }
}

fn figures(record: &Record, m: &Measures) -> Markup {
    let numbers = [
        short(m.payload_gbit_per_second()),
        short(m.gbit_per_second()),
        short(m.seconds),
        bytes(m.bytes),
        m.files.to_string(),
        short(m.cpu_a.busy_percent()),
        short(m.cpu_b.busy_percent()),
        cpu_per_gb(m, record.shared_processors).map_or_else(|| "–".to_owned(), short),
    ];
    let limiter = m.limiter.iter().map(|limiter| format!("limited by {limiter}"));
    let remarks = limiter.chain(m.notes.iter().cloned()).collect::<Vec<_>>().join("; ");
    html! {
        @for number in &numbers { td class="number" { (number) } }
        td {
            @if let Some(why) = &m.disturbed {
                span class="warn" { "disturbed: " (why) }
                @if !remarks.is_empty() { "; " }
            }
            (remarks)
        }
    }
}
