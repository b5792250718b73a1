//! Lines on standard output and standard error that may be gone: what can't be told is no reason to stop.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Set where standard output took something and then failed, other than by its reader's leaving.
static LOST: AtomicBool = AtomicBool::new(false);

/// A line on standard output.
macro_rules! say {
    ($($word:tt)*) => { $crate::say::line(format_args!($($word)*)) };
}

/// A line on standard error.
macro_rules! tell {
    ($($word:tt)*) => { $crate::say::aside(format_args!($($word)*)) };
}

pub fn line(text: Arguments<'_>) {
    let mut out = io::stdout().lock();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush())
        && error.kind() != ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::Relaxed)
    {
        aside(format_args!("linerate: standard output can't be written, the rest of it is lost: {error}"));
    }
}

pub fn aside(text: Arguments<'_>) {
    // There is no other place to tell it.
    let _ = writeln!(io::stderr(), "{text}");
}

/// True where standard output is not whole.
pub fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}
