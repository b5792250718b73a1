//! The log of `--log-file`: each line has a time and the process's number, in rsync's format.

use linerate_sys::local_time::LocalTime;
use linerate_transfer::lock::lock;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::log::{LineFile, keep_own};
use crate::print::fit_bytes;

/// An open log.
pub struct LogFile(Mutex<LineFile>);

impl LogFile {
    /// Opens a log file for appending. If opening fails, an error is reported and no log is written.
    pub fn open(path: &OsStr) -> Option<Self> {
        match LineFile::open(Path::new(path)) {
            Ok(file) => {
                keep_own(Path::new(path));
                Some(Self(Mutex::new(file)))
            }
            Err(error) => {
                let shown = linerate_wire::path::printable(path.as_bytes());
                message!("rsync: [client] failed to open log-file {shown}: {}", reason(&error));
                message!("Ignoring \"log file\" setting.");
                None
            }
        }
    }

    /// Appends each line of `text` to the log; an empty text adds nothing.
    pub fn write(&self, text: impl AsRef<[u8]>) {
        let stamp = format!("{} [{}] ", now(), std::process::id());
        for line in text.as_ref().split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            // Each line is written in one call, so that two programs can append to the same file. A line that
            // can't be written is lost, as with rsync.
            let _ = lock(&self.0).write(&[stamp.as_bytes(), &fit_bytes(line), b"\n"].concat());
        }
    }
}

/// The local time, as text.
pub fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    shown_time(since.as_secs().try_into().unwrap_or(i64::MAX))
}

/// A time in rsync's format.
pub fn shown_time(seconds: i64) -> String {
    LocalTime::of(seconds).map_or_else(|| seconds.to_string(), |local| local.to_string())
}

/// The text of an error with its number, for example `No such file or directory (2)`.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let Some(number) = error.raw_os_error() else { return text };
    format!("{} ({number})", text.trim_end_matches(&format!(" (os error {number})")))
}
