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
    payload: bool,
    transactions: bool,
    score: bool,
    found: bool,
}

impl Extra {
    fn of(record: &Record) -> Self {
        let any = |has: fn(&Measures) -> bool| {
            record.runs.iter().any(|run| matches!(&run.outcome, Outcome::Measured(m) if has(m)))
        };
        let payload = any(|m| m.bytes > 0) || !any(|_| true);
        Self {
            payload,
            transactions: any(|m| m.transactions.is_some()),
            score: any(|m| m.score.is_some()),
            found: any(|m| m.found.is_some()),
        }
    }

    /// The heads of the columns of numbers, in lines.
    fn heads(self) -> Vec<[&'static str; 2]> {
        let mut heads = vec![["Time", "s"], ["CPU a", "% busy"], ["CPU b", "% busy"]];
        if self.payload {
            heads.splice(
                0..0,
                [["Payload", "Gbit/s"], ["With login", "Gbit/s"], ["Bytes", ""], ["Files", ""]],
            );
            heads.push(["CPU-s", "per GB"]);
        }
        if self.transactions {
            heads.extend([["Transactions", "1/s"], ["p50", "ms"], ["p99", "ms"]]);
        }
        if self.score {
            heads.push(["Score", ""]);
        }
        if self.found {
            heads.push(["Best, by", "search"]);
        }
        heads
    }

    /// The numbers of a run, as many as there are heads.
    fn numbers(self, record: &Record, m: &Measures) -> Vec<String> {
        let or_dash = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), short);
        let mut numbers =
            vec![short(m.seconds), short(m.cpu_a.busy_percent()), short(m.cpu_b.busy_percent())];
        if self.payload {
            let rates = [m.payload_gbit_per_second(), m.gbit_per_second()].map(short);
            numbers.splice(0..0, rates.into_iter().chain([bytes(m.bytes), m.files.to_string()]));
            numbers.push(or_dash(cpu_per_gb(m, record.shared_processors)));
        }
        if self.transactions {
            let time =
                |of: fn(&Latency) -> f64| or_dash(m.latency.as_ref().map(|latency| of(latency) * 1e-3));
            let rate = or_dash(m.quantity(Quantity::TransactionRate));
            numbers.extend([rate, time(|l| l.p50_us), time(|l| l.p99_us)]);
        }
        if self.score {
            numbers.push(or_dash(m.score));
        }
        if self.found {
            let found = m.found.as_ref().map(|found| format!("{} {}", found.level, found.parameter));
            numbers.push(found.unwrap_or_else(|| "–".to_owned()));
        }
        numbers
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
                    @for [name, unit] in extra.heads() {
                        th scope="col" class="number" { (name) @if !unit.is_empty() { br; (unit) } }
                    }
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
                Outcome::Failed { reason } => { td colspan=(extra.heads().len() + 1) class="bad" { "failed: " (reason) } }
                Outcome::Unavailable { reason } => { td colspan=(extra.heads().len() + 1) class="soft" { "not there: " (reason) } }
            }
        }
    }
}

fn figures(record: &Record, m: &Measures, extra: Extra) -> Markup {
    let limiter = m.limiter.iter().map(|limiter| format!("limited by {limiter}"));
    let remarks = limiter.chain(m.notes.iter().cloned()).collect::<Vec<_>>().join("; ");
    html! {
        @for number in extra.numbers(record, m) { td class="number" { (number) } }
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
