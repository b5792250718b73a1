//! A table of differences to the baseline in percent, computed within each block. Its rows are also drawn as
//! intervals around zero.

use linerate_bench::stats::{Called, Difference, Differences, Estimate, Interval, Student};
use maud::{Markup, html};

use super::axes::remarks;
use super::context::{Context, Hollow};
use super::legend::{Entry, Mark, legend};
use super::marks::{diamond, dot, lying_whisker};
use super::measure::Measure;
use super::scale::Signed;
use super::svg::{line, text};
use super::table::{Cell, Table};
use super::text::fit;
use super::words::{remark, signs};
use super::{Drawn, Paper, caption};
use crate::number::{count, fine, tick};
use crate::summary::{Summary, ends};

/// Draws a table of differences to the baseline.
pub(crate) fn draw(context: &Context<'_>) -> Drawn {
    let chart = DifferenceChart::new(context);
    let lacks = context.lacks();
    Drawn {
        description: chart.description(&lacks),
        findings: chart.finding().into_iter().collect(),
        caption: chart.caption(context),
        table: chart.table(context),
        table_is_open: true,
        ..Drawn::on_both(context, |paper, id| chart.draw(paper, id, &lacks))
    }
}

struct DifferenceChart<'a> {
    measure: Measure,
    base: Option<&'a Summary<'a>>,
    base_value: Option<Estimate>,
    rows: Vec<DifferenceRow<'a>>,
    /// The noise of repeated single runs as text, if it is used.
    noise: Option<String>,
}

struct DifferenceRow<'a> {
    summary: &'a Summary<'a>,
    value: Option<Estimate>,
    /// The difference to the baseline, in percent.
    difference: Option<Estimate>,
    verdict: DifferenceVerdict,
    /// Differences to the baseline, computed from the numbers that papers printed.
    printed: Vec<PrintedChange>,
}

/// The values that a paper printed for a row and for the baseline.
struct PrintedChange {
    value: f64,
    /// The paper's difference to its value for the baseline, in percent.
    change: f64,
    source: String,
}

/// Whether a row differs from the baseline, or why that can't be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DifferenceVerdict {
    Differs,
    Same,
    Insufficient,
    None,
}

impl<'a> DifferenceChart<'a> {
    fn new(context: &Context<'a>) -> Self {
        let measure = context.measure();
        let named = context.record.baseline.as_deref();
        let base = context.cases.iter().find(|s| Some(s.case.id.as_str()) == named).or(context.cases.first());
        let base = base.copied();
        let value = |s: &Summary<'_>| s.quantity(measure.quantity).map(|value| measure.scaled(value));
        let others = context.cases.iter().filter(|s| base.is_none_or(|base| base.case.id != s.case.id));
        let made = base.and_then(|base| Differences::to(context.record, measure.quantity, &base.case.id));
        let found =
            |s: &Summary<'_>| made.as_ref()?.rows.iter().find(|row| row.case == s.case.id)?.difference;
        let row = |s: &&'a Summary<'a>| DifferenceRow {
            summary: s,
            value: value(s),
            difference: found(s).map(in_estimate),
            verdict: found(s).map_or(DifferenceVerdict::None, |difference| difference.called.into()),
            printed: base.map_or_else(Vec::new, |base| printed(context, &measure, base, s)),
        };
        let rows = others.map(row).collect();
        let noise = made.as_ref().filter(|made| made.repeats.is_some()).map(Differences::conclusion);
        Self { measure, base, base_value: base.and_then(value), rows, noise }
    }

    fn base_name(&self) -> &str {
        self.base.map_or("", |base| base.name.as_str())
    }

