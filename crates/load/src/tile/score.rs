//! The score of a tile: a single number for its rates.

use crate::report::{Loads, Tile};

/// The geometric mean of the rates divided by the reference rates. In this mean, a fast load can't compensate
/// for a starved load.
pub fn score(rates: &Loads, reference: &Loads) -> f64 {
    let product: f64 = ratios(rates, reference).iter().product();
    product.powf(0.25)
}

/// The smallest ratio of any rate to its target.
pub fn worst(rates: &Loads, targets: &Loads) -> f64 {
    ratios(rates, targets).into_iter().fold(f64::INFINITY, f64::min)
}

/// The mean rate of each load over the tiles; `None` if there are no tiles.
pub fn mean(tiles: &[Tile]) -> Option<Loads> {
    let of = |load: fn(&Loads) -> f64| {
        tiles.iter().map(|tile| load(&tile.rates)).sum::<f64>() / tiles.len().max(1) as f64
    };
    let mean = Loads { web: of(|l| l.web), rr: of(|l| l.rr), bulk: of(|l| l.bulk), idle: of(|l| l.idle) };
    (!tiles.is_empty()).then_some(mean)
}

/// Whether every rate can be used as a divisor.
pub fn is_usable(loads: &Loads) -> bool {
    [loads.web, loads.rr, loads.bulk, loads.idle].iter().all(|rate| rate.is_finite() && *rate > 0.0)
}

fn ratios(rates: &Loads, reference: &Loads) -> [f64; 4] {
    [
        rates.web / reference.web,
        rates.rr / reference.rr,
        rates.bulk / reference.bulk,
        rates.idle / reference.idle,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REFERENCE: Loads = Loads { web: 20.0, rr: 500.0, bulk: 5e7, idle: 10.0 };

    #[test]
    fn a_tile_on_target_is_one() {
        assert_eq!(score(&REFERENCE, &REFERENCE), 1.0);
        let half_web = Loads { web: 10.0, ..REFERENCE };
        assert!((score(&half_web, &REFERENCE) - 0.5f64.powf(0.25)).abs() < 1e-12);
        assert_eq!(worst(&half_web, &REFERENCE), 0.5);
    }

    #[test]
    fn a_load_that_starves_counts_the_tile_out() {
        assert_eq!(score(&Loads { rr: 0.0, ..REFERENCE }, &REFERENCE), 0.0);
        assert!(
            !is_usable(&Loads { rr: 0.0, ..REFERENCE }) && !is_usable(&Loads { web: f64::NAN, ..REFERENCE })
        );
    }

    #[test]
    fn the_mean_is_load_by_load() {
        let tile = |web| Tile { rates: Loads { web, ..REFERENCE }, score: 1.0 };
        assert_eq!(mean(&[tile(10.0), tile(30.0)]), Some(REFERENCE));
        assert_eq!(mean(&[]), None);
    }

    proptest! {
        #[test]
        fn the_score_scales_with_the_rates(factor in 0.01f64..100.0) {
            let Loads { web, rr, bulk, idle } = REFERENCE;
            let scaled = Loads { web: web * factor, rr: rr * factor, bulk: bulk * factor, idle: idle * factor };
            prop_assert!((score(&scaled, &REFERENCE) / factor - 1.0).abs() < 1e-9);
        }
    }
}
