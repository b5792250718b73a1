//! The SVG elements that every layout needs. They are written with an end tag, which XML and HTML parse in
//! the same way.

use maud::{Markup, html};

/// A position or a length as text, rounded to a tenth of a unit. A value that isn't finite becomes 0.
pub(crate) fn px(value: f64) -> String {
    let rounded = if value.is_finite() { (value * 10.0).round() / 10.0 } else { 0.0 };
    // Adding 0.0 turns -0.0 into 0.0, so that the output never contains "-0".
    format!("{}", rounded + 0.0)
}

/// A text element. Its CSS class decides whether the point is the start, the center or the end of the
/// baseline.
pub(crate) fn text(x: f64, y: f64, class: &str, content: &str) -> Markup {
    html! { text x=(px(x)) y=(px(y)) class=(class) { (content) } }
}

/// A text element that is rotated, so that it is read from bottom to top.
pub(crate) fn upward_text(x: f64, y: f64, class: &str, content: &str) -> Markup {
    html! { text transform=(format!("translate({} {}) rotate(-90)", px(x), px(y))) class=(class) { (content) } }
}

/// A straight line.
pub(crate) fn line(from: (f64, f64), to: (f64, f64), class: &str) -> Markup {
    html! { line x1=(px(from.0)) y1=(px(from.1)) x2=(px(to.0)) y2=(px(to.1)) class=(class) {} }
}

/// A rectangle, given by its upper left corner and its size.
pub(crate) fn rect(x: f64, y: f64, width: f64, height: f64, class: &str) -> Markup {
    html! { rect x=(px(x)) y=(px(y)) width=(px(width.max(0.0))) height=(px(height.max(0.0))) class=(class) {} }
}

/// Positions as the `points` attribute of a polyline or polygon.
pub(crate) fn points(places: &[(f64, f64)]) -> String {
    places.iter().map(|(x, y)| format!("{},{}", px(*x), px(*y))).collect::<Vec<_>>().join(" ")
}

/// A line through several points.
pub(crate) fn polyline(places: &[(f64, f64)], class: &str) -> Markup {
    html! { polyline points=(points(places)) class=(class) {} }
}

/// The pattern that marks clear text: white lines over the bar, so that the bar differs in greyscale too.
pub(crate) fn hatch_pattern(id: &str) -> Markup {
    html! {
        defs {
            pattern id={ (id) "-hatch" } patternUnits="userSpaceOnUse" width="5.5" height="5.5" patternTransform="rotate(45)" {
                line x1="1" y1="0" x2="1" y2="5.5" class="hatch" {}
            }
        }
    }
}

/// An SVG element with its text alternative.
pub(crate) struct Drawing<'a> {
    /// The prefix of the ids inside the element; unique in the page.
    pub(crate) id: &'a str,
    /// The width in units.
    pub(crate) width: f64,
    /// The height in units.
    pub(crate) height: f64,
    /// The name of the figure.
    pub(crate) title: &'a str,
    /// The contents of the drawing in words, for readers who can't see it.
    pub(crate) description: &'a str,
}

impl Drawing<'_> {
    /// The SVG element around `body`. If `style` is given, the element is a stand-alone document with that
    /// style.
    pub(crate) fn around(&self, style: Option<&str>, body: &Markup) -> Markup {
        let Self { id, width, height, title, description } = self;
        html! {
            svg xmlns="http://www.w3.org/2000/svg" class="lr" width=(px(*width)) height=(px(*height))
                viewBox={ "0 0 " (px(*width)) " " (px(*height)) } role="img" aria-labelledby={ (id) "-t " (id) "-d" } {
                title id={ (id) "-t" } { (title) }
                desc id={ (id) "-d" } { (description) }
                @if let Some(style) = style {
                    style { (maud::PreEscaped(style)) }
                    rect width="100%" height="100%" class="paper" {}
                }
                (hatch_pattern(id))
                (body)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_short_and_finite() {
        assert_eq!([1.0, 0.25, -0.01, f64::NAN, f64::INFINITY].map(px), ["1", "0.3", "0", "0", "0"]);
    }
}
