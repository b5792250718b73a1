//! Fleets: one copy as shards that many hosts move at the same time, and the directory on a shared file system that
//! they all read. docs/formats.md specifies its files.
//!
//! A shard can safely be run twice: the mover gives a file its name only when it is whole, and doesn't touch files that
//! are already in place. Claims avoid double work and keep the state readable; a failed claim does no harm.

pub mod attempt;
pub mod catalogue;
pub mod claim;
pub mod divide;
pub mod export;
pub mod history;
pub mod kubernetes;
pub mod left;
pub mod manifest;
pub mod plan;
pub mod planner;
pub mod report;
pub mod shards;
pub mod simulate;
pub mod slurm;
pub mod source;
pub mod status;
