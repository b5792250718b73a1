//! Divides the cases of a figure into panels, categories and bars.

use linerate_bench::metric::Metric;
use linerate_bench::record::{Case, Record};

use super::model::{Bar, Category, Panel, breadth, streams_text};
use super::name::common_name;
use crate::ceiling::{Ceiling, link_named};
use crate::figure::context::Context;
use crate::figure::measure::Measure;
use crate::number::{bits_per_second, bytes, count, short};
use crate::summary::{Summary, tip};

/// The division of the cases: the factor that distinguishes the bars of a category, and the categories.
pub(crate) struct Plan<'c, 'a> {
    context: &'c Context<'a>,
    /// The quantity of the bars.
    pub(crate) measure: Measure,
    /// The levels that distinguish the bars of a category.
    pub(crate) series: Vec<String>,
}

/// The properties that all bars of a category have in common.
type CaseKey = Vec<Option<String>>;

impl<'c, 'a> Plan<'c, 'a> {
    /// Plans the figure of a context.
    pub(crate) fn new(context: &'c Context<'a>) -> Self {
        let mut plan = Self { context, measure: context.measure(), series: Vec::new() };
        plan.series = plan.all_series();
        plan
    }

    /// Whether the bars show payload rates; only payload rates have a ceiling and a time for the login.
    pub(crate) fn is_payload(&self) -> bool {
        self.measure.quantity == Metric::PayloadRate
    }

    /// One panel for each link, unless links are compared within a panel.
    pub(crate) fn panels(&self) -> Vec<Panel<'a>> {
        let asked = self.context.asked;
        let cases = &self.context.cases;
        let links = in_order(cases.iter().map(|s| s.case.link.as_str()));
        let ceiling = |link: &str| Ceiling::named(self.context.record, link).filter(|_| self.is_payload());
        if [&asked.x, &asked.series].into_iter().flatten().any(|factor| self.compares_links(factor)) {
            let common = links.first().and_then(|link| ceiling(link));
            let common = common.filter(|common| links.iter().all(|link| ceiling(link) == Some(*common)));
            let title = common.map_or(String::new(), |common| ceiling_words(&common));
            return self.on_link(title, common, cases);
        }
        let on_link = |link: &str| {
            let members: Vec<_> = cases.iter().copied().filter(|s| s.case.link == link).collect();
            self.on_link(title(self.context.record, link, ceiling(link)), ceiling(link), &members)
        };
        links.into_iter().flat_map(on_link).collect()
    }

    /// Whether a factor distinguishes links, not cases on the same link. Examples of such factors are the link itself
    /// and its queues.
    fn compares_links(&self, factor: &str) -> bool {
        let pairs =
            in_order(self.context.cases.iter().map(|s| (self.context.level(s.case, factor), &s.case.link)));
        let links = in_order(pairs.iter().map(|(_, link)| *link));
        let levels = in_order(pairs.iter().map(|(level, _)| level.clone()));
        factor == "link" || (levels.len() > 1 && links.len() == pairs.len())
    }

    fn all_series(&self) -> Vec<String> {
        let cases = &self.context.cases;
        if self.context.asked.series.is_some() {
            return in_order(cases.iter().map(|s| self.series_of(s.case)));
        }
        let mut streams: Vec<_> = cases.iter().map(|s| s.case.streams).collect();
        streams.sort_by_key(|streams| (streams.is_none(), *streams));
        in_order(streams.into_iter().map(streams_text))
    }

    fn series_of(&self, case: &'a Case) -> String {
        match &self.context.asked.series {
            Some(factor) => self.context.level(case, factor).unwrap_or_else(|| "–".to_owned()),
            None => streams_text(case.streams),
        }
    }

    /// The panels of the cases on one link. There are several panels if one would be too crowded to read.
    fn on_link(&self, title: String, ceiling: Option<Ceiling>, of: &[&'a Summary<'a>]) -> Vec<Panel<'a>> {
        let rows = rows(self.categories(of));
        let several = rows.len() > 1;
        let panel = |(index, categories)| {
            let title = if several { format!("{title} ({})", index + 1) } else { title.clone() };
            Panel { title, ceiling, categories }
        };
        rows.into_iter().enumerate().map(panel).collect()
    }

    /// The categories, in the order in which the study first names them.
    fn categories(&self, of: &[&'a Summary<'a>]) -> Vec<Category<'a>> {
        let mut out = Vec::new();
        for shared in in_order(of.iter().map(|s| self.key(s.case))) {
            let members: Vec<_> = of.iter().copied().filter(|s| self.key(s.case) == shared).collect();
            if self.has_twins(&members) {
                out.extend(members.iter().map(|member| self.category(&[member])));
            } else {
                out.push(self.category(&members));
            }
        }
        out
    }

    /// The common properties of the bars of a case's category: the level of the x factor or, without an x
    /// factor, the levels of all factors except the series.
    fn key(&self, case: &'a Case) -> CaseKey {
        if let Some(x) = &self.context.asked.x {
            return vec![self.context.level(case, x)];
        }
        let whole = [Some(&case.tool), case.cipher.as_ref(), case.dataset.as_ref()];
        let mut key: CaseKey = whole.map(|part| part.cloned()).to_vec();
        // If the series is a factor, a group's name may contain its level. So the group isn't part of the
        // key, and streams distinguish categories.
        key.push(match &self.context.asked.series {
            Some(_) => case.streams.map(|n| n.to_string()),
            None => Some(case.group.clone()),
        });
        key
    }

    /// Whether two cases of the same level differ only in their labels.
    fn has_twins(&self, members: &[&'a Summary<'a>]) -> bool {
        let twin = |(index, s): (usize, &&'a Summary<'a>)| {
            members[..index].iter().any(|o| self.series_of(o.case) == self.series_of(s.case))
        };
        members.iter().enumerate().any(twin)
    }

    fn category(&self, members: &[&'a Summary<'a>]) -> Category<'a> {
        let case = members[0].case;
        let labels: Vec<&str> = members.iter().map(|s| s.case.label.as_str()).collect();
        let mut bars: Vec<_> = members.iter().map(|summary| self.bar(summary)).collect();
        bars.sort_by_key(|bar| bar.series);
        let level = self.context.asked.x.as_ref().and_then(|x| self.context.level(case, x));
        Category {
            name: level.or_else(|| common_name(&labels)).unwrap_or_else(|| case.group.clone()),
            second: self.second(case),
            workload: if self.is_payload() {
                workload(self.context.record, members[0])
            } else {
                String::new()
            },
            bars,
        }
    }

    /// The second line of a category's name: the cipher, if categories are tools.
    fn second(&self, case: &Case) -> String {
        let clear = if self.is_payload() { "clear text" } else { "" };
        match self.context.asked.x {
            Some(_) => String::new(),
            None => case.cipher.clone().unwrap_or_else(|| clear.to_owned()),
        }
    }

    fn bar(&self, summary: &'a Summary<'a>) -> Bar<'a> {
        let label = self.series_of(summary.case);
        let is_cpu = self.measure.quantity == Metric::FarBusyPercent;
        Bar {
            series: self.series.iter().position(|s| *s == label).unwrap_or(0),
            label,
            summary,
            value: summary.quantity(self.measure.quantity).map(|value| self.measure.scaled(value)),
            state: self.context.state(summary),
            filled: tip(summary).filter(|_| self.is_payload()),
            printed: self.context.printed(summary.case, &self.measure),
            printed_cpu: if is_cpu { Vec::new() } else { self.context.printed_cpu(summary.case) },
        }
    }
}

