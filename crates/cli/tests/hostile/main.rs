//! Tests of `linerate cp` and `linerate agent` with an opposite end that lies, breaks off, floods or is
//! silent.
//!
//! The opposite end is a thread of the test that implements the wire protocol itself. Nothing outside the
//! destination may be changed, no missing file may be reported as copied, and every run must end in time.

#[path = "../support/mod.rs"]
mod support;

mod agent;
mod archives;
mod breaking;
mod data;
mod far;
mod floods;
mod jobs;
mod meanwhile;
mod names;
mod private;
mod proof;
mod push;
mod relay;
mod requests;
mod restricted;
mod silence;
mod syncs;
