//! Values over time within the median run of each case. Each unit has its own panel, with both hosts.

use linerate_bench::record::{Measures, Series};
use maud::{Markup, html};

use super::axes::{Frame, remarks};
use super::context::Context;
use super::legend::{Entry, Mark, legend};
use super::scale::Scale;
use super::svg::{polyline, text};
use super::table::{Cell, Table};
use super::text::fit;
use super::{Drawn, Paper, caption};
use crate::number::{count, short, tick};

/// The greatest number of points of a drawn curve. If a series has more points, means of neighboring points
/// are drawn.
const MOST_POINTS: usize = 1200;
/// The greatest number of lines in a panel. A panel with more lines is split by the names of the series.
const MOST_LINES: usize = 6;
/// The greatest number of cases that are drawn. All cases are in the table.
const MOST_CASES: usize = 6;
const WHAT: &str = "series of the samplers";

/// Draws panels of the series that samplers recorded.
pub(crate) fn draw(context: &Context<'_>) -> Drawn {
    let lacks = context.lacks_of(WHAT, has_series);
    let runs = runs(context);
    Drawn {
        description: description(&runs, &lacks),
        caption: words(context, &runs),
        table: table(&runs),
        more: Some(points(&runs)),
        ..Drawn::on_both(context, |paper, id| on_paper(&runs, paper, id, &lacks))
    }
}

/// A case's run that is drawn.
struct Chosen<'a> {
    name: &'a str,
    block: u32,
    seconds: f64,
    /// The start and the end of the time in which the tool counted, in seconds, if a ramp preceded it.
    counted: Option<(f64, f64)>,
    panels: Vec<SeriesPanel<'a>>,
}

/// A panel: series with the same unit.
struct SeriesPanel<'a> {
    unit: &'a str,
    lines: Vec<&'a Series>,
}

fn has_series(measures: &Measures) -> bool {
    measures.series.iter().any(|series| !series.points.is_empty())
}

fn runs<'a>(context: &Context<'a>) -> Vec<Chosen<'a>> {
    let chosen = |summary: &&'a crate::summary::Summary<'a>| {
        let (block, measures) = context.median_run(summary.case, has_series)?;
        let ends = measures.series.iter().flat_map(|s| &s.points).map(|(at, _)| *at);
        let seconds = ends.filter(|at| at.is_finite()).fold(0.0, f64::max);
        let counted = measures.window.map(|window| (window.begin, window.end));
        Some(Chosen { name: &summary.name, block, seconds, counted, panels: panels(&measures.series) })
    };
    context.cases.iter().filter_map(chosen).collect()
}

/// Groups the series by unit, in the order of the record; also by name if a unit has many series.
fn panels(all: &[Series]) -> Vec<SeriesPanel<'_>> {
    let mut panels: Vec<SeriesPanel<'_>> = Vec::new();
    for series in all.iter().filter(|series| !series.points.is_empty()) {
        let same_unit = all.iter().filter(|other| other.unit == series.unit).count();
        let fits = |panel: &&mut SeriesPanel<'_>| {
            panel.unit == series.unit && (same_unit <= MOST_LINES || panel.lines[0].name == series.name)
        };
        match panels.iter_mut().find(fits) {
            Some(panel) => panel.lines.push(series),
            None => panels.push(SeriesPanel { unit: &series.unit, lines: vec![series] }),
        }
    }
    panels
}

fn on_paper(runs: &[Chosen<'_>], paper: Paper, id: &str, lacks: &[String]) -> (Markup, f64) {
    let mut y = 0.0;
    let mut drawn = Vec::new();
    for run in runs.iter().take(MOST_CASES) {
        let (markup, end) = run.draw(paper, id, y);
        drawn.push(markup);
        y = end;
    }
    let mut lines = lacks.to_vec();
    lines.extend(runs.iter().skip(MOST_CASES).map(|run| format!("{}: in the table and the CSV", run.name)));
    if runs.is_empty() && lines.is_empty() {
        lines.push("The record holds no case with a series.".to_owned());
    }
    let (remarks, end) = remarks(paper, &lines, y + 4.0, 6);
    (html! { @for markup in &drawn { (markup) } (remarks) }, end + 4.0)
}

impl Chosen<'_> {
    /// Draws the panels of a run over a common time axis. Returns the y of their lower end.
    fn draw(&self, paper: Paper, id: &str, y: f64) -> (Markup, f64) {
        let title = format!("{} (block {})", self.name, u64::from(self.block) + 1);
        let mut y = y + 18.0;
        let mut drawn = vec![text(2.0, y, "head", &fit(&title, 13.2, paper.width - 4.0))];
        let mut last = None;
        for panel in &self.panels {
            let (legend, height) = legend(&panel.entries(), id, paper.pick(64.0, 2.0), paper.width - 4.0);
            let frame = Frame::new(paper, y + height + 16.0, paper.pick(92.0, 78.0));
            let at = format!("translate(0 {})", super::svg::px(y + 8.0));
            drawn.push(html! { g transform=(at) { (legend) } (panel.draw(paper, &frame, self.seconds)) });
            y = frame.bottom + 8.0;
            last = Some(frame);
        }
        let Some(frame) = last else { return (html! { @for mark in &drawn { (mark) } }, y) };
        let time = Scale::up_to(self.seconds, frame.left, frame.right);
        let axis = html! {
            @for at in time.ticks(paper.pick(1, 2)) { (frame.x_tick(time.at(at), &tick(at))) }
            (frame.x_title("Seconds since the run began"))
        };
        (html! { @for mark in &drawn { (mark) } (axis) }, frame.bottom + 46.0)
    }
}

