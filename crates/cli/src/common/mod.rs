//! Arguments, actions and output that several commands share.

pub mod command;
pub mod compared;
pub mod config;
pub mod event;
pub mod failure;
pub mod far;
pub mod kept_output;
pub mod log;
pub mod login;
mod losses;
pub mod member;
pub mod metrics;
pub mod output;
pub mod printer;
pub mod recording;
pub mod refused_number;
pub mod signals;
pub mod spared;
pub mod spec;
pub mod summary;
