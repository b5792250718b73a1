//! Facts about a host and the counters that a run samples.
//!
//! The facts are read from files below a root directory that the caller names: `/` on a live host, a captured tree in a
//! test. On a live host, requests to drivers and to the kernel add facts that no file contains. Facts can also be read
//! from a snapshot. No reader panics on any contents; an unavailable value contains the reason.

mod cgroup;
mod cpu_times;
mod cpuinfo;
pub mod facts;
mod hypervisor;
pub mod netlink;
mod port_rate;
mod pressure;
mod profile;
mod rates;
mod root;
pub mod sample;
mod snapshot;

pub use cgroup::{CpuQuota, QuotaMeter, QuotaUse, Throttling};
pub use cpu_times::{CpuSeconds, CpuTimes};
pub use facts::{Fact, Facts, available_memory};
pub use port_rate::link_rate;
pub use pressure::Pressure;
pub use profile::{Interface, Profile};
pub use snapshot::Snapshot;
