//! Control groups (cgroups(7)): the groups of a process, and their limits.
//!
//! Version 2 has one hierarchy for all controllers, version 1 has one hierarchy for each controller; a host may have
//! both versions. The limit of a group also applies to all groups below the group, so limits are read from the
//! process's own group up to the mounted group. In a container, the mounted group is the container's group, so limits
//! of the groups above it aren't visible.

mod hierarchy;
mod meter;
mod quota;

pub(crate) use hierarchy::{ControlGroup, Hierarchy, HierarchyVersion};
pub use meter::QuotaMeter;
pub use quota::{CpuQuota, QuotaUse, Throttling};
pub(crate) use quota::{QUOTA_FILES, STAT, throttling};
