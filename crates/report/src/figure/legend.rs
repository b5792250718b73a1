//! The legend of the marks, in lines that fit the width.

use maud::{Markup, html};

use super::marks::{Area, curve_class, diamond, dot, point, swatch};
use super::svg::{line, text};
use super::text::{fit, width};

const SIZE: f64 = 11.5;
const LINE: f64 = 20.0;
const MARK: f64 = 17.0;

/// An entry of a legend: a mark and its meaning.
pub(crate) struct Entry {
    mark: Mark,
    words: String,
}

/// The mark of an entry.
pub(crate) enum Mark {
    /// No mark: the text is a heading for the entries that follow.
    None,
    /// A bar, with its CSS class; true if the bar is hatched.
    Bar(String, bool),
    /// The end part of a bar, which shows the rate over only the payload time.
    Tip,
    /// A dot, with its CSS class.
    Dot(&'static str),
    /// A straight line, with its CSS class.
    Line(String),
    /// A curve with points; the number is the index of its series.
    Curve(usize),
    /// The hollow mark of a value that a paper printed, with its CSS class.
    Hollow(&'static str),
}

/// Draws the legend between `x` and `right`, and returns its height; draws nothing if there are no entries.
pub(crate) fn legend(entries: &[Entry], id: &str, x: f64, right: f64) -> (Markup, f64) {
    if entries.is_empty() {
        return (html! {}, 0.0);
    }
    let mut pen = (x, 0.0);
    let mut marks = Vec::new();
    for entry in entries {
        let breadth = entry.breadth().min(right - x);
        if pen.0 > x && pen.0 + breadth > right {
            pen = (x, pen.1 + LINE);
        }
        marks.push(entry.draw(id, pen.0, pen.1 + 14.0, right));
        pen.0 += breadth + entry.gap();
    }
    (html! { g { @for mark in &marks { (mark) } } }, pen.1 + LINE)
}

impl Entry {
    /// An entry with this mark and this text.
    pub(crate) fn new(mark: Mark, words: impl Into<String>) -> Self {
        Self { mark, words: words.into() }
    }

    fn breadth(&self) -> f64 {
        /// The factor for text widths: if the font isn't installed, the browser's replacement may be wider.
        const WIDER: f64 = 1.12;
        self.mark_width() + width(&self.words, SIZE) * WIDER
    }

    fn mark_width(&self) -> f64 {
        match self.mark {
            Mark::None => 0.0,
            Mark::Line(_) | Mark::Curve(_) => MARK + 11.0,
            _ => MARK + 3.0,
        }
    }

    fn gap(&self) -> f64 {
        if matches!(self.mark, Mark::None) { 9.0 } else { 17.0 }
    }

    /// Draws the entry; the baseline of its text is at `y`.
    fn draw(&self, id: &str, x: f64, y: f64, right: f64) -> Markup {
        let area = Area { x, y: y - 9.5, width: 15.0, height: 11.0 };
        let mark = match &self.mark {
            Mark::None => html! {},
            Mark::Bar(class, hatched) => swatch(id, class, *hatched, area),
            Mark::Tip => swatch(id, "tip", false, area),
            Mark::Dot(class) => dot(x + 8.0, y - 4.0, class),
            Mark::Line(class) => line((x, y - 4.0), (x + 24.0, y - 4.0), class),
            Mark::Curve(series) => curve(*series, x, y - 4.0),
            Mark::Hollow(class) => diamond(x + 8.0, y - 4.0, class),
        };
        let class = if matches!(self.mark, Mark::None) { "muted" } else { "" };
        let at = x + self.mark_width();
        html! { (mark) (text(at, y, class, &fit(&self.words, SIZE, right - at + 1.0))) }
    }
}

fn curve(series: usize, x: f64, y: f64) -> Markup {
    let class = curve_class(series);
    html! {
        (line((x, y), (x + 24.0, y), &format!("curve {class}")))
        (point(series, x + 12.0, y, &format!("point {class}")))
    }
}