    fn draw(&self, paper: Paper, id: &str, lacks: &[String]) -> (Markup, f64) {
        let (legend, y) = legend(&self.entries(), id, 2.0, paper.width - 4.0);
        let height = paper.pick(27.0, 54.0);
        let top = y + paper.pick(48.0, 44.0);
        let bottom = top + height * self.rows.len() as f64;
        let (from, to) = paper.pick((556.0, 756.0), (16.0, 344.0));
        let ends = |row: &DifferenceRow<'_>| {
            let (low, high) = row.difference.and_then(ends).unwrap_or_default();
            let printed: Vec<f64> = row.printed.iter().map(|printed| printed.change).collect();
            [low, high, row.difference.map_or(0.0, |d| d.median)].into_iter().chain(printed)
        };
        let width = |tick: f64| super::text::width(&signed_tick(tick), 11.5);
        let scale = Signed::holding(self.rows.iter().flat_map(ends), from, to, width);
        let (remarks, end) = remarks(paper, lacks, bottom + 34.0, 8);
        let drawn = html! {
            (legend)
            (self.head(paper, top))
            (grid(paper, &scale, top, bottom))
            @for (at, row) in self.rows.iter().enumerate() {
                (self.row(paper, &scale, row, top + height * at as f64, height))
            }
            (text(f64::midpoint(from, to), bottom + 31.0, "mid", "Difference to the baseline (%)"))
            (remarks)
        };
        (drawn, end.max(bottom + 40.0))
    }

    fn entries(&self) -> Vec<Entry> {
        let mut entries = vec![Entry::new(Mark::Dot("key-dot"), "measured")];
        if self.rows.iter().any(|row| !row.printed.is_empty()) {
            entries.push(Entry::new(Mark::Hollow("printed"), "printed in the paper"));
        }
        entries
    }

    fn head(&self, paper: Paper, top: f64) -> Markup {
        let base =
            format!("Baseline: {}, {}", self.base_name(), self.measure.with_unit(&precise(self.base_value)));
        if paper.narrow {
            return text(2.0, top - 22.0, "head", &fit(&base, 13.2, paper.width - 4.0));
        }
        html! {
            (text(2.0, top - 32.0, "head", &fit(&base, 13.2, paper.width - 4.0)))
            (text(388.0, top - 12.0, "muted end", &self.measure.title()))
            (text(544.0, top - 12.0, "muted end", "Difference (%)"))
            (text(772.0, top - 12.0, "muted", "Verdict"))
        }
    }

    fn row(&self, paper: Paper, scale: &Signed, row: &DifferenceRow<'_>, y: f64, height: f64) -> Markup {
        let (verdict, class) = row.verdict.shown();
        let value = format!("{}{}", precise(row.value), signs(row.summary));
        let middle = if paper.narrow { y + 43.0 } else { y + height / 2.0 };
        let difference = row.difference.map_or("–".to_owned(), in_percent);
        html! { g {
            title { (self.tooltip(row)) }
            @if paper.narrow {
                (text(2.0, y + 15.0, "name", &fit(&row.summary.name, 12.8, paper.width - 4.0)))
                (text(2.0, y + 30.0, "rim", &fit(&row.short_words(), 11.5, 215.0)))
                (text(paper.width - 2.0, y + 30.0, &format!("end rim {class}"), verdict))
            } @else {
                (text(2.0, middle + 4.0, "", &fit(&row.summary.name, 11.5, 272.0)))
                (text(388.0, middle + 4.0, "end", &value))
                (text(544.0, middle + 4.0, "end strong", &difference))
                (text(772.0, middle + 4.0, class, verdict))
            }
            @if let Some(difference) = row.difference {
                (lying_whisker(difference, middle, &|value| scale.at(value)))
                (dot(scale.at(difference.median), middle, "key-dot"))
            }
            @for PrintedChange { change, source, .. } in &row.printed {
                g { title { "printed: " (signed(*change)) " % (" (source) ")" } (diamond(scale.at(*change), middle, "printed")) }
            }
        } }
    }

    fn tooltip(&self, row: &DifferenceRow<'_>) -> String {
        let value = self.measure.with_unit(&precise(row.value));
        let difference =
            row.difference.map_or("no difference known".to_owned(), |d| format!("{} %", in_percent(d)));
        let printed = row.printed.iter().map(|p| format!("; printed: {} % ({})", signed(p.change), p.source));
        let printed: String = printed.collect();
        format!("{}: {value}; {difference}, {}{printed}", row.summary.name, row.verdict.shown().0)
    }

    fn description(&self, lacks: &[String]) -> String {
        let rows = self.rows.iter().map(|row| self.tooltip(row));
        let all: Vec<_> = rows.chain(lacks.iter().cloned()).collect();
        format!("Differences to {} in {}. {}.", self.base_name(), self.measure.title(), all.join(". "))
    }

    /// A sentence with the number of rows that differ from the baseline.
    fn finding(&self) -> Option<String> {
        let of = |verdict| self.rows.iter().filter(|row| row.verdict == verdict).count() as u64;
        let row = |number| count(number, "row", "rows");
        let parts = [
            (of(DifferenceVerdict::Differs), "from it", "differs", "differ"),
            (of(DifferenceVerdict::Same), "significantly", "doesn’t differ", "don’t differ"),
        ];
        let mut words: Vec<_> = parts
            .iter()
            .filter(|(n, ..)| *n > 0)
            .map(|(n, how, one, many)| format!("{} {} {how}", row(*n), if *n == 1 { one } else { many }))
            .collect();
        let insufficient = of(DifferenceVerdict::Insufficient);
        if insufficient > 0 {
            words.push(format!("{} can’t be compared, because there are too few blocks", row(insufficient)));
        }
        (!words.is_empty()).then(|| {
            format!(
                "{} compared with the baseline “{}”: {}.",
                row(self.rows.len() as u64),
                self.base_name(),
                words.join(", ")
            )
        })
    }

    fn caption(&self, context: &Context<'_>) -> String {
        let marks = [format!("Value: {}.", self.measure.meaning), self.rule()];
        let estimates: Vec<_> = self.rows.iter().filter_map(|row| row.difference).collect();
        caption::caption(context, &marks, &estimates)
    }

    /// The rule by which a row counts as different.
    fn rule(&self) -> String {
        if let Some(noise) = &self.noise {
            return format!("Each row is one run; repeated runs give the noise. {noise}");
        }
        "Difference: the change from the baseline, computed within each block; median over blocks. A row differs if the \
         bootstrap’s 95 % interval of the change and Student’s 98 % interval of its logarithm both exclude zero. With fewer \
         than five blocks there is no interval, which is insufficient."
            .to_owned()
    }

    fn table(&self, context: &Context<'_>) -> Table {
        let mut table = Table::new([
            "Configuration".to_owned(),
            self.measure.title(),
            "Difference (%)".into(),
            "Verdict".into(),
            "Blocks".into(),
            "Printed".into(),
            "Printed difference (%)".into(),
            "Printed in".into(),
            "Remark".into(),
        ]);
        if let Some(base) = self.base {
            table.push(vec![
                Cell::text(format!("{} (baseline)", base.name)),
                self.base_value.into(),
                Cell::Blank,
                Cell::Blank,
                self.base_value.map(|value| value.blocks).into(),
                Cell::numbers(context.printed(base.case, &self.measure).iter().map(|printed| printed.value)),
                Cell::Blank,
                Cell::text(sources(&context.printed(base.case, &self.measure))),
                Cell::text(remark(base, context.state(base))),
            ]);
        }
        self.rows.iter().for_each(|row| table.push(row.cells(context)));
        table
    }
}

