//! The growth of a curve over a factor, in words.

use linerate_bench::stats::{Estimate, Growth, Trend};

use super::measure::Measure;
use super::words::with_interval;
use crate::number::tick;

/// The growth of the value, and of CPU, from the first level of `x` to the last. For two levels, the text states the
/// factor between them. For more levels, it states the slope of the straight line, its fit, and the share of perfect
/// growth that the last level reaches.
pub(super) fn growth_words(
    measure: &Measure,
    x: &str,
    levels: [f64; 2],
    growth: Growth,
    cpu: Option<Growth>,
) -> String {
    let Some(line) = growth.line else {
        let cpu = cpu.map_or(String::new(), |cpu| format!(", and CPU by {}", estimate(cpu.factor)));
        let ([from, to], factor) = (levels.map(tick), estimate(growth.factor));
        return format!(
            "from {from} to {to} {x}, {} is multiplied by {factor}{cpu}.",
            measure.name.to_lowercase()
        );
    };
    let slope = measure.with_unit(&estimate(measure.scaled(line.slope)));
    let (fit, reached) = (r_squared(line), reached(levels, growth.factor));
    let cpu = cpu.and_then(|cpu| Some((cpu.factor, cpu.line?))).map_or(String::new(), |(factor, line)| {
        let (slope, fit, factor) = (estimate(line.slope), r_squared(line), estimate(factor));
        format!("; each step adds {slope} % of CPU, with {fit}, to {factor} times the first value")
    });
    format!("each step of 1 in {x} adds {slope}, by a straight line with {fit}{reached}{cpu}.")
}

/// A text with the last point's value in percent of the straight line through zero and the first point; 100 %
/// means perfect growth.
fn reached([first, last]: [f64; 2], factor: Estimate) -> String {
    if first <= 0.0 {
        return String::new();
    }
    let share = |factor: f64| 100.0 * factor * first / last;
    let share = Estimate { median: share(factor.median), interval: factor.interval.map(share), ..factor };
    format!(
        "; the value at {} is {} % of {} times the first value",
        tick(last),
        estimate(share),
        tick(last / first)
    )
}

/// An estimate as text, for example `0.95 [0.94, 0.96]`.
fn estimate(estimate: Estimate) -> String {
    with_interval(Some(estimate))
}

/// The share of the variation that the fitted line explains (R²). A share below 1 isn't rounded up to 1.
fn r_squared(line: Trend) -> String {
    match line.r_squared {
        share if share > 0.9999 && share < 1.0 => "R² > 0.9999".to_owned(),
        share => format!("R² = {share:.4}"),
    }
}