fn ceiling_words(ceiling: &Ceiling) -> String {
    let (wire, payload) = (bits_per_second(ceiling.wire), short(ceiling.payload));
    format!("{wire} link: at most {payload} Gbit/s of TCP payload at MTU {}", ceiling.mtu)
}

fn title(record: &Record, link: &str, ceiling: Option<Ceiling>) -> String {
    match (ceiling, link_named(record, link)) {
        (Some(ceiling), _) => ceiling_words(&ceiling),
        (None, Some(l)) => {
            let rate = l.bits_per_second.map_or_else(|| "not shaped".to_owned(), bits_per_second);
            format!("Link “{link}”: {}, {rate}, MTU {}", l.kind, l.mtu)
        }
        (None, None) => format!("Link “{link}”"),
    }
}

/// The data that a case moves: "memory to memory", "requests", or the data set with its size.
fn workload(record: &Record, summary: &Summary<'_>) -> String {
    let Some(name) = &summary.case.dataset else {
        let asks = summary.of(Metric::TransactionRate).is_some();
        return if asks { "requests" } else { "memory to memory" }.to_owned();
    };
    match record.datasets.iter().find(|d| d.name == *name) {
        Some(d) => format!("{name}: {}, {}", count(d.files, "file", "files"), bytes(d.bytes)),
        None => name.clone(),
    }
}

/// Divides the categories into rows of a readable width, with about the same number of bars.
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

fn in_order<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut out = Vec::new();
    for item in items {
        if !out.contains(&item) {
            out.push(item);
        }
    }
    out
}
