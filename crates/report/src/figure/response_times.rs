//! The distribution of response times: the share of transactions slower than a time. Both axes are
//! logarithmic, so that the slowest thousandth is as readable as the median.

use linerate_bench::metric::Metric;
use linerate_bench::record::Latency;
use linerate_bench::stats::{Estimate, estimate, good_runs};
use maud::{Markup, html};

use super::axes::{Frame, remarks};
use super::context::{Context, Hollow};
use super::legend::{Entry, Mark, legend};
use super::marks::{curve_class, hollow, lying_whisker, point};
use super::measure::time_unit;
use super::scale::Logarithmic;
use super::svg::{line, polyline, text, upward_text};
use super::table::{Cell, Table};
use super::words::{remark, with_interval};
use super::{Drawn, Paper, caption};
use crate::number::{grouped, tick};
use crate::summary::Summary;

/// The percentiles that are shown: name, share of slower transactions, field.
type Percentile = (&'static str, f64, fn(&Latency) -> f64);
const PERCENTILES: [Percentile; 4] = [
    ("p50", 0.5, |latency| latency.p50_us),
    ("p90", 0.1, |latency| latency.p90_us),
    ("p99", 0.01, |latency| latency.p99_us),
    ("p99.9", 0.001, |latency| latency.p999_us),
];

/// Draws a curve of the response times of each case.
pub(crate) fn draw(context: &Context<'_>) -> Drawn {
    let chart = ResponseChart::new(context);
    let lacks = context.lacks_of("response times", |measures| measures.latency.is_some());
    Drawn {
        description: chart.description(&lacks),
        caption: chart.caption(context),
        table: chart.table(),
        more: Some(chart.histograms()),
        table_is_open: true,
        ..Drawn::on_both(context, |paper, id| chart.draw(paper, id, &lacks))
    }
}

struct ResponseChart<'a> {
    unit: &'static str,
    factor: f64,
    curves: Vec<ResponseCurve<'a>>,
}

struct ResponseCurve<'a> {
    summary: &'a Summary<'a>,
    /// The sum of the histograms of all good runs: each class has an upper bound in microseconds, and a
    /// number of transactions.
    classes: Vec<(f64, u64)>,
    /// The medians over blocks of the percentiles, in microseconds, in the order of [`PERCENTILES`].
    percentiles: [Option<Estimate>; 4],
    mean: Option<Estimate>,
    longest: Option<f64>,
    count: u64,
    printed: Vec<Hollow>,
}

impl<'a> ResponseChart<'a> {
    fn new(context: &Context<'a>) -> Self {
        let curves: Vec<_> =
            context.cases.iter().filter_map(|summary| ResponseCurve::new(context, summary)).collect();
        let typical = curves.iter().filter_map(|c| Some(c.percentiles[2]?.median)).fold(0.0, f64::max);
        let (unit, factor) = time_unit(typical);
        Self { unit, factor, curves }
    }

    fn draw(&self, paper: Paper, id: &str, lacks: &[String]) -> (Markup, f64) {
        let (legend, y) = legend(&self.entries(), id, paper.pick(64.0, 2.0), paper.width - 4.0);
        let frame = Frame::new(paper, y + paper.pick(14.0, 30.0), paper.pick(320.0, 260.0));
        let frame = Frame { right: paper.width - paper.pick(64.0, 42.0), ..frame };
        let (time, share) = self.scales(&frame);
        let (remarks, end) = remarks(paper, lacks, frame.bottom + 46.0, 6);
        let drawn = html! {
            (legend)
            (self.axes(paper, &frame, &time, &share))
            @for (at, curve) in self.curves.iter().enumerate() { (self.curve(at, curve, &time, &share)) }
            (remarks)
        };
        (drawn, end)
    }

    fn entries(&self) -> Vec<Entry> {
        let curves =
            self.curves.iter().enumerate().map(|(at, c)| Entry::new(Mark::Curve(at), c.summary.name.clone()));
        let mut entries: Vec<_> = curves.collect();
        if self.curves.iter().any(|curve| !curve.printed.is_empty()) {
            entries.push(Entry::new(Mark::Hollow("printed"), "printed in the paper"));
        }
        entries
    }

    /// The scales: from the fastest class to the longest time, and from all transactions to the smallest
    /// share that their number can show.
    fn scales(&self, frame: &Frame) -> (Logarithmic, Logarithmic) {
        let times = || self.curves.iter().flat_map(ResponseCurve::times).map(|time| time * self.factor);
        let (low, high) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
        let most = self.curves.iter().map(|curve| curve.count).max().unwrap_or(0).max(1);
        let rarest = (1.0 / most as f64).clamp(1e-6, 1e-3);
        (
            Logarithmic::new(low * 0.9, high * 1.1, frame.left, frame.right),
            Logarithmic::new(10f64.powf(rarest.log10().floor()), 1.0, frame.bottom, frame.top),
        )
    }

