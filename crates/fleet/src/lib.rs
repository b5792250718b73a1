//! Fleets: one copy as shards that many hosts move at the same time, and the directory on a shared file system that
//! they all read. docs/formats.md specifies its files.
//!
//! Whatever a shard's run does is safe to do twice: the mover gives a file its name only when it is whole, and leaves alone what
//! is there already. Claims spare work and keep the state readable; nothing is wrong where one fails.

pub mod attempt;
pub mod catalogue;
pub mod claim;
pub mod divide;
pub mod export;
pub mod manifest;
pub mod plan;
pub mod planner;
pub mod report;
pub mod shards;
pub mod simulate;
pub mod slurm;
pub mod status;
