//! Pure functions that turn measurements and facts into findings.
//!
//! [`examine_host`] and [`examine_path`] run all [`check::CHECKS`], and order the findings by their cost.

mod along;
mod cause;
pub mod check;
mod examine;
pub mod explanation;
mod finding;
pub mod formula;
pub mod limiter;
pub mod remedy;
mod same_cause;
mod source;
mod stack;
mod subject;
#[cfg(test)]
mod testing;

pub use along::along_route;
pub use examine::{examine_host, examine_path, examine_path_and_ends, ordered};
pub use finding::{Citation, Finding, Severity};
pub use subject::{Host, Need, Path, PathMeasurements, USUAL_RATE};
