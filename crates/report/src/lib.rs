//! A study's record as something to read: a figure, a page, a table of runs.
//!
//! Everything here is a pure function of a [`Record`]: no file, no clock, no network. What it returns is safe to
//! show whatever the record holds, because every string in it came from a tool, a host or a file name.
//!
//! The way of the data: [`Record`] → `summary` (one a case, with medians and intervals) → `figure` (a model, then
//! one of two layouts of it) and `page` (sections around the figure).

mod export;
mod figure;
mod finding;
mod link;
mod number;
mod page;
mod summary;

use linerate_bench::record::Record;

/// One HTML file that needs no other: style, figure, data and downloads are inside, and it asks no host for anything.
///
/// It is complete without JavaScript, which it does not contain; it follows the reader's light or dark preference,
/// re-lays the figure on narrow screens, and prints in black on white.
pub fn html(record: &Record) -> String {
    export::valid_characters(&page::render(record).into_string())
}

/// The main figure as a stand-alone SVG document, 920 units wide, with its caption.
///
/// It is well-formed XML 1.0 for every record, and carries its own style with a dark variant.
pub fn figure_svg(record: &Record) -> String {
    let summaries = summary::summaries(record);
    export::valid_characters(&figure::stand_alone(record, &summaries).into_string())
}

/// Every run, a row each, in the order of the record, as RFC 4180 CSV with a header.
///
/// Units stand in the column names. An unavailable or failed run has its reason and empty figures.
pub fn csv(record: &Record) -> String {
    export::csv(record)
}
