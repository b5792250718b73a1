//! Fleets: one copy, divided into shards that many hosts move at the same time. All hosts read the plan from
//! a directory on a shared file system; docs/formats.md specifies the files.
//!
//! A shard can safely be run twice: a file gets its name only when it is complete, and files that are already
//! in place aren't changed. Claims avoid double work and make the state visible; if a claim fails to prevent
//! double work, no data is damaged.

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
