//! The section with values that papers printed, beside the measured values.

use linerate_bench::record::Record;
use linerate_bench::stats::{CaseSummary, PrintedRow};
use maud::{Markup, html};

use super::scrolling;
use crate::figure::Measure;
use crate::summary::Summary;

fn measured(row: &PrintedRow) -> String {
    row.measured.map_or("–".to_owned(), |_| row.measured_text())
}

/// Every value that a paper printed, with its source, as a section; empty if there are none.
pub(crate) fn section(record: &Record, summaries: &[Summary<'_>]) -> Markup {
    let figures: Vec<CaseSummary> = summaries.iter().map(|summary| summary.figures.clone()).collect();
    let rows = PrintedRow::all(record, &figures);
    let name = |id: &str| summaries.iter().find(|s| s.case.id == id).map_or("", |s| s.name.as_str());
    let table = html! {
        table {
            thead { tr {
                th scope="col" { "Case" }
                th scope="col" { "Quantity" }
                th scope="col" class="number" { "Measured" }
                th scope="col" class="number" { "Printed" }
                th scope="col" { "In" }
            } }
            tbody { @for row in &rows { tr {
                th scope="row" { (name(&row.printed.case)) }
                td { (Measure::of(record, row.printed.quantity, row.printed.value).name) }
                td class="number" { (measured(row)) }
                td class="number" { (row.text()) }
                td { (row.printed.source) }
            } } }
        }
    };
    html! {
        @if !rows.is_empty() { section {
            h2 id="printed" { "Printed in papers" }
            p class="lead" {
                "All numbers that the papers printed, including ranges and contradictions. A rate on the wire includes headers, so no measured rate is beside it."
            }
            (scrolling("Printed in papers", &table))
        } }
    }
}
