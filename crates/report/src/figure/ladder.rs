//! The ladder figure: each rung is a case that adds a stage to the case before. The difference between two
//! rungs is the cost of that stage, in rate and in CPU.

use linerate_bench::metric::Metric;
use linerate_bench::record::Record;
use linerate_bench::stats::{Estimate, paired};
use maud::{Markup, html};

use super::axes::remarks;
use super::context::{Context, Hollow, upper};
use super::legend::{Entry, Mark, legend};
use super::marks::{Area, hollow, lying_whisker, swatch};
use super::measure::Measure;
use super::scale::Scale;
use super::svg::{line, text};
use super::table::{Cell, Table};
use super::text::{fit, width};
use super::words::{remark, signs, with_interval};
use super::{Drawn, Paper, caption};
use crate::ceiling::Ceiling;
use crate::number::{short, tick};
use crate::summary::{Summary, ends};

/// Draws the rungs, with the cost of each stage.
pub(crate) fn draw(context: &Context<'_>) -> Drawn {
    let chart = LadderChart::new(context);
    let lacks = context.lacks();
    Drawn {
        description: chart.description(&lacks),
        findings: chart.finding().into_iter().collect(),
        caption: chart.caption(context),
        table: chart.table(context),
        ..Drawn::on_both(context, |paper, id| chart.draw(paper, id, &lacks))
    }
}

struct LadderChart<'a> {
    measure: Measure,
    rungs: Vec<Rung<'a>>,
    ceiling: Option<Ceiling>,
}

struct Rung<'a> {
    name: String,
    summary: &'a Summary<'a>,
    value: Option<Estimate>,
    cpu: Option<Estimate>,
    /// The cost of the rung's stage, compared with the previous measured rung: the change of the value in
    /// percent, and the change in CPU-seconds per GB.
    price: Option<Price>,
    printed: Vec<Hollow>,
}

#[derive(Clone, Copy)]
struct Price {
    rate: Option<Estimate>,
    cpu: Option<Estimate>,
}

impl<'a> LadderChart<'a> {
    /// The space for a value and a cost, in units of the layout.
    const ROOM: f64 = 136.0;

    fn new(context: &Context<'a>) -> Self {
        let measure = context.measure();
        let mut before: Option<&Summary<'a>> = None;
        let mut rungs = Vec::new();
        for summary in &context.cases {
            let level = context.asked.x.as_ref().and_then(|x| context.level(summary.case, x));
            let value = summary.quantity(measure.quantity).map(|value| measure.scaled(value));
            rungs.push(Rung {
                name: level.unwrap_or_else(|| summary.name.clone()),
                summary,
                value,
                cpu: summary.of(Metric::CpuPerGb),
                price: before
                    .filter(|_| value.is_some())
                    .map(|before| price(context.record, &measure, before, summary)),
                printed: context.printed(summary.case, &measure),
            });
            before = if value.is_some() { Some(summary) } else { before };
        }
        let payload = measure.quantity == Metric::PayloadRate;
        let link = context.cases.first().map(|s| s.case.link.as_str());
        let one_link = context.cases.iter().all(|s| Some(s.case.link.as_str()) == link);
        let ceiling =
            link.filter(|_| payload && one_link).and_then(|link| Ceiling::named(context.record, link));
        Self { measure, rungs, ceiling }
    }

    fn draw(&self, paper: Paper, id: &str, lacks: &[String]) -> (Markup, f64) {
        let (legend, y) = legend(&self.entries(), id, 2.0, paper.width - 4.0);
        // The space right of each bar holds its value and its cost.
        let (label, split) = (150.0, 568.0);
        let (drawn, end) = if paper.narrow {
            let (rates, y) = self.column(paper, (8.0, 356.0 - Self::ROOM), y + 22.0, LadderColumn::Rate);
            let (cpu, y) = self.column(paper, (8.0, 356.0 - Self::ROOM), y + 30.0, LadderColumn::Cpu);
            (html! { (rates) (cpu) }, y)
        } else {
            let (rates, end) = self.column(paper, (label, split - Self::ROOM), y + 22.0, LadderColumn::Rate);
            let (cpu, _) = self.column(
                paper,
                (split + 16.0, paper.width - Self::ROOM + 22.0),
                y + 22.0,
                LadderColumn::Cpu,
            );
            (html! { (rates) (cpu) }, end)
        };
        let (remarks, end) = remarks(paper, lacks, end + 4.0, 6);
        (html! { (legend) (drawn) (remarks) }, end)
    }

