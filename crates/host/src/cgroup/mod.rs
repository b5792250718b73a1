//! Control groups (cgroups(7)): the groups of a process, and what they allow it.
//!
//! Version 2 has one hierarchy for all controllers, version 1 one for each; a host may have both. A limit holds for all
//! groups below it, so limits are read from the process's own group up to the mount. In a container the mount begins at
//! the container's group, and limits above it can't be seen.

mod hierarchy;
mod meter;
mod quota;

pub(crate) use hierarchy::{ControlGroup, Hierarchy, HierarchyVersion};
pub use meter::QuotaMeter;
pub use quota::{CpuQuota, QuotaUse, Throttling};
pub(crate) use quota::{QUOTA_FILES, STAT, throttling};
