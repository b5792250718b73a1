//! Curves of a quantity over a factor, one curve for each series, with the straight line of perfect scaling
//! from the first point. A second panel below shows CPU.

use linerate_bench::metric::Metric;
use linerate_bench::record::Record;
use linerate_bench::spec::tool;
use linerate_bench::stats::{Estimate, Growth, are_at_one_ceiling};
use maud::{Markup, html};

use super::axes::{Frame, remarks};
use super::context::{Context, Hollow, PRINTED, upper};
use super::growth::growth_words;
use super::legend::{Entry, Mark, legend};
use super::marks::{cross, curve_class, hollow, point, upright_whisker};
use super::measure::Measure;
use super::scale::{Logarithmic, Scale};
use super::svg::{polyline, text};
use super::table::{Cell, Table};
use super::words::{level_words, remark, signs, with_interval};
use super::{Drawn, Paper, caption};
use crate::number::short;
use crate::summary::Summary;

/// Draws curves over a factor.
pub(crate) fn draw(context: &Context<'_>) -> Drawn {
    let chart = ScalingChart::new(context);
    let lacks = context.lacks();
    Drawn {
        description: chart.description(context.record, &lacks),
        findings: chart.findings(context.record),
        caption: chart.caption(context),
        table: chart.table(context),
        ..Drawn::on_both(context, |paper, id| chart.draw(paper, id, &lacks))
    }
}

struct ScalingChart<'a> {
    measure: Measure,
    /// The name of the factor along the x axis.
    x: String,
    /// The levels of the factor along the x axis; levels that are numbers are sorted by size.
    levels: Vec<String>,
    /// The levels as numbers, if all of them are numbers.
    numbers: Option<Vec<f64>>,
    curves: Vec<ScalingCurve<'a>>,
    /// The factor whose levels are the curves.
    series_name: String,
    shared_processors: bool,
}

struct ScalingCurve<'a> {
    /// The level of the series factor that this curve shows.
    level: String,
    /// The curve's name in the legend.
    name: String,
    points: Vec<Point<'a>>,
}

struct Point<'a> {
    level: usize,
    summary: &'a Summary<'a>,
    value: Option<Estimate>,
    printed: Vec<Hollow>,
    printed_cpu: Vec<Hollow>,
}

