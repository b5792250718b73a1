//! The layout for wide screens and paper: vertical bars, with throughput on the left axis and CPU on the
//! right axis.

use maud::{Markup, html};

use super::lane::{Lane, LaneReach, LaneWay, past_dots};
use super::marks;
use super::model::{Bar, Category, Chart, Panel, breadth};
use crate::figure::marks::cross;
use crate::figure::scale::Scale;
use crate::figure::svg::{line, text, upward_text};
use crate::figure::text::{fit, width, wrap};
use crate::figure::words::lack_text;
use crate::number::tick;
use crate::summary::State;

/// The width of the layout, in units.
pub(crate) const WIDTH: f64 = 920.0;
/// The x of the left axis.
pub(crate) const LEFT: f64 = 54.0;
/// The x of the right axis, which shows CPU.
pub(crate) const RIGHT: f64 = WIDTH - 54.0;
const WIDEST_BAR: f64 = 42.0;

/// Draws the figure, and returns its height too.
pub(crate) fn draw(chart: &Chart<'_>, id: &str) -> (Markup, f64) {
    super::stacked(chart, id, (LEFT, RIGHT), |panel, y| WidePlot::new(chart, id, panel, y + 8.0).draw())
}

/// A panel with its scales, in the wide layout.
struct WidePlot<'p, 'a> {
    chart: &'p Chart<'a>,
    id: &'p str,
    panel: &'p Panel<'a>,
    title_y: f64,
    top: f64,
    bottom: f64,
    rate: Scale,
    cpu: Scale,
}

impl<'p, 'a> WidePlot<'p, 'a> {
    fn new(chart: &'p Chart<'a>, id: &'p str, panel: &'p Panel<'a>, y: f64) -> Self {
        let height = if chart.panels.len() == 1 { 330.0 } else { 270.0 };
        let top = y + 38.0;
        let bottom = top + height;
        let rate = Scale::holding(chart.largest(panel), bottom, top);
        Self { chart, id, panel, title_y: y + 14.0, top, bottom, rate, cpu: Scale::percent(bottom, top) }
    }

    /// Draws the panel, and returns the y of the panel's lower end.
    fn draw(&self) -> (Markup, f64) {
        let cells = cells(self.panel);
        let (labels, end) = self.labels(&cells);
        let drawn = html! {
            (text(LEFT, self.title_y, "head", &fit(&self.panel.title, 13.2, RIGHT - LEFT)))
            (self.grid())
            @for cell in &cells { (self.category(cell)) }
            (line((LEFT, self.bottom), (RIGHT, self.bottom), "axis"))
            (labels)
        };
        (drawn, end)
    }

    fn grid(&self) -> Markup {
        let middle = f64::midpoint(self.top, self.bottom);
        html! {
            @for value in self.rate.ticks(1) {
                (line((LEFT, self.rate.at(value)), (RIGHT, self.rate.at(value)), "grid"))
                (text(LEFT - 8.0, self.rate.at(value) + 4.0, "end", &tick(value)))
            }
            @if self.chart.shows_cpu() { (self.cpu_axis(middle)) }
            @if let Some(ceiling) = self.panel.ceiling {
                (line((LEFT, self.rate.at(ceiling.payload)), (RIGHT, self.rate.at(ceiling.payload)), "ceiling"))
            }
            (upward_text(14.0, middle, "mid", &self.chart.measure.title()))
        }
    }

    fn cpu_axis(&self, middle: f64) -> Markup {
        html! {
            @for value in self.cpu.ticks(1) {
                (text(RIGHT + 8.0, self.cpu.at(value) + 4.0, "cpu-text", &tick(value)))
            }
            (upward_text(WIDTH - 8.0, middle, "mid cpu-text", "CPU of the whole host (% busy)"))
        }
    }

    fn category(&self, cell: &BarCell<'_, '_>) -> Markup {
        if let Some(lack) = cell.category.common_lack() {
            return html! {
                (self.lack(cell.x + cell.width / 2.0, lack))
                @for (bar, x) in cell.bars() { (self.hollows(bar, x, cell.bar_width)) }
            };
        }
        html! { @for (bar, x) in cell.bars() {
            (self.bar(bar, x, cell.bar_width))
            (self.hollows(bar, x, cell.bar_width))
        } }
    }

    fn lane(&self, x: f64, bar_width: f64) -> Lane {
        Lane { way: LaneWay::Up, base: self.bottom, edge: x, breadth: bar_width, gap: 1.0 }
    }

    fn hollows(&self, bar: &Bar<'_>, x: f64, bar_width: f64) -> Markup {
        self.lane(x, bar_width).hollows(self.chart, bar, &self.rate, &self.cpu)
    }

    fn bar(&self, bar: &Bar<'_>, x: f64, bar_width: f64) -> Markup {
        let Some(payload) = bar.value else {
            return self.lack(x + bar_width / 2.0, bar.state);
        };
        let lane = self.lane(x, bar_width);
        let reach = LaneReach::new(self.chart, bar, payload, &self.rate, &self.cpu);
        let y = clear_of_dots(self.clear_of_ceiling(lane.outermost(&reach) - 5.0), reach.dots());
        let label = self.value(lane.middle(), y, bar_width, &marks::value_text(bar));
        lane.draw(self.chart, self.id, bar, &reach, &label)
    }

    /// The y of a label's baseline, moved up if the line of the ceiling would cross the label.
    fn clear_of_ceiling(&self, y: f64) -> f64 {
        let line = self.panel.ceiling.map(|ceiling| self.rate.at(ceiling.payload));
        line.filter(|line| (y - 10.0..y + 3.0).contains(line)).map_or(y, |line| line - 4.0)
    }