    fn entries(&self) -> Vec<Entry> {
        let mut entries = vec![Entry::new(Mark::Bar("bar s3".into(), false), "the rung")];
        entries.push(Entry::new(Mark::Bar("price".into(), false), "the cost of the rung’s stage"));
        if self.gains() {
            entries.push(Entry::new(Mark::Bar("gain".into(), false), "the gain of the rung’s stage"));
        }
        if self.ceiling.is_some() {
            entries.push(Entry::new(Mark::Line("ceiling".into()), "ceiling of the link"));
        }
        if self.rungs.iter().any(|rung| !rung.printed.is_empty()) {
            entries.push(Entry::new(Mark::Hollow("printed"), "printed in the paper"));
        }
        entries
    }

    /// Whether any stage improves the value.
    fn gains(&self) -> bool {
        let prices = self.rungs.iter().filter_map(|rung| rung.price);
        let gain = |price: Price| {
            price.rate.is_some_and(|rate| rate.median > 0.0) || price.cpu.is_some_and(|cpu| cpu.median < 0.0)
        };
        prices.into_iter().any(gain)
    }

    /// Draws one of the figure's two halves, with bars from `span.0` to `span.1`, and returns the y of the half's lower
    /// end.
    fn column(&self, paper: Paper, span: (f64, f64), y: f64, column: LadderColumn) -> (Markup, f64) {
        let row = paper.pick(42.0, 50.0);
        let top = y + 10.0;
        let bottom = top + row * self.rungs.len() as f64;
        let largest = self.rungs.iter().flat_map(|rung| rung.extent(column)).fold(0.0, f64::max);
        let ceiling = self.ceiling.filter(|_| column == LadderColumn::Rate);
        let largest = ceiling.map_or(largest, |ceiling| largest.max(ceiling.payload));
        let scale = Scale::holding(largest, span.0, span.1);
        let drawn = html! {
            (text(if paper.narrow { 2.0 } else { span.0 }, y, "head", &column.title(&self.measure)))
            @for value in scale.ticks(2) {
                (line((scale.at(value), top), (scale.at(value), bottom), "grid"))
                (text(scale.at(value), bottom + 15.0, "mid", &tick(value)))
            }
            @if let Some(ceiling) = ceiling { (line((scale.at(ceiling.payload), top), (scale.at(ceiling.payload), bottom), "ceiling")) }
            @for (at, rung) in self.rungs.iter().enumerate() {
                (self.rung(paper, span, &scale, column, at, rung, top + row * at as f64))
            }
            (line((span.0, top), (span.0, bottom), "axis"))
        };
        (drawn, bottom + 24.0)
    }

    #[expect(clippy::too_many_arguments, reason = "a place on paper is several numbers")]
    fn rung(
        &self,
        paper: Paper,
        span: (f64, f64),
        scale: &Scale,
        column: LadderColumn,
        at: usize,
        rung: &Rung<'_>,
        y: f64,
    ) -> Markup {
        let before =
            self.rungs[..at].iter().rev().find_map(|rung| rung.of(column)).map(|before| before.median);
        let bar = y + paper.pick(8.0, 22.0);
        let name_room = paper.pick(span.0 - 12.0, paper.width - 8.0);
        html! { g {
            title { (self.tooltip(rung)) }
            @if paper.narrow { (text(span.0 + 4.0, y + 16.0, "name rim", &fit(&rung.name, 12.8, name_room))) }
            @else if column == LadderColumn::Rate { (text(span.0 - 8.0, y + 24.0, "name end", &fit(&rung.name, 12.8, name_room))) }
            @if let Some(value) = rung.of(column) {
                (bars(scale, column, before, value.median, bar))
                (lying_whisker(value, bar + 10.0, &|value| scale.at(value)))
                (self.numbers(span, scale, column, rung, before, value, bar))
            } @else { (text(span.0 + 6.0, bar + 14.0, "lack", "–")) }
            @if column == LadderColumn::Rate { @for printed in &rung.printed {
                (hollow(scale.at(printed.value), bar + 10.0, "printed", &rung.name, printed, self.measure.unit))
            } }
        } }
    }

