//! Every run behind the figure.

use linerate_bench::record::{Latency, Measures, Outcome, Quantity, Record, Run};
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

/// Columns that only some studies have.
#[derive(Clone, Copy)]
struct Extra {
    transactions: bool,
    score: bool,
}

impl Extra {
    fn of(record: &Record) -> Self {
        let any = |has: fn(&Measures) -> bool| {
            record.runs.iter().any(|run| matches!(&run.outcome, Outcome::Measured(m) if has(m)))
        };
        Self { transactions: any(|m| m.transactions.is_some()), score: any(|m| m.score.is_some()) }
    }

    /// Columns from the payload's on.
    fn columns(self) -> usize {
        9 + if self.transactions { 3 } else { 0 } + usize::from(self.score)
    }
}

fn table(record: &Record) -> Markup {
    let extra = Extra::of(record);
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
                    @if extra.transactions {
                        th scope="col" class="number" { "Transactions" br; "1/s" }
                        th scope="col" class="number" { "p50" br; "ms" }
                        th scope="col" class="number" { "p99" br; "ms" }
                    }
                    @if extra.score { th scope="col" class="number" { "Score" } }
                    th scope="col" { "Remarks" }
                }
            }
            tbody { @for run in &record.runs { (row(record, run, extra)) } }
        }
    }
}

fn row(record: &Record, run: &Run, extra: Extra) -> Markup {
    let case = record.cases.iter().find(|case| case.id == run.case);
    let label = case.map_or_else(|| run.case.clone(), |case| case_name(record, case));
    html! {
        tr {
            td class="number" { (u64::from(run.order) + 1) }
            td class="number" { (u64::from(run.block) + 1) }
            th scope="row" { (label) }
            td { (run.started) }
            @match &run.outcome {
                Outcome::Measured(measures) => (figures(record, measures, extra)),
                Outcome::Failed { reason } => { td colspan=(extra.columns()) class="bad" { "failed: " (reason) } }
                Outcome::Unavailable { reason } => { td colspan=(extra.columns()) class="soft" { "not there: " (reason) } }
            }
        }
    }
}

fn figures(record: &Record, m: &Measures, extra: Extra) -> Markup {
    let mut numbers = vec![
        short(m.payload_gbit_per_second()),
        short(m.gbit_per_second()),
        short(m.seconds),
        bytes(m.bytes),
        m.files.to_string(),
        short(m.cpu_a.busy_percent()),
        short(m.cpu_b.busy_percent()),
        cpu_per_gb(m, record.shared_processors).map_or_else(|| "–".to_owned(), short),
    ];
    let or_dash = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), short);
    if extra.transactions {
        let time = |of: fn(&Latency) -> f64| or_dash(m.latency.as_ref().map(|latency| of(latency) * 1e-3));
        numbers.extend([
            or_dash(m.quantity(Quantity::TransactionRate)),
            time(|l| l.p50_us),
            time(|l| l.p99_us),
        ]);
    }
    if extra.score {
        numbers.push(or_dash(m.score));
    }
    let limiter = m.limiter.iter().map(|limiter| format!("limited by {limiter}"));
    let remarks = limiter.chain(m.notes.iter().cloned()).collect::<Vec<_>>().join("; ");
    html! {
        @for number in &numbers { td class="number" { (number) } }
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
