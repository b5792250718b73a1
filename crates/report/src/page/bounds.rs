//! The section about the study's bounds: the values that results must reach, and comparisons without a bound.

use linerate_bench::record::{Bound, Record, Relation};
use linerate_bench::stats::{BoundRow, BoundVerdict, Estimate, bound_rows, outcome};
use maud::{Markup, html};

use super::scrolling;
use crate::number::{bytes, short, tick};
use crate::summary::ends;

/// The study's bounds and comparisons with their results, as a section; empty if the study has none.
pub(crate) fn section(record: &Record) -> Markup {
    if record.bounds.is_empty() {
        return html! {};
    }
    let rows = bound_rows(record);
    let outcome = outcome(&rows);
    let name = if outcome.is_some() { "Bounds" } else { "Comparisons" };
    html! {
        section {
            h2 id="bounds" { (name) }
            p class="lead" {
                "Each value is computed inside each block: the median over blocks, and its 95 % interval."
                @if let Some(outcome) = &outcome { " A bound holds if the whole interval is within the limit: " (outcome) "." }
            }
            (scrolling(name, &table(&rows, outcome.is_some())))
        }
    }
}

fn table(rows: &[BoundRow], judges: bool) -> Markup {
    html! {
        table {
            thead {
                tr {
                    th scope="col" { "Row" }
                    th scope="col" class="number" { "Value" }
                    @if judges { th scope="col" class="number" { "Bound" } }
                    th scope="col" { "Verdict" }
                }
            }
            tbody { @for row in rows { (line(row, judges)) } }
        }
    }
}

fn line(row: &BoundRow, judges: bool) -> Markup {
    let bound = &row.bound;
    html! {
        tr {
            th scope="row" { (bound.name) span class="interval wrap" { (bound.expression) } }
            td class="number" { (value(row)) }
            @if judges { td class="number" { (limit(bound)) @if bound.every_block { span class="interval" { "in every block" } } } }
            td { (verdict(&row.verdict)) }
        }
    }
}

fn verdict(verdict: &BoundVerdict) -> Markup {
    let (class, words) = match verdict {
        BoundVerdict::Ok => ("good", "✓ holds"),
        BoundVerdict::Missed { .. } => ("bad", "✗ missed"),
        BoundVerdict::Unavailable { .. } => ("soft", "unavailable"),
        BoundVerdict::NotShown => ("warn", "not shown"),
        BoundVerdict::Disturbed => ("warn", "disturbed"),
        BoundVerdict::NotJudged => ("soft", "not judged"),
        BoundVerdict::Compared { .. } => ("soft", ""),
    };
    let colon = if words.is_empty() { "" } else { ": " };
    html! { span class=(class) { (words) @if let Some(reason) = verdict.reason() { (colon) (reason) } } }
}

fn value(row: &BoundRow) -> Markup {
    let unit = &row.bound.unit;
    html! {
        @match row.value {
            Some(value) => (quantity(value, unit)),
            None => "–",
        }
        @if let Some((low, high)) = row.estimate.and_then(|estimate: Estimate| ends(estimate)) {
            span class="interval" { "[" (quantity(low, unit)) ", " (quantity(high, unit)) "]" }
        }
    }
}

fn limit(bound: &Bound) -> String {
    let Some(limit) = bound.limit else { return "–".to_owned() };
    let sign = if limit.relation == Relation::AtLeast { "≥" } else { "≤" };
    match bound.unit.as_str() {
        "bytes" => format!("{sign} {}", quantity(limit.value, "bytes")),
        "ratio" | "" => format!("{sign} {}", tick(limit.value)),
        unit => format!("{sign} {} {unit}", tick(limit.value)),
    }
}

/// A value with its unit. A ratio has no unit, and has three decimals, because its bound may have as many.
fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "bytes" if value >= 0.0 => bytes(value as u64),
        "ratio" | "" if value.abs() < 100.0 => format!("{value:.3}"),
        "ratio" | "" => short(value),
        unit => format!("{} {unit}", short(value)),
    }
}