impl DifferenceRow<'_> {
    /// The row's value and its difference as text, for narrow layouts.
    fn short_words(&self) -> String {
        let value = self.value.map_or("–".to_owned(), |value| fine(value.median));
        let difference = self.difference.map_or(String::new(), |d| format!("; {} %", in_percent(d)));
        format!("{value}{}{difference}", signs(self.summary))
    }

    fn cells(&self, context: &Context<'_>) -> Vec<Cell> {
        let sources: Vec<_> = self.printed.iter().map(|printed| printed.source.as_str()).collect();
        vec![
            Cell::text(&self.summary.name),
            self.value.into(),
            self.difference.into(),
            Cell::text(self.verdict.shown().0),
            self.difference.map(|difference| difference.blocks).into(),
            Cell::numbers(self.printed.iter().map(|printed| printed.value)),
            Cell::numbers(self.printed.iter().map(|printed| printed.change)),
            Cell::text(sources.join("; ")),
            Cell::text(remark(self.summary, self.summary.state_of(context.asked.quantity))),
        ]
    }
}

impl DifferenceVerdict {
    /// The text for the verdict, and its CSS class.
    fn shown(self) -> (&'static str, &'static str) {
        match self {
            Self::Differs => ("differs", "strong"),
            Self::Same => ("doesn’t differ significantly", "muted"),
            Self::Insufficient => ("insufficient", "muted"),
            Self::None => ("–", "muted"),
        }
    }
}

