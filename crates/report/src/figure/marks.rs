//! Marks that several kinds of figure draw.

use linerate_bench::stats::Estimate;
use maud::{Markup, html};

use super::context::Hollow;
use super::scale::Scale;
use super::svg::{line, points, px, rect};
use crate::number::tick;
use crate::summary::ends;

/// The position and size of a bar.
#[derive(Clone, Copy)]
pub(crate) struct Area {
    /// The x of the left edge.
    pub(crate) x: f64,
    /// The y of the upper edge.
    pub(crate) y: f64,
    /// The width of the bar.
    pub(crate) width: f64,
    /// The height of the bar.
    pub(crate) height: f64,
}

/// Draws a filled rectangle, hatched or plain.
pub(crate) fn swatch(id: &str, class: &str, hatched: bool, area: Area) -> Markup {
    let Area { x, y, width, height } = area;
    html! {
        (rect(x, y, width, height, class))
        @if hatched {
            rect x=(px(x)) y=(px(y)) width=(px(width.max(0.0))) height=(px(height.max(0.0))) fill={ "url(#" (id) "-hatch)" } {}
        }
    }
}

/// Draws a dot, the mark of CPU on the second axis.
pub(crate) fn dot(x: f64, y: f64, class: &str) -> Markup {
    html! { circle cx=(px(x)) cy=(px(y)) r="4.6" class=(class) {} }
}

/// Draws a hollow diamond, the mark of a value that a paper printed.
pub(crate) fn diamond(x: f64, y: f64, class: &str) -> Markup {
    const REACH: f64 = 5.2;
    let corners = [(x, y - REACH), (x + REACH, y), (x, y + REACH), (x - REACH, y)];
    // The diamond has an outline in the background color, so that it is visible on a dark bar.
    html! { @for class in ["printed-halo", class] { polygon points=(points(&corners)) class=(class) {} } }
}

/// Draws a hollow mark, with a tooltip of the case, the value and the source.
pub(crate) fn hollow(x: f64, y: f64, class: &str, of: &str, printed: &Hollow, unit: &str) -> Markup {
    html! { g { title { (of) ", printed: " (tick(printed.value)) " " (unit) " (" (printed.source) ")" } (diamond(x, y, class)) } }
}

/// Draws a point of a curve. Each series has its own shape, so that series are distinguishable without
/// color.
pub(crate) fn point(series: usize, x: f64, y: f64, class: &str) -> Markup {
    const R: f64 = 4.2;
    match series % 4 {
        0 => html! { circle cx=(px(x)) cy=(px(y)) r=(R) class=(class) {} },
        1 => rect(x - R + 0.4, y - R + 0.4, 2.0 * R - 0.8, 2.0 * R - 0.8, class),
        2 => polygon(&[(x, y - R - 0.8), (x + R + 0.4, y + R - 0.8), (x - R - 0.4, y + R - 0.8)], class),
        _ => polygon(&[(x, y + R + 0.8), (x + R + 0.4, y - R + 0.8), (x - R - 0.4, y - R + 0.8)], class),
    }
}

/// The CSS class of a curve: a color for each series; curves are dashed from the seventh series on.
pub(crate) fn curve_class(series: usize) -> String {
    let dashed = if series % 12 >= 6 { " dashed" } else { "" };
    format!("c{}{dashed}", series % 6)
}

/// Draws an estimate's interval as a vertical whisker; draws nothing if the interval is too narrow to be
/// visible.
pub(crate) fn upright_whisker(estimate: Estimate, x: f64, scale: &Scale) -> Markup {
    let ends = whisker(estimate, &|value| scale.at(value));
    html! { @if let Some((low, high)) = ends { (draw_whisker((x, low), (x, high), (4.0, 0.0))) } }
}

/// Draws an estimate's interval as a horizontal whisker.
pub(crate) fn lying_whisker(estimate: Estimate, y: f64, at: &dyn Fn(f64) -> f64) -> Markup {
    let ends = whisker(estimate, at);
    html! { @if let Some((low, high)) = ends { (draw_whisker((low, y), (high, y), (0.0, 4.0))) } }
}

/// Draws a line between the ends of an interval, and a short line across each end; `half` is half the length
/// of a short line.
pub(crate) fn draw_whisker(low: (f64, f64), high: (f64, f64), half: (f64, f64)) -> Markup {
    html! { @for class in ["whisker-halo", "whisker"] {
        (line(low, high, class))
        @for (x, y) in [low, high] { (line((x - half.0, y - half.1), (x + half.0, y + half.1), class)) }
    } }
}

/// The positions of an interval's ends; `None` if they are too close together for a visible whisker.
pub(crate) fn whisker(estimate: Estimate, at: &dyn Fn(f64) -> f64) -> Option<(f64, f64)> {
    let (low, high) = ends(estimate)?;
    let ends = (at(low), at(high));
    ((ends.1 - ends.0).abs() >= 3.0).then_some(ends)
}

/// Draws a cross, the mark of a failed run.
pub(crate) fn cross(x: f64, y: f64) -> Markup {
    html! {
        (line((x - 4.0, y - 4.0), (x + 4.0, y + 4.0), "cross"))
        (line((x - 4.0, y + 4.0), (x + 4.0, y - 4.0), "cross"))
    }
}

fn polygon(corners: &[(f64, f64)], class: &str) -> Markup {
    html! { polygon points=(points(corners)) class=(class) {} }
}