    /// Draws the value right of the bar and of all marks, and below the value the cost of the stage.
    #[expect(clippy::too_many_arguments, reason = "a place on paper is several numbers")]
    fn numbers(
        &self,
        span: (f64, f64),
        scale: &Scale,
        column: LadderColumn,
        rung: &Rung<'_>,
        before: Option<f64>,
        value: Estimate,
        bar: f64,
    ) -> Markup {
        let reach = before.unwrap_or(0.0).max(upper(value));
        let printed =
            rung.printed.iter().map(|p| p.value).filter(|_| column == LadderColumn::Rate).fold(0.0, f64::max);
        let x = (scale.at(reach) + 6.0).max(if printed > 0.0 { scale.at(printed) + 11.0 } else { 0.0 });
        let number = format!(
            "{}{}",
            short(value.median),
            if column == LadderColumn::Rate { signs(rung.summary) } else { String::new() }
        );
        let price = rung.price_words(column);
        let wide = width(&number, 11.5).max(width(&price, 11.5));
        let x = x.min(span.1 + Self::ROOM - wide);
        html! {
            (text(x, bar + 8.0, "value", &number))
            @if !price.is_empty() { (text(x, bar + 21.0, "value price-text", &price)) }
        }
    }

    fn tooltip(&self, rung: &Rung<'_>) -> String {
        let value = self.measure.with_unit(&with_interval(rung.value));
        let price = [rung.price_words(LadderColumn::Rate), rung.price_words(LadderColumn::Cpu)];
        let price: Vec<_> = price.into_iter().filter(|words| !words.is_empty()).collect();
        let stage =
            if price.is_empty() { String::new() } else { format!("; its stage: {}", price.join(", ")) };
        let printed: String =
            rung.printed.iter().map(|p| format!("; printed: {}", p.words(&self.measure))).collect();
        format!("{}: {value}; {} CPU-s/GB{stage}{printed}", rung.name, with_interval(rung.cpu))
    }

    fn description(&self, lacks: &[String]) -> String {
        let lines: Vec<_> = self.rungs.iter().map(|r| self.tooltip(r)).chain(lacks.iter().cloned()).collect();
        format!("The ladder of {}. {}.", self.measure.title(), lines.join(". "))
    }

    /// A sentence about the costliest stage.
    fn finding(&self) -> Option<String> {
        let cost = |rung: &&Rung<'_>| rung.price.and_then(|price| price.rate).map_or(0.0, |rate| rate.median);
        let costliest = self.rungs.iter().min_by(|left, right| cost(left).total_cmp(&cost(right)))?;
        (cost(&costliest) < 0.0).then(|| {
            let cpu = costliest.price_words(LadderColumn::Cpu);
            let cpu = if cpu.is_empty() { cpu } else { format!(" and {cpu}") };
            format!(
                "The costliest stage is “{}”: {}{cpu}.",
                costliest.name,
                costliest.price_words(LadderColumn::Rate)
            )
        })
    }

    fn caption(&self, context: &Context<'_>) -> String {
        let mut marks = vec![
            format!("Left: {}. Right: CPU-seconds of both ends per 10⁹ bytes of payload.", self.measure.meaning),
            "Each rung adds one stage to the previous rung. The number below is the difference to the previous rung, computed within each block: the cost of that stage."
                .to_owned(),
        ];
        marks.extend(self.ceiling.and_then(|_| caption::ceiling(context.record)));
        let estimates: Vec<_> = self.rungs.iter().filter_map(|rung| rung.value).collect();
        caption::caption(context, &marks, &estimates)
    }

