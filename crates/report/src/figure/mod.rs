//! The figures of a study, one module for each kind. Each module draws its part of the record as a [`Drawn`]:
//! two layouts, a text alternative, a caption, and the numbers as a table.
//!
//! `context` holds the input of a figure, `measure` its unit. All kinds use `axes`, `legend`, `marks`,
//! `scale`, `svg`, `text` and `words`. `caption` and `table` make the parts below the drawing.

mod axes;
mod bars;
mod caption;
mod context;
mod differences;
mod growth;
mod interrupts;
mod ladder;
mod legend;
mod marks;
mod measure;
mod response_times;
mod scale;
mod scaling;
mod svg;
mod table;
mod text;
mod time_series;
mod words;

use linerate_bench::metric::Metric;
use linerate_bench::record::{Figure, FigureKind, Record};
use maud::{Markup, html};

pub(crate) use bars::streams_text;
pub(crate) use measure::{Measure, time_unit};
pub(crate) use words::lack_text;

use crate::summary::Summary;
use context::Context;
use svg::Drawing;
use table::Table;

/// The style of the figures: light, or dark on a screen whose user prefers dark pages.
pub(crate) const STYLE: &str = include_str!("theme.css");

/// A kind of figure: its name, as the study file spells it, and its drawing function.
type Kind = (FigureKind, &'static str, fn(&Context<'_>) -> Drawn);

const KINDS: [Kind; 7] = [
    (FigureKind::Bars, "bars", bars::draw),
    (FigureKind::Scaling, "scaling", scaling::draw),
    (FigureKind::Differences, "differences", differences::draw),
    (FigureKind::TimeSeries, "time-series", time_series::draw),
    (FigureKind::ResponseTimes, "response-times", response_times::draw),
    (FigureKind::Interrupts, "interrupts", interrupts::draw),
    (FigureKind::Ladder, "ladder", ladder::draw),
];

/// A drawn figure.
pub(crate) struct Drawn {
    /// The drawing for wide screens and paper.
    pub(crate) wide: Picture,
    /// The drawing for narrow screens.
    pub(crate) narrow: Picture,
    /// The figure's contents in words, with all numbers, for readers who can't see the drawing.
    pub(crate) description: String,
    /// The findings of the figure, one sentence each, computed from the figure's numbers.
    pub(crate) findings: Vec<String>,
    /// The caption: the measured quantity, the place of measurement, the number of runs, and the meaning of
    /// every mark.
    pub(crate) caption: String,
    /// The figure's numbers as a table.
    pub(crate) table: Table,
    /// The table for the CSV file, if it has more contents than `table`.
    pub(crate) more: Option<Table>,
    /// Whether the table is shown unfolded, because it is as important as the drawing.
    pub(crate) table_is_open: bool,
}

/// A drawing.
pub(crate) struct Picture {
    body: Markup,
    width: f64,
    height: f64,
}

/// The width for which a layout is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Paper {
    /// The width of the layout, in units.
    pub(crate) width: f64,
    /// Whether the layout is for a narrow screen.
    pub(crate) narrow: bool,
}

/// A figure of the record, with its drawing.
pub(crate) struct Shown<'a> {
    /// The figure's id in the page: "figure-1".
    pub(crate) id: String,
    /// The name of the figure's kind.
    kind: &'static str,
    /// The figure's title.
    pub(crate) title: &'a str,
    /// The drawing and its texts.
    pub(crate) drawn: Drawn,
}

/// The figures that a record requests; one figure of bars if it requests none.
pub(crate) fn asked(record: &Record, summaries: &[Summary<'_>]) -> Vec<Figure> {
    if !record.figures.is_empty() {
        return record.figures.clone();
    }
    vec![Figure {
        kind: FigureKind::Bars,
        title: record.title.clone(),
        quantity: main_quantity(summaries),
        x: None,
        series: None,
        cases: vec![],
    }]
}

/// Draws all figures of a record.
pub(crate) fn all<'a>(
    record: &'a Record,
    summaries: &'a [Summary<'a>],
    asked: &'a [Figure],
) -> Vec<Shown<'a>> {
    asked.iter().enumerate().map(|(index, figure)| shown(record, summaries, figure, index)).collect()
}

