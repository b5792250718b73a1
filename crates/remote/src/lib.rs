//! Describes the places (hosts and network namespaces) in which processes can run, and starts agents there.

pub mod agent_command;
pub mod binary;
pub mod far_end;
pub mod greeting;
pub mod host_agent;
pub mod install;
pub mod packed;
pub mod patience;
pub mod place;
pub mod program;
mod strangers;