impl<'a> ScalingChart<'a> {
    fn new(context: &Context<'a>) -> Self {
        let x = context.asked.x.clone().unwrap_or_else(|| "streams".to_owned());
        let measure = context.measure();
        let level = |s: &Summary<'a>| {
            found(s, &x).or_else(|| context.level(s.case, &x)).unwrap_or_else(|| "–".to_owned())
        };
        // A case that searched for its level and found none has no position on the axis. A line below the
        // figure names that case.
        let placed =
            |s: &&&Summary<'a>| level(s) != tool::AUTO || s.quantity(context.asked.quantity).is_some();
        let (levels, numbers) = sorted(context.cases.iter().filter(placed).map(|s| level(s)));
        let mut curves: Vec<ScalingCurve<'a>> = Vec::new();
        for summary in context.cases.iter().filter(placed) {
            let level_of_series = series(context, summary);
            let at = curves.iter().position(|curve| curve.level == level_of_series).unwrap_or_else(|| {
                let name = level_words(context.asked.series.as_deref(), &level_of_series);
                curves.push(ScalingCurve { level: level_of_series, name, points: Vec::new() });
                curves.len() - 1
            });
            let position = levels.iter().position(|l| *l == level(summary)).unwrap_or(0);
            curves[at].points.push(Point {
                level: position,
                summary,
                value: summary.quantity(measure.quantity).map(|value| measure.scaled(value)),
                printed: context.printed(summary.case, &measure),
                printed_cpu: context.printed_cpu(summary.case),
            });
        }
        curves.iter_mut().for_each(|curve| curve.points.sort_by_key(|point| point.level));
        let series_name = context.asked.series.clone().unwrap_or_else(|| "Series".to_owned());
        let shared_processors = context.record.shared_processors;
        Self { measure, x, levels, numbers, curves, series_name, shared_processors }
    }

    fn points(&self) -> impl Iterator<Item = &Point<'a>> {
        self.curves.iter().flat_map(|curve| &curve.points)
    }

    /// Every point, with the class of its printed numbers: the color of its curve, if there are several
    /// curves.
    fn printed_points(&self) -> impl Iterator<Item = (String, &Point<'a>)> {
        let class = |at| match self.curves.len() {
            1 => "printed".to_owned(),
            _ => format!("printed {}", curve_class(at)),
        };
        let curves = self.curves.iter().enumerate();
        curves.flat_map(move |(at, curve)| curve.points.iter().map(move |point| (class(at), point)))
    }

    fn draw(&self, paper: Paper, id: &str, lacks: &[String]) -> (Markup, f64) {
        let (legend, below) = legend(&self.entries(), id, paper.pick(64.0, 2.0), paper.width - 8.0);
        let values = Frame::new(paper, below + paper.pick(14.0, 28.0), paper.pick(300.0, 220.0));
        let cpu = Frame::new(paper, values.bottom + paper.pick(20.0, 36.0), paper.pick(110.0, 90.0));
        let (remarks, end) = remarks(paper, lacks, cpu.bottom + 46.0, 6);
        let drawn = html! {
            (legend)
            (self.values(paper, &values))
            (self.cpu(paper, &cpu))
            @for (x, level) in self.ticks(&cpu) { (cpu.x_tick(x, level)) }
            (cpu.x_title(&self.x))
            (remarks)
        };
        (drawn, end)
    }

    fn entries(&self) -> Vec<Entry> {
        let many = self.curves.len() > 1;
        let curves = self.curves.iter().enumerate().filter(|_| many);
        let mut entries: Vec<_> =
            curves.map(|(at, curve)| Entry::new(Mark::Curve(at), curve.name.clone())).collect();
        if self.references().next().is_some() {
            entries.push(Entry::new(Mark::Line("reference".into()), "linear from the first point"));
        }
        if self.points().any(|point| !point.printed.is_empty() || !point.printed_cpu.is_empty()) {
            let colour = if many { ", in the color of its curve" } else { "" };
            entries.push(Entry::new(Mark::Hollow("printed"), format!("printed in the paper{colour}")));
        }
        entries
    }

    fn values(&self, paper: Paper, frame: &Frame) -> Markup {
        let largest = self.points().flat_map(|point| {
            point.value.map(upper).into_iter().chain(point.printed.iter().map(|printed| printed.value))
        });
        let scale = frame.upward(largest.fold(0.0, f64::max), 8);
        let labelled = self.curves.len() == 1 && self.levels.len() <= paper.pick(14, 8);
        html! {
            (frame.grid(&scale, 1))
            (frame.title(paper, &self.measure.title()))
            @for reference in self.references() { (self.reference(frame, &scale, reference)) }
            @for (at, curve) in self.curves.iter().enumerate() {
                (self.curve(frame, &scale, at, curve, labelled))
            }
            @for (class, point) in self.printed_points() { @for printed in &point.printed {
                (hollow(self.place(frame, point.level), scale.at(printed.value), &class, &point.summary.name, printed, self.measure.unit))
            } }
        }
    }

    fn curve(
        &self,
        frame: &Frame,
        scale: &Scale,
        at: usize,
        curve: &ScalingCurve<'a>,
        labelled: bool,
    ) -> Markup {
        let class = curve_class(at);
        let places: Vec<_> = curve
            .points
            .iter()
            .filter_map(|p| Some((self.place(frame, p.level), p.value?, p.summary)))
            .collect();
        // The curve has a gap at a level without a value.
        let pieces = curve.points.split(|point| point.value.is_none());
        let missing = curve.points.iter().filter(|point| point.value.is_none());
        html! {
            @for piece in pieces { (polyline(&self.line(frame, scale, piece), &format!("curve {class}"))) }
            @for point in missing { g {
                title { (point.summary.name) ": " (remark(point.summary, point.summary.state_of(self.measure.quantity))) }
                (cross(self.place(frame, point.level), frame.bottom - 8.0))
            } }
            @for (x, value, summary) in &places { g {
                title { (self.tooltip(summary, *value)) }
                (upright_whisker(*value, *x, scale))
                (point(at, *x, scale.at(value.median), &format!("point {class}")))
                @if labelled || !signs(summary).is_empty() {
                    (self.label(frame, *x, scale.at(value.median), *value, summary, labelled))
                }
            } }
        }
    }

    fn line(&self, frame: &Frame, scale: &Scale, piece: &[Point<'_>]) -> Vec<(f64, f64)> {
        let place = |p: &Point<'_>| Some((self.place(frame, p.level), scale.at(p.value?.median)));
        piece.iter().filter_map(place).collect()
    }

    /// Draws the value of a point as text above the point, where it doesn't touch a curve that rises to the
    /// right.
    fn label(
        &self,
        frame: &Frame,
        x: f64,
        y: f64,
        value: Estimate,
        of: &Summary<'_>,
        number: bool,
    ) -> Markup {
        let words = format!("{}{}", if number { short(value.median) } else { String::new() }, signs(of));
        let low = y > frame.top + 20.0;
        let (y, class) = if low { (y - 10.0, "value end") } else { (y + 20.0, "value end") };
        text((x + 4.0).max(frame.left + 30.0), y, class, &words)
    }

    fn cpu(&self, paper: Paper, frame: &Frame) -> Markup {
        let scale = Scale::percent(frame.bottom, frame.top);
        let title = if paper.narrow { "CPU of the whole host (% busy)" } else { "CPU (% busy)" };
        html! {
            (frame.grid(&scale, 5))
            (frame.title(paper, title))
            @for (at, curve) in self.curves.iter().enumerate() {
                @if !self.shared_processors { (self.cpu_curve(frame, &scale, at, curve, true)) }
                (self.cpu_curve(frame, &scale, at, curve, false))
            }
            @for (class, point) in self.printed_points() { @for printed in &point.printed_cpu {
                (hollow(self.place(frame, point.level), scale.at(printed.value), &class, &point.summary.name, printed, "% busy"))
            } }
        }
    }

    /// The receiver's CPU as a curve with points, or the sender's CPU as a thin line.
    fn cpu_curve(
        &self,
        frame: &Frame,
        scale: &Scale,
        at: usize,
        curve: &ScalingCurve<'_>,
        sender: bool,
    ) -> Markup {
        let class = curve_class(at);
        let of = |s: &Summary<'_>| if sender { s.of(Metric::BusyPercent) } else { s.receiver() };
        let place = |p: &Point<'_>| Some((self.place(frame, p.level), scale.at(of(p.summary)?.median)));
        let pieces = curve.points.split(|point| of(point.summary).is_none());
        let line = format!("curve {class}{}", if sender { " thin" } else { "" });
        html! {
            @for piece in pieces { (polyline(&piece.iter().filter_map(place).collect::<Vec<_>>(), &line)) }
            @if !sender { @for (x, y) in curve.points.iter().filter_map(place) {
                (point(at, x, y, &format!("point {class}")))
            } }
        }
    }

    /// The first point of each curve, which determines its line of perfect scaling.
    fn references(&self) -> impl Iterator<Item = (f64, f64)> {
        let first = |curve: &ScalingCurve<'a>| {
            let numbers = self.numbers.as_ref()?;
            let point = curve.points.iter().find(|point| point.value.is_some())?;
            let (x, y) = (numbers[point.level], point.value?.median);
            (x > 0.0 && y > 0.0 && curve.points.len() > 1).then_some((x, y))
        };
        self.curves.iter().filter_map(first)
    }

    /// Draws the line of perfect scaling: from zero through the first point, up to the frame.
    fn reference(&self, frame: &Frame, scale: &Scale, (x, y): (f64, f64)) -> Markup {
        const STEPS: u32 = 60;
        let last = self.numbers.iter().flatten().copied().fold(x, f64::max);
        let end = last.min(x * scale.max / y);
        let at = |step: u32| x + (end - x) * f64::from(step) / f64::from(STEPS);
        let places: Vec<_> =
            (0..=STEPS).map(at).map(|v| (self.place_of_number(frame, v), scale.at(v / x * y))).collect();
        polyline(&places, "reference")
    }

    fn place(&self, frame: &Frame, level: usize) -> f64 {
        match &self.numbers {
            Some(numbers) => self.place_of_number(frame, numbers[level]),
            None => {
                let (left, right) = inner(frame);
                left + (right - left) * (level as f64 + 0.5) / self.levels.len().max(1) as f64
            }
        }
    }

    fn place_of_number(&self, frame: &Frame, number: f64) -> f64 {
        let (left, right) = inner(frame);
        let numbers = self.numbers.as_deref().unwrap_or_default();
        let (first, last) = (numbers.first().copied().unwrap_or(0.0), numbers.last().copied().unwrap_or(1.0));
        if first > 0.0 && last / first > 24.0 {
            return Logarithmic::new(first, last, left, right).at(number);
        }
        let share = (number - first) / (last - first);
        if share.is_finite() {
            left + (right - left) * share.clamp(0.0, 1.0)
        } else {
            f64::midpoint(left, right)
        }
    }

    /// The levels that have a tick, with their positions. A level whose text would touch the previous text is
    /// left out.
    fn ticks(&self, frame: &Frame) -> Vec<(f64, &str)> {
        let mut end = f64::NEG_INFINITY;
        let mut ticks = Vec::new();
        for (at, level) in self.levels.iter().enumerate() {
            let (x, half) = (self.place(frame, at), super::text::width(level, 11.5) / 2.0);
            if x - half > end + 4.0 && x + half < frame.right + 60.0 && x - half > 0.0 {
                ticks.push((x, level.as_str()));
                end = x + half;
            }
        }
        ticks
    }

    fn tooltip(&self, summary: &Summary<'_>, value: Estimate) -> String {
        let cpu = with_interval(summary.receiver());
        format!("{}: {}; CPU {cpu} %", summary.name, self.measure.with_unit(&with_interval(Some(value))))
    }

    fn description(&self, record: &Record, lacks: &[String]) -> String {
        let points = self.points().filter_map(|point| Some(self.tooltip(point.summary, point.value?)));
        let printed = self.points().flat_map(|point| {
            let words = |p: &Hollow| format!("{}: printed {}", point.summary.name, p.words(&self.measure));
            point.printed.iter().map(words).collect::<Vec<_>>()
        });
        let findings = self.findings(record).into_iter().map(|words| words.trim_end_matches('.').to_owned());
        let all: Vec<_> = points.chain(printed).chain(lacks.iter().cloned()).chain(findings).collect();
        format!("{} over {}. {}.", self.measure.title(), self.x, all.join(". "))
    }

    fn findings(&self, record: &Record) -> Vec<String> {
        self.curves.iter().filter_map(|curve| self.finding(record, curve)).collect()
    }

    /// A sentence about the growth of a curve and of its CPU (see [`growth_words`]).
    fn finding(&self, record: &Record, curve: &ScalingCurve<'_>) -> Option<String> {
        let numbers = self.numbers.as_ref()?;
        let valued: Vec<_> = curve.points.iter().filter(|point| point.value.is_some()).collect();
        let levels: Vec<_> = valued.iter().map(|p| (numbers[p.level], p.summary.case.id.as_str())).collect();
        let (first, last) = (levels.first()?.0, levels.last()?.0);
        let growth = Growth::of(record, self.measure.quantity, &levels).filter(|_| last > first)?;
        let name = if self.curves.len() > 1 { format!("{}: ", curve.name) } else { String::new() };
        let is_rate = self.measure.quantity == Metric::PayloadRate;
        let x = &self.x;
        if is_rate && are_at_one_ceiling(record, levels.iter().map(|(_, case)| *case)) {
            return Some(format!(
                "{name}the link’s ceiling is reached at every level of {x}, which hides its effect."
            ));
        }
        let cpu = self.cpu_growth(record, &levels);
        let words = growth_words(&self.measure, x, [first, last], growth, cpu);
        Some(name + &words)
    }

    /// The growth of the shown CPU; `None` if the quantity itself is CPU.
    fn cpu_growth(&self, record: &Record, levels: &[(f64, &str)]) -> Option<Growth> {
        let far = Growth::of(record, Metric::FarBusyPercent, levels);
        far.or_else(|| Growth::of(record, Metric::BusyPercent, levels))
            .filter(|_| self.measure.quantity != Metric::FarBusyPercent)
    }

    fn caption(&self, context: &Context<'_>) -> String {
        let mut marks = vec![format!("Points: {}, over {}.", self.measure.meaning, self.x)];
        if self.references().next().is_some() {
            marks.push("Dotted: the straight line from zero through the first point.".to_owned());
        }
        marks.push(if self.shared_processors {
            "Below: busy share of all processors, which both ends share.".to_owned()
        } else {
            "Below: busy share of all processors of host b, and of host a as a thin line.".to_owned()
        });
        let estimates: Vec<_> = self.points().filter_map(|point| point.value).collect();
        caption::caption(context, &marks, &estimates)
    }

    fn table(&self, context: &Context<'_>) -> Table {
        let head = [self.x.clone(), self.series_name.clone(), self.measure.title()];
        let after = ["Blocks"].into_iter().chain(PRINTED).chain(["Remark"]).map(str::to_owned);
        let mut table = Table::new(head.into_iter().chain(context.cpu_heads()).chain(after));
        for curve in &self.curves {
            for point in &curve.points {
                table.push(self.row(context, curve, point));
            }
        }
        table
    }

    fn row(&self, context: &Context<'_>, curve: &ScalingCurve<'_>, point: &Point<'a>) -> Vec<Cell> {
        let s = point.summary;
        let mut row = vec![Cell::text(&self.levels[point.level]), Cell::text(&curve.level)];
        row.push(point.value.into());
        row.extend(context.cpu_cells(s));
        row.push(point.value.map(|value| value.blocks).into());
        row.extend(context.printed_cells(s.case, &self.measure));
        row.push(Cell::text(remark(s, s.state_of(context.asked.quantity))));
        row
    }
}

