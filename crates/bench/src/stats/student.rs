//! Means with Student's interval (Student, 1908), as users of netperf's option `-I 95` know them: the mean, and half of
//! the interval's width in percent of the mean.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::bootstrap::{Interval, LEAST_BLOCKS};

/// The confidence of the printed interval.
pub(crate) const LEVEL: f64 = 0.95;

/// A mean over blocks with its interval, which is valid if the values are about normally distributed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Student {
    /// The mean of the blocks' values.
    pub mean: f64,
    /// The 95 % interval of the mean.
    pub interval: Interval,
    /// Half of the interval's width in percent of the mean; `None` if there is no interval, or if the mean is
    /// 0.
    pub half_width_percent: Option<f64>,
}

impl Student {
    /// The mean of finite values; `None` if there are no values.
    pub fn of(values: &[f64]) -> Option<Student> {
        let Moments { mean, error, freedom } = Moments::of(values)?;
        let half = quantile(LEVEL, freedom)
            .filter(|_| values.len() >= LEAST_BLOCKS)
            .map(|quantile| quantile * error);
        Some(Student {
            mean,
            interval: half.map_or(Interval::Insufficient, |half| Interval::Known(mean - half, mean + half)),
            half_width_percent: half.map(|half| 100.0 * half / mean.abs()).filter(|half| half.is_finite()),
        })
    }
}

/// A mean, its standard error, and the degrees of freedom of that error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments {
    pub mean: f64,
    pub error: f64,
    pub freedom: f64,
}

impl Moments {
    /// The moments of values; `None` if there are no values. The standard error of a single value is unknown, and has
    /// no degrees of freedom.
    pub fn of(values: &[f64]) -> Option<Moments> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = (squares / (n - 1.0) / n).sqrt();
        (!values.is_empty()).then_some(Moments { mean, error, freedom: n - 1.0 })
    }

    /// The interval of the difference of two means whose values may have different variances (Welch, 1947).
    pub fn difference(self, base: Moments, level: f64) -> Interval {
        let (a, b) = (self.error.powi(2), base.error.powi(2));
        let (difference, both) = (self.mean - base.mean, a + b);
        // If no values vary, the difference is exact.
        let freedom = if both > 0.0 {
            both.powi(2) / (a.powi(2) / self.freedom + b.powi(2) / base.freedom)
        } else {
            self.freedom
        };
        let half = quantile(level, freedom).map(|quantile| quantile * both.sqrt());
        half.map_or(Interval::Insufficient, |half| Interval::Known(difference - half, difference + half))
    }

    /// The interval of the mean itself.
    pub fn interval(self, level: f64) -> Interval {
        let half = quantile(level, self.freedom).map(|quantile| quantile * self.error);
        half.map_or(Interval::Insufficient, |half| Interval::Known(self.mean - half, self.mean + half))
    }
}

/// The number of standard errors to either side that contain the share `level` of the distribution; `None` if there are
/// no degrees of freedom.
pub(crate) fn quantile(level: f64, freedom: f64) -> Option<f64> {
    StudentsT::new(0.0, 1.0, freedom).ok().map(|t| t.inverse_cdf(0.5 + level / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, printed) in [(1.0, 12.706), (3.0, 3.182), (4.0, 2.776), (9.0, 2.262), (30.0, 2.042)] {
            assert!((quantile(LEVEL, freedom).unwrap() - printed).abs() < 0.0006, "{freedom}");
        }
        assert!((quantile(LEVEL, 4.5).unwrap() - 2.659).abs() < 0.002);
        assert_eq!(quantile(LEVEL, 0.0), None);
        assert_eq!(quantile(LEVEL, f64::NAN), None);
    }

    #[test]
    fn a_mean_has_its_half_width_in_percent() {
        let student = Student::of(&[9.0, 9.5, 10.0, 10.5, 11.0]).unwrap();
        // The standard deviation is 0.7906, the standard error 0.3536; the half width is this error times
        // 2.776.
        assert_eq!(student.mean, 10.0);
        assert!((student.half_width_percent.unwrap() - 9.816).abs() < 0.001, "{student:?}");
        let (low, high) = student.interval.ends().unwrap();
        assert!((low - 9.0184).abs() < 1e-4 && (high - 10.9816).abs() < 1e-4);
        assert_eq!(Student::of(&[1.0, 2.0]).unwrap().interval, Interval::Insufficient);
        assert_eq!(Student::of(&[0.0; 5]).unwrap().half_width_percent, None);
        assert_eq!(Student::of(&[]), None);
    }

    #[test]
    fn welchs_difference_is_that_of_a_worked_example() {
        let base = Moments::of(&[27.5, 21.0, 19.0, 23.6, 17.0, 17.9]).unwrap();
        let new = Moments::of(&[27.1, 22.0, 20.8, 23.4, 23.4, 23.5]).unwrap();
        let (low, high) = new.difference(base, LEVEL).ends().unwrap();
        // The means are 23.367 and 21.0, the errors 0.8698 and 1.6157, with 7.67 degrees of freedom.
        assert!((low + high - 2.0 * 2.3667).abs() < 1e-3, "{low} {high}");
        assert!((high - low - 2.0 * 2.3233 * 1.8350).abs() < 0.02, "{low} {high}");
        let same = Moments::of(&[1.0; 5]).unwrap();
        assert_eq!(same.difference(same, LEVEL), Interval::Known(0.0, 0.0));
    }
}
