//! Bounds: each is a row with a value, its interval, and whether it holds.

use serde::Serialize;

use super::bootstrap::Estimate;
use super::figure::measures;
use crate::metric::Metric;
use crate::record::{Bound, Outcome, Record, Relation};
use crate::spec::expression::Expression;

/// A row of the gate.
#[derive(Clone, Debug, Serialize)]
pub struct GateRow {
    /// The bound.
    pub bound: Bound,
    /// The value over blocks; `None` if no block gave one.
    pub estimate: Option<Estimate>,
    /// The value that is compared with the limit: the median, or the worst block if every block must hold.
    pub value: Option<f64>,
    /// Whether it holds.
    pub verdict: BoundVerdict,
}

/// Whether a bound holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum BoundVerdict {
    /// It holds.
    Ok,
    /// The bound doesn't hold, or can't be checked, because a run that it needs failed.
    Missed {
        /// Why, for people.
        reason: String,
    },
}

/// Every bound of a record. A run that a bound needs and that failed makes it missed: nothing is dropped
/// silently.
pub fn gate(record: &Record) -> Vec<GateRow> {
    record.bounds.iter().map(|bound| row(record, bound)).collect()
}

impl GateRow {
    /// True if the bound holds.
    pub fn holds(&self) -> bool {
        self.verdict == BoundVerdict::Ok
    }
}

fn row(record: &Record, bound: &Bound) -> GateRow {
    let bound = bound.clone();
    let cases: Vec<&str> = record.cases.iter().map(|case| case.id.as_str()).collect();
    let expression = match Expression::parse(&bound.expression, &cases) {
        Ok(expression) => expression,
        Err(error) => return missed(bound, format!("its expression can't be read: {}", error.problem)),
    };
    let figure = |metric: Metric, case: &str, block| {
        metric.of(measures(record, case, block)?, record.counts_cpu_once())
    };
    let value = |block| expression.evaluate(&|metric, case| figure(metric, case, block));
    let values: Vec<f64> = (0..record.blocks).filter_map(value).collect();
    let estimate = Estimate::of(&values, record.seed);
    let compared =
        if bound.every_block { worst(&values, bound.relation) } else { estimate.map(|e| e.median) };
    let verdict = match hindrance(record, &expression, values.len()) {
        Some(reason) => BoundVerdict::Missed { reason },
        None => compare(compared, &bound),
    };
    GateRow { bound, estimate, value: compared, verdict }
}

fn missed(bound: Bound, reason: String) -> GateRow {
    GateRow { bound, estimate: None, value: None, verdict: BoundVerdict::Missed { reason } }
}

/// The value that is furthest towards the wrong side.
fn worst(values: &[f64], relation: Relation) -> Option<f64> {
    let further = match relation {
        Relation::AtLeast => f64::min,
        Relation::AtMost => f64::max,
    };
    values.iter().copied().reduce(further)
}

/// The reason why a bound can't be checked.
fn hindrance(record: &Record, expression: &Expression, values: usize) -> Option<String> {
    let needed = expression.cases();
    let bad = record.runs.iter().filter(|run| needed.contains(run.case.as_str()));
    let mut reasons = bad.filter_map(|run| match &run.outcome {
        Outcome::Failed { reason } => Some(format!("a run of {} failed: {reason}", run.case)),
        Outcome::Unavailable { reason } => Some(format!("{}: {reason}", run.case)),
        Outcome::Measured(_) => None,
    });
    let blocks = record.blocks as usize;
    reasons
        .next()
        .or_else(|| (values < blocks).then(|| format!("only {values} of {blocks} blocks gave a value")))
}

