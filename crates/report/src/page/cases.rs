//! The section with the table of cases, and with their failures.

use linerate_bench::metric::Metric;
use linerate_bench::record::Record;
use maud::{Markup, html};

use super::columns::{self, Column, baseline};
use super::scrolling;
use crate::figure::{lack_text, streams_text};
use crate::summary::{Note, State, Summary, cipher_words, data_words};

/// The table with a row for each case and a column for each metric, as a section.
pub(crate) fn section(record: &Record, summaries: &[Summary<'_>]) -> Markup {
    html! {
        section {
            h2 id="cases" { "Cases" }
            p class="lead" {
                "Medians over blocks, with 95 % bootstrap intervals in brackets if there are five blocks or more; \
                 with five blocks, the interval is their range. Rates are of TCP payload; 1 GB is 10" sup { "9" } " bytes."
                @if summaries.iter().any(|s| s.of(Metric::TransactionRate).is_some()) {
                    " A transaction is a request with its complete reply."
                }
                @if baseline(record).is_some() && summaries.iter().any(|s| s.figures.ratio.is_some()) {
                    " Ratios are computed within each block, only between cases with the same link and files. For a tool that reports no \
                     payload time, the rate includes the login."
                }
                @if summaries.iter().any(|s| s.figures.stream_percent.is_some()) {
                    " “% of stream” compares a transfer of files with the fastest case on its link that moves memory."
                }
            }
            (scrolling("Cases", &table(record, summaries)))
        }
    }
}

/// The failed, missing and disturbed runs and the tools' warnings, with their reasons; empty if there are
/// none.
pub(crate) fn troubles(summaries: &[Summary<'_>]) -> Markup {
    let lists = [
        ("Failed", "bad", collect(summaries, |s| &s.failed)),
        ("Not there", "soft", collect(summaries, |s| &s.unavailable)),
        ("Disturbed", "warn", collect(summaries, |s| &s.disturbed)),
        ("Limited by the test bed", "warn", collect(summaries, |s| &s.limited_by_bed)),
        ("The tool warns", "warn", collect(summaries, |s| &s.warned)),
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
    let columns = columns::present(record, summaries);
    html! {
        table {
            thead { tr {
                th scope="col" { "Case" }
                @if has_streams(record) { th scope="col" { "Streams" } }
                @if has_links(record) { th scope="col" { "Link" } }
                @for column in &columns { (column.head()) }
                th scope="col" class="number" { "Runs" }
            } }
            tbody { @for summary in summaries { (row(record, summary, &columns)) } }
        }
    }
}

fn row(record: &Record, summary: &Summary<'_>, columns: &[Column]) -> Markup {
    let case = summary.case;
    html! {
        tr {
            th scope="row" { (case.label) span class="interval" { (moved(summary)) } }
            @if has_streams(record) { td { (streams_text(case.streams)) } }
            @if has_links(record) { td { (case.link) } }
            @if summary.state() == State::Measured {
                @for column in columns { (column.cell(record, summary)) }
                td class="number" { (summary.figures.measured) (signs(summary)) }
            } @else { (lack(summary, columns.len())) }
        }
    }
}

/// The data that the case moves, and its encryption.
fn moved(summary: &Summary<'_>) -> String {
    let case = summary.case;
    let asks = summary.of(Metric::TransactionRate).is_some();
    let own = match (summary.moves_payload, &case.dataset, &case.cipher) {
        (_, None, _) if asks => format!("requests · {}", cipher_words(case)),
        (false, None, None) => case.tool.clone(),
        _ => format!("{} · {}", data_words(case), cipher_words(case)),
    };
    [own].into_iter().chain(summary.levels.iter().cloned()).collect::<Vec<_>>().join(" · ")
}

/// True if any case has a fixed number of streams.
fn has_streams(record: &Record) -> bool {
    record.cases.iter().any(|case| case.streams.is_some())
}

/// Whether the cases ran on more than one link, so that the table needs a column for the link.
fn has_links(record: &Record) -> bool {
    record.cases.windows(2).any(|pair| pair[0].link != pair[1].link)
}

fn signs(summary: &Summary<'_>) -> Markup {
    html! {
        @if !summary.disturbed.is_empty() { span class="interval warn" { (summary.disturbed.len()) " disturbed" } }
        @if !summary.failed.is_empty() { span class="interval bad" { (summary.failed.len()) " failed" } }
        @if !summary.limited_by_bed.is_empty() {
            span class="interval warn" { (summary.limited_by_bed.len()) " limited" br; "by the test bed" }
        }
        @if !summary.warned.is_empty() { span class="interval warn" { (summary.warned.len()) " with a warning" } }
    }
}

fn lack(summary: &Summary<'_>, columns: usize) -> Markup {
    let (words, failed) = lack_text(summary.state());
    let class = if failed { "bad" } else { "soft" };
    html! {
        td colspan=(columns) class=(class) { (words) }
        td class="number" { (summary.failed.len() + summary.unavailable.len()) }
    }
}

/// The rows of one kind of trouble: each has a case's label and the runs with the same reason.
type Rows<'a> = Vec<(&'a str, Trouble<'a>)>;

/// The runs of a case that have the same reason.
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
            thead { tr { th scope="col" { "Event" } th scope="col" { "Case" } th scope="col" { "Blocks" } th scope="col" { "Reason" } } }
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

/// The numbers of blocks as text, counted from 1.
fn block_list(blocks: &[u32]) -> String {
    let names: Vec<_> = blocks.iter().map(|block| (u64::from(*block) + 1).to_string()).collect();
    names.join(", ")
}
