//! The common room of the commands: what several of them take, do and print.

pub mod event;
pub mod failure;
pub mod far;
mod losses;
pub mod output;
pub mod reach;
pub mod spec;
pub mod summary;
