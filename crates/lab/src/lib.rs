//! Test beds: two hosts made of network namespaces, a link of a given rate between them, and an ssh server on
//! the far host; or two sites of such hosts.
//!
//! ```no_run
//! use linerate_lab::{End, Lab, LabOptions};
//!
//! let lab = Lab::up(&LabOptions { link: Some("10gbit".parse()?), ..LabOptions::default() })?;
//! let ssh = ["ssh", "-F", "CONFIG", "b", "true"].map(Into::into);
//! let status = lab.place(End::A).command(&ssh)?.status()?;
//! lab.down()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Before a part of a lab is created, this part and the process that holds the lab are written to a state file
//! (`state`). So a later command can find and remove the remains of a killed command (`sweep`). All hosts have the file
//! system of the process that made the lab.

mod account;
mod child;
mod error;
pub mod guest;
mod journal;
mod lab;
mod name;
mod network;
mod options;
mod process;
mod rate;
mod run;
mod sites;
mod slurm;
mod ssh;
mod state;
mod sweep;
mod tool;
mod user;
pub mod wan;

pub use error::LabError;
pub use guest::{GuestSpec, GuestSpecError, MachineKind};
pub use journal::{Undo, UndoJournal};
pub use lab::{End, Lab, is_on_tmpfs};
pub use name::{LabName, LabNameError};
pub use options::LabOptions;
pub use process::Process;
pub use rate::{Rate, RateError, parse_link};
pub use run::run;
pub use sites::{LabSite, SiteHost, SiteShape, SiteShapeError};
pub use slurm::{SlurmCluster, SlurmWish};
pub use state::{Description, LabHost, LinkPort};
pub use sweep::{Status, Swept, down, status, sweep, sweep_and_report};
pub use user::ensure_privileges;
pub use wan::{Loss, LossError, Rtt, RttError, SegmentCounts, Wan};