    fn axes(&self, paper: Paper, frame: &Frame, time: &Logarithmic, share: &Logarithmic) -> Markup {
        let title = "Share of transactions slower than this";
        html! {
            @for value in share.ticks().into_iter().filter(|value| is_power_of_ten(*value)) {
                (line((frame.left, share.at(value)), (frame.right, share.at(value)), "grid"))
                (text(frame.left - 8.0, share.at(value) + 4.0, "end", &format!("{} %", tick(value * 100.0))))
            }
            @for (name, value, _) in PERCENTILES {
                (line((frame.right, share.at(value)), (frame.right + 5.0, share.at(value)), "axis"))
                (text(frame.right + 8.0, share.at(value) + 4.0, "muted", name))
            }
            @for (x, words) in spaced(time) {
                (line((x, frame.top), (x, frame.bottom), "grid"))
                (text(x, frame.bottom + 17.0, "mid", &words))
            }
            (line((frame.left, frame.bottom), (frame.right, frame.bottom), "axis"))
            (text(f64::midpoint(frame.left, frame.right), frame.bottom + 35.0, "mid", &format!("Response time ({})", self.unit)))
            @if paper.narrow { (text(2.0, frame.top - 9.0, "", title)) }
            @else { (upward_text(14.0, f64::midpoint(frame.top, frame.bottom), "mid", title)) }
        }
    }

    fn curve(&self, at: usize, curve: &ResponseCurve<'_>, time: &Logarithmic, share: &Logarithmic) -> Markup {
        let class = curve_class(at);
        let x = |us: f64| time.at(us * self.factor);
        let steps: Vec<_> = curve.steps().into_iter().map(|(us, slower)| (x(us), share.at(slower))).collect();
        html! { g {
            title { (self.tooltip(curve)) }
            (polyline(&steps, &format!("curve {class}")))
            @for (estimate, (_, slower, _)) in curve.percentiles.iter().zip(PERCENTILES) {
                @if let Some(estimate) = estimate {
                    (lying_whisker(*estimate, share.at(slower), &x))
                    (point(at, x(estimate.median), share.at(slower), &format!("point {class}")))
                }
            }
            @for printed in &curve.printed { (hollow(x(printed.value), share.at(0.5), "printed", &curve.summary.name, printed, "µs")) }
        } }
    }

    fn tooltip(&self, curve: &ResponseCurve<'_>) -> String {
        let percentile = |(at, (name, ..)): (usize, &Percentile)| {
            let value = curve.percentiles[at].map(|e| self.scaled(e));
            format!("{name} {} {}", with_interval(value), self.unit)
        };
        let all: Vec<_> = PERCENTILES.iter().enumerate().map(percentile).collect();
        format!("{}: {} of {} transactions", curve.summary.name, all.join(", "), grouped(curve.count))
    }

    fn scaled(&self, estimate: Estimate) -> Estimate {
        use linerate_bench::stats::Interval;
        let interval = match estimate.interval {
            Interval::Known(low, high) => Interval::Known(low * self.factor, high * self.factor),
            Interval::Insufficient => Interval::Insufficient,
        };
        Estimate { median: estimate.median * self.factor, interval, ..estimate }
    }

    fn description(&self, lacks: &[String]) -> String {
        let lines: Vec<_> =
            self.curves.iter().map(|c| self.tooltip(c)).chain(lacks.iter().cloned()).collect();
        format!("Distribution of response times. {}.", lines.join(". "))
    }

    fn caption(&self, context: &Context<'_>) -> String {
        let marks = [
            "Curves: of all transactions of the good runs together, the share that took longer, from a request’s first \
             byte to the last byte of its reply’s payload, by the load’s own clock; both axes are logarithmic."
                .to_owned(),
            "Points: the median over blocks of each run’s percentile.".to_owned(),
        ];
        let estimates: Vec<_> = self.curves.iter().filter_map(|curve| curve.percentiles[0]).collect();
        caption::caption(context, &marks, &estimates)
    }

    fn table(&self) -> Table {
        let of = |name: &str| format!("{name} ({})", self.unit);
        let mut head = vec!["Case".to_owned(), "Transactions".into(), of("Mean")];
        head.extend(PERCENTILES.map(|(name, ..)| of(name)));
        head.extend([of("Longest"), of("Printed median"), "Remark".into()]);
        let mut table = Table::new(head);
        for curve in &self.curves {
            let mut row = vec![Cell::text(&curve.summary.name), Cell::Number(curve.count as f64)];
            row.push(curve.mean.map(|mean| mean.median * self.factor).into());
            row.extend(curve.percentiles.map(|percentile| percentile.map(|e| self.scaled(e)).into()));
            row.push(curve.longest.map(|longest| longest * self.factor).into());
            row.push(Cell::numbers(curve.printed.iter().map(|printed| printed.value * self.factor)));
            row.push(Cell::text(remark(curve.summary, curve.summary.state())));
            table.push(row);
        }
        table
    }

