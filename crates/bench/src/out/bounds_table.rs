//! Prints the table of bounds.

use linerate_quantity::three;

use super::grid::{Grid, wrap};
use crate::record::{Record, Relation};
use crate::stats::{BoundRow, BoundVerdict, Interval, LEAST_BLOCKS, outcome};

/// The table of bounds: the rows, the reasons why bounds don't hold, and the outcome.
pub fn bounds_table(record: &Record, rows: &[BoundRow]) -> String {
    let judges = rows.iter().any(|row| row.bound.limit.is_some());
    let mut heading = vec!["row", "value", "95 % interval"];
    heading.extend(judges.then_some(["bound", ""]).into_iter().flatten());
    let mut grid = Grid::new(&heading, 1);
    for row in rows {
        grid.row(match lack(row) {
            Some(reason) => vec![row.bound.name.clone(), reason.to_owned()],
            None => cells(row).into_iter().take(heading.len()).collect(),
        });
    }
    let mut lines = grid.lines();
    lines.push(String::new());
    let not_judged = |row: &&BoundRow| row.verdict == BoundVerdict::NotJudged;
    for row in rows.iter().filter(|row| !not_judged(row) && lack(row).is_none()) {
        if let Some(reason) = row.verdict.reason() {
            let text = format!("{} {}: {reason}", row.verdict.word(), row.bound.name);
            lines.extend(wrap(text.trim_start(), 2));
        }
    }
    if let Some(outcome) = outcome(rows) {
        let blocks =
            if record.blocks == 1 { "one block".into() } else { format!("{} blocks", record.blocks) };
        let few = format!(" ({blocks}, but an interval needs {LEAST_BLOCKS})");
        let few = rows.iter().find(not_judged).map_or(String::new(), |_| few);
        lines.push(format!("{outcome}{few}."));
    }
    lines.join("\n").trim_end().to_owned()
}

/// The reason why a row without a limit has no value.
fn lack(row: &BoundRow) -> Option<&str> {
    row.verdict.reason().filter(|_| row.bound.limit.is_none() && row.value.is_none())
}

fn cells(row: &BoundRow) -> Vec<String> {
    let interval = match row.estimate.map(|estimate| estimate.interval) {
        Some(_) if row.bound.every_block => "worst block".into(),
        Some(Interval::Known(low, high)) => format!("{} to {}", three(low), three(high)),
        Some(Interval::Insufficient) => "insufficient".into(),
        None => "-".into(),
    };
    let unit = match row.bound.unit.as_str() {
        "ratio" => String::new(),
        unit => format!(" {unit}"),
    };
    let limit = row.bound.limit.map(|limit| {
        let relation = if limit.relation == Relation::AtLeast { ">=" } else { "<=" };
        format!("{relation} {}{unit}", three(limit.value))
    });
    let own_unit = if limit.is_none() { unit.as_str() } else { "" };
    vec![
        row.bound.name.clone(),
        row.value.map_or("-".into(), |value| format!("{}{own_unit}", three(value))),
        interval,
        limit.unwrap_or_default(),
        row.verdict.word().to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Bound, Limit};
    use crate::stats::bound_rows;
    use crate::testing::{measured, record, run};

    #[test]
    fn rows_say_value_interval_bound_and_verdict() {
        let runs =
            (0..5).map(|block| run("cp", block, measured(9.0 + f64::from(block) / 10.0, 1.0))).collect();
        let mut record = record(&["cp"], 5, runs);
        let bound = |name: &str, relation, limit| Bound {
            name: name.into(),
            expression: "payload_rate(cp)".into(),
            limit: Some(Limit { relation, value: limit }),
            unit: "Gbit/s".into(),
            every_block: false,
        };
        record.bounds = vec![bound("fast", Relation::AtLeast, 9.0), bound("slow", Relation::AtMost, 1.0)];
        let text = bounds_table(&record, &bound_rows(&record));
        assert!(text.contains("fast   9.20   9.00 to 9.40  >= 9.00 Gbit/s      ok"), "{text}");
        assert!(text.contains("MISSED slow: the value is beyond the bound"), "{text}");
        assert!(text.ends_with("1 of 2 bounds hold, 1 missed."), "{text}");
        record.blocks = 2;
        record.runs.truncate(2);
        let text = bounds_table(&record, &bound_rows(&record));
        assert!(
            text.ends_with("0 of 2 bounds hold, 2 not judged (2 blocks, but an interval needs 5)."),
            "{text}"
        );
        record.bounds.iter_mut().for_each(|bound| bound.limit = None);
        record.bounds[1].expression = "score(cp)".into();
        let text = bounds_table(&record, &bound_rows(&record));
        assert!(text.contains("fast  9.05 Gbit/s") && !text.contains("hold"), "{text}");
        assert!(text.contains("slow  only 0 of 2 blocks gave a value"), "{text}");
    }
}
