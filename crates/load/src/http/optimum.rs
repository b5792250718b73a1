//! Searches for the number of users with the highest rate. The search itself uses no clock and no socket.

use crate::error::LoadError;
use crate::report::SearchStep;

/// A rate counts as equal to the best rate if it is lower by at most this share of the best rate.
const PLATEAU: f64 = 0.01;
/// The search ends when neighboring numbers of users differ by less than this share.
const RESOLUTION: f64 = 0.05;
/// The number of successive doublings without a gain after which the search stops increasing the number of
/// users.
const MOST_WITHOUT_GAIN: u32 = 2;
const GOLDEN: f64 = 0.618;

/// The result of the search.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimum {
    /// The smallest number of users whose rate is within 1 % of the best rate.
    pub users: u32,
    /// Every measurement, in the order in which they were made.
    pub steps: Vec<SearchStep>,
}

/// Measures with 1, 2, 4, ... users, up to `most`, until two doublings in a row bring no gain. Then searches for the
/// best number between the neighbors of the best number so far (golden section, for a curve with one maximum). Finally
/// searches for the fewest users whose rate is within 1 % of the best rate (bisection). `measure` returns the rate with
/// a number of users.
///
/// # Errors
/// The errors of `measure`.
pub fn fewest_best(
    most: u32,
    measure: impl FnMut(u32) -> Result<f64, LoadError>,
) -> Result<Optimum, LoadError> {
    let mut search = UserSearch { measure, steps: Vec::new() };
    search.double(most.max(1))?;
    search.climb()?;
    let users = search.descend()?;
    Ok(Optimum { users, steps: search.steps })
}

struct UserSearch<M> {
    measure: M,
    steps: Vec<SearchStep>,
}

impl<M: FnMut(u32) -> Result<f64, LoadError>> UserSearch<M> {
    /// The rate with this number of users. Each number is measured at most once.
    fn rate(&mut self, count: u32) -> Result<f64, LoadError> {
        if let Some(step) = self.steps.iter().find(|step| step.count == count) {
            return Ok(step.reached);
        }
        let reached = (self.measure)(count)?;
        self.steps.push(SearchStep { count, reached });
        Ok(reached)
    }

    fn best(&self) -> SearchStep {
        let most = |a: SearchStep, b: SearchStep| if b.reached > a.reached { b } else { a };
        self.steps.iter().copied().reduce(most).unwrap_or(SearchStep { count: 1, reached: 0.0 })
    }

    fn double(&mut self, most: u32) -> Result<(), LoadError> {
        let (mut count, mut best, mut without_gain) = (1, self.rate(1)?, 0);
        while count < most && without_gain < MOST_WITHOUT_GAIN {
            count = count.saturating_mul(2).min(most);
            let rate = self.rate(count)?;
            without_gain = if rate > best * (1.0 + PLATEAU) { 0 } else { without_gain + 1 };
            best = best.max(rate);
        }
        Ok(())
    }

    /// Searches for the best number of users between the neighbors of the best number so far, by golden
    /// section.
    fn climb(&mut self) -> Result<(), LoadError> {
        let best = self.best().count;
        let counts = || self.steps.iter().map(|step| step.count);
        let mut low = counts().filter(|count| *count < best).max().unwrap_or(best);
        let mut high = counts().filter(|count| *count > best).min().unwrap_or(best);
        // Two different numbers exist between `low` and `high` only if `low` and `high` differ by at least three.
        while is_wide(low, high) && high - low > 2 {
            let width = f64::from(high - low);
            let left = high - (width * GOLDEN).round() as u32;
            let right = (low + (width * GOLDEN).round() as u32).max(left + 1);
            if self.rate(left)? < self.rate(right)? {
                low = left;
            } else {
                high = right;
            }
        }
        Ok(())
    }

    /// Searches by bisection between the largest known number of users whose rate is too low and the smallest
    /// known number whose rate suffices.
    fn descend(&mut self) -> Result<u32, LoadError> {
        loop {
            let floor = self.best().reached * (1.0 - PLATEAU);
            let reach = |step: &&SearchStep| step.reached >= floor;
            let high = self.steps.iter().filter(reach).map(|step| step.count).min().unwrap_or(1);
            let below = self.steps.iter().filter(|step| !reach(step) && step.count < high);
            let low = below.map(|step| step.count).max().unwrap_or(high);
            if !is_wide(low, high) {
                return Ok(high);
            }
            self.rate(low + (high - low) / 2)?;
        }
    }
}

fn is_wide(low: u32, high: u32) -> bool {
    high - low > 1 && f64::from(high - low) > f64::from(high) * RESOLUTION
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(most: u32, curve: impl Fn(u32) -> f64) -> Optimum {
        fewest_best(most, |users| Ok(curve(users))).unwrap()
    }

    #[test]
    fn a_failed_measurement_ends_the_search() {
        assert!(fewest_best(8, |_| Err(LoadError::Interrupted)).is_err());
    }

    #[test]
    fn one_user_may_be_enough() {
        assert_eq!(found(1000, |_| 5.0).users, 1);
        assert_eq!(found(1, f64::from).users, 1);
        assert_eq!(found(1000, |_| 0.0).users, 1);
    }

    proptest! {
        /// A server whose rate increases with each user up to `knee`, is constant up to `end`, and falls by
        /// `loss` with each further user.
        #[test]
        fn the_fewest_on_the_plateau_are_found(knee in 1u32..3000, plateau in 1.0f64..4.0, loss in 0.0f64..0.01) {
            let (summit, end) = (f64::from(knee), f64::from(knee) * plateau);
            let curve = |users: u32| {
                let users = f64::from(users);
                users.min(summit) - (users - end).max(0.0) * loss * summit
            };
            let found = found(100_000, curve);
            // Before a steep fall, the best measured number may be below the true best number by the resolution.
            let least = (1.0 - RESOLUTION) * (1.0 - PLATEAU) * summit;
            prop_assert!(curve(found.users) >= least, "{} of {}: {:?}", found.users, knee, found.steps);
            prop_assert!(f64::from(found.users) <= summit * 1.07 + 1.0, "{} of {}", found.users, knee);
            prop_assert!(found.steps.len() <= 40, "{}", found.steps.len());
        }

        #[test]
        fn any_curve_ends_the_search(rates in proptest::collection::vec(0.0f64..1.0, 64), most in 1u32..5000) {
            let found = found(most, |users| rates[users as usize % 64]);
            prop_assert!(found.users >= 1 && found.users <= most && found.steps.len() < 80);
        }
    }
}