/// The level that a case's search found, which is the case's position on the axis.
fn found(summary: &Summary<'_>, factor: &str) -> Option<String> {
    let number = summary.of(Metric::Found).filter(|_| summary.figures.searched.as_deref() == Some(factor))?;
    Some(number.median.to_string())
}

/// The name of the curve to which a case belongs: its level of the series factor, or an empty text if there
/// is only one curve.
fn series(context: &Context<'_>, summary: &Summary<'_>) -> String {
    let factor = context.asked.series.as_deref();
    let case = context.cases.iter().find(|s| s.case.id == summary.case.id).map(|s| s.case);
    factor.zip(case).and_then(|(factor, case)| context.level(case, factor)).unwrap_or_default()
}

/// The levels without repetition, and their numbers: sorted by size if all are numbers, otherwise in the
/// study's order.
fn sorted(levels: impl Iterator<Item = String>) -> (Vec<String>, Option<Vec<f64>>) {
    let mut all: Vec<String> = Vec::new();
    for level in levels {
        if !all.contains(&level) {
            all.push(level);
        }
    }
    let number =
        |level: &String| level.trim().parse::<f64>().ok().filter(|n| n.is_finite() && n.abs() < 1e15);
    let Some(mut numbered) = all.iter().map(|l| Some((number(l)?, l.clone()))).collect::<Option<Vec<_>>>()
    else {
        return (all, None);
    };
    numbered.sort_by(|(left, _), (right, _)| left.total_cmp(right));
    let (numbers, levels) = numbered.into_iter().unzip();
    (levels, Some(numbers))
}

/// The range of x in which points are drawn, without the value axis itself.
fn inner(frame: &Frame) -> (f64, f64) {
    (frame.left + 26.0, frame.right - 16.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_are_numbers_are_sorted_as_numbers() {
        let of = |levels: &[&str]| sorted(levels.iter().map(|l| (*l).to_owned()));
        assert_eq!(of(&["8", "1", "16", "1"]).0, ["1", "8", "16"]);
        assert_eq!(of(&["on", "off", "on"]), (vec!["on".to_owned(), "off".to_owned()], None));
        assert_eq!(of(&["1", "auto"]).1, None);
        assert_eq!(of(&["NaN", "1"]).1, None);
    }
}
