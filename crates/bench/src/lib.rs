//! Runs studies. The data passes through these stages in order: study file, cases, runs, samples, results store,
//! statistics.

pub mod compare;
pub mod data;
mod measures;
pub mod metric;
pub mod out;
pub mod record;
pub mod run;
pub mod spec;
pub mod stats;
pub mod store;

#[cfg(test)]
mod testing;
