//! Interrupts by processor as a heat map: a row for each source, a column for each processor.

use linerate_bench::record::{Interrupts, Measures};
use maud::{Markup, html};

use super::axes::remarks;
use super::context::Context;
use super::svg::{rect, text};
use super::table::{Cell, Table};
use super::text::{fit, width};
use super::{Drawn, Paper, caption};
use crate::number::{count, grouped, short};

/// The greatest number of interrupt sources of a host that have their own row. All other sources are summed in the last
/// row.
const MOST_SOURCES: usize = 20;
/// The greatest number of columns. If there are more processors, several processors share a column.
const MOST_COLUMNS: usize = 64;
/// The greatest number of cases that are drawn. All cases are in the table.
const MOST_CASES: usize = 4;
/// The number of shades of the cells.
const SHADES: u32 = 8;
/// From this shade on, a number is written in the background color.
const DARK: u32 = 6;
const ROW: f64 = 24.0;

/// Draws a heat map for each host.
pub(crate) fn draw(context: &Context<'_>) -> Drawn {
    let maps = maps(context);
    let lacks = context.lacks_of("interrupts", has_interrupts);
    Drawn {
        description: description(&maps, &lacks),
        findings: maps.iter().filter_map(Map::finding).collect(),
        caption: words(context, &maps),
        table: table(&maps),
        ..Drawn::on_both(context, |paper, _| on_paper(&maps, paper, &lacks))
    }
}

/// The interrupts of one host during one run.
struct Map<'a> {
    case: &'a str,
    block: u32,
    host: &'a str,
    processors: usize,
    /// Each source's name, and its interrupts per second on each processor; the busiest source first.
    rows: Vec<(String, Vec<f64>)>,
}

fn has_interrupts(measures: &Measures) -> bool {
    measures.interrupts.iter().any(|source| !source.per_processor.is_empty()) && measures.seconds > 0.0
}

fn maps<'a>(context: &Context<'a>) -> Vec<Map<'a>> {
    let of_case = |summary: &&'a crate::summary::Summary<'a>| {
        let (block, measures) = context.median_run(summary.case, has_interrupts)?;
        let mut hosts: Vec<&str> = Vec::new();
        for source in &measures.interrupts {
            if !hosts.contains(&source.host.as_str()) {
                hosts.push(&source.host);
            }
        }
        let map = move |host| Map::new(&summary.name, block, host, measures);
        Some(hosts.into_iter().map(map).collect::<Vec<_>>())
    };
    context.cases.iter().filter_map(of_case).flatten().collect()
}

impl<'a> Map<'a> {
    fn new(case: &'a str, block: u32, host: &'a str, measures: &'a Measures) -> Self {
        let sources: Vec<&Interrupts> =
            measures.interrupts.iter().filter(|source| source.host == host).collect();
        let processors = sources.iter().map(|source| source.per_processor.len()).max().unwrap_or(0);
        let rate = |count: &u64| *count as f64 / measures.seconds;
        let row = |source: &&Interrupts| {
            let mut rates: Vec<f64> = source.per_processor.iter().map(rate).collect();
            rates.resize(processors, 0.0);
            (source.source.clone(), rates)
        };
        let mut rows: Vec<_> = sources.iter().map(row).collect();
        rows.sort_by(|(_, left), (_, right)| total(right).total_cmp(&total(left)));
        Self { case, block, host, processors, rows }
    }

    /// The rows that are drawn: the busiest sources, and one row for the rest.
    fn shown(&self) -> Vec<(String, Vec<f64>)> {
        if self.rows.len() <= MOST_SOURCES {
            return self.rows.clone();
        }
        let (busiest, rest) = self.rows.split_at(MOST_SOURCES - 1);
        let sum = |at: usize| rest.iter().map(|(_, rates)| rates[at]).sum();
        let name = format!("{} more", count(rest.len() as u64, "source", "sources"));
        let others = (name, (0..self.processors).map(sum).collect());
        busiest.iter().cloned().chain([others]).collect()
    }

    /// A sentence about the distribution of the host's interrupts: the busiest processor's share.
    fn finding(&self) -> Option<String> {
        let of = |at: usize| self.rows.iter().map(|(_, rates)| rates[at]).sum::<f64>();
        let by_processor: Vec<f64> = (0..self.processors).map(of).collect();
        let all = total(&by_processor);
        let busiest = (0..self.processors).max_by(|l, r| by_processor[*l].total_cmp(&by_processor[*r]))?;
        (all > 0.0).then(|| {
            format!(
                "{}, host {}: {} interrupts and soft interrupts a second, {:.0} % of them on processor {busiest}, of {} processors.",
                self.case,
                self.host,
                whole(all),
                100.0 * by_processor[busiest] / all,
                self.processors,
            )
        })
    }

