//! scp's exit codes.

use crate::exit::Code;

/// Exit code if any file failed.
pub const FAILED: u8 = 1;
/// Exit code if scp gave up before it copied a file, or if the connection broke.
pub const FATAL: u8 = 255;

/// The codes and their meanings, for the help and the guide.
pub const MEANINGS: [(u8, &str); 4] = [
    (0, "everything is in place, complete and on stable storage"),
    (FAILED, "an option or path is wrong or refused, or some entries failed; all other entries are in place"),
    (130, "interrupted"),
    (FATAL, "the far end or the connection failed, or a source on this host doesn't exist"),
];

/// scp's exit code for the result of one copy.
pub fn number(code: Code) -> u8 {
    match code {
        Code::Done => 0,
        Code::FarEnd | Code::Shell(_) | Code::Version => FATAL,
        Code::Interrupted => Code::Interrupted.number(),
        _ => FAILED,
    }
}
