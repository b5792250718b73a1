//! Scales that map values to positions, with ticks at round numbers.

/// The step sizes between ticks that are easy to read, each to be multiplied by a power of ten.
const ROUND: [f64; 9] = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];
/// The step sizes that make the simplest ticks, each to be multiplied by a power of ten.
const PLAIN: [f64; 4] = [1.0, 2.0, 2.5, 5.0];

/// Maps values from 0 to `max` onto `from` to `to` (in pixels; `to` may be smaller than `from`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// The value at the position `to`.
    pub(crate) max: f64,
    /// The distance between two ticks, as a value.
    pub(crate) step: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// The scale of ten steps that contains `largest`. It has ten steps so that a second axis in percent can use
    /// the same grid.
    pub(crate) fn holding(largest: f64, from: f64, to: f64) -> Self {
        let step = round_step(largest / 10.0);
        Self { max: step * 10.0, step, from, to }
    }

    /// The scale of at most `most` steps of 1, 2, 2.5 or 5 that contains `largest`, for a plot without a second
    /// axis.
    pub(crate) fn coarse(largest: f64, most: usize, from: f64, to: f64) -> Self {
        let step = plain_step(largest / most.max(1) as f64);
        let steps = (largest / step * (1.0 - 1e-9)).ceil();
        let steps = if steps.is_finite() { steps.clamp(1.0, most.max(1) as f64) } else { most as f64 };
        Self { max: step * steps, step, from, to }
    }

    /// The scale from 0 to 100 with ticks of 10.
    pub(crate) fn percent(from: f64, to: f64) -> Self {
        Self { max: 100.0, step: 10.0, from, to }
    }

    /// The scale that ends exactly at `largest`. Its ticks are still round numbers.
    pub(crate) fn up_to(largest: f64, from: f64, to: f64) -> Self {
        let round = Self::holding(largest, from, to);
        let ends = largest.is_finite() && largest > 1e-12;
        Self { max: if ends { largest } else { round.max }, ..round }
    }

    /// The position of a value. A value outside the scale is moved to the nearer end.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = if value.is_finite() { (value / self.max).clamp(0.0, 1.0) } else { 0.0 };
        self.from + (self.to - self.from) * share
    }

    /// The values of every `every`-th tick, beginning with zero.
    pub(crate) fn ticks(&self, every: usize) -> impl Iterator<Item = f64> + '_ {
        let ticks = (0..=10).step_by(every.max(1)).map(|index| f64::from(index) * self.step);
        ticks.filter(|tick| *tick <= self.max * (1.0 + 1e-9))
    }
}

/// A scale that maps positive and negative values. Zero is always on the scale.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signed {
    low: f64,
    high: f64,
    step: f64,
    from: f64,
    to: f64,
}

impl Signed {
    /// The scale that contains zero and all values, with about eight ticks, or fewer if their texts are too wide.
    pub(crate) fn holding(
        values: impl Iterator<Item = f64>,
        from: f64,
        to: f64,
        width: impl Fn(f64) -> f64,
    ) -> Self {
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((0.0f64, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        let with = |ticks: f64| {
            let step = plain_step((high - low) / ticks);
            let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
            let high = if high > low { high } else { low + step };
            Self { low, high, step, from, to }
        };
        let fits = |scale: &Self| {
            let widest = scale.ticks().map(&width).fold(0.0, f64::max);
            (scale.at(scale.step) - scale.at(0.0)).max(scale.at(0.0) - scale.at(-scale.step)) > widest + 4.0
        };
        [8.0, 5.0, 3.0, 2.0].map(with).into_iter().find(fits).unwrap_or_else(|| with(1.0))
    }

    /// The position of a value. A value outside the scale is moved to the nearer end.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + (self.to - self.from) * if share.is_finite() { share } else { 0.0 }
    }

    /// The values of the ticks, lowest first.
    pub(crate) fn ticks(&self) -> impl Iterator<Item = f64> + '_ {
        let first = (self.low / self.step).round();
        let tick = move |index: i32| (first + f64::from(index)) * self.step;
        (0..=10).map(tick).filter(|tick| *tick <= self.high + self.step * 1e-6)
    }
}

