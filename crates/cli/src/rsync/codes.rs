//! rsync's exit codes.

use crate::common::failure::Failure;
use crate::exit::Code;

/// The command line can't be served.
pub const USAGE: Code = Code::Command(1);
const INCOMPATIBLE: u8 = 2;
const FILE_SELECTION: u8 = 3;
const FILE: u8 = 11;
const STREAM: u8 = 12;
const SIGNAL: u8 = 20;
const PARTIAL: u8 = 23;
const VANISHED: u8 = 24;
const DELETE_LIMIT: u8 = 25;

/// The codes and their meanings, as the help and the guide have them.
pub const MEANINGS: [(u8, &str); 10] = [
    (0, "everything is there"),
    (1, "an option or path that isn't supported or is wrong, or output that could not be written"),
    (INCOMPATIBLE, "the two ends' versions don't match"),
    (FILE_SELECTION, "the destination can't take the sources"),
    (FILE, "it failed as a whole"),
    (STREAM, "the far end could not be started, or it or the connection went away"),
    (SIGNAL, "interrupted"),
    (PARTIAL, "some entries failed; the others are there"),
    (VANISHED, "some sources changed or vanished while they were read"),
    (DELETE_LIMIT, "not everything was deleted"),
];

/// The code of a command that came to its end.
pub fn of_result(result: Result<Code, Failure>) -> Result<Code, Failure> {
    result.map(|code| Code::Command(number(code)))
}

/// A failure with rsync's code.
pub fn of_failure(Failure(message, code): Failure) -> Failure {
    Failure(message, Code::Command(number(code)))
}

fn number(code: Code) -> u8 {
    match code {
        Code::Done => 0,
        Code::Some | Code::NoSource => PARTIAL,
        Code::Changed => VANISHED,
        Code::NotDeleted => DELETE_LIMIT,
        Code::Usage => FILE_SELECTION,
        Code::FarEnd => STREAM,
        Code::Version => INCOMPATIBLE,
        Code::Interrupted => SIGNAL,
        Code::Command(number) => number,
        Code::Failed | Code::Busy | Code::Found | Code::NotRun | Code::NotFound => FILE,
    }
}
