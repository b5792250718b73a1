//! The text under a figure: the measured quantity and its layer, the hosts and the link, the number of runs,
//! and the meaning of every mark.

use linerate_bench::metric::Metric;
use linerate_bench::record::{FigureKind, Printed, Record};
use linerate_bench::stats::{Estimate, LEAST_BLOCKS, reached_ceiling};

use super::context::Context;
use crate::ceiling::{Ceiling, link_named};
use crate::number::{bits_per_second, bytes, count, short};
use crate::summary::{State, Summary, data_words, ends};

/// The caption: the meaning of the marks, followed by the sentences that figures of all kinds have.
/// `estimates` are the estimates that the figure shows.
pub(crate) fn caption(context: &Context<'_>, marks: &[String], estimates: &[Estimate]) -> String {
    let mut parts: Vec<String> = marks.to_vec();
    parts.push(place(context));
    if !estimates.is_empty() {
        parts.push(blocks(context.record, estimates));
    }
    parts.extend(at_ceiling(context));
    parts.extend(printed(context));
    parts.extend(wire(context));
    parts.extend(signs(&context.cases));
    parts.join(" ")
}

/// The hosts, links and data of the figure, in words.
pub(crate) fn place(context: &Context<'_>) -> String {
    let parts = [hosts(context.record), links(context), data(context)];
    format!("{}.", parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
}

/// The number of blocks behind the medians, and the meaning of the whiskers.
pub(crate) fn blocks(record: &Record, estimates: &[Estimate]) -> String {
    let counts = || estimates.iter().map(|e| e.blocks);
    let n = match (counts().min(), counts().max()) {
        (Some(least), Some(most)) if least == most => format!("n = {most}"),
        (Some(least), Some(most)) => format!("n = {least} to {most}"),
        _ => "n = 0".to_owned(),
    };
    let with_interval = || estimates.iter().filter(|e| ends(**e).is_some());
    let whiskers = match with_interval().count() {
        0 => "no intervals, which need five blocks",
        _ if with_interval().all(|e| e.blocks == LEAST_BLOCKS) => {
            "whiskers, if long enough to see: range of 5 blocks, which holds the true median in 94 % of studies"
        }
        _ => "whiskers, if long enough to see: 95 % bootstrap interval of the median over blocks",
    };
    format!("{n} of {} in shuffled order; {whiskers}.", count(u64::from(record.blocks), "block", "blocks"))
}

/// A sentence about the dashed line that shows a ceiling.
pub(crate) fn ceiling(record: &Record) -> Option<String> {
    let ceiling = record.cases.iter().find_map(|case| Ceiling::named(record, &case.link))?;
    Some(format!(
        "Dashed: the most TCP payload that the link carries, its rate × (MTU − 52) / (MTU + {}) = {} Gbit/s of {}.",
        ceiling.overhead,
        short(ceiling.payload),
        bits_per_second(ceiling.wire),
    ))
}

/// A warning if every case reaches its link's ceiling, and several cases have the same ceiling.
fn at_ceiling(context: &Context<'_>) -> Option<String> {
    let is_rate = context.asked.quantity == Metric::PayloadRate && draws_printed(context);
    let measured = context.cases.iter().filter(|s| s.figures.measured > 0);
    let reached: Option<Vec<u64>> = measured.map(|s| reached_ceiling(context.record, &s.case.id)).collect();
    let mut reached = reached.filter(|_| is_rate)?;
    reached.sort_unstable();
    reached.windows(2).any(|pair| pair[0] == pair[1]).then(|| {
        "Every case reaches its link’s ceiling, which hides all other differences between cases on the same link.".to_owned()
    })
}

/// The hosts, by their names in the study and their host names.
fn hosts(record: &Record) -> Option<String> {
    // The first two hosts are the ends of the connection. Other hosts are only observed.
    let ends = || record.hosts.iter().take(2);
    if record.shared_processors {
        let names: Vec<_> = ends().map(|host| host.name.as_str()).collect();
        return Some(format!("Hosts {} on one machine, whose processors they share", names.join(" and ")));
    }
    let name = |host: &linerate_bench::record::Host| match &host.facts.hostname {
        linerate_host::Fact::Known(known) if *known != host.name => format!("{} ({known})", host.name),
        _ => host.name.clone(),
    };
    let names: Vec<_> = ends().map(name).collect();
    (!names.is_empty()).then(|| format!("From {}", names.join(" to ")))
}

fn links(context: &Context<'_>) -> Option<String> {
    let mut words: Vec<String> = Vec::new();
    for summary in &context.cases {
        let name = &summary.case.link;
        let link = link_named(context.record, name).map(|link| {
            let rate = link.bits_per_second.map_or("not shaped".to_owned(), bits_per_second);
            format!("{name} ({rate}, {}, MTU {})", link.kind, link.mtu)
        });
        let link = link.unwrap_or_else(|| name.clone());
        if !link.is_empty() && !words.contains(&link) {
            words.push(link);
        }
    }
    let noun = if words.len() == 1 { "link" } else { "links" };
    (!words.is_empty()).then(|| format!("{noun} {}", listed(&words, 3)))
}

fn data(context: &Context<'_>) -> Option<String> {
    let mut words: Vec<String> = Vec::new();
    let moves = |s: &&&Summary<'_>| {
        s.moves_payload && s.figures.measured > 0 && s.of(Metric::TransactionRate).is_none()
    };
    for summary in context.cases.iter().filter(moves) {
        let name = data_words(summary.case);
        let set = context.record.datasets.iter().find(|set| set.name == name);
        let set =
            set.map(|s| format!("{} ({}, {})", s.name, count(s.files, "file", "files"), bytes(s.bytes)));
        let set = set.unwrap_or_else(|| name.into_owned());
        if !words.contains(&set) {
            words.push(set);
        }
    }
    (!words.is_empty()).then(|| format!("payload from {}", listed(&words, 3)))
}

