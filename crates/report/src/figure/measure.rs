//! The quantity on a figure's axis: its name and its unit.

use linerate_bench::metric::Metric;
use linerate_bench::record::Record;
use linerate_bench::stats::Estimate;

/// A quantity in the unit in which a figure shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measure {
    /// The measured quantity.
    pub(crate) quantity: Metric,
    /// The quantity's name, with the layer at which it is measured.
    pub(crate) name: &'static str,
    /// The unit that is shown; empty if the quantity has none.
    pub(crate) unit: &'static str,
    /// The meaning of the median of this quantity, for a caption.
    pub(crate) meaning: &'static str,
    /// The factor from the stored value to the shown value.
    factor: f64,
}

impl Measure {
    /// The quantity in the unit that suits values up to `largest` (given in the stored unit).
    pub(crate) fn new(quantity: Metric, largest: f64) -> Self {
        let about = quantity.about();
        let (unit, factor) = match about.unit {
            "µs" => time_unit(largest),
            unit => (unit, 1.0),
        };
        Self { quantity, name: about.label, unit, meaning: about.meaning, factor }
    }

    /// Like [`Measure::new`]. If both ends share their processors, the name states that the CPU is that of both ends.
    pub(crate) fn of(record: &Record, quantity: Metric, largest: f64) -> Self {
        let measure = Self::new(quantity, largest);
        if quantity != Metric::FarBusyPercent || !record.shared_processors {
            return measure;
        }
        let meaning = "median busy share of all processors, which both ends share";
        Self { name: "CPU of both ends", meaning, ..measure }
    }

    /// The title of an axis: `Payload throughput (Gbit/s)`.
    pub(crate) fn title(&self) -> String {
        if self.unit.is_empty() { self.name.to_owned() } else { format!("{} ({})", self.name, self.unit) }
    }

    /// Converts a stored value to the shown unit.
    pub(crate) fn shown(&self, value: f64) -> f64 {
        value * self.factor
    }

    /// Converts a stored estimate to the shown unit.
    pub(crate) fn scaled(&self, estimate: Estimate) -> Estimate {
        let interval = estimate.interval.map(|value| self.shown(value));
        Estimate { median: self.shown(estimate.median), interval, ..estimate }
    }

    /// Adds the unit to a text of numbers.
    pub(crate) fn with_unit(&self, numbers: &str) -> String {
        match self.unit {
            "" => numbers.to_owned(),
            "1/s" => format!("{numbers} a second"),
            unit => format!("{numbers} {unit}"),
        }
    }
}

/// The unit for a time that is stored in microseconds, and the factor to this unit.
pub(crate) fn time_unit(largest: f64) -> (&'static str, f64) {
    match largest {
        size if size >= 2e6 => ("s", 1e-6),
        size if size >= 2e3 => ("ms", 1e-3),
        _ => ("µs", 1.0),
    }
}

#[cfg(test)]
mod tests {
    use linerate_bench::stats::Interval;

    use super::*;
    use crate::number::tick;

    #[test]
    fn times_read_in_their_size() {
        let measure = |largest| Measure::new(Metric::P50, largest);
        assert_eq!(measure(1_030_000.0).with_unit(&tick(measure(1_030_000.0).shown(240_000.0))), "240 ms");
        assert_eq!(measure(80.0).title(), "Median response time (µs)");
        assert_eq!(measure(3e6).shown(3e6), 3.0);
    }

    #[test]
    fn cpu_of_shared_processors_is_that_of_both_ends() {
        let title = |shared_processors, quantity| {
            Measure::of(&Record { shared_processors, ..Record::default() }, quantity, 9.0).title()
        };
        let far = Metric::FarBusyPercent;
        assert_eq!(
            [title(false, far), title(true, far)],
            ["CPU of host b (% busy)", "CPU of both ends (% busy)"]
        );
        assert_eq!(title(true, Metric::Score), "Score");
    }

    #[test]
    fn an_interval_is_scaled_with_its_median() {
        let estimate = Estimate {
            median: 4e3,
            interval: Interval::Known(3e3, 5e3),
            blocks: 5,
            student: linerate_bench::stats::Student {
                mean: 4e3,
                interval: Interval::Known(3e3, 5e3),
                half_width_percent: None,
            },
        };
        let scaled = Measure::new(Metric::P50, 5e3).scaled(estimate);
        assert_eq!((scaled.median, scaled.interval), (4.0, Interval::Known(3.0, 5.0)));
    }
}
