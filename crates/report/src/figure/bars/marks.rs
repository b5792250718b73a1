//! The marks of bars for both layouts, and a bar's text and tooltip.

use linerate_bench::metric::Metric;
use maud::Markup;

use super::model::{Bar, Chart};
use crate::figure::marks::{Area, swatch};
use crate::figure::words::{lack_text, signs, with_interval};
use crate::number::{short, tick};
use crate::summary::{State, Summary};

/// Draws the filled part of a bar. A bar of an unencrypted transfer is hatched if the figure also has
/// encrypted transfers.
pub(crate) fn bar(chart: &Chart<'_>, id: &str, bar: &Bar<'_>, area: Area) -> Markup {
    let clear = chart.mixes_ciphers && bar.summary.case.cipher.is_none();
    swatch(id, &format!("bar {}", shade(chart, bar.series)), clear, area)
}

/// The CSS class of a series's shade: the more streams, the darker.
pub(crate) fn shade(chart: &Chart<'_>, series: usize) -> &'static str {
    const SHADES: [&str; 6] = ["s0", "s1", "s2", "s3", "s4", "s5"];
    let picked: &[usize] = match chart.series.len() {
        0 | 1 => &[3],
        2 => &[1, 4],
        3 => &[1, 3, 5],
        4 => &[0, 2, 3, 5],
        5 => &[0, 1, 3, 4, 5],
        _ => &[0, 1, 2, 3, 4, 5],
    };
    let last = chart.series.len().max(2) - 1;
    let index = if last < picked.len() { series } else { series * (picked.len() - 1) / last };
    SHADES[picked[index.min(picked.len() - 1)]]
}

/// The CPU dots of a bar: each has a position on the percent axis and a CSS class. The receiver's dot is
/// last, so it is drawn on top.
pub(crate) fn cpu_dots(chart: &Chart<'_>, summary: &Summary<'_>) -> Vec<(f64, &'static str)> {
    if !chart.shows_cpu() {
        return Vec::new();
    }
    let sender =
        summary.of(Metric::BusyPercent).filter(|_| !chart.shared_processors).map(|e| (e.median, "cpu-far"));
    let receiver = summary.receiver().map(|e| (e.median, "cpu"));
    [sender, receiver].into_iter().flatten().collect()
}

/// The text at a bar's end: the value and the footnote signs.
pub(crate) fn value_text(bar: &Bar<'_>) -> String {
    let value = bar.value.map_or_else(String::new, |estimate| short(estimate.median));
    format!("{value}{}", signs(bar.summary))
}

/// The text of a bar's tooltip.
pub(crate) fn tooltip(chart: &Chart<'_>, bar: &Bar<'_>) -> String {
    let summary = bar.summary;
    let said = match bar.state {
        State::Measured => {
            let value = chart.measure.with_unit(&with_interval(bar.value));
            let cpu = with_interval(summary.receiver());
            let per_gb = with_interval(summary.of(Metric::CpuPerGb));
            let per_gb = if summary.of(Metric::CpuPerGb).is_some() {
                format!("; {per_gb} CPU-s/GB")
            } else {
                String::new()
            };
            format!("{value}; CPU {cpu} %{per_gb}")
        }
        state => lack_text(state).0,
    };
    let printed = bar.printed.iter().map(|p| format!("; printed: {}", p.words(&chart.measure)));
    let cpu = bar.printed_cpu.iter().map(|p| format!("; printed CPU: {} % ({})", tick(p.value), p.source));
    format!("{}: {said}{}", summary.name, printed.chain(cpu).collect::<String>())
}
