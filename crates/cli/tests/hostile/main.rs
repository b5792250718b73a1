//! `linerate cp` and `linerate agent` against an other end that lies, breaks off, floods or says nothing.
//!
//! The other end is a thread of the test that speaks the wire protocol by hand. What it asks for is never done outside
//! the destination, an exit code of 0 is never claimed for something that isn't there, and every run ends in time.

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
