//! Presents a study's record: as figures, as a page, as a table of runs.
//!
//! All functions depend only on a [`Record`]: they use no file, clock or network. The results are safe to show, even if
//! the record contains hostile strings. Safety matters because the record's strings come from tools, hosts and file
//! names.
//!
//! The data passes through these modules: [`Record`] → `summary` (a summary of each case, with medians and
//! intervals) → `figure` (one module for each kind: a model, two layouts of it, a text alternative, a
//! caption, a table) and `page` (sections around the figures).

mod ceiling;
mod export;
mod figure;
mod finding;
mod number;
mod page;
mod summary;

use linerate_bench::record::Record;

/// The files of a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFigure {
    /// A name for the figure's files, without extension and unique in the record: `figure-1-scaling`.
    pub name: String,
    /// A stand-alone SVG document, 952 units wide, with its title and caption. The document is well-formed XML 1.0 for
    /// every record, and contains its own style, with a dark variant.
    pub svg: String,
    /// The figure's numbers as CSV (RFC 4180) with a header; the column names contain units.
    pub csv: String,
}

/// A self-contained HTML file: style, figures, data and downloads are inside, and it requests nothing from
/// any host.
///
/// The file is complete without JavaScript. With JavaScript, figures can also be downloaded as PNG. The page
/// follows the reader's preference for light or dark, uses other layouts of the figures on narrow screens,
/// and prints in black on white.
pub fn html(record: &Record) -> String {
    export::valid_characters(&page::render(record).into_string())
}

/// Every figure that the record requests, in the record's order; if the record requests no figure, one figure with bars
/// of the main quantity.
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

/// All runs as CSV (RFC 4180) with a header: one run in each row, in the order of the record.
///
/// The column names contain units. The row of an unavailable or failed run has the reason, and empty values.
pub fn csv(record: &Record) -> String {
    export::csv(record)
}
