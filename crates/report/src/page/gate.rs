//! The rows that the study must reach.

use linerate_bench::record::{Bound, Record, Relation};
use linerate_bench::stats::{BoundVerdict, Estimate, GateRow, gate};
use maud::{Markup, html};

use super::scrolling;
use crate::number::{bytes, short, tick};
use crate::summary::ends;

/// The bounds of the study with the results; empty if it sets none.
pub(crate) fn section(record: &Record) -> Markup {
    if record.bounds.is_empty() {
        return html! {};
    }
    let rows = gate(record);
    let held = rows.iter().filter(|row| row.holds()).count();
    html! {
        section {
            h2 id="gate" { "Gate" }
            p class="lead" { (held) " of " (rows.len()) " rows hold." }
            (scrolling("Gate", &table(&rows)))
        }
    }
}

fn table(rows: &[GateRow]) -> Markup {
    html! {
        table {
            thead {
                tr {
                    th scope="col" { "Row" }
                    th scope="col" class="number" { "Value" }
                    th scope="col" class="number" { "Bound" }
                    th scope="col" { "Verdict" }
                }
            }
            tbody { @for row in rows { (line(row)) } }
        }
    }
}

fn line(row: &GateRow) -> Markup {
    let bound = &row.bound;
    html! {
        tr {
            th scope="row" { (bound.name) span class="interval wrap" { (bound.expression) } }
            td class="number" { (value(row)) }
            td class="number" { (limit(bound)) @if bound.every_block { span class="interval" { "in every block" } } }
            td {
                @match &row.verdict {
                    BoundVerdict::Ok => { span class="good" { "✓ holds" } }
                    BoundVerdict::Missed { reason } => { span class="bad" { "✗ missed: " (reason) } }
                }
            }
        }
    }
}

fn value(row: &GateRow) -> Markup {
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
    let sign = match bound.relation {
        Relation::AtLeast => "≥",
        Relation::AtMost => "≤",
    };
    match bound.unit.as_str() {
        "bytes" => format!("{sign} {}", quantity(bound.limit, "bytes")),
        "ratio" | "" => format!("{sign} {}", tick(bound.limit)),
        unit => format!("{sign} {} {unit}", tick(bound.limit)),
    }
}

/// A value with its unit; a ratio has none, with three decimals since its bound may be as fine.
fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "bytes" if value >= 0.0 => bytes(value as u64),
        "ratio" | "" if value.abs() < 100.0 => format!("{value:.3}"),
        "ratio" | "" => short(value),
        unit => format!("{} {unit}", short(value)),
    }
}
