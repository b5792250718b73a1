//! Grouped bars as in the papers: a quantity on the left axis, and dots of CPU on the right axis.
//!
//! `model` holds the contents; `wide` and `narrow` are the layouts; both layouts use `lane` and `marks`.

mod lane;
mod marks;
mod model;
mod name;
mod narrow;
mod plan;
mod wide;

use linerate_bench::metric::Metric;
use linerate_bench::stats::Estimate;
use maud::{Markup, html};

pub(crate) use model::streams_text;

use super::caption;
use super::context::{Context, PRINTED};
use super::legend::{Entry, Mark, legend};
use super::table::{Cell, Table};
use super::words::remark;
use super::{Drawn, svg};
use crate::summary::{Summary, tip};
use marks::shade;
use model::{Bar, Chart, Panel};

/// Draws bars with CPU dots.
pub(crate) fn draw(context: &Context<'_>) -> Drawn {
    let chart = Chart::new(context);
    let drawn =
        Drawn::on_both(
            context,
            |paper, id| {
                if paper.narrow { narrow::draw(&chart, id) } else { wide::draw(&chart, id) }
            },
        );
    Drawn {
        description: description(&chart),
        caption: words(context, &chart),
        table: table(context, &chart),
        ..drawn
    }
}

fn words(context: &Context<'_>, chart: &Chart<'_>) -> String {
    let mut marks = vec![bars_part(chart)];
    marks.extend(cpu_part(chart));
    if chart.panels.iter().any(|panel| panel.ceiling.is_some()) {
        marks.extend(caption::ceiling(context.record));
    }
    let estimates: Vec<Estimate> = chart.bars().filter_map(|bar| bar.value).collect();
    let rest = if estimates.is_empty() { Some("n = 0: nothing was measured.".to_owned()) } else { None };
    marks.extend(rest);
    caption::caption(context, &marks, &estimates)
}

fn bars_part(chart: &Chart<'_>) -> String {
    let meaning = chart.measure.meaning;
    if chart.has_tips {
        return format!(
            "Bars: {meaning}; filled over the whole command, outlined over the tool’s own payload time \
             where it states one. The number is that of the whole bar."
        );
    }
    format!("Bars: {meaning}.")
}

fn cpu_part(chart: &Chart<'_>) -> Option<String> {
    let words = if chart.shared_processors {
        "Dots: busy share of all processors, which both ends share."
    } else {
        "Dots: busy share of all processors of each end."
    };
    chart.shows_cpu().then(|| words.to_owned())
}

/// Draws the legend from `span.0` to `span.1` and every panel below it, and returns the total height. `draw`
/// gets the y at which a panel begins, and returns the y at which it ends.
fn stacked<'p, 'a>(
    chart: &'p Chart<'a>,
    id: &str,
    span: (f64, f64),
    draw: impl Fn(&'p Panel<'a>, f64) -> (Markup, f64),
) -> (Markup, f64) {
    if chart.panels.is_empty() {
        return (svg::text(2.0, 16.0, "muted", "The record holds no case."), 24.0);
    }
    let (legend, mut y) = legend(&entries(chart), id, span.0, span.1);
    let mut panels = Vec::new();
    for panel in &chart.panels {
        let (drawn, bottom) = draw(panel, y);
        panels.push(drawn);
        y = bottom;
    }
    (html! { (legend) @for panel in &panels { (panel) } }, y)
}

fn entries(chart: &Chart<'_>) -> Vec<Entry> {
    let mut entries = series_entries(chart);
    let plain = "bar key".to_owned();
    if chart.mixes_ciphers {
        entries.push(Entry::new(Mark::Bar(plain.clone(), false), "encrypted"));
        entries.push(Entry::new(Mark::Bar(plain, true), "clear text"));
    }
    if chart.has_tips {
        entries.push(Entry::new(Mark::Tip, "only the payload time"));
    }
    entries.extend(cpu_entries(chart));
    if chart.panels.iter().any(|panel| panel.ceiling.is_some()) {
        entries.push(Entry::new(Mark::Line("ceiling".to_owned()), "ceiling of the link"));
    }
    if chart.bars().any(|bar| !bar.printed.is_empty()) {
        entries.push(Entry::new(Mark::Hollow("printed"), "printed in the paper"));
    }
    if chart.bars().any(|bar| !bar.printed_cpu.is_empty()) {
        entries.push(Entry::new(Mark::Hollow("printed cpu-line"), "its CPU"));
    }
    entries
}

fn series_entries(chart: &Chart<'_>) -> Vec<Entry> {
    if chart.series.len() < 2 {
        return Vec::new();
    }
    let keys = chart.series.iter().enumerate().map(|(index, label)| {
        Entry::new(Mark::Bar(format!("bar {}", shade(chart, index)), false), label.clone())
    });
    std::iter::once(Entry::new(Mark::None, chart.series_name.clone())).chain(keys).collect()
}

fn cpu_entries(chart: &Chart<'_>) -> Vec<Entry> {
    if !chart.shows_cpu() {
        return Vec::new();
    }
    if chart.shared_processors {
        return vec![Entry::new(Mark::Dot("cpu"), "CPU, both ends together")];
    }
    vec![Entry::new(Mark::Dot("cpu-far"), "CPU of a"), Entry::new(Mark::Dot("cpu"), "CPU of b")]
}

/// The figure's contents in words, for readers who can't see the drawing.
fn description(chart: &Chart<'_>) -> String {
    let lines: Vec<_> = chart.bars().map(|bar| marks::tooltip(chart, bar)).collect();
    format!("Bar chart: {}, with dots of CPU. {}.", chart.measure.title(), lines.join(". "))
}

fn table(context: &Context<'_>, chart: &Chart<'_>) -> Table {
    let measure = &chart.measure;
    let mut head = vec!["Case".to_owned(), measure.title()];
    if measure.quantity == Metric::PayloadRate {
        head.extend(["Whole command (Gbit/s)", "Of the best synthetic stream (%)"].map(str::to_owned));
    }
    head.extend(context.cpu_heads());
    head.extend(["Blocks"].into_iter().chain(PRINTED).chain(["Remark"]).map(str::to_owned));
    let mut table = Table::new(head);
    for bar in chart.bars() {
        table.push(row(context, chart, bar));
    }
    table
}

fn row(context: &Context<'_>, chart: &Chart<'_>, bar: &Bar<'_>) -> Vec<Cell> {
    let summary: &Summary<'_> = bar.summary;
    let mut row = vec![Cell::text(&summary.name), bar.value.into()];
    if chart.measure.quantity == Metric::PayloadRate {
        row.push(tip(summary).and(summary.of(Metric::CommandRate)).into());
        row.push(summary.figures.stream_percent.into());
    }
    row.extend(context.cpu_cells(summary));
    row.push(bar.value.map(|value| value.blocks).into());
    row.extend(context.printed_cells(summary.case, &chart.measure));
    row.push(Cell::text(remark(summary, bar.state)));
    row
}