impl Paper {
    /// The width for wide screens and paper.
    pub(crate) const WIDE: Self = Self { width: 920.0, narrow: false };
    /// The width for narrow screens.
    pub(crate) const NARROW: Self = Self { width: 360.0, narrow: true };

    /// Returns `wide` or `narrow`, whichever value belongs to this layout.
    pub(crate) fn pick<T>(self, wide: T, narrow: T) -> T {
        if self.narrow { narrow } else { wide }
    }
}

impl Drawn {
    /// Draws both layouts with `draw`, which returns the marks and their height; other fields of the result
    /// are empty.
    fn on_both(context: &Context<'_>, draw: impl Fn(Paper, &str) -> (Markup, f64)) -> Self {
        let picture = |paper: Paper, suffix: &str| {
            let (body, height) = draw(paper, &format!("{}-{suffix}", context.id));
            Picture { body, width: paper.width, height }
        };
        Self {
            wide: picture(Paper::WIDE, "wide"),
            narrow: picture(Paper::NARROW, "narrow"),
            description: String::new(),
            findings: Vec::new(),
            caption: String::new(),
            table: Table::default(),
            more: None,
            table_is_open: false,
        }
    }

    /// The figure's numbers as CSV.
    pub(crate) fn csv(&self) -> String {
        self.more.as_ref().unwrap_or(&self.table).csv()
    }
}

impl Shown<'_> {
    /// The name for the figure's files, without an extension: `figure-1-scaling`.
    pub(crate) fn file_stem(&self) -> String {
        format!("{}-{}", self.id, self.kind)
    }

    /// The wide layout as SVG, for a page that includes [`STYLE`].
    pub(crate) fn wide(&self) -> Markup {
        self.in_page("wide", &self.drawn.wide)
    }

    /// The narrow layout as SVG, for a page that includes [`STYLE`].
    pub(crate) fn narrow(&self) -> Markup {
        self.in_page("narrow", &self.drawn.narrow)
    }

    /// The wide layout as a stand-alone SVG document, with the findings and the caption below.
    pub(crate) fn stand_alone(&self) -> Markup {
        const MARGIN: f64 = 16.0;
        let Picture { body, width, height } = &self.drawn.wide;
        let words = [self.drawn.findings.join(" "), self.drawn.caption.clone()].join(" ");
        let lines = text::wrap(words.trim(), 11.2, *width, 16);
        let drawing = Drawing {
            id: &format!("{}-wide", self.id),
            width: width + 2.0 * MARGIN,
            height: height + 62.0 + lines.len() as f64 * 15.0,
            title: self.title,
            description: &self.drawn.description,
        };
        let body = html! {
            (svg::text(MARGIN, 29.0, "title", &text::fit(self.title, 16.4, *width)))
            g transform=(format!("translate({MARGIN} 44)")) {
                (body)
                @for (index, words) in lines.iter().enumerate() {
                    (svg::text(0.0, height + 14.0 + index as f64 * 15.0, "small muted", words))
                }
            }
        };
        drawing.around(Some(STYLE), &body)
    }

    fn in_page(&self, suffix: &str, picture: &Picture) -> Markup {
        let drawing = Drawing {
            id: &format!("{}-{suffix}", self.id),
            width: picture.width,
            height: picture.height,
            title: self.title,
            description: &self.drawn.description,
        };
        drawing.around(None, &picture.body)
    }
}

fn shown<'a>(
    record: &'a Record,
    summaries: &'a [Summary<'a>],
    figure: &'a Figure,
    index: usize,
) -> Shown<'a> {
    let context = Context::new(record, summaries, figure, index);
    let (_, kind, draw) = KINDS.iter().find(|(kind, ..)| *kind == figure.kind).unwrap_or(&KINDS[0]);
    Shown { kind, title: context.title(), drawn: draw(&context), id: context.id }
}

/// The quantity that is shown for a study that requests no figure.
fn main_quantity(summaries: &[Summary<'_>]) -> Metric {
    let has = |metric: &Metric| summaries.iter().any(|summary| summary.of(*metric).is_some());
    Metric::MAIN.into_iter().rev().find(has).unwrap_or_default()
}