    fn draw(&self, paper: Paper, y: f64) -> (Markup, f64) {
        let grid = InterruptGrid::new(self, paper, y);
        let rows = self.shown();
        let most = rows.iter().flat_map(|(_, rates)| grid.bins(rates)).fold(0.0, f64::max);
        let title = format!("{}, host {} (block {})", self.case, self.host, u64::from(self.block) + 1);
        let end = grid.top + rows.len() as f64 * ROW;
        let drawn = html! {
            (text(2.0, y + 16.0, "head", &fit(&title, 13.2, paper.width - 4.0)))
            (text(paper.width - 4.0, y + 34.0, "muted end", "all"))
            @for column in grid.labelled() { (text(grid.x(column) + grid.cell / 2.0, y + 34.0, "small mid", &grid.name(column))) }
            @for (at, (source, rates)) in rows.iter().enumerate() {
                (grid.row(source, rates, most, grid.top + at as f64 * ROW))
            }
        };
        (drawn, end + 10.0)
    }
}

/// The positions of a map's cells.
struct InterruptGrid {
    left: f64,
    right: f64,
    top: f64,
    cell: f64,
    columns: usize,
    /// The number of processors in a column.
    group: usize,
    processors: usize,
}

impl InterruptGrid {
    fn new(map: &Map<'_>, paper: Paper, y: f64) -> Self {
        let group = map.processors.div_ceil(MOST_COLUMNS).max(1);
        let columns = map.processors.div_ceil(group).max(1);
        let (left, right) = (paper.pick(190.0, 96.0), paper.width - paper.pick(70.0, 46.0));
        let cell = ((right - left) / columns as f64).min(110.0);
        Self {
            left,
            right: paper.width - 4.0,
            top: y + 42.0,
            cell,
            columns,
            group,
            processors: map.processors,
        }
    }

    fn x(&self, column: usize) -> f64 {
        self.left + column as f64 * self.cell
    }

    /// The text for a column's processors: "3", or "4–7" if several processors share the column.
    fn name(&self, column: usize) -> String {
        let first = column * self.group;
        let last = (first + self.group).min(self.processors).saturating_sub(1);
        if last > first { format!("{first}–{last}") } else { first.to_string() }
    }

    /// The columns whose names fit below the map without touching each other.
    fn labelled(&self) -> impl Iterator<Item = usize> {
        let widest = (0..self.columns).map(|column| width(&self.name(column), 10.5)).fold(0.0, f64::max);
        let every = ((widest + 4.0) / self.cell).ceil().max(1.0) as usize;
        (0..self.columns).step_by(every)
    }

    fn bins(&self, rates: &[f64]) -> Vec<f64> {
        rates.chunks(self.group).map(total).collect()
    }

    fn row(&self, source: &str, rates: &[f64], most: f64, y: f64) -> Markup {
        html! {
            (text(self.left - 8.0, y + 16.0, "end", &fit(source, 11.5, self.left - 12.0)))
            @for (column, rate) in self.bins(rates).into_iter().enumerate() {
                (self.cell(source, column, rate, most, y))
            }
            (text(self.right, y + 16.0, "end strong", &compact(total(rates))))
        }
    }

    /// Draws a cell, with its rate as text if the text fits. The tooltip always has the rate.
    fn cell(&self, source: &str, column: usize, rate: f64, most: f64, y: f64) -> Markup {
        let shade = shade(rate, most);
        let number = compact(rate);
        let fits = width(&number, 10.5) + 6.0 <= self.cell;
        let gap = if self.cell > 8.0 { 2.0 } else { 0.4 };
        let class = if shade >= DARK { "small mid on-dark" } else { "small mid on-light" };
        html! { g {
            title { (source) " on processor " (self.name(column)) ": " (whole(rate)) " a second" }
            (rect(self.x(column), y, self.cell - gap, ROW - 2.0, &format!("cell q{shade}")))
            @if fits && rate > 0.0 { (text(self.x(column) + (self.cell - gap) / 2.0, y + 15.0, class, &number)) }
        } }
    }
}

