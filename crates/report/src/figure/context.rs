//! The input of a figure: the whole record, and the cases that the figure shows.

use linerate_bench::metric::Metric;
use linerate_bench::record::{Case, Figure, FigureKind, Layer, Measures, Record};
use linerate_bench::stats::{Estimate, good_runs};

use super::measure::Measure;
use super::table::Cell;
use crate::number::tick;
use crate::summary::{State, Summary, ends};

/// The part of a record that a figure shows.
pub(crate) struct Context<'a> {
    /// An id that is unique in the page, and the prefix of the ids inside the figure.
    pub(crate) id: String,
    /// The whole record.
    pub(crate) record: &'a Record,
    /// The requested figure.
    pub(crate) asked: &'a Figure,
    /// The cases in the figure, in the order in which the figure lists them; if it lists none, in the study's order.
    pub(crate) cases: Vec<&'a Summary<'a>>,
}

/// A value that a paper printed, in the figure's unit; figures show it as a hollow mark.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hollow {
    /// The value that the paper printed.
    pub(crate) value: f64,
    /// The paper, and the figure or table in it.
    pub(crate) source: String,
}

/// The column heads for [`Context::printed_cells`].
pub(crate) const PRINTED: [&str; 4] =
    ["Printed", "Printed, on the wire (Gbit/s)", "Printed CPU (% busy)", "Printed in"];

impl Hollow {
    /// The value in words, with the digits that the paper printed, the unit and the source.
    pub(crate) fn words(&self, measure: &Measure) -> String {
        format!("{} ({})", measure.with_unit(&tick(self.value)), self.source)
    }
}

