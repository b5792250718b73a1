//! Prints lines on standard output and standard error. Either may be closed; if a line can't be written, the
//! program continues.

use linerate_wire::path::is_unprintable;
use std::borrow::Cow;
use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set after a write to standard output has failed, unless the reader has only closed the pipe.
static LOST: AtomicBool = AtomicBool::new(false);

/// Prints a line on standard output.
macro_rules! output {
    ($($word:tt)*) => { $crate::print::line(format_args!($($word)*)) };
}

/// Prints a line on standard error.
macro_rules! message {
    ($($word:tt)*) => { $crate::print::aside(format_args!($($word)*)) };
}

/// Makes a text safe for a terminal and for a line of JSON: characters that move the cursor, change the
/// direction of text or hide it are escaped as in JSON. Names from outside this program are already escaped where they
/// are printed; this function also escapes those that were forgotten.
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

/// Prints a value as a line of JSON on standard output.
pub fn json(value: &impl serde::Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => line(format_args!("{text}")),
        Err(error) => note_loss(Err(error.into())),
    }
}

/// Set if lines for standard output are to be written to standard error.
static ASIDE: AtomicBool = AtomicBool::new(false);

/// The function that gets lines in place of standard error, if there is one.
static TAKER: OnceLock<LineTaker> = OnceLock::new();

/// A function that gets a line and its importance. It returns false if it doesn't accept the line.
pub type LineTaker = fn(&str, LineWeight) -> bool;

/// The importance of a line on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineWeight {
    /// The line warns that something may be wrong.
    Warning,
    /// The line informs about a step or a result.
    Information,
}

/// From now on, lines for standard error are passed to `taker`; lines that it doesn't accept are printed.
pub fn aside_to(taker: LineTaker) {
    // Only the first call has an effect, because a process needs only one such function.
    let _ = TAKER.set(taker);
}

/// From now on, all lines are written to standard error.
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

/// Prints a line on standard output. Bytes that aren't valid UTF-8 are printed unchanged.
pub fn bytes(text: &[u8]) {
    if ASIDE.load(Ordering::Relaxed) {
        // If writing to standard error fails, that can't be reported anywhere.
        let _ = io::stderr().write_all(&[&fit_bytes(text)[..], b"\n"].concat());
        return;
    }
    let mut out = io::stdout().lock();
    note_loss(out.write_all(&[&fit_bytes(text)[..], b"\n"].concat()).and_then(|()| out.flush()));
}

/// Applies [`fit`] to the characters in these bytes; other bytes are unchanged.
pub fn fit_bytes(text: &[u8]) -> Vec<u8> {
    let chunks = text.utf8_chunks();
    chunks.flat_map(|chunk| [fit(chunk.valid()).as_bytes(), chunk.invalid()].concat()).collect()
}

/// Reports, only once, that standard output can't be written. If the reader has closed the pipe, nothing is
/// reported.
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

/// Prints a line on standard error about a step or a result.
pub fn inform(text: &str) {
    weighed(text, LineWeight::Information);
}

fn weighed(text: &str, weight: LineWeight) {
    let text = fit(text);
    if !TAKER.get().is_some_and(|take| take(&text, weight)) {
        // If writing to standard error fails, that can't be reported anywhere.
        let _ = writeln!(io::stderr(), "{text}");
    }
}

/// Prints text on standard error that replaces the `lines` lines above it.
pub fn instead(lines: usize, text: &str) {
    // The escape sequences move the cursor up to the first line, and clear everything below it.
    let _ = writeln!(io::stderr(), "\x1b[{lines}A\x1b[J{}", fit(text));
}

/// True if some output to standard output was lost.
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
