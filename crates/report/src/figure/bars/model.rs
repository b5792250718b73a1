//! The contents of a figure of bars, without positions: panels contain categories, and categories contain
//! bars.

use linerate_bench::metric::Metric;
use linerate_bench::stats::Estimate;

use super::plan::Plan;
use crate::ceiling::Ceiling;
use crate::figure::context::{Context, Hollow, upper};
use crate::figure::measure::Measure;
use crate::summary::{State, Summary, tip};

/// The contents of the whole figure.
pub(crate) struct Chart<'a> {
    /// The panels: one for each link, or several for a link whose bars don't fit in one panel. If the figure compares
    /// links, one panel can show several links.
    pub(crate) panels: Vec<Panel<'a>>,
    /// The levels that distinguish the bars of a category: the levels of the figure's series; without a
    /// series, the numbers of streams in ascending order, with the tool's own choice last. A bar's shade is
    /// the index of its level.
    pub(crate) series: Vec<String>,
    /// The name of the factor whose levels are the series.
    pub(crate) series_name: String,
    /// The quantity on the left axis.
    pub(crate) measure: Measure,
    /// Whether there are bars of both encrypted and unencrypted transfers, so that the drawing must
    /// distinguish them.
    pub(crate) mixes_ciphers: bool,
    /// Whether both ends share the same processors, so that one CPU dot shows both.
    pub(crate) shared_processors: bool,
    /// Whether, for any bar, the rate over the whole command is visibly lower than the rate over the payload time.
    pub(crate) has_tips: bool,
}

/// The bars that share a pair of axes.
pub(crate) struct Panel<'a> {
    /// The panel's title, which describes the link.
    pub(crate) title: String,
    /// The largest rate that the link can carry.
    pub(crate) ceiling: Option<Ceiling>,
    /// The categories, in the order of the study.
    pub(crate) categories: Vec<Category<'a>>,
}

/// A group of bars: one tool and cipher with one data set, or one level of the figure's x factor.
pub(crate) struct Category<'a> {
    /// The name of the tool or level.
    pub(crate) name: String,
    /// The second line of the name: the cipher, if there is one.
    pub(crate) second: String,
    /// The data that is moved, as text; empty if the bars don't show payload.
    pub(crate) workload: String,
    /// The bars of the category: one for each level of the series.
    pub(crate) bars: Vec<Bar<'a>>,
}

/// A bar, which shows one case.
pub(crate) struct Bar<'a> {
    /// The index of the bar's level in [`Chart::series`].
    pub(crate) series: usize,
    /// The bar's level of the series, as text.
    pub(crate) label: String,
    /// The summary of the case that the bar shows.
    pub(crate) summary: &'a Summary<'a>,
    /// The estimate that the bar's length shows.
    pub(crate) value: Option<Estimate>,
    /// Whether the case has a value, or the reason why it has none.
    pub(crate) state: State<'a>,
    /// The value at which the filled part ends, if the filled part is shorter than the bar.
    pub(crate) filled: Option<f64>,
    /// The values that papers printed for this case.
    pub(crate) printed: Vec<Hollow>,
    /// The receiver's CPU that papers printed for this case, in percent.
    pub(crate) printed_cpu: Vec<Hollow>,
}

impl<'a> Chart<'a> {
    /// Builds the contents of the figure from its context.
    pub(crate) fn new(context: &Context<'a>) -> Self {
        let measured = || context.cases.iter().filter(|s| context.state(s) == State::Measured);
        let plan = Plan::new(context);
        let mixes_ciphers = plan.is_payload()
            && measured().any(|s| s.case.cipher.is_some())
            && measured().any(|s| s.case.cipher.is_none());
        Self {
            panels: plan.panels(),
            has_tips: plan.is_payload() && measured().any(|s| tip(s).is_some()),
            mixes_ciphers,
            shared_processors: context.record.shared_processors,
            series_name: context.asked.series.clone().unwrap_or_else(|| "Streams or copies".to_owned()),
            series: plan.series,
            measure: plan.measure,
        }
    }

    /// Every bar, in the order in which it is drawn.
    pub(crate) fn bars(&self) -> impl Iterator<Item = &Bar<'a>> {
        self.panels.iter().flat_map(|panel| &panel.categories).flat_map(|category| &category.bars)
    }

    /// The largest value on a panel's left axis. All panels have the same axis, unless another panel's values
    /// are more than ten times as large.
    pub(crate) fn largest(&self, panel: &Panel<'_>) -> f64 {
        let own = panel.largest();
        let all = self.panels.iter().map(Panel::largest);
        let least = all.clone().fold(f64::INFINITY, f64::min);
        let most = all.fold(own, f64::max);
        if most <= 10.0 * least { most } else { own }
    }

    /// Whether the figure has a second axis with CPU dots. It has none if the bars themselves show CPU.
    pub(crate) fn shows_cpu(&self) -> bool {
        self.measure.quantity != Metric::FarBusyPercent
    }
}

impl Panel<'_> {
    /// The largest value of the panel's bars and marks.
    pub(crate) fn largest(&self) -> f64 {
        let bars = self.categories.iter().flat_map(|category| &category.bars);
        let ends = |bar: &Bar<'_>| {
            bar.printed.iter().map(|p| p.value).chain(bar.value.map(upper)).fold(0.0, f64::max)
        };
        let ceiling = self.ceiling.map(|ceiling| ceiling.wire as f64 * 1e-9);
        bars.map(ends).chain(ceiling).fold(0.0, f64::max)
    }
}

impl<'a> Category<'a> {
    /// The reason why the category's bars have no values, if the reason is the same for all bars; it is then
    /// printed once.
    pub(crate) fn common_lack(&self) -> Option<State<'a>> {
        let first = self.bars.first()?.state;
        (first != State::Measured && self.bars.iter().all(|bar| bar.state == first)).then_some(first)
    }
}

/// A number of streams, as the legend names it.
pub(crate) fn streams_text(streams: Option<u32>) -> String {
    streams.map_or_else(|| "auto".to_owned(), |n| n.to_string())
}

/// The width of a category including its gap, in multiples of a bar's width.
pub(crate) fn breadth(category: &Category<'_>) -> f64 {
    category.bars.len() as f64 + 0.9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(gbit: u64) -> Panel<'static> {
        let wire = gbit * 1_000_000_000;
        let ceiling = Some(Ceiling { wire, mtu: 1500, overhead: 38, payload: gbit as f64 });
        Panel { title: String::new(), ceiling, categories: Vec::new() }
    }

    fn largest(gbit: &[u64]) -> Vec<f64> {
        let chart = Chart {
            panels: gbit.iter().map(|gbit| panel(*gbit)).collect(),
            series: Vec::new(),
            series_name: String::new(),
            measure: Measure::new(Metric::PayloadRate, 1.0),
            mixes_ciphers: false,
            shared_processors: true,
            has_tips: false,
        };
        chart.panels.iter().map(|panel| chart.largest(panel)).collect()
    }

    #[test]
    fn panels_share_the_axis_within_a_decade() {
        assert_eq!(largest(&[8, 10, 1]), [10.0, 10.0, 10.0]);
        assert_eq!(largest(&[1, 25]), [1.0, 25.0]);
        assert_eq!(largest(&[4]), [4.0]);
    }
}
