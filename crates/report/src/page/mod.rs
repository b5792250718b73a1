//! The page: a finding, the figures, and all data from which the finding and the figures were made.

mod bounds;
mod cases;
mod columns;
mod doctor;
mod facts;
mod figures;
mod method;
mod printed;
mod runs;

use linerate_bench::record::Record;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::figure::Shown;
use crate::summary::{Summary, summaries};
use crate::{export, figure, finding};

const STYLE: &str = include_str!("style.css");
/// The script that offers each figure as PNG. Nothing else on the page needs a script.
const SCRIPT: &str = include_str!("png.js");
/// The content security policy: the browser fetches nothing, and runs only the script with this digest, so a
/// script injected through a record wouldn't run. Images can only be the page's own figures.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; \
                      script-src 'sha256-xPfZDDz5cj3Frk8+vRUieB3pn+sEPp3lRS8ybFuax9s='";

/// Renders the whole page.
pub(crate) fn render(record: &Record) -> Markup {
    let summaries = summaries(record);
    let asked = figure::asked(record, &summaries);
    let figures = figure::all(record, &summaries, &asked);
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
                a class="skip" href="#main" { "Skip to the figures" }
                (header(record, &summaries, &figures))
                main id="main" { (sections(record, &summaries, &figures)) }
                script type="application/json" id="record" { (PreEscaped(export::json_for_script(record))) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// A table in a frame that scrolls if the table is wider than the screen, also by keyboard.
fn scrolling(name: &str, table: &Markup) -> Markup {
    html! { div class="scroll" role="region" tabindex="0" aria-label=(name) { (table) } }
}

fn title(record: &Record) -> &str {
    if record.title.trim().is_empty() { "linerate bench" } else { &record.title }
}

fn header(record: &Record, summaries: &[Summary<'_>], figures: &[Shown<'_>]) -> Markup {
    html! {
        header {
            p class="eyebrow" { "Study " (record.study) " · " (record.started) " · linerate " (record.linerate) }
            h1 { (title(record)) }
            p class="finding" { (finding::sentence(record, summaries, figures)) }
            @if !record.about.is_empty() { p class="about" { (record.about) } }
        }
    }
}

fn sections(record: &Record, summaries: &[Summary<'_>], figures: &[Shown<'_>]) -> Markup {
    html! {
        (figures::contents(figures))
        @for (at, figure) in figures.iter().enumerate() { (figures::section(record, figure, at, figures.len() > 1)) }
        @if record.shared_processors { (shared_note()) }
        @if record.b_is_guest_of_a { (guest_note()) }
        (cases::section(record, summaries))
        (bounds::section(record))
        (printed::section(record, summaries))
        (doctor::section(record))
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
            "CPU is counted once for both ends, and each end has less CPU than on a host of its own: a tool that is limited by CPU would be faster on two hosts."
        }
    }
}

fn guest_note() -> Markup {
    html! {
        p class="note" {
            strong { "Host b is a virtual machine of host a. " }
            "Host a’s CPU includes b’s, because a’s hypervisor runs b’s processors: CPU-seconds are only host a’s, and b’s busy share is b’s own count."
        }
    }
}

fn downloads(record: &Record) -> Markup {
    let name = file_stem(&record.study);
    let files = [
        ("Every run as CSV", "csv", "text/csv", export::csv(record)),
        ("The record as JSON", "json", "application/json", export::json(record)),
    ];
    html! {
        section class="screen" {
            h2 { "Data" }
            p { "This file contains everything; nothing is loaded from elsewhere. The files of each figure are below the figure." }
            ul class="downloads" {
                @for (words, extension, media_type, content) in &files {
                    li { a download={ (name) "." (extension) } href=(export::data_uri(media_type, content)) { (words) } }
                }
            }
        }
    }
}

/// The study's name in a form for file names.
pub(crate) fn file_stem(study: &str) -> String {
    let safe: String =
        study.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-' || *c == '_').take(40).collect();
    if safe.is_empty() { "study".to_owned() } else { safe }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_lets_this_script_run_and_no_other() {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, SCRIPT.as_bytes());
        assert!(
            POLICY.contains(&format!("'sha256-{}'", base64(digest.as_ref()))),
            "{}",
            base64(digest.as_ref())
        );
    }

    /// Encodes bytes in base64 (RFC 4648, section 4).
    fn base64(bytes: &[u8]) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let letter = |chunk: &[u8], at: usize| {
            let bits =
                chunk.iter().chain([&0, &0]).take(3).fold(0, |bits, byte| bits << 8 | usize::from(*byte));
            if at > chunk.len() { '=' } else { char::from(LETTERS[bits >> (18 - 6 * at) & 63]) }
        };
        bytes.chunks(3).flat_map(|chunk| (0..4).map(move |at| letter(chunk, at))).collect()
    }
}
