//! The frame of a plot with an x axis: grid, ticks, titles, and the lines of text below it.

use maud::{Markup, html};

use super::Paper;
use super::scale::Scale;
use super::svg::{line, text, upward_text};
use super::text::wrap;
use crate::number::tick;

/// The area between the axes, in units of the layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// The x of the left edge, where the value axis is.
    pub(crate) left: f64,
    /// The x of the right edge.
    pub(crate) right: f64,
    /// The y of the upper edge.
    pub(crate) top: f64,
    /// The y of the lower edge, where the x axis is.
    pub(crate) bottom: f64,
}

impl Frame {
    /// The frame of a panel that begins at `top`.
    pub(crate) fn new(paper: Paper, top: f64, height: f64) -> Self {
        let left = paper.pick(64.0, 50.0);
        Self { left, right: paper.width - paper.pick(54.0, 12.0), top, bottom: top + height }
    }

    /// A scale that begins with zero at the lower edge and contains `largest`, with at most `most` steps.
    pub(crate) fn upward(&self, largest: f64, most: usize) -> Scale {
        Scale::coarse(largest, most, self.bottom, self.top)
    }

    /// Draws the grid lines and numbers of the value axis (every `every`-th tick), and the lower axis.
    pub(crate) fn grid(&self, scale: &Scale, every: usize) -> Markup {
        html! {
            @for value in scale.ticks(every) {
                (line((self.left, scale.at(value)), (self.right, scale.at(value)), "grid"))
                (text(self.left - 8.0, scale.at(value) + 4.0, "end", &tick(value)))
            }
            (line((self.left, self.bottom), (self.right, self.bottom), "axis"))
        }
    }

    /// The title of the value axis: vertical beside the axis or, on a narrow screen, above it.
    pub(crate) fn title(&self, paper: Paper, words: &str) -> Markup {
        if paper.narrow {
            return text(2.0, self.top - 9.0, "", words);
        }
        upward_text(14.0, f64::midpoint(self.top, self.bottom), "mid", words)
    }

    /// Draws a tick of the lower axis, with its number below it.
    pub(crate) fn x_tick(&self, x: f64, words: &str) -> Markup {
        html! {
            (line((x, self.bottom), (x, self.bottom + 4.0), "axis"))
            (text(x, self.bottom + 17.0, "mid", words))
        }
    }

    /// The title of the lower axis.
    pub(crate) fn x_title(&self, words: &str) -> Markup {
        text(f64::midpoint(self.left, self.right), self.bottom + 35.0, "mid", words)
    }
}

/// Draws at most `most` lines of text below a plot, followed by the number of lines that are left out. Returns the y of
/// the text's lower end.
pub(crate) fn remarks(paper: Paper, lines: &[String], y: f64, most: usize) -> (Markup, f64) {
    const LINE: f64 = 15.0;
    const LEFT: f64 = 2.0;
    let shown = lines.iter().take(most).cloned();
    let rest = lines.len().saturating_sub(most);
    let more = (rest > 0).then(|| format!("and {rest} more, see the table of this figure"));
    let wrapped: Vec<String> =
        shown.chain(more).flat_map(|words| wrap(&words, 11.0, paper.width - LEFT - 4.0, 2)).collect();
    let drawn = html! {
        @for (index, words) in wrapped.iter().enumerate() {
            (text(LEFT, y + 13.0 + index as f64 * LINE, "lack", words))
        }
    };
    (drawn, y + wrapped.len() as f64 * LINE + if wrapped.is_empty() { 0.0 } else { 6.0 })
}
