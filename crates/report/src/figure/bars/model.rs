//! The contents of the figure, without positions: panels of categories of bars.

use linerate_bench::metric::Metric;
use linerate_bench::stats::Estimate;

use super::plan::Plan;
use crate::figure::context::{Context, Hollow, upper};
use crate::figure::measure::Measure;
use crate::link::Ceiling;
use crate::summary::{State, Summary, tip};

/// The whole figure.
pub(crate) struct Chart<'a> {
    /// A panel for each link variant, or several if a link has too many bars for one.
    pub(crate) panels: Vec<Panel<'a>>,
    /// The levels that distinguish the bars of a category: the levels of the figure's series; without a
    /// series, the numbers of streams in ascending order, with the tool's own choice last. A bar's shade is
    /// the index of its level.
    pub(crate) series: Vec<String>,
    /// The factor whose levels are the series.
    pub(crate) series_name: String,
    /// The quantity on the left axis.
    pub(crate) measure: Measure,
    /// True if there are both encrypted and clear bars, so that the difference must be drawn.
    pub(crate) mixes_ciphers: bool,
    /// True if both ends share the processors, so that one dot is enough.
    pub(crate) shared_processors: bool,
    /// True if, for any bar, the rate over the whole command is visibly lower than the rate over the payload
    /// time.
    pub(crate) has_tips: bool,
}

/// Bars over one pair of axes.
pub(crate) struct Panel<'a> {
    /// A description of the link.
    pub(crate) title: String,
    /// The largest rate of the link.
    pub(crate) ceiling: Option<Ceiling>,
    /// The categories, in the order of the study.
    pub(crate) categories: Vec<Category<'a>>,
}

/// Bars of one tool and cipher on one data set, or of one level of the figure's x.
pub(crate) struct Category<'a> {
    /// The tool or level, in words.
    pub(crate) name: String,
    /// The second line under it: the cipher, if it has one.
    pub(crate) second: String,
    /// The moved data; empty if it isn't payload.
    pub(crate) workload: String,
    /// A bar for each level of the series.
    pub(crate) bars: Vec<Bar<'a>>,
}

/// The bar of one case.
pub(crate) struct Bar<'a> {
    /// Index into [`Chart::series`].
    pub(crate) series: usize,
    /// Its level of the series.
    pub(crate) label: String,
    /// The case.
    pub(crate) summary: &'a Summary<'a>,
    /// The bar's length.
    pub(crate) value: Option<Estimate>,
    /// The state of the case.
    pub(crate) state: State<'a>,
    /// The end of the filled part, if it is before the bar's end.
    pub(crate) filled: Option<f64>,
    /// The papers' printed values.
    pub(crate) printed: Vec<Hollow>,
    /// The papers' printed CPU of the receiver in percent.
    pub(crate) printed_cpu: Vec<Hollow>,
}

impl<'a> Chart<'a> {
    /// The figure of a context.
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

    /// The largest value on a panel's left axis: the largest of all panels, so that all have the same axis,
    /// unless another panel's values are more than ten times as large.
    pub(crate) fn largest(&self, panel: &Panel<'_>) -> f64 {
        let own = panel.largest();
        let all = self.panels.iter().map(Panel::largest);
        let least = all.clone().fold(f64::INFINITY, f64::min);
        let most = all.fold(own, f64::max);
        if most <= 10.0 * least { most } else { own }
    }

    /// True if there is a second axis with dots of CPU. Bars that show CPU themselves need no dots.
    pub(crate) fn shows_cpu(&self) -> bool {
        self.measure.quantity != Metric::FarBusyPercent
    }
}

impl Panel<'_> {
    /// The largest value on the left axis.
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
    /// The reason why all bars of the category lack values, if it is the same for all. It is then printed
    /// once.
    pub(crate) fn common_lack(&self) -> Option<State<'a>> {
        let first = self.bars.first()?.state;
        (first != State::Measured && self.bars.iter().all(|bar| bar.state == first)).then_some(first)
    }
}

/// A number of streams, in the words of the legend.
pub(crate) fn streams_text(streams: Option<u32>) -> String {
    streams.map_or_else(|| "auto".to_owned(), |n| n.to_string())
}

/// The width of a category, in bars, including its gap.
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
