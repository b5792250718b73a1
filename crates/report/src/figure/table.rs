//! The numbers of a figure as a table: HTML for readers, CSV for programs.

use linerate_bench::stats::Estimate;
use maud::{Markup, html};

use crate::export;
use crate::number::{fine, grouped, tick};
use crate::summary::ends;

/// A table: the heads of its columns, and rows of the same length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

/// The value of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// A text.
    Words(String),
    /// A number: four digits in HTML, all digits in CSV.
    Number(f64),
    /// Several numbers.
    Numbers(Vec<f64>),
    /// A whole number.
    Count(usize),
    /// A median with its interval; three columns in CSV.
    Estimate(Estimate),
    /// An empty cell: no value was measured.
    Blank,
}

impl Table {
    /// An empty table with the given column heads, which contain the units.
    pub(crate) fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row. Cells that are missing at the end of the row are blank.
    pub(crate) fn push(&mut self, mut row: Vec<Cell>) {
        row.resize(self.head.len(), Cell::Blank);
        self.rows.push(row);
    }

    /// The table as HTML, without columns that are empty in every row.
    pub(crate) fn html(&self) -> Markup {
        let shown: Vec<usize> = (0..self.head.len()).filter(|at| *at == 0 || !self.is_empty(*at)).collect();
        html! {
            table {
                thead { tr { @for at in &shown {
                    th scope="col" class=[self.class(*at)] { (self.head[*at]) }
                } } }
                tbody { @for row in &self.rows { tr { @for at in &shown {
                    @if *at == 0 { th scope="row" { (row[*at].html()) } }
                    @else { td class=[self.class(*at)] { (row[*at].html()) } }
                } } } }
            }
        }
    }

    /// The table as CSV (RFC 4180). A column of estimates is followed by two columns with the lower and upper
    /// ends of the intervals.
    pub(crate) fn csv(&self) -> String {
        let estimates: Vec<bool> = (0..self.head.len()).map(|at| self.has_estimates(at)).collect();
        let head = self.head.iter().zip(&estimates).flat_map(|(name, is_estimate)| {
            let ends = is_estimate.then(|| [format!("{name}, low"), format!("{name}, high")]);
            std::iter::once(name.clone()).chain(ends.into_iter().flatten())
        });
        let row = |row: &Vec<Cell>| row.iter().zip(&estimates).flat_map(|(cell, e)| cell.exact(*e)).collect();
        export::to_csv(std::iter::once(head.collect()).chain(self.rows.iter().map(row)))
    }

    fn class(&self, column: usize) -> Option<&'static str> {
        let is_number = |cell: &Cell| {
            matches!(cell, Cell::Number(_) | Cell::Numbers(_) | Cell::Count(_) | Cell::Estimate(_))
        };
        self.column(column).any(is_number).then_some("number")
    }

    fn is_empty(&self, column: usize) -> bool {
        self.column(column).all(|cell| matches!(cell, Cell::Blank) || *cell == Cell::text(""))
    }

    fn has_estimates(&self, column: usize) -> bool {
        self.column(column).any(|cell| matches!(cell, Cell::Estimate(_)))
    }

    fn column(&self, column: usize) -> impl Iterator<Item = &Cell> {
        self.rows.iter().filter_map(move |row| row.get(column))
    }
}

impl Cell {
    /// A text.
    pub(crate) fn text(words: impl Into<String>) -> Self {
        Self::Words(words.into())
    }

    /// A cell of numbers; blank if there are none.
    pub(crate) fn numbers(all: impl Iterator<Item = f64>) -> Self {
        let all: Vec<f64> = all.collect();
        if all.is_empty() { Self::Blank } else { Self::Numbers(all) }
    }

    fn html(&self) -> Markup {
        let digits = |value: f64| fine(value).replace('-', "−");
        html! {
            @match self {
                Self::Words(words) => (words),
                Self::Number(value) => (digits(*value)),
                Self::Numbers(all) => (all.iter().map(|value| tick(*value)).collect::<Vec<_>>().join("; ").replace('-', "−")),
                Self::Count(count) => (grouped(*count as u64)),
                Self::Estimate(estimate) => {
                    (digits(estimate.median))
                    @if let Some((low, high)) = ends(*estimate) {
                        span class="interval" { "[" (digits(low)) ", " (digits(high)) "]" }
                    }
                }
                Self::Blank => "–",
            }
        }
    }

    /// The CSV fields of the cell: three fields in a column of estimates, otherwise one.
    fn exact(&self, in_estimates: bool) -> Vec<String> {
        let number = |value: f64| if value.is_finite() { value.to_string() } else { String::new() };
        let mut fields = match self {
            Self::Words(words) => vec![words.clone()],
            Self::Number(value) => vec![number(*value)],
            Self::Numbers(all) => vec![all.iter().map(|value| number(*value)).collect::<Vec<_>>().join("; ")],
            Self::Count(count) => vec![count.to_string()],
            Self::Estimate(estimate) => std::iter::once(estimate.median)
                .chain(ends(*estimate).into_iter().flat_map(|(low, high)| [low, high]))
                .map(number)
                .collect(),
            Self::Blank => vec![String::new()],
        };
        fields.resize(if in_estimates { 3 } else { 1 }, String::new());
        fields
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Blank, Self::Number)
    }
}

impl From<Option<usize>> for Cell {
    fn from(count: Option<usize>) -> Self {
        count.map_or(Self::Blank, Self::Count)
    }
}

impl From<Option<Estimate>> for Cell {
    fn from(estimate: Option<Estimate>) -> Self {
        estimate.map_or(Self::Blank, Self::Estimate)
    }
}

#[cfg(test)]
mod tests {
    use linerate_bench::stats::Interval;

    use super::*;

    #[test]
    fn people_read_four_digits_and_programs_all() {
        let mut table = Table::new(["Case", "Rate (Gbit/s)", "n", "Remark"]);
        let estimate = Estimate {
            median: 9.394_81,
            interval: Interval::Known(-0.25, 9.5),
            blocks: 5,
            student: linerate_bench::stats::Student {
                mean: 9.394_81,
                interval: Interval::Known(-0.25, 9.5),
                half_width_percent: None,
            },
        };
        table.push(vec![Cell::text("a, b"), Cell::Estimate(estimate), Cell::Count(5)]);
        table.push(vec![Cell::text("c"), Cell::Number(1.0)]);
        assert_eq!(
            table.csv(),
            "Case,Rate (Gbit/s),\"Rate (Gbit/s), low\",\"Rate (Gbit/s), high\",n,Remark\n\
             \"a, b\",9.39481,-0.25,9.5,5,\nc,1,,,,\n"
        );
        let html = table.html().into_string();
        assert!(html.contains("9.395<span class=\"interval\">[−0.2500, 9.500]</span>"), "{html}");
        assert!(!html.contains("Remark"), "a column without content is left out: {html}");
    }
}
