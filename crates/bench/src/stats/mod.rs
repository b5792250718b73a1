//! What runs come to: figures, medians with intervals over blocks, ceilings, bounds.

mod bootstrap;
mod ceiling;
mod drift;
mod figure;
mod gate;
mod summary;

pub use bootstrap::{Estimate, Interval, LEAST_BLOCKS, RESAMPLES};
pub use ceiling::{above_ceiling, payload_ceiling};
pub use drift::{Drift, drift_statement, drifts};
pub use figure::{cpu_per_gb, figure, measures};
pub use gate::{GateRow, Verdict, gate};
pub use summary::{CaseSummary, summaries};
