//! The columns of the table of cases: each stands there only where some case has something in it.

use linerate_bench::record::{Outcome, Record, Run};
use linerate_bench::stats::{Estimate, Interval};
use maud::{Markup, html};

use crate::link::Ceiling;
use crate::number::{bytes, grouped, short};
use crate::summary::{Summary, case_name, ends};

/// A column.
pub(crate) struct Column {
    /// Its name, in lines.
    head: Vec<String>,
    numeric: bool,
    /// What it holds of a case; `None` where the case has no such figure.
    content: fn(&Record, &Summary<'_>) -> Option<Markup>,
}

/// The columns that have something to show.
pub(crate) fn present(record: &Record, summaries: &[Summary<'_>]) -> Vec<Column> {
    let filled =
        |column: &Column| summaries.iter().any(|summary| (column.content)(record, summary).is_some());
    all(record).into_iter().filter(filled).collect()
}

/// The name of the case with which the others are compared.
pub(crate) fn baseline(record: &Record) -> Option<String> {
    let id = record.baseline.as_deref()?;
    record.cases.iter().find(|case| case.id == id).map(|case| case_name(record, case))
}

impl Column {
    fn number(lines: [&str; 2], content: fn(&Record, &Summary<'_>) -> Option<Markup>) -> Self {
        let head = lines.iter().filter(|line| !line.is_empty()).map(|line| (*line).to_owned()).collect();
        Self { head, numeric: true, content }
    }

    /// The cell at the column's head.
    pub(crate) fn head(&self) -> Markup {
        html! {
            th scope="col" class=[self.class()] {
                @for (at, line) in self.head.iter().enumerate() { @if at > 0 { br; } (line) }
            }
        }
    }

    /// The cell of a case.
    pub(crate) fn cell(&self, record: &Record, summary: &Summary<'_>) -> Markup {
        let content = (self.content)(record, summary).unwrap_or_else(|| html! { "–" });
        html! { td class=[self.class()] { (content) } }
    }

    fn class(&self) -> Option<&'static str> {
        self.numeric.then_some("number")
    }
}

fn all(record: &Record) -> Vec<Column> {
    let [sender, receiver] =
        if record.shared_processors { ["CPU busy", ""] } else { ["CPU sender", "CPU receiver"] };
    let unit = if record.shared_processors { "%" } else { "% busy" };
    let mut columns = vec![
        Column::number(["Payload", "Gbit/s"], |_, s| value(s.payload, 1.0)),
        Column::number(["With login", "Gbit/s"], with_login),
        Column::number(["Transactions", "1/s"], |_, s| value(s.transactions, 1.0)),
        Column::number(["Response p50", "ms"], |_, s| value(s.response, 1e-3)),
        Column::number(["Response p99", "ms"], |_, s| value(s.slowest_hundredth, 1e-3)),
        Column::number(["Score", ""], |_, s| value(s.score, 1.0)),
        Column::number(["Best, by", "search"], |_, s| s.found.map(found)),
        Column::number(["Connections", "made, failed"], |_, s| s.connections.map(connections)),
    ];
    if let Some(baseline) = baseline(record) {
        let mut column = Column::number(["Times", ""], |_, s| value(s.ratio, 1.0));
        column.head.push(baseline);
        columns.push(column);
    }
    columns.extend([
        Column::number(["Of the", "ceiling"], share_of_ceiling),
        Column::number(["Time", "s"], |_, s| value(alone(s.seconds), 1.0)),
        Column::number([sender, unit], |_, s| value(s.cpu_a, 1.0)),
    ]);
    if !record.shared_processors {
        columns.push(Column::number([receiver, unit], |_, s| value(s.cpu_b, 1.0)));
    }
    columns.extend([
        Column::number(["CPU-s", "per GB"], |_, s| value(s.cpu_per_gb, 1.0)),
        Column::number(["Peak", "memory"], |_, s| s.peak_rss.map(|peak| html! { (bytes(peak)) })),
        Column {
            head: vec!["Limited by".to_owned()],
            numeric: false,
            content: |_, s| s.limiter.map(|limiter| html! { (limiter) }),
        },
    ]);
    columns
}

/// The rate of the whole command, where any tool states its payload's time apart.
fn with_login(record: &Record, summary: &Summary<'_>) -> Option<Markup> {
    let apart = |run: &Run| matches!(&run.outcome, Outcome::Measured(m) if m.payload_seconds.is_some());
    record.runs.iter().any(apart).then(|| value(alone(summary.whole), 1.0)).flatten()
}

/// The median alone: for what follows from a figure beside it that has its interval.
fn alone(estimate: Option<Estimate>) -> Option<Estimate> {
    estimate.map(|estimate| Estimate { interval: Interval::Insufficient, ..estimate })
}

fn value(estimate: Option<Estimate>, factor: f64) -> Option<Markup> {
    let estimate = estimate?;
    Some(html! {
        (short(estimate.median * factor))
        @if let Some((low, high)) = ends(estimate) {
            span class="interval" { "[" (short(low * factor)) ", " (short(high * factor)) "]" }
        }
    })
}

/// A number of something, such as users: the fewest, or most, that do the best.
fn found((parameter, number): (&str, Estimate)) -> Markup {
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

/// The share of what the link carries at most; a run above that is an error of the measurement, and is called
/// one.
fn share_of_ceiling(record: &Record, summary: &Summary<'_>) -> Option<Markup> {
    let ceiling = Ceiling::named(record, &summary.case.link)?;
    let share = 100.0 * summary.payload?.median / ceiling.payload;
    if summary.breaks_ceiling {
        return Some(html! {
            span class="bad" { (format!("{share:.1} %")) span class="interval bad" { "a run above it: an error" } }
        });
    }
    Some(html! { (format!("{share:.1} %")) })
}