impl From<Called> for DifferenceVerdict {
    fn from(called: Called) -> Self {
        match called {
            Called::Different => Self::Differs,
            Called::Same => Self::Same,
            Called::Insufficient => Self::Insufficient,
        }
    }
}

/// A difference as an estimate, the type that marks and cells need.
fn in_estimate(difference: Difference) -> Estimate {
    let Difference { percent, interval, blocks, .. } = difference;
    let student = Student { mean: percent, interval: Interval::Insufficient, half_width_percent: None };
    Estimate { median: percent, interval, student, blocks }
}

/// The sources of printed values, as text.
fn sources(printed: &[Hollow]) -> String {
    printed.iter().map(|printed| printed.source.as_str()).collect::<Vec<_>>().join("; ")
}

/// The changes, in percent, from a paper's number for the baseline to its numbers for another case.
fn printed(
    context: &Context<'_>,
    measure: &Measure,
    base: &Summary<'_>,
    other: &Summary<'_>,
) -> Vec<PrintedChange> {
    let Some(under) = context.printed(base.case, measure).into_iter().next() else { return Vec::new() };
    let change = |over: Hollow| {
        let change = 100.0 * (over.value / under.value - 1.0);
        PrintedChange { value: over.value, change, source: over.source }
    };
    let all = context.printed(other.case, measure).into_iter().map(change);
    all.filter(|printed| printed.change.is_finite()).collect()
}

fn grid(paper: Paper, scale: &Signed, top: f64, bottom: f64) -> Markup {
    html! {
        @for tick_at in scale.ticks() {
            (line((scale.at(tick_at), top), (scale.at(tick_at), bottom), "grid"))
            (text(scale.at(tick_at), bottom + 15.0, "mid", &signed_tick(tick_at)))
        }
        (line((scale.at(0.0), top), (scale.at(0.0), bottom), "axis"))
        @if !paper.narrow { (line((2.0, top), (paper.width - 2.0, top), "grid")) }
    }
}

fn signed_tick(value: f64) -> String {
    tick(if value.abs() < 1e-9 { 0.0 } else { value }).replace('-', "−")
}

/// A difference with its interval, for example `−1.55 [−2.1, +0.3]`.
fn in_percent(difference: Estimate) -> String {
    match ends(difference) {
        None => signed(difference.median),
        Some((low, high)) => format!("{} [{}, {}]", signed(difference.median), signed(low), signed(high)),
    }
}

/// A value with enough digits that differences are visible.
fn precise(value: Option<Estimate>) -> String {
    match value.map(|value| (value.median, ends(value))) {
        None => "–".to_owned(),
        Some((median, None)) => fine(median),
        Some((median, Some((low, high)))) => format!("{} [{}, {}]", fine(median), fine(low), fine(high)),
    }
}

/// A percentage with its sign.
fn signed(value: f64) -> String {
    let text = if value.abs() < 99.95 { format!("{value:+.2}") } else { format!("{value:+.0}") };
    text.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test's values are scores that one paper printed. Each score is from one run; three configurations were run
    /// twice.
    #[test]
    fn repeated_runs_give_the_noise_of_single_ones() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/papers/vmmark-netqueue");
        let record = linerate_bench::store::load(std::path::Path::new(dir)).unwrap().record;
        let page = crate::html(&record);
        assert!(page.contains("No row differs significantly from"), "no conclusion");
        assert!(page.contains("9 rows compared with the baseline"), "no finding");
        assert!(page.contains("9 rows don’t differ significantly") && page.contains("−4.65"), "no rows");
    }

    #[test]
    fn percentages_carry_their_sign() {
        assert_eq!([-1.549, 0.0, 250.4].map(signed), ["−1.55", "+0.00", "+250"]);
    }
}
