//! The marks that both layouts draw: bars, dots, whiskers, crosses, and what is said of a bar.

use linerate_bench::stats::Estimate;
use maud::{Markup, html};

use super::model::{Bar, Figure};
use super::scale::Scale;
use super::svg::{line, px, rect};
use crate::number::short;
use crate::summary::{State, Summary, ends};

/// Where a bar lies on paper.
#[derive(Clone, Copy)]
pub(crate) struct Area {
    /// Left edge.
    pub(crate) x: f64,
    /// Upper edge.
    pub(crate) y: f64,
    /// Width.
    pub(crate) width: f64,
    /// Height.
    pub(crate) height: f64,
}

/// The filled part of a bar; clear text is hatched where the figure also has encrypted bars.
pub(crate) fn bar(figure: &Figure<'_>, id: &str, bar: &Bar<'_>, area: Area) -> Markup {
    let clear = figure.mixes_ciphers && bar.summary.case.cipher.is_none();
    swatch(id, &format!("bar {}", shade(figure, bar.series)), clear, area)
}

/// A filled rectangle, hatched or not.
pub(crate) fn swatch(id: &str, class: &str, hatched: bool, area: Area) -> Markup {
    let Area { x, y, width, height } = area;
    html! {
        (rect(x, y, width, height, class))
        @if hatched {
            rect x=(px(x)) y=(px(y)) width=(px(width)) height=(px(height)) fill={ "url(#" (id) "-hatch)" } {}
        }
    }
}

/// The class of the shade that stands for a kind of parallelism: the more streams the darker.
pub(crate) fn shade(figure: &Figure<'_>, series: usize) -> &'static str {
    const SHADES: [&str; 6] = ["s0", "s1", "s2", "s3", "s4", "s5"];
    let picked: &[usize] = match figure.series.len() {
        0 | 1 => &[3],
        2 => &[1, 4],
        3 => &[1, 3, 5],
        4 => &[0, 2, 3, 5],
        5 => &[0, 1, 3, 4, 5],
        _ => &[0, 1, 2, 3, 4, 5],
    };
    let last = figure.series.len().max(2) - 1;
    let index = if last < picked.len() { series } else { series * (picked.len() - 1) / last };
    SHADES[picked[index.min(picked.len() - 1)]]
}

/// The dots of a bar: how far along the percent axis each stands, and its class; the receiver's comes last, on top.
pub(crate) fn cpu_dots(figure: &Figure<'_>, summary: &Summary<'_>) -> Vec<(f64, &'static str)> {
    let sender = summary.cpu_a.filter(|_| !figure.shared_processors).map(|e| (e.median, "cpu-far"));
    let receiver = summary.cpu_b.or(summary.cpu_a).map(|e| (e.median, "cpu"));
    [sender, receiver].into_iter().flatten().collect()
}

/// A dot of the second axis.
pub(crate) fn dot(x: f64, y: f64, class: &str) -> Markup {
    html! { circle cx=(px(x)) cy=(px(y)) r="4.6" class=(class) {} }
}

/// The places of an interval's ends, or `None` where they are so near that a whisker would be a blot.
pub(crate) fn whisker(estimate: Estimate, scale: &Scale) -> Option<(f64, f64)> {
    let (low, high) = ends(estimate)?;
    let ends = (scale.at(low), scale.at(high));
    ((ends.1 - ends.0).abs() >= 3.0).then_some(ends)
}

/// The cross of a failed run.
pub(crate) fn cross(x: f64, y: f64) -> Markup {
    html! {
        (line((x - 4.0, y - 4.0), (x + 4.0, y + 4.0), "cross"))
        (line((x - 4.0, y + 4.0), (x + 4.0, y - 4.0), "cross"))
    }
}

/// The number at a bar's end, with † for a disturbed run and ‡ for a failed one among those that it sums up.
pub(crate) fn value_text(summary: &Summary<'_>) -> String {
    let value = summary.payload.map_or_else(String::new, |estimate| short(estimate.median));
    let disturbed = if summary.disturbed.is_empty() { "" } else { "†" };
    let failed = if summary.failed.is_empty() { "" } else { "‡" };
    format!("{value}{disturbed}{failed}")
}

/// Why a slot is empty, for people, and whether that is a failure.
pub(crate) fn lack_text(state: State<'_>) -> (String, bool) {
    match state {
        State::Measured => (String::new(), false),
        State::Failed(reason) => (format!("failed: {reason}"), true),
        State::Unavailable(reason) => (format!("not there: {reason}"), false),
        State::NotRun => ("not run".to_owned(), false),
    }
}

/// What a pointer over the bar is told.
pub(crate) fn tooltip(summary: &Summary<'_>) -> String {
    let label = &summary.name;
    match summary.state() {
        State::Measured => format!(
            "{label}: {} Gbit/s; CPU {} %; {} CPU-s/GB",
            with_interval(summary.payload),
            with_interval(summary.cpu_b.or(summary.cpu_a)),
            with_interval(summary.cpu_per_gb)
        ),
        state => format!("{label}: {}", lack_text(state).0),
    }
}

/// `9.39 [9.37, 9.40]`, or the median alone where no interval can be given.
fn with_interval(estimate: Option<Estimate>) -> String {
    match estimate.map(|estimate| (estimate.median, ends(estimate))) {
        None => "–".to_owned(),
        Some((median, None)) => short(median),
        Some((median, Some((low, high)))) => format!("{} [{}, {}]", short(median), short(low), short(high)),
    }
}
