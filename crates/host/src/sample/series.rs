//! The data of a recording over time, in the same form for all kinds of data.

use serde::{Deserialize, Serialize};

use super::{KINDS, Recording};

/// One quantity over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeSeries {
    /// The kind of data: `cpu`, `ports` and so on.
    pub kind: String,
    /// A name for the values, such as `all busy` or `eth0 received`.
    pub name: String,
    /// The unit of the values: `%`, `bit/s`, `1/s`.
    pub unit: String,
    /// The points: each has the seconds since the recording began, and the value. A rate is that of the interval that
    /// ends at this point.
    pub points: Vec<(f64, f64)>,
}

impl TimeSeries {
    pub(crate) fn new(kind: &str, name: &str, unit: &str, points: Vec<(f64, f64)>) -> Self {
        Self { kind: kind.into(), name: name.into(), unit: unit.into(), points }
    }
}

/// All series of a recording, in the order of the kinds of data.
pub fn series(recording: &Recording) -> Vec<TimeSeries> {
    KINDS.iter().flat_map(|kind| (kind.series)(recording)).collect()
}
