//! What the figure shows, before any place on paper: panels of categories of bars.

use linerate_bench::record::{Case, Record};

use super::name::common_name;
use crate::link::{Ceiling, link_named};
use crate::number::{bits_per_second, bytes, count, short};
use crate::summary::{State, Summary, ends, tip};

/// The whole figure.
pub(crate) struct Figure<'a> {
    /// One a link variant, or more where a link has too many bars for one.
    pub(crate) panels: Vec<Panel<'a>>,
    /// The kinds of parallelism, fewest streams first, the tool's own choice last. A bar's shade is its index.
    pub(crate) series: Vec<Option<u32>>,
    /// Whether both encrypted and clear bars are there, so that the difference must be drawn.
    pub(crate) mixes_ciphers: bool,
    /// Whether both ends burn the same processors, so that one dot tells of both.
    pub(crate) shared_processors: bool,
    /// Whether any bar has a part that is login and not payload.
    pub(crate) has_tips: bool,
}

/// Bars over one pair of axes.
pub(crate) struct Panel<'a> {
    /// What the link is, for people.
    pub(crate) title: String,
    /// What the link lets through at most.
    pub(crate) ceiling: Option<Ceiling>,
    /// The categories, in the order of the study.
    pub(crate) categories: Vec<Category<'a>>,
}

/// Bars of one tool and cipher on one data set.
pub(crate) struct Category<'a> {
    /// The tool, for people.
    pub(crate) name: String,
    /// The cipher; `None` is clear text.
    pub(crate) cipher: Option<&'a str>,
    /// What is moved.
    pub(crate) workload: String,
    /// One a kind of parallelism.
    pub(crate) bars: Vec<Bar<'a>>,
}

/// One case.
pub(crate) struct Bar<'a> {
    /// Index into [`Figure::series`].
    pub(crate) series: usize,
    /// Streams or copies; `None` where the tool chooses.
    pub(crate) streams: Option<u32>,
    /// The figures.
    pub(crate) summary: &'a Summary<'a>,
}

impl<'a> Figure<'a> {
    /// The figure of a record.
    pub(crate) fn new(record: &'a Record, summaries: &'a [Summary<'a>]) -> Self {
        let summaries: Vec<_> = summaries.iter().filter(|s| s.moves_payload).collect();
        let series = series(&summaries);
        let measured = || summaries.iter().filter(|s| s.state() == State::Measured);
        let mixes_ciphers =
            measured().any(|s| s.case.cipher.is_some()) && measured().any(|s| s.case.cipher.is_none());
        Self {
            panels: panels(record, &summaries, &series),
            has_tips: measured().any(|s| tip(s).is_some()),
            mixes_ciphers,
            shared_processors: record.shared_processors,
            series,
        }
    }
}

impl Panel<'_> {
    /// The largest value that the left axis has to hold, in Gbit/s.
    pub(crate) fn largest(&self) -> f64 {
        let bars = self.categories.iter().flat_map(|category| &category.bars);
        let tops = bars.filter_map(|bar| upper(bar.summary));
        let ceiling = self.ceiling.map(|ceiling| ceiling.wire as f64 * 1e-9);
        tops.chain(ceiling).fold(0.0, f64::max)
    }
}

impl<'a> Category<'a> {
    /// The second line under a category.
    pub(crate) fn cipher_text(&self) -> &'a str {
        self.cipher.unwrap_or("clear text")
    }

    /// What all bars of the category lack together, so that it is said once.
    pub(crate) fn common_lack(&self) -> Option<State<'a>> {
        let first = self.bars.first()?.summary.state();
        (first != State::Measured && self.bars.iter().all(|bar| bar.summary.state() == first))
            .then_some(first)
    }
}

/// A stream count as the legend says it.
pub(crate) fn streams_text(streams: Option<u32>) -> String {
    streams.map_or_else(|| "auto".to_owned(), |n| n.to_string())
}

/// The upper end of what is drawn of a case: of its interval, or the median itself.
fn upper(summary: &Summary<'_>) -> Option<f64> {
    let payload = summary.payload?;
    Some(ends(payload).map_or(payload.median, |(_, high)| high.max(payload.median)))
}