/// The first `most` of the words, and the number of those left out.
fn listed(words: &[String], most: usize) -> String {
    let shown = words[..words.len().min(most)].join(", ");
    if words.len() > most { format!("{shown} and {} more", words.len() - most) } else { shown }
}

/// A sentence about the sources of the values that hollow marks show.
fn printed(context: &Context<'_>) -> Option<String> {
    if !draws_printed(context) {
        return None;
    }
    let mut sources: Vec<String> = Vec::new();
    let drawn = |quantity| quantity == context.asked.quantity || quantity == Metric::FarBusyPercent;
    let of_cases = context.record.printed.iter().filter(|printed| {
        drawn(printed.quantity)
            && printed.layer.is_payload()
            && context.cases.iter().any(|s| s.case.id == printed.case)
    });
    for printed in of_cases {
        if !sources.contains(&printed.source) {
            sources.push(printed.source.clone());
        }
    }
    let shown = sources.len().min(4);
    let more =
        if sources.len() > shown { format!("; and {} more", sources.len() - shown) } else { String::new() };
    (!sources.is_empty())
        .then(|| format!("Hollow diamonds: numbers printed in {}{more}.", sources[..shown].join("; ")))
}

fn draws_printed(context: &Context<'_>) -> bool {
    [FigureKind::Bars, FigureKind::Scaling, FigureKind::Differences].contains(&context.asked.kind)
}

/// A sentence about wire rates that papers printed. Such rates include headers, so they aren't drawn.
fn wire(context: &Context<'_>) -> Option<String> {
    let of_cases = |printed: &&Printed| context.cases.iter().any(|s| s.case.id == printed.case);
    let is_shown = context.asked.quantity == Metric::PayloadRate && draws_printed(context);
    let mut wire = context.record.printed.iter().filter(|printed| !printed.layer.is_payload());
    (is_shown && wire.any(|printed| of_cases(&printed))).then(|| {
        "Printed rates that include headers appear only in the table below, because this axis shows payload.".to_owned()
    })
}

fn signs(summaries: &[&Summary<'_>]) -> Vec<String> {
    let any = |has: fn(&Summary<'_>) -> bool| {
        summaries.iter().any(|summary| summary.state() == State::Measured && has(summary))
    };
    let signs = [
        (any(|s| !s.disturbed.is_empty()), "† A run was disturbed by something else on the host."),
        (any(|s| !s.failed.is_empty()), "‡ A run failed; the median is that of the other runs."),
        (
            any(|s| !s.limited_by_bed.is_empty()),
            "§ Limited by the test bed: a run came within 10 % of the largest rate of the generator or the path.",
        ),
    ];
    signs.into_iter().filter(|(present, _)| *present).map(|(_, words)| words.to_owned()).collect()
}
