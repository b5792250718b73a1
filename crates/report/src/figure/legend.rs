//! The key to the marks, set in lines that break where the paper ends.

use maud::{Markup, html};

use super::marks::{Area, dot, shade, swatch};
use super::model::{Figure, streams_text};
use super::svg::{line, text};
use super::text::width;

const SIZE: f64 = 11.5;
const LINE: f64 = 20.0;
const MARK: f64 = 17.0;

/// One key: what is drawn, and what it says.
struct Entry {
    mark: Mark,
    words: String,
}

enum Mark {
    /// Words alone: the head of the keys that follow.
    None,
    /// A bar: class, hatched.
    Bar(String, bool),
    /// The part of a bar that is payload time alone.
    Tip,
    /// A dot: class.
    Dot(&'static str),
    /// The ceiling.
    Ceiling,
}

/// The legend from `x` to `right`, and its height.
pub(crate) fn legend(figure: &Figure<'_>, id: &str, x: f64, right: f64) -> (Markup, f64) {
    let mut pen = (x, 0.0);
    let mut marks = Vec::new();
    for entry in entries(figure) {
        let breadth = entry.breadth();
        if pen.0 > x && pen.0 + breadth > right {
            pen = (x, pen.1 + LINE);
        }
        marks.push(entry.draw(id, pen.0, pen.1 + 14.0));
        pen.0 += breadth + entry.gap();
    }
    (html! { g { @for mark in &marks { (mark) } } }, pen.1 + LINE)
}

fn entries(figure: &Figure<'_>) -> Vec<Entry> {
    let mut entries = stream_entries(figure);
    let plain = "bar key".to_owned();
    if figure.mixes_ciphers {
        entries.push(Entry::new(Mark::Bar(plain.clone(), false), "encrypted"));
        entries.push(Entry::new(Mark::Bar(plain, true), "clear text"));
    }
    if figure.has_tips {
        entries.push(Entry::new(Mark::Tip, "login excluded"));
    }
    entries.extend(cpu_entries(figure));
    if figure.panels.iter().any(|panel| panel.ceiling.is_some()) {
        entries.push(Entry::new(Mark::Ceiling, "ceiling of the link"));
    }
    entries
}

fn stream_entries(figure: &Figure<'_>) -> Vec<Entry> {
    if figure.series.len() < 2 {
        return Vec::new();
    }
    let keys = figure.series.iter().enumerate().map(|(index, streams)| {
        Entry::new(Mark::Bar(format!("bar {}", shade(figure, index)), false), streams_text(*streams))
    });
    std::iter::once(Entry::new(Mark::None, "Streams or copies")).chain(keys).collect()
}

fn cpu_entries(figure: &Figure<'_>) -> Vec<Entry> {
    if figure.shared_processors {
        return vec![Entry::new(Mark::Dot("cpu"), "CPU, both ends together")];
    }
    vec![Entry::new(Mark::Dot("cpu-far"), "CPU, sender"), Entry::new(Mark::Dot("cpu"), "CPU, receiver")]
}

impl Entry {
    fn new(mark: Mark, words: impl Into<String>) -> Self {
        Self { mark, words: words.into() }
    }

    fn breadth(&self) -> f64 {
        self.mark_width() + width(&self.words, SIZE)
    }

    fn mark_width(&self) -> f64 {
        match self.mark {
            Mark::None => 0.0,
            Mark::Ceiling => MARK + 11.0,
            _ => MARK + 3.0,
        }
    }

    fn gap(&self) -> f64 {
        if matches!(self.mark, Mark::None) { 9.0 } else { 17.0 }
    }

    /// The key with its baseline at `y`.
    fn draw(&self, id: &str, x: f64, y: f64) -> Markup {
        let area = Area { x, y: y - 9.5, width: 15.0, height: 11.0 };
        let mark = match &self.mark {
            Mark::None => html! {},
            Mark::Bar(class, hatched) => swatch(id, class, *hatched, area),
            Mark::Tip => swatch(id, "tip", false, area),
            Mark::Dot(class) => dot(x + 8.0, y - 4.0, class),
            Mark::Ceiling => line((x, y - 4.0), (x + 24.0, y - 4.0), "ceiling"),
        };
        let class = if matches!(self.mark, Mark::None) { "muted" } else { "" };
        html! { (mark) (text(x + self.mark_width(), y, class, &self.words)) }
    }
}
