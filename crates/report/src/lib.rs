//! A study's record as something to read: a figure, a page, a table of runs.
//!
//! Everything here is a pure function of a [`Record`]: no file, no clock, no network. What it returns is safe
//! to show whatever the record holds, because every string in it came from a tool, a host or a file name.
//!
//! The way of the data: [`Record`] → `summary` (one a case, with medians and intervals) → `figure` (one a
//! kind: a model, two layouts of it, a text alternative, a caption, a table) and `page` (sections around the
//! figures).

mod export;
mod figure;
mod finding;
mod link;
mod number;
mod page;
mod summary;

use linerate_bench::record::Record;

/// A figure as files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFigure {
    /// A name for its files, without extension and unique in the record: `figure-1-scaling`.
    pub name: String,
    /// A stand-alone SVG document, 952 units wide, with its title and caption. Well-formed XML 1.0 for every
    /// record; it carries its own style with a dark variant.
    pub svg: String,
    /// Its numbers as RFC 4180 CSV with a header; the column names contain units.
    pub csv: String,
}

/// One HTML file that needs no other: style, figures, data and downloads are inside, and it asks no host for
/// anything.
///
/// The file is complete without JavaScript; with it, figures can be taken away as PNG besides. It follows the
/// reader's light or dark preference, re-lays its figures on narrow screens, and prints in black on white.
pub fn html(record: &Record) -> String {
    export::valid_characters(&page::render(record).into_string())
}

/// Every figure that the record requests, in its order; bars of the main quantity if it requests none.
pub fn figures(record: &Record) -> Vec<NamedFigure> {
    let summaries = summary::summaries(record);
    let asked = figure::asked(record, &summaries);
    let shown = figure::all(record, &summaries, &asked);
    shown.iter().map(named).collect()
}

/// The first of [`figures`] as a stand-alone SVG document.
pub fn figure_svg(record: &Record) -> String {
    figures(record).into_iter().next().map(|figure| figure.svg).unwrap_or_default()
}

fn named(figure: &figure::Shown<'_>) -> NamedFigure {
    NamedFigure {
        name: figure.file_stem(),
        svg: export::valid_characters(&figure.stand_alone().into_string()),
        csv: figure.drawn.csv(),
    }
}

/// Every run, a row each, in the order of the record, as RFC 4180 CSV with a header.
///
/// The column names contain units. An unavailable or failed run has its reason and empty figures.
pub fn csv(record: &Record) -> String {
    export::csv(record)
}
