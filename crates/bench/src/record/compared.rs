//! Numbers with which a study's results are compared: those that papers printed, and bounds.

use serde::{Deserialize, Serialize};

use crate::metric::Metric;

/// A number that a paper printed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Printed {
    /// [`super::Case::id`].
    pub case: String,
    /// The quantity.
    #[serde(default, with = "crate::metric::quantity")]
    pub quantity: Metric,
    /// The number, in the quantity's unit.
    pub value: f64,
    /// The place in the paper, and the paper: "figure 5".
    pub source: String,
    /// The layer of a rate.
    #[serde(default, skip_serializing_if = "Layer::is_payload")]
    pub layer: Layer,
}

/// The bytes that a rate counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// Bytes of contents. All rates of this program count these.
    #[default]
    Payload,
    /// Contents and headers. Such a rate doesn't belong on an axis of payload.
    Wire,
}

impl Layer {
    /// True for payload.
    pub fn is_payload(&self) -> bool {
        *self == Layer::Payload
    }
}

/// A value that a study compares with a limit, or that it only shows with its interval.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bound {
    /// The name of the row.
    pub name: String,
    /// The compared expression, as the study file spells it.
    pub expression: String,
    /// The limit. A row without a limit is shown but not judged.
    #[serde(flatten)]
    pub limit: Option<Limit>,
    /// Unit of the value: "ratio", "bytes", "ms".
    pub unit: String,
    /// True if every block must hold the bound, not only the median of the blocks.
    #[serde(default)]
    pub every_block: bool,
}

/// The limit of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// The comparison: `>=` or `<=`.
    pub relation: Relation,
    /// The value that must be reached.
    #[serde(rename = "limit")]
    pub value: f64,
}

/// Direction of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relation {
    /// At least.
    #[serde(rename = ">=")]
    AtLeast,
    /// At most.
    #[serde(rename = "<=")]
    AtMost,
}

impl Limit {
    /// True if a value is within the limit.
    pub fn holds(self, value: f64) -> bool {
        match self.relation {
            Relation::AtLeast => value >= self.value,
            Relation::AtMost => value <= self.value,
        }
    }
}