impl SeriesPanel<'_> {
    fn entries(&self) -> Vec<Entry> {
        let entry = |(at, line): (usize, &&Series)| {
            Entry::new(Mark::Line(self.class(at)), format!("{}: {}", line.host, line.name))
        };
        let head = Entry::new(Mark::None, if self.unit.is_empty() { "no unit" } else { self.unit });
        std::iter::once(head).chain(self.lines.iter().enumerate().map(entry)).collect()
    }

    /// The CSS class of a line: a color for each host, and a dash pattern for each further line of the same
    /// host.
    fn class(&self, at: usize) -> String {
        let mut hosts: Vec<&str> = self.lines.iter().map(|line| line.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let host = hosts.iter().position(|host| *host == self.lines[at].host).unwrap_or(0);
        let before = self.lines[..at].iter().filter(|line| line.host == self.lines[at].host).count();
        format!("curve h{} d{}", host % 4, before % 4)
    }

    fn draw(&self, paper: Paper, frame: &Frame, seconds: f64) -> Markup {
        let values = self.lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value);
        let largest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let percent = self.unit == "percent" && largest <= 100.0;
        let scale = if percent { Scale::percent(frame.bottom, frame.top) } else { frame.upward(largest, 4) };
        let time = Scale::up_to(seconds, frame.left, frame.right);
        let place = |(at, value): (f64, f64)| (time.at(at), scale.at(value));
        html! {
            (frame.grid(&scale, if percent { 5 } else { 1 }))
            @for (at, line) in self.lines.iter().enumerate() {
                (polyline(&thinned(&line.points).into_iter().map(place).collect::<Vec<_>>(), &self.class(at)))
            }
            @if !paper.narrow { (frame.title(paper, self.unit)) }
        }
    }
}

/// The points or, if there are too many, the means of groups of adjacent points, all of the same size.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let size = points.len().div_ceil(MOST_POINTS).max(1);
    let mean = |chunk: &[(f64, f64)]| {
        let of = |part: fn(&(f64, f64)) -> f64| chunk.iter().map(part).sum::<f64>() / chunk.len() as f64;
        (of(|p| p.0), of(|p| p.1))
    };
    points.chunks(size).map(mean).filter(|(at, value)| at.is_finite() && value.is_finite()).collect()
}

/// Mean, minimum and maximum of a series over the samples that lie completely inside the measured interval
/// `counted`; over all samples if none does.
fn extent(series: &Series, counted: Option<(f64, f64)>) -> Option<[f64; 3]> {
    let before = |at: usize| at.checked_sub(1).map_or(0.0, |before| series.points[before].0);
    let inside = counted.map(|(begin, end)| {
        let points = series.points.iter().enumerate();
        let whole =
            points.filter(|(at, (until, value))| value.is_finite() && before(*at) >= begin && *until <= end);
        whole.map(|(_, (_, value))| *value).collect::<Vec<f64>>()
    });
    let values = inside.filter(|inside| !inside.is_empty());
    let all = || series.points.iter().map(|(_, value)| *value).filter(|value| value.is_finite()).collect();
    let values = values.unwrap_or_else(all);
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    Some([values.iter().sum::<f64>() / values.len() as f64, least, most])
}

fn all_lines<'r>(runs: &'r [Chosen<'_>]) -> impl Iterator<Item = (&'r Chosen<'r>, &'r Series)> {
    runs.iter()
        .flat_map(|run| run.panels.iter().flat_map(move |p| p.lines.iter().map(move |line| (run, *line))))
}