fn series(summaries: &[&Summary<'_>]) -> Vec<Option<u32>> {
    let mut series: Vec<_> = summaries.iter().map(|s| s.case.streams).collect();
    series.sort_by_key(|streams| (streams.is_none(), *streams));
    series.dedup();
    series
}

fn panels<'a>(record: &'a Record, summaries: &[&'a Summary<'a>], series: &[Option<u32>]) -> Vec<Panel<'a>> {
    let mut panels: Vec<Panel<'a>> = Vec::new();
    for link in in_order(summaries.iter().map(|s| s.case.link.as_str())) {
        let on_link: Vec<_> = summaries.iter().copied().filter(|s| s.case.link == link).collect();
        let ceiling = Ceiling::named(record, link);
        let title = title(record, link, ceiling);
        let rows = rows(categories(record, &on_link, series));
        let several = rows.len() > 1;
        for (index, categories) in rows.into_iter().enumerate() {
            let title = if several { format!("{title} ({})", index + 1) } else { title.clone() };
            panels.push(Panel { title, ceiling, categories });
        }
    }
    panels
}

fn title(record: &Record, link: &str, ceiling: Option<Ceiling>) -> String {
    match (ceiling, link_named(record, link)) {
        (Some(c), _) => format!(
            "{} link: at most {} Gbit/s of TCP payload at MTU {}",
            bits_per_second(c.wire),
            short(c.payload),
            c.mtu
        ),
        (None, Some(l)) => format!("Link “{link}”: {}, not shaped, MTU {}", l.kind, l.mtu),
        (None, None) => format!("Link “{link}”"),
    }
}

/// Categories in the order in which the study first names them.
fn categories<'a>(record: &Record, of: &[&'a Summary<'a>], series: &[Option<u32>]) -> Vec<Category<'a>> {
    let mut out = Vec::new();
    for shared in in_order(of.iter().map(|s| key(s.case))) {
        let members: Vec<_> = of.iter().copied().filter(|s| key(s.case) == shared).collect();
        if has_twins(&members) {
            out.extend(members.iter().map(|member| category(record, &[member], series)));
        } else {
            out.push(category(record, &members, series));
        }
    }
    out
}

fn key(case: &Case) -> (&str, &str, Option<&str>, Option<&str>) {
    (&case.group, &case.tool, case.cipher.as_deref(), case.dataset.as_deref())
}

/// Two cases with as many streams differ in something that only their labels tell.
fn has_twins(members: &[&Summary<'_>]) -> bool {
    let twin = |(index, s): (usize, &&Summary<'_>)| {
        members[..index].iter().any(|o| o.case.streams == s.case.streams)
    };
    members.iter().enumerate().any(twin)
}

fn category<'a>(record: &Record, members: &[&'a Summary<'a>], series: &[Option<u32>]) -> Category<'a> {
    let case = members[0].case;
    let labels: Vec<&str> = members.iter().map(|s| s.case.label.as_str()).collect();
    let mut bars: Vec<_> = members.iter().map(|summary| bar(summary, series)).collect();
    bars.sort_by_key(|bar| bar.series);
    Category {
        name: common_name(&labels).unwrap_or_else(|| case.group.clone()),
        cipher: case.cipher.as_deref(),
        workload: workload(record, case),
        bars,
    }
}

fn bar<'a>(summary: &'a Summary<'a>, series: &[Option<u32>]) -> Bar<'a> {
    let streams = summary.case.streams;
    Bar { series: series.iter().position(|s| *s == streams).unwrap_or(0), streams, summary }
}

/// What a case moves: "memory to memory", or the data set with its size.
fn workload(record: &Record, case: &Case) -> String {
    let Some(name) = &case.dataset else { return "memory to memory".to_owned() };
    match record.datasets.iter().find(|d| d.name == *name) {
        Some(d) => format!("{name}: {}, {}", count(d.files, "file", "files"), bytes(d.bytes)),
        None => name.clone(),
    }
}

/// The categories in rows that hold no more than is readable, about equally filled.
fn rows(categories: Vec<Category<'_>>) -> Vec<Vec<Category<'_>>> {
    const READABLE: f64 = 32.0;
    let total: f64 = categories.iter().map(breadth).sum();
    let wanted = (total / READABLE).ceil().max(1.0);
    let mut rows: Vec<Vec<Category<'_>>> = vec![Vec::new()];
    let mut used = 0.0;
    for category in categories {
        let row = (used * wanted / total) as usize;
        used += breadth(&category);
        if row >= rows.len() {
            rows.push(Vec::new());
        }
        let last = rows.len() - 1;
        rows[last].push(category);
    }
    rows
}

/// The room that a category takes, in bars, its gap included.
pub(crate) fn breadth(category: &Category<'_>) -> f64 {
    category.bars.len() as f64 + 0.9
}

fn in_order<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut out = Vec::new();
    for item in items {
        if !out.contains(&item) {
            out.push(item);
        }
    }
    out
}
