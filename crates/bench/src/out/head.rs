//! Prints the lines above the results, which describe the measurement.

use linerate_quantity::{BitRate, Bytes, counted, three};

use super::grid::{WIDTH, shorten, wrap};
use crate::record::{Capacity, Dataset, Link, Record};

/// The study's title and purpose, its links, data sets and blocks.
pub fn headline(record: &Record) -> String {
    let mut lines = vec![record.title.clone()];
    lines.extend(about(&record.about));
    let mut facts: Vec<String> = Vec::new();
    if record.links.is_empty() {
        facts.extend(record.link.iter().map(describe_link));
    }
    facts.extend(record.links.iter().map(|named| describe_link(&named.link)));
    facts.extend(record.datasets.iter().map(describe_dataset));
    let blocks = if record.blocks == 1 { "1 block".into() } else { format!("{} blocks", record.blocks) };
    facts.push(format!("{blocks}, seed {}", record.seed));
    lines.extend(wrap(&facts.join("; "), 0));
    if !record.capacity.is_empty() {
        let alone: Vec<String> = record.capacity.iter().map(describe_capacity).collect();
        lines.extend(wrap(&format!("alone, before the study: {} Gbit/s", alone.join(", ")), 0));
    }
    lines.join("\n")
}

/// The first two lines of a study's purpose. If there are more lines, the second ends with an ellipsis.
pub(crate) fn about(text: &str) -> Vec<String> {
    let mut lines = wrap(text, 0);
    lines.retain(|line| !line.is_empty());
    if lines.len() > 2 {
        lines[1] = shorten(&lines[1..].join(" "), WIDTH);
        lines.truncate(2);
    }
    lines
}

fn describe_capacity(alone: &Capacity) -> String {
    let tool = alone.tool.as_deref().map_or(String::new(), |tool| format!(" {tool}"));
    format!("{} ({}{tool}) {}", alone.link, alone.part, three(alone.gbit_per_second))
}

fn describe_link(link: &Link) -> String {
    match link.bits_per_second {
        Some(rate) => {
            format!("link of {:#} ({}), MTU {}", BitRate(rate as f64), link.kind, link.mtu)
        }
        None => format!("open link ({}), MTU {}", link.kind, link.mtu),
    }
}

fn describe_dataset(set: &Dataset) -> String {
    format!("{}: {}, {}", set.name, counted(set.files, "file", "files"), Bytes::of(set.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    #[test]
    fn the_purpose_stands_below_the_title_in_two_lines_at_most() {
        let mut record = record(&[], 5, Vec::new());
        assert_eq!(headline(&record).lines().nth(1), Some("5 blocks, seed 1"));
        record.about = "The guests are namespaces. ".repeat(20);
        let text = headline(&record);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("The guests are namespaces.") && lines[2].ends_with("..."), "{text}");
        assert!(lines[3] == "5 blocks, seed 1" && lines[2].len() <= WIDTH, "{text}");
    }
}
