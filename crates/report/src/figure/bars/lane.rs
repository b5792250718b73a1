//! A bar with its marks, in a form that both layouts use. A bar lies in a lane, and grows upwards from the
//! lower axis or to the right from the left axis.

use linerate_bench::stats::Estimate;
use maud::{Markup, html};

use super::marks;
use super::model::{Bar, Chart};
use crate::figure::context::Hollow;
use crate::figure::marks::{Area, dot, draw_whisker, hollow, swatch, whisker};
use crate::figure::scale::Scale;

/// The direction in which bars grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneWay {
    /// The bars grow upwards, towards smaller y.
    Up,
    /// The bars grow to the right, towards larger x.
    Right,
}

/// The area that one bar and its marks may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    /// The direction in which the bar grows.
    pub(crate) way: LaneWay,
    /// The position where the bar begins: zero of its scale.
    pub(crate) base: f64,
    /// The lane's upper or left edge.
    pub(crate) edge: f64,
    /// The lane's size across the direction of growth: its width if bars grow upwards, otherwise its height.
    pub(crate) breadth: f64,
    /// The free space on each side of the bar.
    pub(crate) gap: f64,
}

/// The positions along the lane that a measured bar and its marks reach.
#[derive(Clone, Debug)]
pub(crate) struct LaneReach {
    end: f64,
    /// The position where the filled part of the bar ends; before `end` if the rate over the whole command is
    /// lower than that over the payload time.
    filled: f64,
    whisker: Option<(f64, f64)>,
    dots: Vec<(f64, &'static str)>,
    /// The positions of the hollow marks, which show values printed by papers.
    hollows: Vec<f64>,
}

impl LaneWay {
    fn farther(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Up => left.min(right),
            Self::Right => left.max(right),
        }
    }
}

impl Lane {
    /// The middle of the lane, across it.
    pub(crate) fn middle(&self) -> f64 {
        self.edge + self.breadth / 2.0
    }

    /// The first position after the bar and the whisker. A label may begin at this position, but a dot may cover it.
    pub(crate) fn outermost(&self, reach: &LaneReach) -> f64 {
        reach.whisker.map_or(reach.end, |(_, high)| self.way.farther(high, reach.end))
    }

    /// Draws the bar, its whisker, its dots and its label, with a tooltip for all of them.
    pub(crate) fn draw(
        &self,
        chart: &Chart<'_>,
        id: &str,
        bar: &Bar<'_>,
        reach: &LaneReach,
        label: &Markup,
    ) -> Markup {
        html! {
            g {
                title { (marks::tooltip(chart, bar)) }
                (marks::bar(chart, id, bar, self.area(self.base, reach.filled)))
                @if reach.filled != reach.end { (swatch(id, "tip", false, self.area(reach.filled, reach.end))) }
                @if let Some(ends) = reach.whisker { (self.whisker(ends)) }
                @for (along, class) in &reach.dots { (self.dot(*along, class)) }
                (label)
            }
        }
    }

    /// Draws the hollow marks of values that papers printed; the case itself may have no bar.
    pub(crate) fn hollows(&self, chart: &Chart<'_>, bar: &Bar<'_>, rate: &Scale, cpu: &Scale) -> Markup {
        let mark = |printed: &Hollow, scale: &Scale, class: &str, unit: &str| {
            let (x, y) = self.point(scale.at(printed.value), 0.0);
            hollow(x, y, class, &bar.summary.name, printed, unit)
        };
        html! {
            @for printed in &bar.printed { (mark(printed, rate, "printed", chart.measure.unit)) }
            @for printed in &bar.printed_cpu { (mark(printed, cpu, "printed cpu-line", "% busy")) }
        }
    }

    /// The part of the bar between two positions.
    fn area(&self, from: f64, to: f64) -> Area {
        let (across, breadth) = (self.edge + self.gap, self.breadth - 2.0 * self.gap);
        match self.way {
            LaneWay::Up => Area { x: across, y: to, width: breadth, height: from - to },
            LaneWay::Right => Area { x: from, y: across, width: to - from, height: breadth },
        }
    }

    fn dot(&self, along: f64, class: &str) -> Markup {
        let (x, y) = self.point(along, 0.0);
        dot(x, y, class)
    }

    fn whisker(&self, (low, high): (f64, f64)) -> Markup {
        let half = match self.way {
            LaneWay::Up => (4.0, 0.0),
            LaneWay::Right => (0.0, 4.0),
        };
        draw_whisker(self.point(low, 0.0), self.point(high, 0.0), half)
    }

    /// The coordinates of a point that is given by its position `along` the lane and its distance `across`
    /// from the lane's middle.
    fn point(&self, along: f64, across: f64) -> (f64, f64) {
        match self.way {
            LaneWay::Up => (self.middle() + across, along),
            LaneWay::Right => (along, self.middle() + across),
        }
    }
}

impl LaneReach {
    /// Computes the positions of a measured bar and of its marks, by the scales of the chart.
    pub(crate) fn new(
        chart: &Chart<'_>,
        bar: &Bar<'_>,
        payload: Estimate,
        rate: &Scale,
        cpu: &Scale,
    ) -> Self {
        let end = rate.at(payload.median);
        let dots = marks::cpu_dots(chart, bar.summary);
        Self {
            end,
            filled: bar.filled.map_or(end, |whole| rate.at(whole)),
            whisker: whisker(payload, &|value| rate.at(value)),
            hollows: hollow_places(bar, rate, cpu),
            dots: dots.into_iter().map(|(percent, class)| (cpu.at(percent), class)).collect(),
        }
    }

    /// The positions of all dots and hollow marks along the lane.
    pub(crate) fn dots(&self) -> impl Iterator<Item = f64> {
        self.dots.iter().map(|(along, _)| *along).chain(self.hollows.iter().copied())
    }
}

fn hollow_places(bar: &Bar<'_>, rate: &Scale, cpu: &Scale) -> Vec<f64> {
    let of_cpu = bar.printed_cpu.iter().map(|printed| cpu.at(printed.value));
    bar.printed.iter().map(|printed| rate.at(printed.value)).chain(of_cpu).collect()
}

/// The first position at or after `at` at which no dot of this `radius` covers a label of this length.
/// Positions increase in the direction in which the label may move.
pub(crate) fn past_dots(at: f64, length: f64, radius: f64, dots: impl Iterator<Item = f64>) -> f64 {
    /// The distance from a dot's middle to a label that was moved past the dot.
    const CLEARANCE: f64 = 8.5;
    let mut dots: Vec<f64> = dots.collect();
    dots.sort_by(f64::total_cmp);
    let covers = |dot: f64, at: f64| dot + radius > at && dot - radius < at + length;
    dots.into_iter().fold(at, |at, dot| if covers(dot, at) { dot + CLEARANCE } else { at })
}
