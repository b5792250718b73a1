//! The numbers of a figure as a table: HTML for those who read it, CSV for those who compute with it.

use linerate_bench::stats::Estimate;
use maud::{Markup, html};

use crate::export;
use crate::number::short;
use crate::summary::ends;

/// Columns and rows, all rows as long as the head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// A text.
    Words(String),
    /// A number: three digits for people, all of it for programs.
    Number(f64),
    /// Nothing was measured.
    Blank,
}

impl Table {
    /// An empty table with these columns; units stand in the names.
    pub(crate) fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row; what it lacks is blank.
    pub(crate) fn push(&mut self, mut row: Vec<Cell>) {
        row.resize(self.head.len(), Cell::Blank);
        self.rows.push(row);
    }

    /// The table for a page.
    pub(crate) fn html(&self) -> Markup {
        html! {
            table {
                thead { tr {
                    @for (at, name) in self.head.iter().enumerate() {
                        th scope="col" class=[self.is_numeric(at).then_some("number")] { (name) }
                    }
                } }
                tbody { @for row in &self.rows { tr { @for (at, cell) in row.iter().enumerate() {
                    @if at == 0 { th scope="row" { (cell.words()) } }
                    @else { td class=[self.is_numeric(at).then_some("number")] { (cell.words()) } }
                } } } }
            }
        }
    }

    /// The table as RFC 4180 CSV.
    pub(crate) fn csv(&self) -> String {
        let rows = self.rows.iter().map(|row| row.iter().map(Cell::exact).collect());
        export::to_csv(std::iter::once(self.head.clone()).chain(rows))
    }

    fn is_numeric(&self, column: usize) -> bool {
        self.rows.iter().any(|row| matches!(row.get(column), Some(Cell::Number(_))))
    }
}

impl Cell {
    /// A text.
    pub(crate) fn text(words: impl Into<String>) -> Self {
        Self::Words(words.into())
    }

    /// Median and both ends of the interval.
    pub(crate) fn estimate(estimate: Option<Estimate>) -> [Self; 3] {
        let interval = estimate.and_then(ends);
        [
            estimate.map(|e| e.median).into(),
            interval.map(|(low, _)| low).into(),
            interval.map(|(_, high)| high).into(),
        ]
    }

    fn words(&self) -> String {
        match self {
            Self::Words(words) => words.clone(),
            Self::Number(value) => short(*value),
            Self::Blank => "–".to_owned(),
        }
    }

    fn exact(&self) -> String {
        match self {
            Self::Words(words) => words.clone(),
            Self::Number(value) => value.to_string(),
            Self::Blank => String::new(),
        }
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Blank, Self::Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_three_digits_and_programs_all() {
        let mut table = Table::new(["Case", "Rate (Gbit/s)"]);
        table.push(vec![Cell::text("a, b"), Cell::Number(9.394_8)]);
        table.push(vec![Cell::text("c")]);
        assert_eq!(table.csv(), "Case,Rate (Gbit/s)\n\"a, b\",9.3948\nc,\n");
        let html = table.html().into_string();
        assert!(html.contains("<td class=\"number\">9.39</td>") && html.contains(">–<"), "{html}");
    }
}
