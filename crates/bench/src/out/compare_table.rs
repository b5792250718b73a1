//! Prints the table of a comparison of two results.

use super::grid::{Grid, wrap};
use crate::compare::{Comparison, Equal, Row, Verdict};
use crate::metric::Metric;
use crate::stats::Interval;

/// The comparison as text: warnings about other differences between the results, the rows, and the cases that only one
/// result has.
pub fn compare_table(comparison: &Comparison) -> String {
    let mut lines: Vec<String> =
        comparison.warnings.iter().flat_map(|text| wrap(&format!("warning: {text}"), 2)).collect();
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines.extend(grid(&comparison.rows).lines());
    lines.push(String::new());
    lines.extend(notes(comparison).iter().flat_map(|note| wrap(note, 2)));
    lines.join("\n")
}

/// A table that shows how often equal cases were called different.
pub fn equal_table(found: &[Equal]) -> String {
    let mut grid = Grid::new(&["quantity", "inside blocks", "between results"], 1);
    let share = |different: usize, of: usize| {
        format!("{different} of {of} ({:.1} %)", 100.0 * different as f64 / of.max(1) as f64)
    };
    for row in found {
        grid.row(vec![
            row.quantity.about().column.to_owned(),
            share(row.within_different, row.within),
            share(row.between_different, row.between),
        ]);
    }
    let mut lines = vec!["Equal cases, five blocks each: comparisons that called them different.".to_owned()];
    lines.extend(grid.lines());
    lines.join("\n")
}

fn grid(rows: &[Row]) -> Grid {
    let mut grid = Grid::new(&["case", "", "BASE", "NEW", "difference", "95 % interval", ""], 2);
    let mut last = None;
    for row in rows {
        let case = if last == Some(&row.case) { String::new() } else { row.case.clone() };
        grid.row(cells(row, case));
        last = Some(&row.case);
    }
    grid
}

fn cells(row: &Row, case: String) -> Vec<String> {
    let Some(quantity) = row.quantity else {
        return vec![case, format!("failed: {}", row.reason.as_deref().unwrap_or("no reason was recorded"))];
    };
    let number = |value: Option<f64>| value.map_or("-".into(), |value| quantity.text(value));
    let interval = match row.difference.map(|difference| difference.interval) {
        Some(Interval::Known(low, high)) => format!("{low:+.1} to {high:+.1} %"),
        Some(Interval::Insufficient) => "insufficient".into(),
        None => "-".into(),
    };
    vec![
        case,
        quantity.about().column.to_owned(),
        number(row.base),
        number(row.new),
        row.difference.map_or("-".into(), |difference| format!("{:+.1} %", difference.percent)),
        interval,
        verdict(row.verdict, quantity).to_owned(),
    ]
}

fn verdict(verdict: Verdict, quantity: Metric) -> &'static str {
    match verdict {
        Verdict::Better => quantity.about().words[0],
        Verdict::Worse => quantity.about().words[1],
        Verdict::Same => "no significant difference",
        Verdict::Insufficient => "insufficient",
        Verdict::NewlyFailed | Verdict::Failed => "failed",
    }
}

fn notes(comparison: &Comparison) -> Vec<String> {
    let mut notes = vec![
        "Medians over blocks; NEW against BASE. A difference counts if both the bootstrap's interval and Welch's exclude zero."
            .to_owned(),
    ];
    if comparison.rows.iter().any(|row| row.verdict == Verdict::Insufficient) {
        notes.push("insufficient: both results need five blocks with this value.".into());
    }
    for row in comparison.rows.iter().filter(|row| row.quantity.is_some()) {
        notes.extend(row.reason.iter().map(|reason| format!("{}: {reason}", row.case)));
    }
    notes.dedup();
    let only = [("BASE", &comparison.only_in_base), ("NEW", &comparison.only_in_new)];
    for (name, cases) in only.into_iter().filter(|(_, cases)| !cases.is_empty()) {
        notes.push(format!("only in {name}: {}", cases.join(", ")));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;
    use crate::out::grid::WIDTH;
    use crate::record::{Outcome, Record};
    use crate::testing::{measured, record, run};

    fn result(rate: f64) -> Record {
        let runs = (0..5).flat_map(|block| {
            let off = 1.0 + f64::from(block) / 1000.0;
            [
                run("cp-with-a-name-that-is-long", block, measured(rate * off, 1.0)),
                run("scp", block, measured(3.0 * off, 1.0)),
                run("bbcp", block, Outcome::Unavailable { reason: "bbcp isn't installed".into() }),
            ]
        });
        record(&["cp-with-a-name-that-is-long", "scp", "bbcp"], 5, runs.collect())
    }

    #[test]
    fn rows_say_what_changed_and_by_how_much() {
        let mut new = result(8.1);
        new.cases[1].id = "rsync".into();
        new.linerate = "9".into();
        let text = compare_table(&compare(&result(9.0), &new));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "warning: versions of linerate differ: 0 in BASE, 9 in NEW");
        assert!(lines[3].starts_with("cp-with-a-name") && lines[3].ends_with("slower"), "{text}");
        assert!(
            lines[3].contains("9.02") && lines[3].contains("8.12") && lines[3].contains("-10.0 %"),
            "{text}"
        );
        assert!(lines[4].starts_with(' ') && lines[4].ends_with("more CPU"), "{text}");
        assert!(text.contains("failed: NEW: bbcp isn't installed"), "{text}");
        assert!(text.contains("only in BASE: scp") && text.contains("only in NEW: rsync"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{text}");
        let same = compare_table(&compare(&result(9.0), &result(9.0)));
        assert!(same.contains("no significant difference") && !same.contains("warning"), "{same}");
    }

    #[test]
    fn equal_things_are_counted() {
        let row = Equal {
            quantity: Metric::PayloadRate,
            within: 201,
            within_different: 4,
            between: 200,
            between_different: 10,
        };
        let text = equal_table(&[row]);
        assert!(text.contains("4 of 201 (2.0 %)") && text.contains("10 of 200 (5.0 %)"), "{text}");
    }
}
