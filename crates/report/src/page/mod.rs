//! The page: a finding, the figure, and everything that they rest on.

mod cases;
mod facts;
mod gate;
mod method;
mod runs;

use linerate_bench::record::Record;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::summary::{Summary, summaries};
use crate::{export, figure, finding};

const STYLE: &str = include_str!("style.css");
/// The browser itself refuses whatever the page would fetch or run; it asks for nothing but its own data URIs.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

/// The whole page.
pub(crate) fn render(record: &Record) -> Markup {
    let summaries = summaries(record);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content={ "linerate " (record.linerate) };
                title { (title(record)) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) (PreEscaped(figure::STYLE)) }
            }
            body {
                (header(record, &summaries))
                main { (sections(record, &summaries)) }
                script type="application/json" id="record" { (PreEscaped(export::json_for_script(record))) }
            }
        }
    }
}

/// A table that is wider than the screen scrolls by itself, with the keyboard too.
fn scrolling(name: &str, table: &Markup) -> Markup {
    html! { div class="scroll" role="region" tabindex="0" aria-label=(name) { (table) } }
}

fn title(record: &Record) -> &str {
    if record.title.trim().is_empty() { "linerate bench" } else { &record.title }
}

fn header(record: &Record, summaries: &[Summary<'_>]) -> Markup {
    html! {
        header {
            p class="eyebrow" { "Study " (record.study) " · " (record.started) " · linerate " (record.linerate) }
            h1 { (title(record)) }
            p class="finding" { (finding::sentence(record, summaries)) }
        }
    }
}

fn sections(record: &Record, summaries: &[Summary<'_>]) -> Markup {
    html! {
        figure {
            div class="wide" { (figure::wide(record, summaries)) }
            div class="narrow" { (figure::narrow(record, summaries)) }
            figcaption { (figure::caption(record, summaries)) }
        }
        @if record.shared_processors { (shared_note()) }
        (cases::section(record, summaries))
        (gate::section(record))
        (cases::troubles(summaries))
        (method::section(record))
        (facts::section(record))
        (runs::section(record))
        (downloads(record))
    }
}

fn shared_note() -> Markup {
    html! {
        p class="note" {
            strong { "Both ends share the processors. " }
            "CPU is counted once for the two of them, and each end leaves the other less of it than two hosts would: \
             a tool that is bound by its CPU would be faster on hosts of its own."
        }
    }
}

fn downloads(record: &Record) -> Markup {
    let name = file_stem(&record.study);
    let files = [
        ("Every run as CSV", "csv", "text/csv", export::csv(record)),
        ("The figure as SVG", "svg", "image/svg+xml", crate::figure_svg(record)),
        ("The record as JSON", "json", "application/json", export::json(record)),
    ];
    html! {
        section class="screen" {
            h2 { "Data" }
            p { "All of it is in this file; nothing is fetched." }
            ul class="downloads" {
                @for (words, extension, media_type, content) in &files {
                    li { a download={ (name) "." (extension) } href=(export::data_uri(media_type, content)) { (words) } }
                }
            }
        }
    }
}

/// The study's name as a file's name.
fn file_stem(study: &str) -> String {
    let safe: String =
        study.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-' || *c == '_').take(40).collect();
    if safe.is_empty() { "study".to_owned() } else { safe }
}
