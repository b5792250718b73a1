//! The numbers with which a study's results are compared: bounds, and numbers that papers printed.

use serde::{Deserialize, Serialize};

use crate::metric::Metric;

/// A number that a paper printed for a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Printed {
    /// The ID of the case, [`super::Case::id`].
    pub case: String,
    /// The quantity of the number.
    #[serde(default, with = "crate::metric::quantity")]
    pub quantity: Metric,
    /// The number, in the quantity's unit.
    pub value: f64,
    /// The paper, and the place of the number in it, such as "HTTP paper, figure 6".
    pub source: String,
    /// The kind of bytes that the number counts, if the number is a rate.
    #[serde(default, skip_serializing_if = "Layer::is_payload")]
    pub layer: Layer,
}

/// The kind of bytes that a rate counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// The bytes of contents. All rates that this program measures count only these bytes.
    #[default]
    Payload,
    /// The bytes of contents and headers. A rate that counts both isn't shown on an axis of payload.
    Wire,
}

impl Layer {
    /// True if the rate counts payload bytes.
    pub fn is_payload(&self) -> bool {
        *self == Layer::Payload
    }
}

/// A value that a study compares with a limit, or only shows with its interval.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bound {
    /// The name of the row.
    pub name: String,
    /// The expression that is compared, as the study file contains it.
    pub expression: String,
    /// The limit. A row without a limit is shown but not judged.
    #[serde(flatten)]
    pub limit: Option<Limit>,
    /// The unit of the value: "ratio", "bytes", "ms".
    pub unit: String,
    /// True if the bound must hold in every block, and not only for the median of the blocks.
    #[serde(default)]
    pub every_block: bool,
}

/// The limit of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// The comparison: `>=` or `<=`.
    pub relation: Relation,
    /// The number with which the value is compared.
    #[serde(rename = "limit")]
    pub value: f64,
}

/// The direction of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relation {
    /// The value must be at least the limit.
    #[serde(rename = ">=")]
    AtLeast,
    /// The value must be at most the limit.
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