    fn table(&self, context: &Context<'_>) -> Table {
        let mut head = vec!["Rung".to_owned(), self.measure.title()];
        head.extend(["CPU-s/GB", "Stage (%)", "Stage (CPU-s/GB)"].map(str::to_owned));
        head.extend(["Blocks", "Printed", "Remark"].map(str::to_owned));
        let mut table = Table::new(head);
        for rung in &self.rungs {
            let mut row = vec![Cell::text(&rung.name)];
            let price = |of: fn(Price) -> Option<Estimate>| rung.price.and_then(of);
            row.extend([rung.value, rung.cpu, price(|p| p.rate), price(|p| p.cpu)].map(Cell::from));
            row.push(rung.value.map(|value| value.blocks).into());
            row.push(Cell::numbers(rung.printed.iter().map(|printed| printed.value)));
            row.push(Cell::text(remark(rung.summary, context.state(rung.summary))));
            table.push(row);
        }
        table
    }
}

/// The two halves of the figure: the value and the CPU.
#[derive(Clone, Copy, PartialEq)]
enum LadderColumn {
    Rate,
    Cpu,
}

impl LadderColumn {
    fn title(self, measure: &Measure) -> String {
        match self {
            Self::Rate => measure.title(),
            Self::Cpu => "CPU-seconds per GB, both ends".to_owned(),
        }
    }
}

impl Rung<'_> {
    fn of(&self, column: LadderColumn) -> Option<Estimate> {
        match column {
            LadderColumn::Rate => self.value,
            LadderColumn::Cpu => self.cpu,
        }
    }

    /// The values that the scale of a half must contain.
    fn extent(&self, column: LadderColumn) -> Vec<f64> {
        let printed = self.printed.iter().map(|p| p.value).filter(|_| column == LadderColumn::Rate);
        self.of(column).map(upper).into_iter().chain(printed).collect()
    }

    /// A stage's cost as text, for example `−3.1 % [−4.0, −2.2]`, or `+0.42 CPU-s/GB`.
    fn price_words(&self, column: LadderColumn) -> String {
        let Some(price) = self.price else { return String::new() };
        let (estimate, unit) = match column {
            LadderColumn::Rate => (price.rate, " %"),
            LadderColumn::Cpu => (price.cpu, " CPU-s/GB"),
        };
        let signed = |value: f64| {
            let sign = if value < 0.0 { "−" } else { "+" };
            // Two decimals are as precise as the values beside them.
            let size = value.abs();
            if (0.01..1.0).contains(&size) {
                format!("{sign}{size:.2}")
            } else {
                format!("{sign}{}", short(size))
            }
        };
        estimate.map_or_else(String::new, |e| match ends(e) {
            Some((low, high)) if column == LadderColumn::Rate => {
                format!("{}{unit} [{}, {}]", signed(e.median), signed(low), signed(high))
            }
            _ => format!("{}{unit}", signed(e.median)),
        })
    }
}

/// Draws the bar, and the difference to the previous rung.
fn bars(scale: &Scale, column: LadderColumn, before: Option<f64>, value: f64, y: f64) -> Markup {
    let area = |from: f64, to: f64| Area {
        x: scale.at(from),
        y,
        width: scale.at(to) - scale.at(from),
        height: 20.0,
    };
    let before = before.unwrap_or(value);
    let (low, high) = (before.min(value), before.max(value));
    // A lower rate is a cost, and so is more CPU.
    let costs = match column {
        LadderColumn::Rate => value < before,
        LadderColumn::Cpu => value > before,
    };
    let class = if costs { "price" } else { "gain" };
    html! {
        (swatch("", "bar s3", false, area(0.0, low)))
        @if high > low { (swatch("", class, false, area(low, high))) }
    }
}

/// The cost of the stage between two rungs, computed within each block.
fn price(record: &Record, measure: &Measure, before: &Summary<'_>, after: &Summary<'_>) -> Price {
    let change = |metric, change| paired(record, metric, &after.case.id, &before.case.id, change);
    Price {
        rate: change(measure.quantity, |top, bottom| 100.0 * (top / bottom - 1.0)),
        cpu: change(Metric::CpuPerGb, |top, bottom| top - bottom),
    }
}
