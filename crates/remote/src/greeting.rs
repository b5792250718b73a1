//! Reads the output of a far shell until the agent is ready. Lines of three kinds are meant for this program: that the
//! agent is ready, that the far shell waits for a binary, and that no agent can be started.

use linerate_wire::control::AGENT_LINE;
use linerate_wire::path::printable;

use crate::binary::Unpackers;
use crate::install::{FAILED, WANTED};

/// The most bytes of output before the line by which the agent reports that it is ready.
const MAX_NOISE: usize = 64 << 10;
/// The most bytes of the far shell's output in an error message.
const SHOWN: usize = 500;

/// The output so far. Bytes are read one by one, because binary data follows after the line that the agent is ready.
#[derive(Debug, Default)]
pub struct Greeting {
    noise: Vec<u8>,
    line: usize,
}

/// The meaning of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A line that isn't meant for this program, for example a message of the login shell.
    Noise,
    /// The agent is ready: the next byte belongs to the control channel.
    Ready,
    /// The far shell waits for the binary for this kind of machine.
    Wanted {
        /// The output of `uname -sm` on the far host.
        machine: Vec<u8>,
        /// The programs with which the far host can decompress the binary.
        unpackers: Unpackers,
    },
    /// No agent can be started. The reason is safe to print on a terminal.
    Failed(String),
}

/// The error that a far shell has printed more than this program reads before an agent is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch;

impl Greeting {
    /// Adds the next byte of the output; if the byte ends a line, returns the line's meaning.
    ///
    /// # Errors
    /// If 64 KiB of output have come before this byte.
    pub fn take(&mut self, byte: u8) -> Result<Option<Heard>, TooMuch> {
        if self.noise.len() >= MAX_NOISE {
            return Err(TooMuch);
        }
        self.noise.push(byte);
        if byte != b'\n' {
            return Ok(None);
        }
        let line = self.noise.get(self.line..).unwrap_or_default().trim_ascii_end();
        let heard = meaning(line);
        self.line = self.noise.len();
        Ok(Some(heard))
    }

    /// The beginning of the output so far, for an error message.
    pub fn shown(&self) -> String {
        let text = self.noise.trim_ascii();
        printable(text.get(..SHOWN).unwrap_or(text))
    }
}

fn meaning(line: &[u8]) -> Heard {
    if line == AGENT_LINE.as_bytes() {
        return Heard::Ready;
    }
    match line.strip_prefix(WANTED.as_bytes()) {
        Some(said) => wanted(said.trim_ascii()),
        None if line.starts_with(FAILED.as_bytes()) => Heard::Failed(printable(line)),
        None => Heard::Noise,
    }
}

/// Parses a line in which the far shell asks for a binary: the system, the machine, and the programs for decompressing.
fn wanted(said: &[u8]) -> Heard {
    let (mut machine, mut unpackers) = (said, Unpackers::default());
    while let Some(space) = machine.iter().rposition(|byte| *byte == b' ') {
        match &machine[space + 1..] {
            b"zstd" => unpackers.zstd = true,
            b"gzip" => unpackers.gzip = true,
            _ => break,
        }
        machine = machine[..space].trim_ascii_end();
    }
    Heard::Wanted { machine: machine.to_vec(), unpackers }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn heard(said: &[u8]) -> Vec<Heard> {
        let mut greeting = Greeting::default();
        said.iter().filter_map(|byte| greeting.take(*byte).expect("it is short")).collect()
    }

    #[test]
    fn three_kinds_of_lines_are_meant_for_us() {
        let said = b"Welcome!\r\n\nlinerate-agent wanted Linux x86_64\r\nlinerate-agent wanted Linux x86_64 zstd gzip\nlinerate-agent wanted gzip \nlinerate-agent failed: \x1b[31m\nlinerate-agent ready\n";
        let wanted = |machine: &[u8], zstd, gzip| Heard::Wanted {
            machine: machine.to_vec(),
            unpackers: Unpackers { zstd, gzip },
        };
        let expected = [
            Heard::Noise,
            Heard::Noise,
            wanted(b"Linux x86_64", false, false),
            wanted(b"Linux x86_64", true, true),
            wanted(b"gzip", false, false),
            Heard::Failed("linerate-agent failed: \\u{1b}[31m".into()),
            Heard::Ready,
        ];
        assert_eq!(heard(said), expected);
    }

    #[test]
    fn a_login_that_prints_for_ever_is_given_up_also_one_of_empty_lines() {
        for byte in *b"x\n" {
            let mut greeting = Greeting::default();
            let taken = (0..1_000_000).take_while(|_| greeting.take(byte).is_ok()).count();
            assert_eq!(taken, MAX_NOISE);
        }
    }

    proptest! {
        #[test]
        fn any_noise_is_taken(said in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut greeting = Greeting::default();
            let lines = said.iter().filter(|byte| matches!(greeting.take(**byte), Ok(Some(_)))).count();
            prop_assert_eq!(lines, said.iter().filter(|byte| **byte == b'\n').count());
            prop_assert!(!greeting.shown().contains(char::is_control));
        }
    }
}
