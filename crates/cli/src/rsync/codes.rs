//! rsync's exit codes.

use crate::common::failure::Failure;
use crate::exit::Code;

/// The exit code if the command line is wrong or not supported.
pub const USAGE: Code = Code::Command(1);
/// The exit code if a requested feature isn't supported.
pub const UNSUPPORTED: Code = Code::Command(4);
const INCOMPATIBLE: u8 = 2;
/// The exit code if files or directories can't be selected.
pub const FILE_SELECTION: u8 = 3;
const FILE: u8 = 11;
const STREAM: u8 = 12;
/// The exit code if a signal ended the run.
pub const SIGNAL: u8 = 20;
const PARTIAL: u8 = 23;
/// The exit code if sources vanished during the copy; rsync calls this a warning.
pub const VANISHED: u8 = 24;
const DELETE_LIMIT: u8 = 25;
/// The exit code if `--timeout`, `--stop-after` or `--stop-at` ended the run.
pub const TIMEOUT: u8 = 30;

/// The codes and their meanings, for the help and the guide.
pub const MEANINGS: [(u8, &str); 12] = [
    (0, "everything is in place"),
    (1, "an option or path is wrong or not supported, or output could not be written"),
    (INCOMPATIBLE, "the versions of the two ends don't match"),
    (FILE_SELECTION, "the destination can't take the sources"),
    (4, "a checksum, a compression or a character set isn't known, or links can't be munged"),
    (FILE, "the command failed as a whole, for instance because the destination directory can't be made"),
    (STREAM, "the far end or the connection failed; the remote shell's exit code instead if it is higher"),
    (SIGNAL, "interrupted"),
    (PARTIAL, "some entries failed; the others are in place"),
    (VANISHED, "some sources vanished before they were read"),
    (DELETE_LIMIT, "some entries were not deleted, because --max-delete allowed no more"),
    (TIMEOUT, "--timeout, --stop-after or --stop-at ended the run"),
];

/// The text for this exit code in rsync's last message. Scripts search logs for such texts.
pub fn rsync_name(code: u8) -> &'static str {
    match code {
        1 => "syntax or usage error",
        INCOMPATIBLE => "protocol incompatibility",
        FILE_SELECTION => "errors selecting input/output files, dirs",
        STREAM => "error in rsync protocol data stream",
        124..=127 => "remote command failed or not found",
        SIGNAL => "received SIGINT, SIGTERM, or SIGHUP",
        PARTIAL => "some files/attrs were not transferred (see previous errors)",
        VANISHED => "some files vanished before they could be transferred",
        DELETE_LIMIT => "the --max-delete limit stopped deletions",
        TIMEOUT => "timeout in data send/receive",
        _ => "error in file IO",
    }
}

/// Converts the code of a command that completed to rsync's code.
pub fn of_result(result: Result<Code, Failure>) -> Result<Code, Failure> {
    result.map(|code| Code::Command(number(code)))
}

/// Converts the code of a failure to rsync's code.
pub fn of_failure(Failure(message, code): Failure) -> Failure {
    Failure(message, Code::Command(number(code)))
}

fn number(code: Code) -> u8 {
    match code {
        Code::Done => 0,
        Code::Partial | Code::NoSource => PARTIAL,
        Code::Changed => VANISHED,
        Code::NotDeleted => DELETE_LIMIT,
        Code::Usage => FILE_SELECTION,
        Code::FarEnd => STREAM,
        // Like rsync, returns the exit code of the remote shell if that code is higher.
        Code::Shell(code) => code.max(STREAM),
        Code::Version => INCOMPATIBLE,
        Code::Interrupted => SIGNAL,
        Code::Command(number) => number,
        Code::Failed | Code::Busy | Code::Found | Code::NotRun | Code::NotFound => FILE,
    }
}
