//! The gate's rows.

use linerate_quantity::three;

use super::grid::{Grid, wrap};
use crate::record::{Record, Relation};
use crate::stats::{BoundVerdict, GateRow, Interval, LEAST_BLOCKS};

/// The rows, why missed ones are missed, and the outcome.
pub fn gate_table(record: &Record, rows: &[GateRow]) -> String {
    let mut grid = Grid::new(&["row", "value", "95 % interval", "bound", ""], 1);
    for row in rows {
        grid.row(cells(row));
    }
    let mut lines = grid.lines();
    lines.push(String::new());
    for row in rows {
        if let BoundVerdict::Missed { reason } = &row.verdict {
            lines.extend(wrap(&format!("MISSED {}: {reason}", row.bound.name), 2));
        }
    }
    if (record.blocks as usize) < LEAST_BLOCKS {
        let few = format!(
            "{} of at least {LEAST_BLOCKS} blocks: the medians decide, without an interval.",
            record.blocks
        );
        lines.extend(wrap(&few, 0));
    }
    let held = rows.iter().filter(|row| row.holds()).count();
    lines.push(format!("{held} of {} rows hold.", rows.len()));
    lines.join("\n")
}

fn cells(row: &GateRow) -> Vec<String> {
    let interval = match row.estimate.map(|estimate| estimate.interval) {
        Some(_) if row.bound.every_block => "worst block".into(),
        Some(Interval::Known(low, high)) => format!("{} to {}", three(low), three(high)),
        Some(Interval::Insufficient) => "insufficient".into(),
        None => "-".into(),
    };
    let relation = match row.bound.relation {
        Relation::AtLeast => ">=",
        Relation::AtMost => "<=",
    };
    let unit = Some(row.bound.unit.as_str())
        .filter(|unit| *unit != "ratio")
        .map_or(String::new(), |u| format!(" {u}"));
    vec![
        row.bound.name.clone(),
        row.value.map_or("-".into(), three),
        interval,
        format!("{relation} {}{unit}", three(row.bound.limit)),
        if row.holds() { "ok".into() } else { "MISSED".into() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Bound;
    use crate::stats::gate;
    use crate::testing::{measured, record, run};

    #[test]
    fn rows_say_value_interval_bound_and_verdict() {
        let runs =
            (0..5).map(|block| run("cp", block, measured(9.0 + f64::from(block) / 10.0, 1.0))).collect();
        let mut record = record(&["cp"], 5, runs);
        let bound = |name: &str, relation, limit| Bound {
            name: name.into(),
            expression: "payload_rate(cp)".into(),
            relation,
            limit,
            unit: "Gbit/s".into(),
            every_block: false,
        };
        record.bounds = vec![bound("fast", Relation::AtLeast, 9.0), bound("slow", Relation::AtMost, 1.0)];
        let text = gate_table(&record, &gate(&record));
        assert!(text.contains("fast   9.20   9.00 to 9.40  >= 9.00 Gbit/s      ok"), "{text}");
        assert!(text.contains("MISSED slow: the value is beyond the bound"), "{text}");
        assert!(text.ends_with("1 of 2 rows hold."), "{text}");
        record.blocks = 2;
        record.runs.truncate(2);
        assert!(gate_table(&record, &gate(&record)).contains("2 of at least 5 blocks"));
    }
}