fn compare(value: Option<f64>, bound: &Bound) -> BoundVerdict {
    let Some(value) = value else { return BoundVerdict::Missed { reason: "no block gave a value".into() } };
    let holds = match bound.relation {
        Relation::AtLeast => value >= bound.limit,
        Relation::AtMost => value <= bound.limit,
    };
    if holds {
        BoundVerdict::Ok
    } else {
        BoundVerdict::Missed { reason: "the value is beyond the bound".into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Measures;
    use crate::stats::Interval;
    use crate::testing::{measured, record, run};

    fn bound(expression: &str, relation: Relation, limit: f64) -> Bound {
        Bound {
            name: "row".into(),
            expression: expression.into(),
            relation,
            limit,
            unit: "ratio".into(),
            every_block: false,
        }
    }

    fn five(rates: [f64; 5], base: f64) -> Record {
        let runs = rates.iter().zip(0..).flat_map(|(rate, block)| {
            [run("cp", block, measured(*rate, 2.0)), run("scp", block, measured(base, 2.0))]
        });
        record(&["cp", "scp"], 5, runs.collect())
    }

    #[test]
    fn ratios_are_taken_inside_a_block() {
        let mut record = five([9.0, 9.3, 9.6, 9.9, 9.6], 3.0);
        record.bounds = vec![bound("payload_rate(cp) / payload_rate(scp)", Relation::AtLeast, 3.0)];
        let row = gate(&record).remove(0);
        assert!(row.holds());
        assert!((row.value.unwrap() - 3.2).abs() < 1e-6);
        let Interval::Known(low, high) = row.estimate.unwrap().interval else { panic!("{row:?}") };
        assert!((low - 3.0).abs() < 1e-6 && (high - 3.3).abs() < 1e-6);
    }

    #[test]
    fn a_value_beyond_the_bound_is_missed() {
        let mut record = five([9.0; 5], 3.0);
        record.bounds = vec![
            bound("payload_rate(cp) / payload_rate(scp)", Relation::AtLeast, 3.1),
            bound("payload_rate(cp) / payload_rate(scp)", Relation::AtMost, 3.1),
        ];
        let rows = gate(&record);
        assert!(!rows[0].holds() && rows[1].holds());
    }

    #[test]
    fn a_failed_run_makes_every_bound_that_needs_it_missed() {
        let mut record = five([9.0; 5], 3.0);
        record.runs[3] = run("scp", 1, Outcome::Failed { reason: "disk full".into() });
        record.bounds = vec![
            bound("payload_rate(cp) / payload_rate(scp)", Relation::AtLeast, 1.0),
            bound("payload_rate(cp)", Relation::AtLeast, 1.0),
        ];
        let rows = gate(&record);
        assert!(matches!(&rows[0].verdict, BoundVerdict::Missed { reason } if reason.contains("disk full")));
        assert_eq!(rows[0].estimate.unwrap().blocks, 4);
        assert!(rows[1].holds());
    }

    #[test]
    fn a_missing_tool_or_figure_or_run_is_missed() {
        let mut record = five([9.0; 5], 3.0);
        record.bounds = vec![bound("peak_rss(cp)", Relation::AtMost, 1.0)];
        assert!(!gate(&record)[0].holds());
        record.bounds[0].expression = "payload_rate(cp)".into();
        record.runs.retain(|run| run.block < 4);
        let row = gate(&record).remove(0);
        assert!(
            matches!(&row.verdict, BoundVerdict::Missed { reason } if reason.contains("4 of 5")),
            "{row:?}"
        );
        record.runs[0].outcome = Outcome::Unavailable { reason: "cp isn't installed".into() };
        assert!(
            matches!(&gate(&record)[0].verdict, BoundVerdict::Missed { reason } if reason.contains("installed"))
        );
        record.bounds[0].expression = "payload_rate(zebra)".into();
        assert!(!gate(&record)[0].holds());
    }

    #[test]
    fn every_block_means_the_worst() {
        let mut record = five([9.0; 5], 3.0);
        for (run, rss) in record.runs.iter_mut().zip(1..) {
            if let Outcome::Measured(Measures { peak_rss_bytes, .. }) = &mut run.outcome {
                *peak_rss_bytes = Some(rss * 10);
            }
        }
        record.bounds = vec![bound("max(peak_rss(*))", Relation::AtMost, 90.0)];
        assert!(gate(&record)[0].holds(), "the median of 20, 40, 60, 80, 100 holds");
        record.bounds[0].every_block = true;
        let row = gate(&record).remove(0);
        assert!(!row.holds());
        assert_eq!(row.value, Some(100.0));
    }

    #[test]
    fn fewer_than_five_blocks_still_decide_by_the_median() {
        let mut record = record(&["cp"], 1, vec![run("cp", 0, measured(9.0, 1.0))]);
        record.bounds = vec![bound("payload_rate(cp)", Relation::AtLeast, 8.0)];
        let row = gate(&record).remove(0);
        assert!(row.holds());
        assert_eq!(row.estimate.unwrap().interval, Interval::Insufficient);
    }
}
