//! A linear scale from zero, whose ticks fall on round numbers.

/// Steps that a reader divides by without thought.
const ROUND: [f64; 9] = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];

/// Maps values from 0 to `max` onto `from` to `to` (pixels; `to` may be the smaller).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// The value at `to`.
    pub(crate) max: f64,
    /// The distance of two ticks.
    pub(crate) step: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// The scale of ten steps that holds `largest`. Ten, because then the grid serves a second axis in percent.
    pub(crate) fn holding(largest: f64, from: f64, to: f64) -> Self {
        let step = round_step(largest / 10.0);
        Self { max: step * 10.0, step, from, to }
    }

    /// The scale from 0 to 100 with ticks of 10.
    pub(crate) fn percent(from: f64, to: f64) -> Self {
        Self { max: 100.0, step: 10.0, from, to }
    }

    /// The place of a value; what lies outside the scale is put on its nearer end.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = if value.is_finite() { (value / self.max).clamp(0.0, 1.0) } else { 0.0 };
        self.from + (self.to - self.from) * share
    }

    /// Every `every`-th tick, zero first.
    pub(crate) fn ticks(&self, every: usize) -> impl Iterator<Item = f64> + '_ {
        (0..=10).step_by(every.max(1)).map(|index| f64::from(index) * self.step)
    }
}

/// The smallest round step that is at least `least`; 1 where there is no sensible one.
fn round_step(least: f64) -> f64 {
    if !least.is_finite() || least < 1e-12 {
        return if least.is_finite() { 0.1 } else { 1.0 };
    }
    let power = 10f64.powf(least.log10().floor());
    let enough = |step: &&f64| **step * power >= least * (1.0 - 1e-9);
    ROUND.iter().find(enough).map_or(10.0 * power, |step| step * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_gigabit_reads_like_the_print() {
        let scale = Scale::holding(9.57, 340.0, 0.0);
        assert_eq!((scale.max, scale.step), (10.0, 1.0));
        assert_eq!(scale.at(5.0), 170.0);
        assert_eq!(scale.ticks(1).count(), 11);
    }

    #[test]
    fn every_size_is_held_and_not_dwarfed() {
        for value in [1e-9, 0.03, 0.99, 1.01, 10.0, 10.01, 37.2, 99.9, 1e300] {
            let scale = Scale::holding(value, 0.0, 1.0);
            assert!(scale.max >= value * 0.999_999 && scale.max <= value * 2.01, "{value}: {}", scale.max);
        }
    }

    #[test]
    fn nonsense_stays_on_the_paper() {
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let scale = Scale::holding(value, 100.0, 0.0);
            assert!(scale.max > 0.0 && scale.max.is_finite());
            assert!((0.0..=100.0).contains(&scale.at(value)));
        }
    }
}
