//! Runs a study: beds, processes, order, checks, and the storing of each run.

mod attempt;
mod bed;
mod capacity;
mod commands;
mod disturbance;
mod head;
mod hold;
mod host_bed;
mod hosts;
mod install;
mod lab_bed;
mod order;
mod path;
mod preparation;
mod pressure;
mod process;
mod programs;
mod reading;
mod runner;
mod samples;
mod search;
mod server;
mod settings;
mod setup;
mod stock;
mod windows;

pub use bed::{Bed, End};
pub use hold::hold;
pub use host_bed::HostBed;
pub use hosts::Hosts;
pub use install::{InstallError, install};
pub use lab_bed::{LabBed, LabBedError};
pub use process::Stop;
pub use programs::{find, missing_packages};
pub use runner::Runner;
pub use setup::{Event, Phase, RunnerError, Setup};