    /// The classes of all histograms, for the CSV.
    fn histograms(&self) -> Table {
        let mut table = Table::new(["Case", "Up to (µs)", "Transactions", "Share slower"]);
        for curve in &self.curves {
            let steps = curve.slower();
            for ((bound, count), (_, slower)) in curve.classes.iter().zip(&steps) {
                table.push(vec![
                    Cell::text(&curve.summary.name),
                    Cell::Number(*bound),
                    Cell::Number(*count as f64),
                    Cell::Number(*slower),
                ]);
            }
        }
        table
    }
}

impl<'a> ResponseCurve<'a> {
    fn new(context: &Context<'a>, summary: &'a Summary<'a>) -> Option<Self> {
        let (record, case) = (context.record, &summary.case.id);
        let runs: Vec<&Latency> =
            good_runs(record, case).filter_map(|(_, run)| run.latency.as_ref()).collect();
        let over_blocks = |of: fn(&Latency) -> f64| {
            estimate(record, case, |run| run.latency.as_ref().map(of)).filter(|e| e.median > 0.0)
        };
        let longest =
            runs.iter().map(|l| l.max_us).filter(|max| max.is_finite() && *max > 0.0).reduce(f64::max);
        let printed = record.printed.iter().filter(|p| p.case == *case && p.quantity == Metric::P50);
        (!runs.is_empty()).then(|| Self {
            summary,
            classes: pooled(&runs),
            percentiles: PERCENTILES.map(|(_, _, of)| over_blocks(of)),
            mean: over_blocks(|latency| latency.mean_us),
            longest,
            count: runs.iter().map(|latency| latency.count).fold(0, u64::saturating_add),
            printed: printed.map(|p| Hollow { value: p.value, source: p.source.clone() }).collect(),
        })
    }

    /// For each class of the histogram, its upper bound in microseconds and the share of transactions that
    /// took longer.
    fn slower(&self) -> Vec<(f64, f64)> {
        let all: f64 = self.classes.iter().map(|(_, count)| *count as f64).sum();
        let mut faster = 0.0;
        let step = |(bound, count): &(f64, u64)| {
            faster += *count as f64;
            (*bound, ((all - faster) / all).max(0.0))
        };
        self.classes.iter().map(step).collect()
    }

    /// The points of the curve: from the histogram or, if no run has one, from the percentiles.
    fn steps(&self) -> Vec<(f64, f64)> {
        let first = self.classes.first().map(|(bound, _)| (*bound, 1.0));
        // No transaction is slower than the last class, and a logarithmic axis can't show 0, so the curve
        // ends at the class before.
        let rest = self.slower().into_iter().filter(|(_, share)| *share > 0.0);
        let percentile =
            |(estimate, (_, share, _)): (&Option<Estimate>, Percentile)| Some(((*estimate)?.median, share));
        if self.classes.is_empty() {
            return self.percentiles.iter().zip(PERCENTILES).filter_map(percentile).collect();
        }
        first.into_iter().chain(rest).collect()
    }

    /// All times that the axis must contain, in microseconds.
    fn times(&self) -> impl Iterator<Item = f64> + '_ {
        let percentiles = self.percentiles.iter().flatten().map(|estimate| estimate.median);
        let classes = self.steps().into_iter().map(|(bound, _)| bound);
        let printed = self.printed.iter().map(|printed| printed.value);
        percentiles.chain(classes).chain(printed).filter(|time| time.is_finite() && *time > 1e-3)
    }
}

/// The sum of the histograms of all runs, by bound.
fn pooled(runs: &[&Latency]) -> Vec<(f64, u64)> {
    let mut all: Vec<(f64, u64)> = runs
        .iter()
        .flat_map(|latency| latency.histogram.iter().copied())
        .filter(|(bound, count)| bound.is_finite() && *bound > 0.0 && *count > 0)
        .collect();
    all.sort_by(|(left, _), (right, _)| left.total_cmp(right));
    all.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 = kept.1.saturating_add(next.1);
        }
        same
    });
    all
}

fn is_power_of_ten(value: f64) -> bool {
    (value.log10() - value.log10().round()).abs() < 1e-6
}

/// The ticks of a time axis that are far enough apart for their texts.
fn spaced(scale: &Logarithmic) -> Vec<(f64, String)> {
    let mut end = f64::NEG_INFINITY;
    let mut out = Vec::new();
    for value in scale.ticks() {
        let (x, words) = (scale.at(value), tick(value));
        let half = super::text::width(&words, 11.5) / 2.0;
        if x - half > end + 8.0 {
            end = x + half;
            out.push((x, words));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_all_runs_are_added() {
        let latency =
            |histogram: &[(f64, u64)]| Latency { histogram: histogram.to_vec(), ..Latency::default() };
        let (one, two) =
            (latency(&[(100.0, 3), (200.0, 1)]), latency(&[(100.0, 2), (f64::NAN, 5), (400.0, 1)]));
        assert_eq!(pooled(&[&one, &two]), [(100.0, 5), (200.0, 1), (400.0, 1)]);
    }
}
