//! Lines on standard output and standard error, which may be closed: a line that can't be written is no reason
//! to stop.

use linerate_wire::path::is_unprintable;
use std::borrow::Cow;
use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set once a write to standard output has failed, unless its reader has gone.
static LOST: AtomicBool = AtomicBool::new(false);

/// A line on standard output.
macro_rules! say {
    ($($word:tt)*) => { $crate::say::line(format_args!($($word)*)) };
}

/// A line on standard error.
macro_rules! tell {
    ($($word:tt)*) => { $crate::say::aside(format_args!($($word)*)) };
}

/// A text that is safe for a terminal and for a line of JSON: characters that move the cursor, turn text
/// around or hide it are written as JSON writes them. Foreign names are escaped where they are shown; this catches
/// any that were forgotten.
pub fn fit(text: &str) -> Cow<'_, str> {
    let is_unfit = |c: char| !matches!(c, '\n' | '\t') && is_unprintable(c);
    if !text.contains(is_unfit) {
        return text.into();
    }
    let mut fit = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_unfit(c) {
            false => fit.push(c),
            true => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|half| fit.push_str(&format!("\\u{half:04x}")))
            }
        }
    }
    fit.into()
}

/// A value as a line of JSON on standard output.
pub fn json(value: &impl serde::Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => line(format_args!("{text}")),
        Err(error) => note_loss(Err(error.into())),
    }
}

/// Set where lines for standard output go to standard error.
static ASIDE: AtomicBool = AtomicBool::new(false);

/// Takes a line in place of standard error; returns false if it doesn't take it.
static TAKER: OnceLock<LineTaker> = OnceLock::new();

/// Gets a line, and its importance.
pub type LineTaker = fn(&str, LineWeight) -> bool;

/// The importance of a line on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineWeight {
    /// Something may be wrong.
    Warning,
    /// A step, or a result.
    Information,
}

/// From now on lines for standard error go to `taker`; lines that it doesn't take are printed.
pub fn aside_to(taker: LineTaker) {
    // Only the first taker counts; a process has one.
    let _ = TAKER.set(taker);
}

/// From now on every line goes to standard error.
pub fn all_aside() {
    ASIDE.store(true, Ordering::Relaxed);
}

pub fn line(text: Arguments<'_>) {
    if ASIDE.load(Ordering::Relaxed) {
        return aside(text);
    }
    let mut out = io::stdout().lock();
    note_loss(writeln!(out, "{}", fit(&text.to_string())).and_then(|()| out.flush()));
}

/// A line on standard output. Bytes that aren't characters pass unchanged.
pub fn bytes(text: &[u8]) {
    if ASIDE.load(Ordering::Relaxed) {
        // There is no other place to report the loss.
        let _ = io::stderr().write_all(&[&fit_bytes(text)[..], b"\n"].concat());
        return;
    }
    let mut out = io::stdout().lock();
    note_loss(out.write_all(&[&fit_bytes(text)[..], b"\n"].concat()).and_then(|()| out.flush()));
}

/// Bytes with [`fit`] applied to the characters in them; other bytes pass.
pub fn fit_bytes(text: &[u8]) -> Vec<u8> {
    let chunks = text.utf8_chunks();
    chunks.flat_map(|chunk| [fit(chunk.valid()).as_bytes(), chunk.invalid()].concat()).collect()
}

/// Reports once that standard output can't be written. A reader that has gone away is no loss.
pub fn note_loss(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::Relaxed)
    {
        aside(format_args!(
            "linerate: standard output can't be written, and the rest of the output is lost: {error}"
        ));
    }
}

pub fn aside(text: Arguments<'_>) {
    weighed(&text.to_string(), LineWeight::Warning);
}

/// A line on standard error about a step or a result.
pub fn inform(text: &str) {
    weighed(text, LineWeight::Information);
}

fn weighed(text: &str, weight: LineWeight) {
    let text = fit(text);
    if !TAKER.get().is_some_and(|take| take(&text, weight)) {
        // There is no other place to report it.
        let _ = writeln!(io::stderr(), "{text}");
    }
}

/// Lines on standard error, in the place of the `lines` above.
pub fn instead(lines: usize, text: &str) {
    // Moves up to the first line, and clears everything below.
    let _ = writeln!(io::stderr(), "\x1b[{lines}A\x1b[J{}", fit(text));
}

/// True if output on standard output was lost.
pub fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn nothing_that_moves_a_terminal_passes_and_json_stays_json() {
        assert_eq!(fit("two\n\tlines, \u{e9}"), "two\n\tlines, \u{e9}");
        let foreign = "a\u{1b}[2J\r\u{9b}31m\u{202e}\u{e0041}";
        let text = fit(foreign);
        assert_eq!(text, "a\\u001b[2J\\u000d\\u009b31m\\u202e\\udb40\\udc41");
        let json = serde_json::json!({ "name": foreign }).to_string();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&fit(&json)).unwrap()["name"], foreign);
    }
}
