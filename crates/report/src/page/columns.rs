//! The columns of the table of cases; a column is shown only if some case has a value in it.

use linerate_bench::metric::Metric;
use linerate_bench::record::{Outcome, Record, Run};
use linerate_bench::stats::Estimate;
use maud::{Markup, html};

use crate::ceiling::Ceiling;
use crate::number::{bytes, grouped, plain};
use crate::summary::{Summary, case_name, ends};

/// A column of the table of cases.
pub(crate) struct Column {
    /// The column's name, split into lines.
    head: Vec<String>,
    numeric: bool,
    /// The function that makes a case's cell; it returns `None` if the case has no such value.
    content: Box<Content>,
}

type Content = dyn Fn(&Record, &Summary<'_>) -> Option<Markup>;

/// The columns in which some case has a value.
pub(crate) fn present(record: &Record, summaries: &[Summary<'_>]) -> Vec<Column> {
    let filled =
        |column: &Column| summaries.iter().any(|summary| (column.content)(record, summary).is_some());
    all(record).into_iter().filter(filled).collect()
}

/// The name of the baseline, the case with which other cases are compared.
pub(crate) fn baseline(record: &Record) -> Option<String> {
    let id = record.baseline.as_deref()?;
    record.cases.iter().find(|case| case.id == id).map(|case| case_name(record, case))
}

impl Column {
    fn new(lines: [&str; 2], content: impl Fn(&Record, &Summary<'_>) -> Option<Markup> + 'static) -> Self {
        let head = lines.iter().filter(|line| !line.is_empty()).map(|line| (*line).to_owned()).collect();
        Self { head, numeric: true, content: Box::new(content) }
    }

    /// The cell at the head of the column.
    pub(crate) fn head(&self) -> Markup {
        html! {
            th scope="col" class=[self.class()] {
                @for (at, line) in self.head.iter().enumerate() { @if at > 0 { br; } (line) }
            }
        }
    }

    /// The column's cell for a case.
    pub(crate) fn cell(&self, record: &Record, summary: &Summary<'_>) -> Markup {
        let content = (self.content)(record, summary).unwrap_or_else(|| html! { "–" });
        html! { td class=[self.class()] { (content) } }
    }

    fn class(&self) -> Option<&'static str> {
        self.numeric.then_some("number")
    }
}

fn all(record: &Record) -> Vec<Column> {
    let metrics = Metric::all().filter(|metric| *metric != Metric::Bytes);
    let (before, after): (Vec<_>, Vec<_>) = metrics.partition(|metric| *metric < Metric::Seconds);
    let shown = |metric: &Metric| match metric {
        Metric::FarBusyPercent => !record.shared_processors,
        Metric::CommandRate => record.runs.iter().any(has_payload_time),
        _ => true,
    };
    let metrics = |all: Vec<Metric>| all.into_iter().filter(shown).map(|metric| of_metric(record, metric));
    let mut columns: Vec<Column> = metrics(before).collect();
    columns.push(Column::new(["Connections", "made, failed"], |_, s| s.connections.map(connections)));
    if let Some(baseline) = baseline(record) {
        let ratio = |_: &Record, s: &Summary<'_>| s.figures.ratio.map(|ratio| value(plain, ratio));
        columns.push(Column::new(["Times", &baseline], ratio));
    }
    let stream = |_: &Record, s: &Summary<'_>| {
        s.figures.stream_percent.map(|percent| value(|value| format!("{value:.1}"), percent))
    };
    columns.push(Column::new(["% of", "stream"], stream));
    columns.push(Column::new(["Of the", "ceiling"], share_of_ceiling));
    columns.extend(metrics(after));
    let limiter = |_: &Record, s: &Summary<'_>| s.limiter.map(|limiter| html! { (limiter) });
    columns.push(Column { numeric: false, ..Column::new(["Limited by", ""], limiter) });
    columns
}

fn of_metric(record: &Record, metric: Metric) -> Column {
    let about = metric.about();
    let head = match metric {
        Metric::BusyPercent if record.shared_processors => ["CPU both ends", "% busy"],
        _ => [about.heading, about.unit],
    };
    Column::new(head, move |_, summary| match metric {
        Metric::Found => Some(found(summary.figures.searched.as_deref()?, summary.of(metric)?)),
        Metric::PeakRss => summary.figures.peak_rss_bytes.map(|peak| html! { (bytes(peak)) }),
        // These two metrics follow from the metric in the neighboring column, which shows the interval.
        Metric::CommandRate | Metric::Seconds => {
            summary.of(metric).map(|estimate| html! { (metric.text(estimate.median)) })
        }
        _ => summary.of(metric).map(|estimate| value(|value| metric.text(value), estimate)),
    })
}

/// Whether the tool reports the time of the payload separately from the time of the login.
fn has_payload_time(run: &Run) -> bool {
    matches!(&run.outcome, Outcome::Measured(m) if m.payload_seconds.is_some())
}

fn value(text: impl Fn(f64) -> String, estimate: Estimate) -> Markup {
    html! {
        (text(estimate.median))
        @if let Some((low, high)) = ends(estimate) {
            span class="interval" { "[" (text(low)) ", " (text(high)) "]" }
        }
    }
}

/// The level that a search found, such as the number of users, as a cell.
fn found(parameter: &str, number: Estimate) -> Markup {
    html! {
        (number.median) " " (parameter)
        @if let Some((low, high)) = ends(number) { span class="interval" { "[" (low) ", " (high) "]" } }
    }
}

fn connections([attempted, made, failed]: [u64; 3]) -> Markup {
    html! {
        (grouped(made)) ", "
        span class=[(failed > 0).then_some("bad")] { (grouped(failed)) }
        @if attempted != made.saturating_add(failed) { span class="interval" { "of " (grouped(attempted)) } }
    }
}

/// The rate as a share of the link's ceiling. A run above the ceiling is an error of the measurement, and is
/// marked as an error.
fn share_of_ceiling(record: &Record, summary: &Summary<'_>) -> Option<Markup> {
    let ceiling = Ceiling::named(record, &summary.case.link)?;
    let share = 100.0 * summary.of(Metric::PayloadRate)?.median / ceiling.payload;
    if summary.breaks_ceiling {
        return Some(html! {
            span class="bad" { (format!("{share:.1} %")) span class="interval bad" { "a run was above the ceiling, which is an error" } }
        });
    }
    Some(html! { (format!("{share:.1} %")) })
}
