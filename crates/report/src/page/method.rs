//! The section about the method of the measurement, with everything that is needed to repeat it.

use linerate_bench::record::{Dataset, Link, Record};
use maud::{Markup, html};

use crate::number::{bits_per_second, bytes, count};

/// The study, the order of its runs, the meaning of throughput and CPU, the links, the data and the tools' versions, as
/// a section.
pub(crate) fn section(record: &Record) -> Markup {
    html! {
        section {
            h2 id="method" { "How it was measured" }
            dl {
                dt { "Study" } dd { (record.study) ", begun " (record.started) ", by linerate " (record.linerate) }
                dt { "Order" } dd { (order(record)) }
                dt { "Layer" } dd {
                    "TCP payload: bytes of file contents (or of memory) that reached the receiver, per second. Headers, \
                     encryption’s overhead and retransmissions are not counted."
                }
                dt { "CPU" } dd {
                    "All processors of the host, from /proc/stat: user, system, interrupts. It is taken over the whole \
                     command, or over the time in which a load counted, without its ramp or login. Busy is their \
                     share of all counted time; steal is not busy."
                }
                dt { "Link" } dd { (links(record)) }
                @if !record.capacity.is_empty() { dt { "Test bed" } dd { (capacities(record)) } }
                dt { "Data" } dd { (datasets(&record.datasets)) }
                dt { "Tools" } dd { (tools(record)) }
            }
        }
    }
}

fn order(record: &Record) -> String {
    format!(
        "{} of {}, each block running every case once in an order shuffled from seed {}; {}",
        count(u64::from(record.blocks), "block", "blocks"),
        count(record.cases.len() as u64, "case", "cases"),
        record.seed,
        count(record.runs.len() as u64, "run", "runs"),
    )
}

fn links(record: &Record) -> Markup {
    html! {
        @for named in &record.links { div { strong { (named.name) } ": " (link(&named.link)) } }
        @if record.links.is_empty() { (record.link.as_ref().map_or_else(|| "unknown".to_owned(), link)) }
    }
}

/// The rates of the load generators and of the path, each measured separately before the study.
fn capacities(record: &Record) -> Markup {
    html! {
        @for alone in &record.capacity {
            div {
                strong { (alone.link) } ": " (alone.part)
                @if let Some(tool) = &alone.tool { " " (tool) }
                " alone: " (bits_per_second((alone.gbit_per_second * 1e9) as u64))
            }
        }
        div { "A run that comes within 10 % of one of these is marked “limited by the test bed”." }
    }
}

fn link(link: &Link) -> String {
    let Some(rate) = link.bits_per_second else {
        return format!("{}, not shaped, MTU {} bytes", link.kind, link.mtu);
    };
    format!(
        "{}, {}, MTU {} bytes; the rate counts {} bytes in addition to layer 3 for each packet, and lets {} pass at once",
        link.kind,
        bits_per_second(rate),
        link.mtu,
        link.frame_overhead_bytes,
        bytes(link.burst_bytes),
    )
}

fn datasets(all: &[Dataset]) -> Markup {
    html! {
        @if all.is_empty() { "memory to memory only" }
        @for set in all {
            div { strong { (set.name) } ": " (count(set.files, "file", "files")) ", " (bytes(set.bytes)) ", " (set.origin) }
        }
    }
}

/// Each tool once, with the version that it prints itself.
fn tools(record: &Record) -> Markup {
    let mut tools: Vec<(&str, &str)> = Vec::new();
    for case in &record.cases {
        let tool = (case.tool.as_str(), case.version.as_deref().unwrap_or("version not stated"));
        if !tools.contains(&tool) {
            tools.push(tool);
        }
    }
    html! { @for (tool, version) in &tools { div { strong { (tool) } ": " (version) } } }
}
