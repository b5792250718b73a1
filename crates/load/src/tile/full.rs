//! Searches for the number of tiles that fit. The search itself uses no clock and no socket.

use crate::error::LoadError;

/// The greatest number of tiles for which `fits` is true. Tries 1, 2, 4, ... up to `most`, then searches by bisection
/// between the last success and the first failure. 0 if not even one tile fits.
///
/// # Errors
/// The errors of `fits`.
pub fn fullest(most: u32, mut fits: impl FnMut(u32) -> Result<bool, LoadError>) -> Result<u32, LoadError> {
    let (mut good, mut bad) = (0, most.saturating_add(1));
    let mut next = 1;
    while next < bad {
        if fits(next)? {
            good = next;
            next = next.saturating_mul(2).min(most).max(good + 1);
        } else {
            bad = next;
        }
    }
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fits(middle)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok(good)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_fits_is_found_in_few_steps(room in 0u32..600, most in 1u32..500) {
            let mut steps = 0;
            let found = fullest(most, |tiles| { steps += 1; Ok(tiles <= room) });
            prop_assert_eq!(found.unwrap(), room.min(most));
            prop_assert!(steps <= 20);
        }
    }

    #[test]
    fn a_failed_trial_ends_the_search() {
        assert!(fullest(8, |_| Err(LoadError::Interrupted)).is_err());
    }
}