    /// Draws the value above a bar; vertically if the bar is too narrow for the text.
    fn value(&self, x: f64, y: f64, bar_width: f64, value: &str) -> Markup {
        if width(value, 11.4) <= bar_width + 2.0 {
            return text(x, y, "value mid", value);
        }
        upward_text(x + 4.0, y, "value", value)
    }

    /// Draws the reason why there is no bar, as vertical text in the bar's place.
    fn lack(&self, x: f64, state: State<'_>) -> Markup {
        let (words, failed) = lack_text(state);
        let room = self.bottom - self.top - 30.0;
        let class = if failed { "lack bad" } else { "lack" };
        html! {
            g {
                title { (words) }
                @if failed { (cross(x, self.bottom - 9.0)) }
                (upward_text(x + 3.5, self.bottom - if failed { 19.0 } else { 7.0 }, class, &fit(&words, 10.8, room)))
            }
        }
    }

    /// Draws the text below the axis, and returns the y of the text's lower end.
    fn labels(&self, cells: &[BarCell<'_, '_>]) -> (Markup, f64) {
        let several = self.chart.series.len() > 1;
        let names_y = self.bottom + if several { 34.0 } else { 20.0 };
        let names: Vec<_> =
            cells.iter().map(|cell| wrap(&cell.category.name, 12.5, cell.width - 6.0, 3)).collect();
        let lines = names.iter().map(Vec::len).max().unwrap_or(0);
        let end = names_y + lines as f64 * 14.0 + 4.0;
        let drawn = html! {
            @if several { @for cell in cells { (self.stream_labels(cell)) } }
            @for (cell, lines) in cells.iter().zip(&names) { (name_labels(cell, lines, names_y)) }
            @for run in brackets(cells).iter().filter(|run| !run.0.is_empty()) { (bracket(run, end + 8.0)) }
        };
        (drawn, end + if cells.iter().any(|cell| !cell.category.workload.is_empty()) { 34.0 } else { 8.0 })
    }

    fn stream_labels(&self, cell: &BarCell<'_, '_>) -> Markup {
        html! {
            @for (bar, x) in cell.bars() {
                (text(x + cell.bar_width / 2.0, self.bottom + 14.0, "small muted mid", &fit(&bar.label, 10.5, cell.bar_width + 4.0)))
            }
        }
    }
}

/// A category's range on the x axis.
struct BarCell<'c, 'a> {
    category: &'c Category<'a>,
    x: f64,
    width: f64,
    bar_width: f64,
}

impl<'c, 'a> BarCell<'c, 'a> {
    /// The bars of a category, with the x of their left edges.
    fn bars(&self) -> impl Iterator<Item = (&'c Bar<'a>, f64)> {
        let left = self.x + (self.width - self.bar_width * self.category.bars.len() as f64) / 2.0;
        let step = self.bar_width;
        self.category.bars.iter().enumerate().map(move |(index, bar)| (bar, left + step * index as f64))
    }
}

/// Divides the axis among the categories, in proportion to their bars.
fn cells<'c, 'a>(panel: &'c Panel<'a>) -> Vec<BarCell<'c, 'a>> {
    let total: f64 = panel.categories.iter().map(breadth).sum();
    let unit = (RIGHT - LEFT) / total;
    let mut x = LEFT;
    let mut cells = Vec::new();
    for category in &panel.categories {
        let width = breadth(category) * unit;
        cells.push(BarCell { category, x, width, bar_width: unit.min(WIDEST_BAR) });
        x += width;
    }
    cells
}

/// Draws the name of a category, with the cipher on the next line.
fn name_labels(cell: &BarCell<'_, '_>, lines: &[String], y: f64) -> Markup {
    let middle = cell.x + cell.width / 2.0;
    let below = y + lines.len() as f64 * 14.0 - 1.0;
    html! {
        @for (index, words) in lines.iter().enumerate() {
            (text(middle, y + index as f64 * 14.0, "name mid", words))
        }
        (text(middle, below, "small muted mid", &fit(&cell.category.second, 10.8, cell.width - 4.0)))
    }
}

/// Groups neighboring categories that move the same data: the name of the data, and the first and last x.
fn brackets(cells: &[BarCell<'_, '_>]) -> Vec<(String, f64, f64)> {
    let mut runs: Vec<(String, f64, f64)> = Vec::new();
    for cell in cells {
        let end = cell.x + cell.width;
        match runs.last_mut() {
            Some(run) if run.0 == cell.category.workload => run.2 = end,
            _ => runs.push((cell.category.workload.clone(), cell.x, end)),
        }
    }
    runs
}

fn bracket((words, from, to): &(String, f64, f64), y: f64) -> Markup {
    let (from, to) = (from + 6.0, to - 6.0);
    html! {
        (line((from, y), (to, y), "bracket"))
        (line((from, y), (from, y - 4.0), "bracket"))
        (line((to, y), (to, y - 4.0), "bracket"))
        (text(f64::midpoint(from, to), y + 15.0, "muted mid", &fit(words, 11.8, to - from)))
    }
}

/// The y of a label's baseline above a bar, moved up if a dot would cover the label.
fn clear_of_dots(y: f64, dots: impl IntoIterator<Item = f64>) -> f64 {
    const HEIGHT: f64 = 9.0;
    // y decreases upwards, so -y is the position that increases.
    -past_dots(-y, HEIGHT, 6.5, dots.into_iter().map(|dot| -dot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_climbs_over_the_dots_in_its_way() {
        assert_eq!(clear_of_dots(100.0, []), 100.0);
        assert_eq!(clear_of_dots(100.0, [300.0]), 100.0);
        assert_eq!(clear_of_dots(100.0, [98.0]), 89.5);
        assert_eq!(clear_of_dots(100.0, [84.0, 98.0]), 75.5);
    }
}
