//! A test bed as the runner sees it: two ends, a link, and what is known of them.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use linerate_host::{CpuTimes, Facts};
pub use linerate_lab::End;

use crate::record::Link;
use crate::spec::{Value, Values};

/// Two hosts joined by a link. Both see one file system: what arrives at the far end is checked from here.
pub trait Bed {
    /// The command that runs `argv` at an end, with the bed's environment.
    ///
    /// # Errors
    /// The end can't run commands.
    fn command(&self, end: End, argv: &[OsString]) -> io::Result<Command>;

    /// The client configuration with which `ssh -F` at the sending end logs in to [`Bed::host`].
    fn ssh_config(&self) -> PathBuf;

    /// The receiving end's name for ssh.
    fn host(&self) -> String;

    /// The receiving end's address on the link.
    fn address(&self) -> String;

    /// The link.
    fn link(&self) -> Link;

    /// True where both ends run on the same processors.
    fn shares_processors(&self) -> bool;

    /// True where an end has the program.
    fn has(&self, end: End, program: &str) -> bool;

    /// What an end says about itself.
    ///
    /// # Errors
    /// The end's agent doesn't answer.
    fn facts(&mut self, end: End) -> io::Result<Facts>;

    /// An end's processor time, all of the host's.
    ///
    /// # Errors
    /// The end's agent doesn't answer, or can't read it.
    fn cpu(&mut self, end: End) -> io::Result<CpuTimes>;
}

/// The placeholders that a bed gives values to.
pub(crate) fn values(bed: &dyn Bed) -> Values {
    Values::from([
        ("ssh_config", Value::One(bed.ssh_config().into())),
        ("host", Value::One(bed.host().into())),
        ("address", Value::One(bed.address().into())),
    ])
}