impl<'a> Context<'a> {
    /// The context of the figure at `index` in the record.
    pub(crate) fn new(
        record: &'a Record,
        summaries: &'a [Summary<'a>],
        asked: &'a Figure,
        index: usize,
    ) -> Self {
        let cases = if asked.cases.is_empty() {
            summaries.iter().filter(|s| s.figures.measured == 0 || belongs(record, asked, s)).collect()
        } else {
            asked.cases.iter().filter_map(|id| summaries.iter().find(|s| s.case.id == *id)).collect()
        };
        Self { id: format!("figure-{}", index + 1), record, asked, cases }
    }

    /// The figure's name: its own title, or the study's.
    pub(crate) fn title(&self) -> &'a str {
        if self.asked.title.trim().is_empty() { &self.record.title } else { &self.asked.title }
    }

    /// The figure's quantity, in a unit that suits the values of the cases.
    pub(crate) fn measure(&self) -> Measure {
        let quantity = self.asked.quantity;
        let measured = self.cases.iter().filter_map(|s| s.quantity(quantity)).map(upper);
        let printed = self.record.printed.iter().filter(|p| p.quantity == quantity && p.layer.is_payload());
        let printed = printed.map(|p| p.value);
        let largest = measured.chain(printed).filter(|v| v.is_finite()).fold(0.0, f64::max);
        Measure::of(self.record, quantity, largest)
    }

    /// The case's level of a factor. Properties that every case has (such as streams) are factors even if the
    /// study doesn't list them.
    pub(crate) fn level(&self, case: &'a Case, factor: &str) -> Option<String> {
        if let Some(level) = case.factors.get(factor) {
            return Some(level.clone());
        }
        match factor {
            "streams" => case.streams.map(|n| n.to_string()),
            "link" => Some(case.link.clone()),
            "dataset" => case.dataset.clone(),
            "cipher" => Some(case.cipher.clone().unwrap_or_else(|| "clear text".to_owned())),
            "tool" => Some(case.tool.clone()),
            _ => None,
        }
    }

    /// The values that papers printed for a case and a quantity, in the figure's unit. Wire rates are
    /// excluded, because they include headers and so don't belong on an axis of payload.
    pub(crate) fn printed(&self, case: &Case, measure: &Measure) -> Vec<Hollow> {
        self.printed_on(Layer::Payload, case, measure)
    }

    /// The wire rates that papers printed for a case.
    pub(crate) fn printed_wire(&self, case: &Case, measure: &Measure) -> Vec<Hollow> {
        self.printed_on(Layer::Wire, case, measure)
    }

    fn printed_on(&self, layer: Layer, case: &Case, measure: &Measure) -> Vec<Hollow> {
        let of_case = self.record.printed.iter().filter(|p| p.case == case.id && p.layer == layer);
        let wanted =
            of_case.filter(|p| p.quantity == measure.quantity && p.value.is_finite() && p.value >= 0.0);
        wanted.map(|p| Hollow { value: measure.shown(p.value), source: p.source.clone() }).collect()
    }

    /// The receiver's CPU that papers printed for a case, in percent.
    pub(crate) fn printed_cpu(&self, case: &Case) -> Vec<Hollow> {
        self.printed(case, &Measure::new(Metric::FarBusyPercent, 100.0))
    }

    /// The table cells with all values that papers printed for a case: values, wire rates, CPU, sources.
    pub(crate) fn printed_cells(&self, case: &Case, measure: &Measure) -> [Cell; 4] {
        let kinds = [self.printed(case, measure), self.printed_wire(case, measure), self.printed_cpu(case)];
        let sources: Vec<_> = kinds.iter().flatten().map(|printed| printed.source.as_str()).collect();
        let [values, wire, cpu] = kinds.each_ref().map(|all| Cell::numbers(all.iter().map(|p| p.value)));
        [values, wire, cpu, Cell::text(sources.join("; "))]
    }

    /// The column heads for [`Context::cpu_cells`].
    pub(crate) fn cpu_heads(&self) -> Vec<String> {
        let heads: &[&str] = match self.record.shared_processors {
            true => &["CPU of both ends (% busy)"],
            false => &["CPU of a (% busy)", "CPU of b (% busy)"],
        };
        heads.iter().map(|head| (*head).to_owned()).collect()
    }

    /// The table cells with a case's CPU: of each end or, if both ends share their processors, of both
    /// together.
    pub(crate) fn cpu_cells(&self, summary: &Summary<'_>) -> Vec<Cell> {
        let shown: &[Metric] = match self.record.shared_processors {
            true => &[Metric::FarBusyPercent],
            false => &[Metric::BusyPercent, Metric::FarBusyPercent],
        };
        shown.iter().map(|metric| Cell::from(summary.of(*metric))).collect()
    }

    /// The case's median run among the good runs for which `has` is true, with the number of its block. Runs
    /// are sorted by the figure's quantity or, if they have no such value, by wall time.
    pub(crate) fn median_run(&self, case: &Case, has: fn(&Measures) -> bool) -> Option<(u32, &'a Measures)> {
        let mut runs: Vec<_> = good_runs(self.record, &case.id).filter(|(_, m)| has(m)).collect();
        let value =
            |m: &Measures| self.asked.quantity.of(m, self.record.counts_cpu_once()).unwrap_or(m.seconds);
        runs.sort_by(|(_, left), (_, right)| value(left).total_cmp(&value(right)));
        runs.get(runs.len().checked_sub(1)? / 2).copied()
    }

    /// The cases without a value, each with the reason, so that the figure can name them.
    pub(crate) fn lacks(&self) -> Vec<String> {
        let lack = |s: &&Summary<'_>| {
            let (words, _) = super::lack_text(s.state_of(self.asked.quantity));
            (!words.is_empty()).then(|| format!("× {}: {words}", s.name))
        };
        self.cases.iter().filter_map(lack).collect()
    }

    /// The cases without a run for which `has` is true, each with the reason. This list is for figures that show other
    /// data than the quantity.
    pub(crate) fn lacks_of(&self, what: &str, has: fn(&Measures) -> bool) -> Vec<String> {
        let lack = |s: &&Summary<'_>| {
            let (words, _) = super::lack_text(s.state());
            let found = self.median_run(s.case, has).is_some();
            let words = if words.is_empty() { format!("no run recorded {what}") } else { words };
            (!found).then(|| format!("× {}: {words}", s.name))
        };
        self.cases.iter().filter_map(lack).collect()
    }

    /// The state of a case for the figure's quantity.
    pub(crate) fn state(&self, summary: &Summary<'a>) -> State<'a> {
        summary.state_of(self.asked.quantity)
    }
}

/// The largest number of an estimate that is drawn: the upper end of its interval, if it has one.
pub(crate) fn upper(estimate: Estimate) -> f64 {
    ends(estimate).map_or(estimate.median, |(_, high)| high.max(estimate.median))
}

/// Whether the case belongs in the figure and has a value for it.
fn belongs(record: &Record, asked: &Figure, summary: &Summary<'_>) -> bool {
    let any = |has: fn(&Measures) -> bool| good_runs(record, &summary.case.id).any(|(_, m)| has(m));
    match asked.kind {
        FigureKind::TimeSeries => any(|m| !m.series.is_empty()),
        FigureKind::ResponseTimes => any(|m| m.latency.is_some()),
        FigureKind::Interrupts => any(|m| !m.interrupts.is_empty()),
        FigureKind::Bars if asked.quantity == Metric::PayloadRate => summary.moves_payload,
        FigureKind::Bars | FigureKind::Scaling | FigureKind::Differences | FigureKind::Ladder => {
            summary.quantity(asked.quantity).is_some()
        }
    }
}
