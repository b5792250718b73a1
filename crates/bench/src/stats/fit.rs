//! Fits a straight line to points by least squares, to find how linearly a value scales.

/// A fitted line, and the share of the variation that it explains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fit {
    /// The slope: the increase for each step of x.
    pub(crate) slope: f64,
    /// The coefficient of determination, at most 1.
    pub(crate) r_squared: f64,
}

impl Fit {
    /// The line of least squares; `None` if all points have the same x, or if there are fewer than three points,
    /// because a line always fits two points exactly.
    pub(crate) fn of(points: &[(f64, f64)]) -> Option<Self> {
        let finite: Vec<_> = points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        let n = finite.len() as f64;
        let (mean_x, mean_y) =
            (finite.iter().map(|p| p.0).sum::<f64>() / n, finite.iter().map(|p| p.1).sum::<f64>() / n);
        let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
            finite.iter().map(|(x, y)| of(x - mean_x, y - mean_y)).sum()
        };
        let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
        let fit = Self {
            slope: xy / xx,
            // The line explains constant values completely.
            r_squared: if yy > 0.0 { (xy / xx) * (xy / yy) } else { 1.0 },
        };
        (finite.len() >= 3 && fit.slope.is_finite() && fit.r_squared.is_finite()).then_some(fit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_three_points_are_nearly_a_line() {
        let fit = Fit::of(&[(1.0, 0.964), (5.0, 4.793), (8.0, 7.657)]).unwrap();
        assert!((fit.slope - 0.956).abs() < 0.001, "{fit:?}");
        assert!(fit.r_squared > 0.999_99 && fit.r_squared <= 1.0, "{fit:?}");
    }

    #[test]
    fn what_no_line_can_be_laid_through_has_none() {
        assert_eq!(Fit::of(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(Fit::of(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(Fit::of(&[(1.0, f64::NAN), (2.0, 2.0), (3.0, 3.0)]), None);
        assert_eq!(Fit::of(&[(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)]).map(|fit| fit.r_squared), Some(1.0));
    }
}
