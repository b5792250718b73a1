//! The layout for narrow screens: horizontal bars, with throughput on the lower axis and CPU on the upper
//! axis.

use linerate_bench::stats::Estimate;
use maud::{Markup, html};

use super::lane::{Lane, LaneReach, LaneWay, past_dots};
use super::marks;
use super::model::{Bar, Category, Chart, Panel};
use crate::figure::marks::cross;
use crate::figure::scale::Scale;
use crate::figure::svg::{line, rect, text};
use crate::figure::text::{fit, width, wrap};
use crate::figure::words::lack_text;
use crate::number::tick;
use crate::summary::State;

/// The width of the layout, in units.
pub(crate) const WIDTH: f64 = 360.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = WIDTH - 44.0;
const ROW: f64 = 20.0;
const HEADING: f64 = 22.0;

/// Draws the figure, and returns its height too.
pub(crate) fn draw(chart: &Chart<'_>, id: &str) -> (Markup, f64) {
    super::stacked(chart, id, (2.0, WIDTH - 2.0), |panel, y| {
        NarrowPlot::new(chart, id, panel, y + 10.0).draw()
    })
}

/// A panel with its scales, in the narrow layout.
struct NarrowPlot<'p, 'a> {
    chart: &'p Chart<'a>,
    id: &'p str,
    panel: &'p Panel<'a>,
    title: Vec<String>,
    title_y: f64,
    top: f64,
    bottom: f64,
    rate: Scale,
    cpu: Scale,
}

impl<'p, 'a> NarrowPlot<'p, 'a> {
    fn new(chart: &'p Chart<'a>, id: &'p str, panel: &'p Panel<'a>, y: f64) -> Self {
        let title = wrap(&panel.title, 13.2, WIDTH - 4.0, 3);
        let top = y + title.len() as f64 * 16.0 + 36.0;
        let rows: f64 = panel.categories.iter().enumerate().map(|(at, c)| height(panel, at, c)).sum();
        let bottom = top + rows + 6.0;
        let rate = Scale::holding(chart.largest(panel), LEFT, RIGHT);
        Self {
            chart,
            id,
            panel,
            title,
            title_y: y + 13.0,
            top,
            bottom,
            rate,
            cpu: Scale::percent(LEFT, RIGHT),
        }
    }

    /// Draws the panel, and returns the y of the panel's lower end.
    fn draw(&self) -> (Markup, f64) {
        let mut y = self.top;
        let mut categories = Vec::new();
        for (at, category) in self.panel.categories.iter().enumerate() {
            categories.push(self.category(at, category, y));
            y += height(self.panel, at, category);
        }
        let drawn = html! {
            @for (index, words) in self.title.iter().enumerate() {
                (text(2.0, self.title_y + index as f64 * 16.0, "head", words))
            }
            (self.grid())
            (line((LEFT, self.top), (LEFT, self.bottom), "axis"))
            @for category in &categories { (category) }
        };
        (drawn, self.bottom + 44.0)
    }

    fn grid(&self) -> Markup {
        let middle = f64::midpoint(LEFT, RIGHT);
        html! {
            @for value in self.rate.ticks(2) {
                (line((self.rate.at(value), self.top), (self.rate.at(value), self.bottom), "grid"))
                (text(self.rate.at(value), self.bottom + 15.0, "mid", &tick(value)))
            }
            @if self.chart.shows_cpu() { (self.cpu_axis(middle)) }
            @if let Some(ceiling) = self.panel.ceiling {
                (line((self.rate.at(ceiling.payload), self.top), (self.rate.at(ceiling.payload), self.bottom), "ceiling"))
            }
            (text(middle, self.bottom + 32.0, "mid", &self.chart.measure.title()))
        }
    }

    fn cpu_axis(&self, middle: f64) -> Markup {
        html! {
            @for value in self.cpu.ticks(2) {
                (text(self.cpu.at(value), self.top - 6.0, "mid cpu-text", &tick(value)))
            }
            (text(middle, self.top - 22.0, "mid cpu-text", "CPU of the whole host (% busy)"))
        }
    }

    fn category(&self, at: usize, category: &Category<'_>, mut y: f64) -> Markup {
        let workload = begins_workload(self.panel, at).then_some(y + 15.0);
        y += workload.map_or(0.0, |_| HEADING);
        let name = fit(&category.name, 13.0, WIDTH - LEFT - 70.0);
        let cipher_x = LEFT + 6.0 + width(&name, 12.9) + 7.0;
        let lack = category.common_lack();
        html! {
            @if let Some(y) = workload { (workload_heading(y, &fit(&category.workload, 12.0, WIDTH - 4.0))) }
            (over_grid(LEFT + 6.0, y + 16.0, "name", &name))
            (over_grid(cipher_x, y + 16.0, "small muted", &fit(&category.second, 11.0, WIDTH - cipher_x)))
            @if let Some(state) = lack {
                (lack_row(state, y + HEADING))
                @for (index, bar) in printed(category).enumerate() {
                    (self.printed_row(bar, y + HEADING + (index + 1) as f64 * ROW))
                }
            } @else { @for (index, bar) in category.bars.iter().enumerate() {
                (self.row(bar, y + HEADING + index as f64 * ROW))
            } }
        }
    }

