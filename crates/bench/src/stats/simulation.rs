//! Distributions of noise for simulated studies.

/// A function that draws the factor by which a run deviates from the true value.
pub(crate) type Noise = fn(&mut fastrand::Rng) -> f64;

/// A value from a normal distribution with variance 1 (Box and Muller, 1958).
pub(crate) fn normal(rng: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

/// A factor whose logarithm has a normal distribution around 0 with a standard deviation of 0.05.
pub(crate) fn gaussian(rng: &mut fastrand::Rng) -> f64 {
    (0.05 * normal(rng)).exp()
}

/// A factor whose logarithm has Student's distribution with three degrees of freedom, scaled by 0.05: a few runs
/// deviate a lot.
pub(crate) fn heavy_tailed(rng: &mut fastrand::Rng) -> f64 {
    let squares: f64 = (0..3).map(|_| normal(rng).powi(2)).sum();
    (0.05 * normal(rng) / (squares / 3.0).sqrt()).exp()
}

/// A factor with a skewed distribution: most runs are near the best, and a few are much slower.
pub(crate) fn skewed(rng: &mut fastrand::Rng) -> f64 {
    (0.05 * (1.0 - rng.f64()).ln()).exp()
}
