//! The values of the runs of a case.

use super::bootstrap::Estimate;
use crate::metric::Metric;
use crate::record::{Measures, Outcome, Record, Run};

/// All runs of a case, including failed and unavailable ones.
pub fn runs<'r>(record: &'r Record, case: &str) -> impl Iterator<Item = &'r Run> + Clone {
    record.runs.iter().filter(move |run| run.case == case)
}

/// The good runs of a case, with their blocks. Runs in blocks that the study doesn't have are ignored.
pub fn good_runs<'r>(record: &'r Record, case: &str) -> impl Iterator<Item = (u32, &'r Measures)> + Clone {
    runs(record, case).filter(|run| run.block < record.blocks).filter_map(|run| match &run.outcome {
        Outcome::Measured(measures) => Some((run.block, measures)),
        Outcome::Failed { .. } | Outcome::Unavailable { .. } => None,
    })
}

/// The measures of a case's good run in a block; `None` if the case has no good run in the block.
pub fn measures<'r>(record: &'r Record, case: &str, block: u32) -> Option<&'r Measures> {
    good_runs(record, case).find(|(of, _)| *of == block).map(|(_, measures)| measures)
}

/// The value of a metric for a case in a block, as tables show it; `None` if the run isn't good, or has no
/// value to show.
pub fn figure(record: &Record, metric: Metric, case: &str, block: u32) -> Option<f64> {
    metric.shown(measures(record, case, block)?, record.counts_cpu_once())
}

/// The values of a metric for all runs of a case, as tables show them, each with its block.
pub fn figures(record: &Record, metric: Metric, case: &str) -> Vec<(u32, f64)> {
    let figure = |(block, run)| Some((block, metric.shown(run, record.counts_cpu_once())?));
    good_runs(record, case).filter_map(figure).collect()
}

/// The estimate of a value that isn't a metric, over the runs of a case in which it is finite and not
/// negative.
pub fn estimate(record: &Record, case: &str, value: impl Fn(&Measures) -> Option<f64>) -> Option<Estimate> {
    let values = good_runs(record, case).filter_map(|(_, run)| value(run).filter(|value| *value >= 0.0));
    Estimate::of(&values.collect::<Vec<_>>(), record.seed)
}

/// The changes from `base` to `case`, one for each block in which both have a value. `change` computes a change from
/// the value of `case` and the value of `base`.
pub fn paired(
    record: &Record,
    metric: Metric,
    case: &str,
    base: &str,
    change: fn(f64, f64) -> f64,
) -> Option<Estimate> {
    Estimate::of(&changes(record, metric, case, base, change), record.seed)
}

/// The ratio of two cases' values, computed within each block in which both are above 0.
pub fn ratio(record: &Record, metric: Metric, case: &str, base: &str) -> Option<Estimate> {
    Estimate::of(&ratios(record, metric, case, base), record.seed)
}

pub(crate) fn ratios(record: &Record, metric: Metric, case: &str, base: &str) -> Vec<f64> {
    let positive = |value: f64, base: f64| if value > 0.0 { value / base } else { f64::NAN };
    changes(record, metric, case, base, positive)
}

fn changes(record: &Record, metric: Metric, case: &str, base: &str, change: fn(f64, f64) -> f64) -> Vec<f64> {
    let bases = figures(record, metric, base);
    let of_block = |block: u32| bases.iter().find(|(other, _)| *other == block).map(|(_, base)| *base);
    let changed = |(block, value)| Some(change(value, of_block(block)?)).filter(|change| change.is_finite());
    figures(record, metric, case).into_iter().filter_map(changed).collect()
}
