//! The growth of a metric over the levels of a factor.

use super::bootstrap::Estimate;
use super::figure::{figure, figures, ratios};
use super::fit::Fit;
use crate::metric::Metric;
use crate::record::Record;

/// How a metric changes from the first level of a factor to the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// The value at the last level divided by the value at the first, computed within each block.
    pub factor: Estimate,
    /// The straight line through all levels; `None` for fewer than three levels, because a line always fits two points
    /// exactly.
    pub line: Option<Trend>,
}

/// The straight line of least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// The increase for each step of 1: the median of the slopes of the lines through each block's values.
    pub slope: Estimate,
    /// The share of the medians' variation that the line through the medians explains.
    pub r_squared: f64,
}

impl Growth {
    /// The growth over levels in ascending order, each with its case; `None` if fewer than two levels have
    /// values.
    pub fn of(record: &Record, metric: Metric, levels: &[(f64, &str)]) -> Option<Growth> {
        let ((_, first), (_, last)) = (levels.first()?, levels.last()?);
        let factor = Estimate::of(&ratios(record, metric, last, first), record.seed)?;
        (levels.len() > 1).then(|| Growth { factor, line: line(record, metric, levels) })
    }
}

fn line(record: &Record, metric: Metric, levels: &[(f64, &str)]) -> Option<Trend> {
    let median = |case: &str| {
        let values: Vec<f64> = figures(record, metric, case).into_iter().map(|(_, value)| value).collect();
        Estimate::of(&values, record.seed).map(|estimate| estimate.median)
    };
    let through = |value: &dyn Fn(&str) -> Option<f64>| {
        let points = levels.iter().filter_map(|(level, case)| Some((*level, value(case)?)));
        Fit::of(&points.collect::<Vec<_>>())
    };
    let r_squared = through(&median)?.r_squared;
    let of_block = |block| through(&|case| figure(record, metric, case, block)).map(|fit| fit.slope);
    let slopes: Vec<f64> = (0..record.blocks).filter_map(of_block).collect();
    Some(Trend { slope: Estimate::of(&slopes, record.seed)?, r_squared })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Interval;
    use crate::testing::{measured, record, run};

    /// Five blocks of three cases. In each block, the rate rises from level to level by that block's step.
    fn rising(steps: [f64; 5]) -> Record {
        let runs = steps.iter().zip(0..).flat_map(|(step, block)| {
            [("one", 1.0), ("two", 2.0), ("four", 4.0)]
                .map(|(case, level)| run(case, block, measured(step * level, 1.0)))
        });
        record(&["one", "two", "four"], 5, runs.collect())
    }

    const LEVELS: [(f64, &str); 3] = [(1.0, "one"), (2.0, "two"), (4.0, "four")];

    #[test]
    fn a_slope_has_the_interval_of_its_blocks() {
        let growth = Growth::of(&rising([1.0, 1.1, 0.9, 1.2, 1.0]), Metric::PayloadRate, &LEVELS).unwrap();
        assert!((growth.factor.median - 4.0).abs() < 1e-6);
        let line = growth.line.unwrap();
        assert!((line.slope.median - 1.0).abs() < 1e-6 && line.r_squared > 0.999_999, "{line:?}");
        let Interval::Known(low, high) = line.slope.interval else { panic!("{line:?}") };
        assert!((low - 0.9).abs() < 1e-6 && (high - 1.2).abs() < 1e-6, "{line:?}");
    }

    #[test]
    fn two_levels_have_a_factor_and_no_line() {
        let record = rising([1.0; 5]);
        let growth = Growth::of(&record, Metric::PayloadRate, &LEVELS[..2]).unwrap();
        assert!((growth.factor.median - 2.0).abs() < 1e-6 && growth.line.is_none());
        assert!(growth.factor.interval.ends().is_some());
        assert!(Growth::of(&record, Metric::PayloadRate, &LEVELS[..1]).is_none());
        assert!(Growth::of(&record, Metric::Score, &LEVELS).is_none());
    }
}