fn description(runs: &[Chosen<'_>], lacks: &[String]) -> String {
    let line = |(run, series): (&Chosen<'_>, &Series)| {
        let [mean, least, most] = extent(series, run.counted)?.map(short);
        let Series { host, name, unit, .. } = series;
        Some(format!("{}, {host}: {name} mean {mean} {unit}, from {least} to {most}", run.name))
    };
    let lines: Vec<_> = all_lines(runs).filter_map(line).chain(lacks.iter().cloned()).collect();
    format!("Time series of single runs. {}.", lines.join(". "))
}

fn words(context: &Context<'_>, runs: &[Chosen<'_>]) -> String {
    let mut marks = vec![format!(
        "Lines: the counts of both hosts’ samplers, each point the mean of the interval that ends there; of each case the figure shows the median run of {} by {}.",
        count(u64::from(context.record.blocks), "block", "blocks"),
        context.measure().name.to_lowercase(),
    )];
    marks.push(
        "Interface rates are of the wire, headers included; packets are the kernel's, with segmentation offload up to \
         64 KiB; CPU and memory are of the whole host."
            .to_owned(),
    );
    if all_lines(runs).any(|(_, series)| series.points.len() > MOST_POINTS) {
        marks.push(
            "In lines of more than 1,200 points, a drawn point is the mean of adjacent points.".to_owned(),
        );
    }
    if runs.iter().any(|run| run.counted.is_some()) {
        marks.push(
            "Mean, minimum and maximum in the table are those of the time in which the tool counted, without its ramp."
                .to_owned(),
        );
    }
    let blocks = runs.iter().filter(|run| run.seconds > 0.0).count() as u64;
    marks.push(format!(
        "n = 1 run for each case, of {}; a single run has no interval.",
        count(blocks, "case", "cases")
    ));
    caption::caption(context, &marks, &[])
}

fn table(runs: &[Chosen<'_>]) -> Table {
    let mut table = Table::new(["Case", "Host", "Series", "Unit", "Mean", "Least", "Most", "Points"]);
    for (run, series) in all_lines(runs) {
        let mut row = vec![
            Cell::text(run.name),
            Cell::text(&series.host),
            Cell::text(&series.name),
            Cell::text(&series.unit),
        ];
        let extent = extent(series, run.counted);
        row.extend([0, 1, 2].map(|at| Cell::from(extent.map(|extent| extent[at]))));
        row.push(Cell::Count(series.points.len()));
        table.push(row);
    }
    table
}

/// All points of all series, for the CSV.
fn points(runs: &[Chosen<'_>]) -> Table {
    let mut table = Table::new(["Case", "Block", "Host", "Series", "Unit", "Seconds", "Value"]);
    for (run, series) in all_lines(runs) {
        for (at, value) in &series.points {
            table.push(vec![
                Cell::text(run.name),
                Cell::Count(run.block as usize + 1),
                Cell::text(&series.host),
                Cell::text(&series.name),
                Cell::text(&series.unit),
                Cell::Number(*at),
                Cell::Number(*value),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, unit: &str) -> Series {
        Series {
            host: "a".into(),
            name: name.into(),
            unit: unit.into(),
            points: vec![(0.25, 1.0), (0.5, 3.0)],
        }
    }

    #[test]
    fn a_unit_is_a_panel_until_it_has_too_many_lines() {
        let few = [series("cpu busy", "percent"), series("eth0 in", "Gbit/s"), series("cpu irq", "percent")];
        assert_eq!(panels(&few).iter().map(|p| p.lines.len()).collect::<Vec<_>>(), [2, 1]);
        let many: Vec<_> = (0..8).map(|at| series(&format!("eth{at}"), "Gbit/s")).collect();
        assert_eq!(panels(&many).len(), 8);
    }

    #[test]
    fn many_points_are_means_of_neighbours() {
        let points: Vec<_> = (0..5000).map(|at| (f64::from(at), f64::from(at % 2))).collect();
        let thinned = thinned(&points);
        assert!(thinned.len() <= MOST_POINTS && thinned.len() > MOST_POINTS / 2);
        assert_eq!(extent(&series("x", "y"), None), Some([2.0, 1.0, 3.0]));
    }

    #[test]
    fn means_are_of_the_time_that_counted() {
        let points = [(1.0, 9.0), (2.0, 5.0), (3.0, 3.0), (4.0, f64::NAN), (5.0, 4.0), (6.0, 0.0)];
        let line = Series { points: points.to_vec(), ..series("x", "y") };
        assert_eq!(extent(&line, Some((1.8, 5.5))), Some([3.5, 3.0, 4.0]), "a ramp of 1.8 s isn't in it");
        assert_eq!(extent(&line, Some((0.0, 9.0))), extent(&line, None));
        assert_eq!(extent(&line, Some((2.2, 2.8))), extent(&line, None), "no interval is inside");
    }
}