/// A logarithmic scale between two positive values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logarithmic {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Logarithmic {
    /// The scale from `low` to `high`; if these are invalid, the scale from 1 to 10.
    pub(crate) fn new(low: f64, high: f64, from: f64, to: f64) -> Self {
        let sensible = low.is_finite() && high.is_finite() && low >= 1e-12 && high <= 1e18;
        let (low, high) = if sensible { (low, high.max(low * 1.0001)) } else { (1.0, 10.0) };
        Self { low, high, from, to }
    }

    /// The position of a value. A value outside the scale is moved to the nearer end.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = ((value / self.low).ln() / (self.high / self.low).ln()).clamp(0.0, 1.0);
        self.from + (self.to - self.from) * if share.is_finite() { share } else { 0.0 }
    }

    /// Ticks at 1, 2 and 5 times each power of ten, or only at the powers of ten if there are many of them.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let powers = (self.low.log10().floor() as i32)..=(self.high.log10().ceil() as i32);
        let decades = (self.high / self.low).log10();
        let multiples: &[f64] = if decades > 3.2 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let all = powers.flat_map(|power| multiples.iter().map(move |m| m * 10f64.powi(power)));
        all.filter(|tick| (self.low * 0.999..=self.high * 1.001).contains(tick)).collect()
    }
}

/// The smallest round step that is at least `least`; 1 if there is no sensible one.
fn round_step(least: f64) -> f64 {
    step_of(&ROUND, least)
}

/// The smallest plain step that is at least `least`; 1 if there is no sensible one.
fn plain_step(least: f64) -> f64 {
    step_of(&PLAIN, least)
}

fn step_of(steps: &[f64], least: f64) -> f64 {
    if !least.is_finite() || least < 1e-12 {
        return if least.is_finite() { 0.1 } else { 1.0 };
    }
    let power = 10f64.powf(least.log10().floor());
    let enough = |step: &&f64| **step * power >= least * (1.0 - 1e-9);
    steps.iter().find(enough).map_or(10.0 * power, |step| step * power)
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
    fn zero_is_on_a_signed_scale() {
        let scale = Signed::holding([-4.6, -1.3].into_iter(), 0.0, 100.0, |_| 10.0);
        assert_eq!((scale.at(-5.0), scale.at(0.0)), (0.0, 100.0));
        assert_eq!(scale.ticks().collect::<Vec<_>>(), [-5.0, -4.0, -3.0, -2.0, -1.0, 0.0]);
        let wide = Signed::holding([-4.6, -1.3].into_iter(), 0.0, 100.0, |_| 25.0);
        assert_eq!(wide.ticks().collect::<Vec<_>>(), [-6.0, -4.0, -2.0, 0.0], "there is no room for more");
        let nothing = Signed::holding(std::iter::empty(), 0.0, 100.0, |_| 1e9);
        assert!(nothing.at(0.0).is_finite() && nothing.at(f64::NAN).is_finite());
    }

    #[test]
    fn a_logarithmic_scale_gives_each_power_the_same_room() {
        let scale = Logarithmic::new(1.0, 1000.0, 0.0, 300.0);
        assert!((scale.at(10.0) - 100.0).abs() < 1e-9 && (scale.at(100.0) - 200.0).abs() < 1e-9);
        assert_eq!(scale.ticks().len(), 10);
        for (low, high) in [(0.0, 1.0), (f64::NAN, 1.0), (5.0, 5.0), (1e-300, 1e300), (5.0, 1.0)] {
            let scale = Logarithmic::new(low, high, 0.0, 300.0);
            assert!((0.0..=300.0).contains(&scale.at(3.0)) && scale.at(f64::NAN) == 0.0, "{low} {high}");
            assert!(scale.ticks().len() < 60);
        }
    }

    #[test]
    fn a_scale_may_end_at_its_largest_value() {
        let scale = Scale::up_to(240.0, 0.0, 480.0);
        assert_eq!((scale.at(240.0), scale.step, scale.ticks(1).last()), (480.0, 25.0, Some(225.0)));
    }

    #[test]
    fn coarse_ticks_are_plain() {
        let scale = |largest, most| Scale::coarse(largest, most, 0.0, 1.0);
        assert_eq!((scale(7.66, 8).max, scale(7.66, 8).step), (8.0, 1.0));
        assert_eq!((scale(0.98, 4).max, scale(0.98, 4).step), (1.0, 0.25));
        assert_eq!(scale(21_900.0, 4).ticks(1).collect::<Vec<_>>(), [0.0, 1e4, 2e4, 3e4]);
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300, 1e-300] {
            let scale = scale(value, 4);
            assert!(scale.max > 0.0 && scale.max.is_finite() && scale.ticks(1).count() <= 11, "{value}");
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
