//! Names as rsync writes them: bytes that a terminal or a reader of lines could misinterpret are written as `\#` and the three
//! octal digits of a byte.

use linerate_wire::path::is_unprintable;
use std::io::{IsTerminal, Write};
use std::ops::Range;

/// Bytes that an 8-bit terminal interprets as control characters.
const CONTROL: Range<u8> = 0x80..0xa0;

/// The kinds of places where names are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// `-8`: bytes that aren't characters are also written unchanged.
    Bytes,
    /// As [`Escape::Bytes`], for a terminal: bytes that the terminal could interpret as control characters
    /// are escaped.
    TerminalBytes,
    /// Characters beyond ASCII are written unchanged.
    Wide,
    /// Characters beyond ASCII are escaped, because the locale doesn't have them.
    Ascii,
    /// For a log: only bytes that a terminal could interpret as control characters are escaped.
    Log,
}

impl Escape {
    /// The escaping for the user's locale. With `-8`, bytes that aren't characters stay unchanged.
    pub fn of_locale(eight_bit: bool) -> Self {
        let set = |name: &&&str| std::env::var(name).is_ok_and(|value| !value.is_empty());
        let locale =
            ["LC_ALL", "LC_CTYPE", "LANG"].iter().find(set).and_then(|name| std::env::var(name).ok());
        let is_utf8 = locale.is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        match (eight_bit, is_utf8) {
            (true, _) if std::io::stdout().is_terminal() => Self::TerminalBytes,
            (true, _) => Self::Bytes,
            (_, true) => Self::Wide,
            _ => Self::Ascii,
        }
    }

    /// The name as text. Bytes that aren't characters are escaped.
    pub fn shown(self, name: &[u8]) -> String {
        let without = match self {
            Self::Bytes | Self::TerminalBytes | Self::Log => Self::Wide,
            escape => escape,
        };
        String::from_utf8(without.bytes(name)).expect("all else is escaped")
    }

    /// The name in the form for standard output.
    pub fn bytes(self, name: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(name.len());
        let mut rest = name;
        for chunk in name.utf8_chunks() {
            for c in chunk.valid().chars() {
                let is_escape = c == '\\' && looks_escaped(rest);
                let (bytes, behind) = rest.split_at(c.len_utf8());
                let is_plain = c == '\t' || !is_unprintable(c) && self.takes(bytes);
                if is_plain && !is_escape {
                    text.extend_from_slice(bytes)
                } else {
                    escape(bytes, &mut text)
                }
                rest = behind;
            }
            for byte in chunk.invalid() {
                match self {
                    Self::Bytes => text.push(*byte),
                    Self::TerminalBytes | Self::Log if !CONTROL.contains(byte) => text.push(*byte),
                    _ => escape(&[*byte], &mut text),
                }
            }
            rest = &rest[chunk.invalid().len()..];
        }
        text
    }

    fn takes(self, character: &[u8]) -> bool {
        match self {
            Self::Wide | Self::Bytes | Self::TerminalBytes => true,
            Self::Ascii => character.is_ascii(),
            Self::Log => !character.iter().any(|byte| CONTROL.contains(byte)),
        }
    }
}

/// Whether a part of a name could be mistaken for an escape.
fn looks_escaped(rest: &[u8]) -> bool {
    matches!(rest, [b'\\', b'#', digits @ ..] if digits.len() > 2 && digits[..3].iter().all(u8::is_ascii_digit))
}

fn escape(bytes: &[u8], text: &mut Vec<u8>) {
    bytes.iter().for_each(|byte| write!(text, "\\#{byte:03o}").expect("memory"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_rsync_writes_them() {
        let wide = |name: &[u8]| Escape::Wide.shown(name);
        assert_eq!(wide(b"a\x1bb\nc\td\\"), "a\\#033b\\#012c\td\\");
        assert_eq!(wide("\u{e9}\\#123c\\#12".as_bytes()), "\u{e9}\\#134#123c\\#12");
        assert_eq!(wide(b"\xff\x9b"), "\\#377\\#233");
        assert_eq!(wide("\u{9b}\u{202e}".as_bytes()), "\\#302\\#233\\#342\\#200\\#256");
        assert_eq!(Escape::Bytes.bytes(b"\x1bhi\xf9\x9bname\xc2\x9b"), b"\\#033hi\xf9\x9bname\\#302\\#233");
        assert_eq!(Escape::TerminalBytes.bytes(b"\xf9\x9b"), b"\xf9\\#233");
        assert_eq!(Escape::Log.bytes(b"\xf9\x9b"), b"\xf9\\#233");
        assert_eq!(Escape::Bytes.shown(b"\xf9"), "\\#371");
        assert_eq!(Escape::Ascii.shown("\u{e9}x".as_bytes()), "\\#303\\#251x");
    }
}