    fn row(&self, bar: &Bar<'_>, y: f64) -> Markup {
        let baseline = y + ROW / 2.0 + 4.0;
        html! {
            @if self.chart.series.len() > 1 {
                (text(LEFT - 6.0, baseline, "small muted end", &fit(&bar.label, 10.5, LEFT - 6.0)))
            }
            @match bar.value {
                Some(payload) => (self.bar(bar, payload, y)),
                None => (lack_row(bar.state, y)),
            }
            (lane(y).hollows(self.chart, bar, &self.rate, &self.cpu))
        }
    }

    /// Draws a row with the values that papers printed for a tool without measured values.
    fn printed_row(&self, bar: &Bar<'_>, y: f64) -> Markup {
        html! {
            @if self.chart.series.len() > 1 {
                (text(LEFT - 6.0, y + ROW / 2.0 + 4.0, "small muted end", &fit(&bar.label, 10.5, LEFT - 6.0)))
            }
            (lane(y).hollows(self.chart, bar, &self.rate, &self.cpu))
        }
    }

    fn bar(&self, bar: &Bar<'_>, payload: Estimate, y: f64) -> Markup {
        let lane = lane(y);
        let reach = LaneReach::new(self.chart, bar, payload, &self.rate, &self.cpu);
        let value = marks::value_text(bar);
        let x = clear_of_dots(lane.outermost(&reach) + 5.0, width(&value, 11.5), reach.dots());
        lane.draw(self.chart, self.id, bar, &reach, &text(x, lane.middle() + 4.0, "value", &value))
    }
}

fn lane(y: f64) -> Lane {
    Lane { way: LaneWay::Right, base: LEFT, edge: y, breadth: ROW, gap: 1.5 }
}

/// The bars of a category for which a paper printed a value.
fn printed<'c, 'a>(category: &'c Category<'a>) -> impl Iterator<Item = &'c Bar<'a>> {
    category.bars.iter().filter(|bar| !bar.printed.is_empty() || !bar.printed_cpu.is_empty())
}

/// The height of a category: its bars, its name and, if its data differs from that of the previous category,
/// the name of its data.
fn height(panel: &Panel<'_>, at: usize, category: &Category<'_>) -> f64 {
    let lacks = category.common_lack().is_some();
    let rows = if lacks { 1 + printed(category).count() } else { category.bars.len() };
    let heading = if begins_workload(panel, at) { 2.0 * HEADING } else { HEADING };
    heading + rows as f64 * ROW + 2.0
}

fn begins_workload(panel: &Panel<'_>, at: usize) -> bool {
    let workload = &panel.categories[at].workload;
    !workload.is_empty() && (at == 0 || panel.categories[at - 1].workload != *workload)
}

/// The moved data, written across the axis. The axis is interrupted there, so that it doesn't cross the
/// letters.
fn workload_heading(y: f64, words: &str) -> Markup {
    html! {
        (rect(0.0, y - 12.0, width(words, 12.0) + 6.0, 17.0, "paper"))
        (text(2.0, y, "muted", words))
    }
}

/// A text with an outline in the background color, so that grid lines don't cross the letters.
fn over_grid(x: f64, y: f64, class: &str, words: &str) -> Markup {
    text(x, y, &format!("{class} rim"), words)
}

fn lack_row(state: State<'_>, y: f64) -> Markup {
    let (words, failed) = lack_text(state);
    let indent = if failed { 18.0 } else { 6.0 };
    let class = if failed { "lack bad" } else { "lack" };
    html! {
        g {
            title { (words) }
            @if failed { (cross(LEFT + 10.0, y + ROW / 2.0)) }
            (text(LEFT + indent, y + ROW / 2.0 + 4.0, class, &fit(&words, 10.8, WIDTH - LEFT - indent)))
        }
    }
}

/// The x of a label beside a bar, moved to the right if a dot would cover the label.
fn clear_of_dots(x: f64, width: f64, dots: impl IntoIterator<Item = f64>) -> f64 {
    past_dots(x, width, 7.5, dots.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_moves_past_the_dots_in_its_way() {
        assert_eq!(clear_of_dots(100.0, 20.0, [50.0]), 100.0);
        assert_eq!(clear_of_dots(100.0, 20.0, [110.0]), 118.5);
        assert_eq!(clear_of_dots(100.0, 20.0, [125.0, 110.0]), 133.5);
    }
}
