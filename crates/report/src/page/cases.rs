//! The table of cases, and what went wrong in them.

use linerate_bench::record::{Case, Record};
use linerate_bench::stats::{Estimate, Interval};
use maud::{Markup, html};

use super::scrolling;
use crate::figure::{lack_text, streams_text};
use crate::link::Ceiling;
use crate::number::{bytes, short};
use crate::summary::{Note, State, Summary, case_name, cipher_words, data_words, ends};

/// Cases by metrics.
pub(crate) fn section(record: &Record, summaries: &[Summary<'_>]) -> Markup {
    html! {
        section {
            h2 id="cases" { "Cases" }
            p class="lead" {
                "Medians over blocks, with 95 % bootstrap intervals in brackets where there are five blocks or more. \
                 Rates are of TCP payload; 1 GB is 10" sup { "9" } " bytes."
                @if baseline(record).is_some() {
                    " Ratios are of payload rates inside each block; a tool that states no payload time has its login in it."
                }
            }
            (scrolling("Cases", &table(record, summaries)))
        }
    }
}

/// What failed, was not there or was disturbed, with the reasons; empty where nothing was.
pub(crate) fn troubles(summaries: &[Summary<'_>]) -> Markup {
    let lists = [
        ("Failed", "bad", collect(summaries, |s| &s.failed)),
        ("Not there", "soft", collect(summaries, |s| &s.unavailable)),
        ("Disturbed", "warn", collect(summaries, |s| &s.disturbed)),
    ];
    if lists.iter().all(|(_, _, rows)| rows.is_empty()) {
        return html! {};
    }
    html! {
        section {
            h2 { "Failed, missing and disturbed runs" }
            (scrolling("Failed, missing and disturbed runs", &trouble_table(&lists)))
        }
    }
}

fn table(record: &Record, summaries: &[Summary<'_>]) -> Markup {
    html! {
        table {
            thead { (head(record)) }
            tbody { @for summary in summaries { (row(record, summary)) } }
        }
    }
}

fn head(record: &Record) -> Markup {
    html! {
        tr {
            th scope="col" { "Case" }
            th scope="col" { "Streams" }
            @if has_links(record) { th scope="col" { "Link" } }
            th scope="col" class="number" { "Payload" br; "Gbit/s" }
            th scope="col" class="number" { "With login" br; "Gbit/s" }
            @if let Some(baseline) = baseline(record) { th scope="col" class="number" { "Times" br; (baseline) } }
            th scope="col" class="number" { "Of the" br; "ceiling" }
            th scope="col" class="number" { "Time" br; "s" }
            @if record.shared_processors {
                th scope="col" class="number" { "CPU busy" br; "%" }
            } @else {
                th scope="col" class="number" { "CPU sender" br; "% busy" }
                th scope="col" class="number" { "CPU receiver" br; "% busy" }
            }
            th scope="col" class="number" { "CPU-s" br; "per GB" }
            th scope="col" class="number" { "Peak" br; "memory" }
            th scope="col" { "Limited by" }
            th scope="col" class="number" { "Runs" }
        }
    }
}

fn row(record: &Record, summary: &Summary<'_>) -> Markup {
    let case = summary.case;
    html! {
        tr {
            th scope="row" { (case.label) span class="interval" { (moved(case)) } }
            td { (streams_text(case.streams)) }
            @if has_links(record) { td { (case.link) } }
            @if summary.state() == State::Measured { (figures(record, summary)) }
            @else { (lack(record, summary)) }
        }
    }
}

/// What the case moves and how it is encrypted.
fn moved(case: &Case) -> String {
    format!("{} · {}", data_words(case), cipher_words(case))
}

/// The name of the case with which the others are compared.
fn baseline(record: &Record) -> Option<String> {
    let id = record.baseline.as_deref()?;
    record.cases.iter().find(|case| case.id == id).map(|case| case_name(record, case))
}

/// Whether the cases ran on more than one link, so that the table must tell which.
fn has_links(record: &Record) -> bool {
    record.cases.windows(2).any(|pair| pair[0].link != pair[1].link)
}

fn figures(record: &Record, summary: &Summary<'_>) -> Markup {
    html! {
        (cell(summary.payload))
        (cell(without_interval(summary.whole)))
        @if baseline(record).is_some() { (cell(summary.ratio)) }
        (share_of_ceiling(record, summary))
        (cell(without_interval(summary.seconds)))
        (cell(summary.cpu_a))
        @if !record.shared_processors { (cell(summary.cpu_b)) }
        (cell(summary.cpu_per_gb))
        td class="number" { (summary.peak_rss.map_or("–".to_owned(), bytes)) }
        td { (summary.limiter.unwrap_or("–")) }
        td class="number" { (summary.measured) (signs(summary)) }
    }
}

fn signs(summary: &Summary<'_>) -> Markup {
    html! {
        @if !summary.disturbed.is_empty() { span class="interval warn" { (summary.disturbed.len()) " disturbed" } }
        @if !summary.failed.is_empty() { span class="interval bad" { (summary.failed.len()) " failed" } }
    }
}

fn lack(record: &Record, summary: &Summary<'_>) -> Markup {
    let columns = 9 + usize::from(!record.shared_processors) + usize::from(baseline(record).is_some());
    let (words, failed) = lack_text(summary.state());
    let class = if failed { "bad" } else { "soft" };
    html! {
        td colspan=(columns - 1) class=(class) { (words) }
        td class="number" { (summary.failed.len() + summary.unavailable.len()) }
    }
}

/// The median alone: for what follows from a figure beside it that has its interval.
fn without_interval(estimate: Option<Estimate>) -> Option<Estimate> {
    estimate.map(|estimate| Estimate { interval: Interval::Insufficient, ..estimate })
}

fn cell(estimate: Option<Estimate>) -> Markup {
    html! {
        td class="number" {
            @match estimate {
                None => "–",
                Some(estimate) => {
                    (short(estimate.median))
                    @if let Some((low, high)) = ends(estimate) {
                        span class="interval" { "[" (short(low)) ", " (short(high)) "]" }
                    }
                }
            }
        }
    }
}

/// The share of what the link carries at most; a run above that is an error of the measurement, and is called one.
fn share_of_ceiling(record: &Record, summary: &Summary<'_>) -> Markup {
    let ceiling = Ceiling::named(record, &summary.case.link);
    let share = ceiling.and_then(|ceiling| Some(100.0 * summary.payload?.median / ceiling.payload));
    html! {
        td class="number" {
            @match share {
                None => "–",
                Some(share) if summary.breaks_ceiling => {
                    span class="bad" { (format!("{share:.1} %")) span class="interval bad" { "a run above it: an error" } }
                }
                Some(share) => (format!("{share:.1} %")),
            }
        }
    }
}

/// Rows of one kind of trouble: the label, and what the runs had in common.
type Rows<'a> = Vec<(&'a str, Trouble<'a>)>;

/// Runs of a case with the same reason.
struct Trouble<'a> {
    reason: &'a str,
    blocks: Vec<u32>,
}

fn collect<'a>(summaries: &'a [Summary<'a>], notes: fn(&'a Summary<'a>) -> &'a Vec<Note<'a>>) -> Rows<'a> {
    let of_case = |s: &'a Summary<'a>| by_reason(notes(s)).into_iter().map(|t| (s.name.as_str(), t));
    summaries.iter().flat_map(of_case).collect()
}

fn by_reason<'a>(notes: &[Note<'a>]) -> Vec<Trouble<'a>> {
    let mut troubles: Vec<Trouble<'a>> = Vec::new();
    for note in notes {
        match troubles.iter_mut().find(|t| t.reason == note.reason) {
            Some(trouble) => trouble.blocks.push(note.block),
            None => troubles.push(Trouble { reason: note.reason, blocks: vec![note.block] }),
        }
    }
    troubles
}

fn trouble_table(lists: &[(&str, &str, Rows<'_>)]) -> Markup {
    html! {
        table {
            thead { tr { th scope="col" { "What" } th scope="col" { "Case" } th scope="col" { "Blocks" } th scope="col" { "Reason" } } }
            tbody {
                @for (what, class, rows) in lists {
                    @for (label, trouble) in rows {
                        tr {
                            td class=(class) { (what) }
                            th scope="row" { (label) }
                            td { (block_list(&trouble.blocks)) }
                            td { (trouble.reason) }
                        }
                    }
                }
            }
        }
    }
}

/// Blocks as people count them, from 1.
fn block_list(blocks: &[u32]) -> String {
    let names: Vec<_> = blocks.iter().map(|block| (u64::from(*block) + 1).to_string()).collect();
    names.join(", ")
}