fn on_paper(maps: &[Map<'_>], paper: Paper, lacks: &[String]) -> (Markup, f64) {
    let mut cases: Vec<&str> = maps.iter().map(|map| map.case).collect();
    cases.dedup();
    let first: Vec<&str> = cases.iter().take(MOST_CASES).copied().collect();
    let mut y = 0.0;
    let mut drawn = Vec::new();
    for map in maps.iter().filter(|map| first.contains(&map.case)) {
        let (markup, end) = map.draw(paper, y);
        drawn.push(markup);
        y = end + 6.0;
    }
    let mut lines = lacks.to_vec();
    lines.extend(cases.iter().skip(MOST_CASES).map(|case| format!("{case}: in the table and the CSV")));
    if maps.is_empty() && lines.is_empty() {
        lines.push("The record holds no case with interrupts.".to_owned());
    }
    let (remarks, end) = remarks(paper, &lines, y, 6);
    (html! { @for markup in &drawn { (markup) } (remarks) }, end + 4.0)
}

/// The shade of a rate: 0 for a rate of 0, otherwise by the logarithm of the ratio of the rate to the largest
/// rate.
fn shade(rate: f64, most: f64) -> u32 {
    if rate <= 0.0 || !rate.is_finite() || !most.is_finite() {
        return 0;
    }
    // Each shade means a quarter of the rate of the next darker shade. The lightest shade means less than a
    // thousandth of the largest rate.
    let down = ((most / rate).log2() / 2.0).floor().clamp(0.0, f64::from(SHADES - 1));
    SHADES - down as u32
}

fn total(rates: &[f64]) -> f64 {
    rates.iter().sum()
}

/// A rate in at most five characters: `941`, `12.3k`, `1.2M`.
fn compact(rate: f64) -> String {
    match rate {
        _ if !rate.is_finite() => "–".to_owned(),
        _ if rate >= 999_500.0 => format!("{}M", short(rate * 1e-6)),
        _ if rate >= 9_995.0 => format!("{:.1}k", rate * 1e-3),
        _ if rate >= 99.5 || rate == 0.0 => format!("{rate:.0}"),
        _ => format!("{rate:.1}"),
    }
}

fn whole(rate: f64) -> String {
    if rate.is_finite() && rate >= 10.0 { grouped(rate.round() as u64) } else { short(rate) }
}

fn description(maps: &[Map<'_>], lacks: &[String]) -> String {
    let row = |map: &Map<'_>, source: &str, rates: &[f64]| {
        let rates: Vec<_> = rates.iter().map(|rate| whole(*rate)).collect();
        format!("{}, host {}, {source}: {}", map.case, map.host, rates.join(", "))
    };
    let rows =
        |map: &Map<'_>| map.shown().iter().map(|(name, rates)| row(map, name, rates)).collect::<Vec<_>>();
    let lines: Vec<_> = maps.iter().flat_map(rows).chain(lacks.iter().cloned()).collect();
    format!("Interrupts a second by source, from processor 0 on. {}.", lines.join(". "))
}

fn words(context: &Context<'_>, maps: &[Map<'_>]) -> String {
    let mut marks = vec![
        "Cells: interrupts and soft interrupts a second, by source (rows) and processor (columns); each shade is a factor \
         of four, the darkest (in dark mode: the brightest) the most. At the right: all processors."
            .to_owned(),
        format!(
            "n = 1 run for each case, the median run of {}; a single run has no interval.",
            count(u64::from(context.record.blocks), "block", "blocks")
        ),
    ];
    if maps.iter().any(|map| map.processors > MOST_COLUMNS) {
        marks.push("Each column is the sum of several neighboring processors.".to_owned());
    }
    caption::caption(context, &marks, &[])
}

fn table(maps: &[Map<'_>]) -> Table {
    let processors = maps.iter().map(|map| map.processors).max().unwrap_or(0);
    let mut head: Vec<String> =
        ["Case", "Block", "Host", "Source", "All processors (1/s)"].map(str::to_owned).to_vec();
    head.extend((0..processors).map(|at| format!("Processor {at} (1/s)")));
    let mut table = Table::new(head);
    for map in maps {
        for (source, rates) in &map.rows {
            let mut row = vec![
                Cell::text(map.case),
                Cell::Count(map.block as usize + 1),
                Cell::text(map.host),
                Cell::text(source),
                Cell::Number(total(rates)),
            ];
            row.extend(rates.iter().map(|rate| Cell::Number(*rate)));
            table.push(row);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shade_is_a_factor_of_four() {
        assert_eq!([0.0, 1000.0, 251.0, 249.0, 1e-9].map(|rate| shade(rate, 1000.0)), [0, 8, 8, 7, 1]);
        assert_eq!(shade(f64::NAN, 1.0), 0);
    }

    #[test]
    fn a_cell_s_number_is_short() {
        assert_eq!(
            [0.0, 3.25, 941.2, 12_340.0, 1_234_000.0].map(compact),
            ["0", "3.2", "941", "12.3k", "1.23M"]
        );
    }
}
