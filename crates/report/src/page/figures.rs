//! The section of each figure: the drawing, its caption, its numbers and its files.

use linerate_bench::record::Record;
use maud::{Markup, html};

use super::{file_stem, scrolling};
use crate::export;
use crate::figure::Shown;

/// A list of links to the figures, if there are several.
pub(crate) fn contents(figures: &[Shown<'_>]) -> Markup {
    if figures.len() < 2 {
        return html! {};
    }
    html! {
        nav class="contents" aria-label="Figures" {
            ol { @for figure in figures { li { a href={ "#" (figure.id) } { (figure.title) } } } }
        }
    }
}

/// One figure, with its own heading if `heading` is true. In the first figure, the first finding is left out, because
/// it is at the top of the page.
pub(crate) fn section(record: &Record, figure: &Shown<'_>, at: usize, heading: bool) -> Markup {
    let drawn = &figure.drawn;
    let said = usize::from(at == 0);
    html! {
        section class="figure" id=(figure.id) {
            @if heading { h2 { (figure.title) } }
            figure {
                div class="wide" { (figure.wide()) }
                div class="narrow" { (figure.narrow()) }
                figcaption {
                    @for words in drawn.findings.iter().skip(said) { p class="says" { (unbroken(words)) } }
                    p { (unbroken(&drawn.caption)) }
                }
            }
            details open[drawn.table_is_open] {
                summary { "The numbers of this figure" }
                (scrolling(figure.title, &drawn.table.html()))
            }
            (files(record, figure))
        }
    }
}

/// The text with non-breaking spaces between numbers and their percent signs.
fn unbroken(words: &str) -> String {
    words.replace(" %", "\u{a0}%")
}

/// Links for downloading the figure's files, and a button for a PNG, which is only visible if the page's script runs.
fn files(record: &Record, figure: &Shown<'_>) -> Markup {
    let name = format!("{}-{}", file_stem(&record.study), figure.file_stem());
    let svg = export::valid_characters(&figure.stand_alone().into_string());
    html! {
        ul class="downloads screen" {
            li { a class="svg" download={ (name) ".svg" } href=(export::data_uri("image/svg+xml", &svg)) { "SVG" } }
            li { a download={ (name) ".csv" } href=(export::data_uri("text/csv", &drawn_csv(figure))) { "CSV" } }
            li hidden { button type="button" class="png" { "PNG" } }
        }
    }
}

fn drawn_csv(figure: &Shown<'_>) -> String {
    export::valid_characters(&figure.drawn.csv())
}
