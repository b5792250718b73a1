//! Chooses the sizes of generated files.

use crate::spec::study::Sizes;

/// The sizes in bytes of all files of a set, in order. The same seed gives the same sizes. The sum of
/// log-normal sizes is exactly the requested total.
pub(crate) fn draw(sizes: &Sizes, seed: u64) -> Vec<u64> {
    match *sizes {
        Sizes::Fixed { files, size } => vec![size; usize::try_from(files).unwrap_or(usize::MAX)],
        Sizes::LogNormal { total, mean, sigma } => log_normal(total, mean, sigma, seed),
    }
}

/// The contents that a set will have: the number of files, and the number of bytes.
pub(crate) fn planned(sizes: &Sizes) -> (u64, u64) {
    match *sizes {
        Sizes::Fixed { files, size } => (files, files.saturating_mul(size)),
        Sizes::LogNormal { total, mean, .. } => (count(total, mean), total),
    }
}

fn count(total: u64, mean: u64) -> u64 {
    total.div_ceil(mean.max(1)).max(1)
}

/// Draws total / mean sizes, and scales them so that their sum is the total. With a heavy tail, a single file could be
/// most of the set. So no file may have more than an eighth of the total; then eight slices of equal size are possible.
fn log_normal(total: u64, mean: u64, sigma: f64, seed: u64) -> Vec<u64> {
    let n = usize::try_from(count(total, mean)).unwrap_or(usize::MAX);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut weights: Vec<f64> = (0..n).map(|_| (sigma * normal(&mut rng)).exp()).collect();
    if n >= 64 {
        cap(&mut weights, 0.125);
    }
    let scale = total as f64 / weights.iter().sum::<f64>();
    let mut sizes: Vec<u64> = weights.iter().map(|w| ((w * scale) as u64).max(1)).collect();
    settle_sum(&mut sizes, total);
    sizes
}

/// Draws a number from the standard normal distribution (Box and Muller, 1958).
fn normal(rng: &mut fastrand::Rng) -> f64 {
    // 1 - f64() is never 0, so its logarithm is finite.
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

/// Limits every weight to a share of the sum. That reduces the sum, so the step is repeated until the weights
/// hardly change.
fn cap(weights: &mut [f64], share: f64) {
    for _ in 0..20 {
        let most = share * weights.iter().sum::<f64>();
        if weights.iter().all(|w| *w <= most * 1.0001) {
            return;
        }
        for weight in weights.iter_mut() {
            *weight = weight.min(most);
        }
    }
}

/// Adds the difference between `total` and the sum to the largest file.
fn settle_sum(sizes: &mut [u64], total: u64) {
    let sum: u64 = sizes.iter().sum();
    if let Some(largest) = sizes.iter_mut().max() {
        *largest = (*largest + total).saturating_sub(sum).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(total: u64, seed: u64) -> Vec<u64> {
        draw(&Sizes::LogNormal { total, mean: 1_600_000, sigma: 1.8 }, seed)
    }

    #[test]
    fn the_same_seed_gives_the_same_sizes_and_the_exact_total() {
        assert_eq!(tree(1_000_000_000, 7), tree(1_000_000_000, 7));
        assert_ne!(tree(1_000_000_000, 7), tree(1_000_000_000, 8));
        for seed in 0..20 {
            assert_eq!(tree(1_000_000_000, seed).iter().sum::<u64>(), 1_000_000_000);
            assert_eq!(tree(1_000_000_000, seed).len(), 625);
        }
    }

    #[test]
    fn sizes_are_log_normal_with_the_mean_asked_for() {
        let sizes = tree(32_000_000_000, 1);
        let logs: Vec<f64> = sizes.iter().map(|size| (*size as f64).ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let sigma = (logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / logs.len() as f64).sqrt();
        assert!((sigma - 1.8).abs() < 0.03, "sigma {sigma}");
        // The mean of the logarithms is sigma^2/2 less than the logarithm of the mean.
        assert!((mean - (1.6e6_f64.ln() - 1.62)).abs() < 0.1, "mean of logarithms {mean}");
        let below = logs.iter().filter(|l| **l < mean - 1.8).count() as f64 / logs.len() as f64;
        assert!((below - 0.159).abs() < 0.01, "share below one sigma {below}");
    }

    #[test]
    fn no_file_is_more_than_a_slice() {
        for seed in 0..50 {
            let sizes = draw(&Sizes::LogNormal { total: 500_000_000, mean: 1_600_000, sigma: 2.5 }, seed);
            let largest = sizes.iter().max().copied().unwrap_or(0);
            assert!(largest <= 66_000_000, "{largest}");
        }
    }

    #[test]
    fn a_tiny_set_is_one_file() {
        assert_eq!(tree(1000, 3), [1000]);
        assert_eq!(draw(&Sizes::Fixed { files: 3, size: 7 }, 0), [7, 7, 7]);
        assert_eq!(planned(&Sizes::Fixed { files: 3, size: 7 }), (3, 21));
    }
}
