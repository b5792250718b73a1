//! The figure of a study after the seeds' print: bars of throughput on the left axis, dots of CPU on the right.
//!
//! `model` says what is shown, `wide` and `narrow` where; `lane`, `scale`, `text`, `marks`, `legend` and `svg` serve both.

mod lane;
mod legend;
mod marks;
mod model;
mod name;
mod narrow;
mod scale;
mod svg;
mod text;
mod wide;

use linerate_bench::record::Record;
use maud::{Markup, html};

pub(crate) use marks::lack_text;
pub(crate) use model::streams_text;

use crate::link::Ceiling;
use crate::number::{bits_per_second, short};
use crate::summary::{State, Summary, ends, tip};
use model::{Figure, Panel};
use svg::Drawing;

/// The style of the figure: light, and dark where the reader prefers that on a screen.
pub(crate) const STYLE: &str = include_str!("theme.css");

/// The wide layout, to stand in a page that has [`STYLE`].
pub(crate) fn wide(record: &Record, summaries: &[Summary<'_>]) -> Markup {
    in_page(record, summaries, "wide", wide::WIDTH, wide::draw)
}

/// The narrow layout, to stand in a page that has [`STYLE`].
pub(crate) fn narrow(record: &Record, summaries: &[Summary<'_>]) -> Markup {
    in_page(record, summaries, "narrow", narrow::WIDTH, narrow::draw)
}

/// The wide layout as a document of its own, with its caption below.
pub(crate) fn stand_alone(record: &Record, summaries: &[Summary<'_>]) -> Markup {
    let (figure, height) = wide::draw(&Figure::new(record, summaries), "figure");
    let lines = text::wrap(&caption(record, summaries), 11.2, wide::RIGHT - wide::LEFT, 6);
    let description = description(summaries);
    let drawing = Drawing {
        id: "figure",
        width: wide::WIDTH,
        height: height + 14.0 + lines.len() as f64 * 15.0,
        title: &record.title,
        description: &description,
    };
    let body = html! {
        g transform="translate(0 6)" {
            (figure)
            @for (index, words) in lines.iter().enumerate() {
                (svg::text(wide::LEFT, height + 12.0 + index as f64 * 15.0, "small muted", words))
            }
        }
    };
    drawing.around(Some(STYLE), &body)
}

/// What stands under the figure: the measure, its layer, how many runs it rests on, and every sign that it uses.
pub(crate) fn caption(record: &Record, summaries: &[Summary<'_>]) -> String {
    let mut parts =
        vec![bars_part(summaries).to_owned(), cpu_part(record).to_owned(), blocks_part(record, summaries)];
    parts.extend(ceiling_part(record));
    parts.extend(sign_parts(summaries).map(str::to_owned));
    parts.join(" ")
}

fn bars_part(summaries: &[Summary<'_>]) -> &'static str {
    if summaries.iter().any(|s| tip(s).is_some()) {
        "Bars: median TCP payload delivered per second; filled over the whole command with its login, outlined over the \
         tool’s own payload time where it states one. The number is that of the whole bar."
    } else {
        "Bars: median TCP payload delivered per second."
    }
}

fn cpu_part(record: &Record) -> &'static str {
    if record.shared_processors {
        "Dots: busy share of all processors, which both ends share."
    } else {
        "Dots: busy share of all processors of each end."
    }
}

/// On how many blocks the medians rest, and what the whiskers are.
fn blocks_part(record: &Record, summaries: &[Summary<'_>]) -> String {
    let counts = || summaries.iter().filter_map(|s| Some(s.payload?.blocks));
    let n = match (counts().min(), counts().max()) {
        (Some(least), Some(most)) if least == most => format!("n = {most}"),
        (Some(least), Some(most)) => format!("n = {least} to {most}"),
        _ => "n = 0".to_owned(),
    };
    let whiskers = if summaries.iter().any(|s| s.payload.and_then(ends).is_some()) {
        "whiskers: 95 % bootstrap interval of the median over blocks, where wider than a line"
    } else {
        "no intervals, which need five blocks"
    };
    format!("{n} of {} blocks in shuffled order; {whiskers}.", record.blocks)
}

fn ceiling_part(record: &Record) -> Option<String> {
    let ceiling = record.cases.iter().find_map(|case| Ceiling::named(record, &case.link))?;
    Some(format!(
        "Dashed: the most TCP payload that the link carries, its rate × (MTU − 52) / (MTU + {}) = {} Gbit/s of {}.",
        ceiling.overhead,
        short(ceiling.payload),
        bits_per_second(ceiling.wire),
    ))
}

fn sign_parts(summaries: &[Summary<'_>]) -> impl Iterator<Item = &'static str> {
    let measured = |s: &&Summary<'_>| s.state() == State::Measured;
    let disturbed = summaries.iter().filter(measured).any(|s| !s.disturbed.is_empty());
    let failed = summaries.iter().filter(measured).any(|s| !s.failed.is_empty());
    let signs = [
        (disturbed, "† A run was disturbed by something else on the host."),
        (failed, "‡ A run failed; the median is of the others."),
    ];
    signs.into_iter().filter_map(|(present, words)| present.then_some(words))
}

fn in_page(
    record: &Record,
    summaries: &[Summary<'_>],
    id: &str,
    width: f64,
    draw: fn(&Figure<'_>, &str) -> (Markup, f64),
) -> Markup {
    let (body, height) = draw(&Figure::new(record, summaries), id);
    let description = description(summaries);
    Drawing { id, width, height, title: &record.title, description: &description }.around(None, &body)
}

/// The legend from `span.0` to `span.1` with every panel below it, and the height of all. `draw` is given where a panel
/// may begin, and gives where it ends.
fn stacked<'p, 'a>(
    figure: &'p Figure<'a>,
    id: &str,
    span: (f64, f64),
    draw: impl Fn(&'p Panel<'a>, f64) -> (Markup, f64),
) -> (Markup, f64) {
    if figure.panels.is_empty() {
        return (svg::text(2.0, 16.0, "muted", "The record holds no case."), 24.0);
    }
    let (legend, mut y) = legend::legend(figure, id, span.0, span.1);
    let mut panels = Vec::new();
    for panel in &figure.panels {
        let (drawn, bottom) = draw(panel, y);
        panels.push(drawn);
        y = bottom;
    }
    (html! { (legend) @for panel in &panels { (panel) } }, y)
}

/// The figure in words, for those who don't see it.
fn description(summaries: &[Summary<'_>]) -> String {
    let lines: Vec<_> = summaries.iter().map(marks::tooltip).collect();
    format!("Bar chart of payload throughput with dots of CPU. {}.", lines.join(". "))
}
