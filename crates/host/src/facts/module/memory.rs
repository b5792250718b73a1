//! The memory of a pluggable module. A fact is unreadable if its bytes weren't read.

use std::ops::Range;

use crate::facts::Fact;

/// The most bytes of a module's memory that are kept; the kernel returns 640.
const MOST_MODULE_BYTES: usize = 2048;
/// The number of bytes on each line of the text.
const LINE: usize = 16;

/// The part of a module's memory that was read.
pub(super) struct ModuleMemory(Vec<Option<u8>>);

/// Converts bytes to lines of text. Each line has an offset and 16 bytes, both as hexadecimal digits.
pub(in crate::facts) fn lines(bytes: &[u8]) -> String {
    let line = |(at, line): (usize, &[u8])| {
        let digits: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:04x} {digits}\n", at * LINE)
    };
    bytes.chunks(LINE).enumerate().map(line).collect()
}

impl ModuleMemory {
    /// Parses the text of [`lines`], and ignores other lines.
    pub fn parse(text: &str) -> Self {
        let mut bytes = Vec::new();
        for (offset, digits) in text.lines().filter_map(|line| line.trim().split_once(' ')) {
            let Ok(offset) = usize::from_str_radix(offset, 16) else { continue };
            for (at, pair) in digits.trim().as_bytes().chunks(2).enumerate().take(LINE) {
                let place = offset.saturating_add(at);
                let value = std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
                if place < MOST_MODULE_BYTES && pair.len() == 2 {
                    bytes.resize(bytes.len().max(place + 1), None);
                    bytes[place] = value;
                }
            }
        }
        Self(bytes)
    }

    /// The byte at the offset `at`.
    pub fn byte(&self, at: usize) -> Fact<u8> {
        match self.0.get(at) {
            Some(Some(byte)) => Fact::Known(*byte),
            _ => Fact::Unreadable(format!("byte {at} of the module's memory wasn't returned")),
        }
    }

    /// True if all bits of the mask `bits` are set in the byte at `at`.
    pub fn is_set(&self, at: usize, bits: u8) -> Fact<bool> {
        self.byte(at).map(|byte| byte & bits == bits)
    }

    /// The two bytes at `at` as a number, big-endian.
    pub fn word(&self, at: usize) -> Fact<u16> {
        let second = self.byte(at + 1);
        self.byte(at).and_then(|first| second.map(|second| u16::from_be_bytes([first, second])))
    }

    /// `count` numbers of two bytes each, from `at` on, big-endian.
    pub fn words(&self, at: usize, count: usize) -> Fact<Vec<u16>> {
        let mut words = Vec::new();
        for i in 0..count {
            match self.word(at + 2 * i) {
                Fact::Known(word) => words.push(word),
                other => return other.map(|_| Vec::new()),
            }
        }
        Fact::Known(words)
    }

    /// The text in this range, without the blanks at its ends; not applicable if the text is empty.
    pub fn text(&self, range: Range<usize>) -> Fact<String> {
        let mut text = String::new();
        for at in range {
            match self.byte(at) {
                Fact::Known(byte) if byte == b' ' || byte.is_ascii_graphic() => text.push(char::from(byte)),
                Fact::Known(_) => text.push(' '),
                other => return other.map(|_| String::new()),
            }
        }
        match text.trim() {
            "" => Fact::NotApplicable,
            text => Fact::Known(text.to_owned()),
        }
    }

    /// Checks a checksum: the fact is known if the byte at `at` is the sum of the bytes in `range` (modulo 256), as the
    /// standards require. Otherwise the fact is unreadable, because the memory was misread.
    pub fn summed(&self, range: Range<usize>, at: usize) -> Fact<()> {
        let mut sum = 0_u8;
        for at in range {
            match self.byte(at) {
                Fact::Known(byte) => sum = sum.wrapping_add(byte),
                other => return other.map(|_| ()),
            }
        }
        self.byte(at).and_then(|wanted| match wanted == sum {
            true => Fact::Known(()),
            false => Fact::Unreadable(format!(
                "the module's bytes add up to {sum:#04x} but its checksum is {wanted:#04x}: they were misread"
            )),
        })
    }
}
