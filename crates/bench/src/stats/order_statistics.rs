//! The interval of a median from order statistics: interpolated between the two pairs of values that enclose
//! the median with a little more and a little less than 95 % (Hettmansperger and Sheather, 1986, "Confidence
//! intervals based on interpolated order statistics"). It assumes nothing about the distribution of the
//! values.

use super::student::LEVEL;

/// The greatest number of values for which this interval is computed. With more values, the bootstrap's
/// medians aren't coarse.
const MOST_VALUES: usize = 1000;

/// The interval of the median of sorted values. The interval of five values spans all of them, and contains the median
/// in 93.75 % of studies (1 - 2/2^5). `None` for fewer than two and for more than a thousand values.
pub(crate) fn order_interval(sorted: &[f64]) -> Option<(f64, f64)> {
    let n = sorted.len();
    if !(2..=MOST_VALUES).contains(&n) {
        return None;
    }
    let (k, share) = place(n);
    let between = |from: f64, to: f64| from + share * (to - from);
    Some((between(sorted[k], sorted[k + 1]), between(sorted[n - 1 - k], sorted[n - 2 - k])))
}

/// The position of the interval's lower end: the index of the value before it, and the share of the distance
/// to the next value.
fn place(n: usize) -> (usize, f64) {
    // The probability that the median is outside of the k-th pair is twice the probability that at most k of n values
    // are below the median.
    let mut chance = 0.5_f64.powi(n as i32);
    let mut outside = 2.0 * chance;
    if 1.0 - outside < LEVEL {
        return (0, 0.0);
    }
    for k in 0..n / 2 {
        chance *= (n - k) as f64 / (k + 1) as f64;
        let next = outside + 2.0 * chance;
        if 1.0 - next < LEVEL {
            let part = (1.0 - outside - LEVEL) / (next - outside);
            let (rank, n) = ((k + 1) as f64, n as f64);
            return (k, (n - rank) * part / (rank + (n - 2.0 * rank) * part));
        }
        outside = next;
    }
    (0, 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_where_the_paper_puts_them() {
        let interval = |n: i32| order_interval(&(1..=n).map(f64::from).collect::<Vec<_>>()).unwrap();
        assert_eq!(interval(5), (1.0, 5.0));
        // For ten values, the second pair contains the median in 97.85 % of cases, the third in 89.06 %.
        let (low, high) = interval(10);
        let part = (0.978_515_625 - 0.95) / (0.978_515_625 - 0.890_625);
        assert!((low - (2.0 + 8.0 * part / (2.0 + 6.0 * part))).abs() < 1e-12, "{low}");
        assert!((low + high - 11.0).abs() < 1e-12);
    }

    #[test]
    fn many_values_give_what_the_normal_distribution_does() {
        let values: Vec<f64> = (1..=1000).map(f64::from).collect();
        let (low, high) = order_interval(&values).unwrap();
        assert!((low - 469.5).abs() < 1.0 && (high - 531.5).abs() < 1.0, "{low} {high}");
        assert_eq!(order_interval(&[1.0]), None);
        assert_eq!(order_interval(&vec![1.0; 1001]), None);
        assert_eq!(order_interval(&[1.0, 2.0]), Some((1.0, 2.0)));
    }
}
