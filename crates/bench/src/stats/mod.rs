//! Statistics of runs: values, medians with intervals over blocks, ceilings, bounds.

mod bootstrap;
mod bounds;
mod ceiling;
mod difference;
mod difference_table;
mod drift;
mod figure;
mod fit;
mod order_statistics;
mod printed;
mod repeats;
mod scaling;
#[cfg(test)]
pub(crate) mod simulation;
mod student;
mod summary;

pub use bootstrap::{Estimate, Interval, LEAST_BLOCKS, RESAMPLES};
pub use bounds::{BoundRow, BoundVerdict, bound_rows, outcome};
pub use ceiling::{above_ceiling, are_at_one_ceiling, payload_ceiling, reached_ceiling};
pub use difference::{Called, Difference};
pub use difference_table::{DifferenceRow, Differences};
pub use drift::{Drift, drift_statement, drifts};
pub use figure::{estimate, figure, figures, good_runs, measures, paired, ratio, runs};
pub use printed::PrintedRow;
pub use repeats::{REPEAT, Repeats};
pub use scaling::{Growth, Trend};
pub use student::Student;
pub use summary::{CaseSummary, best_stream, summaries};
