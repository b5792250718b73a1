//! `--log-file`: each line with its time and the number of the process, in rsync's format.

use linerate_sys::local_time::LocalTime;
use linerate_transfer::lock::lock;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::log::{LineFile, keep_own};
use crate::say::fit_bytes;

/// An open log.
pub struct LogFile(Mutex<LineFile>);

impl LogFile {
    /// Opens a file to append to it. If that fails, this is reported, and there is no log.
    pub fn open(path: &OsStr) -> Option<Self> {
        match LineFile::open(Path::new(path)) {
            Ok(file) => {
                keep_own(Path::new(path));
                Some(Self(Mutex::new(file)))
            }
            Err(error) => {
                let shown = linerate_wire::path::printable(path.as_bytes());
                tell!("rsync: [client] failed to open log-file {shown}: {}", reason(&error));
                tell!("Ignoring \"log file\" setting.");
                None
            }
        }
    }

    /// Writes each line of a text that isn't empty.
    pub fn write(&self, text: impl AsRef<[u8]>) {
        let stamp = format!("{} [{}] ", now(), std::process::id());
        for line in text.as_ref().split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            // In one call, so that two programs may write to one file. A line that can't be written is lost, as with rsync.
            let _ = lock(&self.0).write(&[stamp.as_bytes(), &fit_bytes(line), b"\n"].concat());
        }
    }
}

/// The local time.
pub fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    shown_time(since.as_secs().try_into().unwrap_or(i64::MAX))
}

/// A time as rsync writes it.
pub fn shown_time(seconds: i64) -> String {
    LocalTime::of(seconds).map_or_else(|| seconds.to_string(), |local| local.to_string())
}

/// `No such file or directory (2)`.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let Some(number) = error.raw_os_error() else { return text };
    format!("{} ({number})", text.trim_end_matches(&format!(" (os error {number})")))
}
