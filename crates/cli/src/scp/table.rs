//! All options of OpenSSH 10's scp, and the effect that each has in linerate.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::line::ScpLine;

/// One of scp's options.
pub struct ScpOption {
    /// The option's letter; scp has no long names.
    pub letter: char,
    /// How the option's effect differs from that in scp.
    pub fate: Fate,
    /// The action that reads the option.
    pub does: Effect,
}

/// How the effect of an option in linerate differs from that in scp.
#[derive(Clone, Copy)]
pub enum Fate {
    /// The option has the same effect as with scp.
    Same,
    /// The option is accepted, but has less effect than with scp, or none; the text is the reason.
    Taken(&'static str),
    /// The option is refused; the text is the reason, and what to use instead.
    Refused(&'static str),
}

/// The action of an option on the command line.
#[derive(Clone, Copy)]
pub enum Effect {
    /// The option has no value.
    Flag(fn(&mut ScpLine)),
    /// The option has a value; the text is the value's name in scp's manual.
    Value(&'static str, fn(&mut ScpLine, &OsStr) -> Result<(), String>),
}

impl ScpOption {
    /// The option with this letter.
    pub fn of(letter: u8) -> Option<&'static Self> {
        OPTIONS.iter().find(|option| option.letter == char::from(letter))
    }

    /// The option as the manual writes it, with its value.
    pub fn shown(&self) -> String {
        match self.does {
            Effect::Flag(_) => format!("-{}", self.letter),
            Effect::Value(name, _) => format!("-{} {name}", self.letter),
        }
    }

    /// The effect of the option here, in words.
    pub fn verdict(&self) -> String {
        match self.fate {
            Fate::Same => "as scp".to_owned(),
            Fate::Taken(why) => format!("accepted: {why}"),
            Fate::Refused(why) => format!("refused: {why}"),
        }
    }
}

const THREE: &str = "this host logs in to both hosts; the data goes from host to host, and through this host only if the two can't reach each other";
const ORIGIN: &str = "this host logs in to both hosts; the source's host needs no login to the target's host";
const PROTOCOL: &str = "linerate always uses its own protocol";
const CHECKS: &str =
    "both ends expand patterns by the same rules, and files that weren't requested are always refused";
const SERVER: &str = "scp uses this option only for its own far end";

const fn flag(letter: char, set: fn(&mut ScpLine)) -> ScpOption {
    ScpOption { letter, fate: Fate::Same, does: Effect::Flag(set) }
}

const fn value(
    letter: char,
    name: &'static str,
    set: fn(&mut ScpLine, &OsStr) -> Result<(), String>,
) -> ScpOption {
    ScpOption { letter, fate: Fate::Same, does: Effect::Value(name, set) }
}

const fn taken(letter: char, why: &'static str) -> ScpOption {
    ScpOption { fate: Fate::Taken(why), ..flag(letter, |_| ()) }
}

const fn refused(letter: char, why: &'static str) -> ScpOption {
    ScpOption { fate: Fate::Refused(why), ..flag(letter, |_| ()) }
}

/// The options in the order of scp's manual, followed by options that the manual doesn't name.
pub const OPTIONS: &[ScpOption] = &[
    taken('3', THREE),
    flag('4', |line| line.login.ipv4 = true),
    flag('6', |line| line.login.ipv6 = true),
    flag('A', |line| line.ssh("ForwardAgent=yes")),
    flag('B', |line| line.ssh("BatchMode=yes")),
    ScpOption {
        fate: Fate::Taken("passed to ssh; the data doesn't travel through ssh, and isn't compressed"),
        ..flag('C', |line| line.ssh("Compression=yes"))
    },
    ScpOption {
        fate: Fate::Taken("passed to ssh; the data doesn't travel through ssh, and uses a cipher of TLS 1.3"),
        ..value('c', "cipher", |line, value| {
            line.ssh(&format!("Ciphers={}", text(value)?));
            Ok(())
        })
    },
    ScpOption {
        fate: Fate::Refused(
            "the far end is linerate, not an SFTP server; to copy within this host, leave out HOST:",
        ),
        ..value('D', "sftp_server_path", |_, _| Ok(()))
    },
    value('F', "ssh_config", |line, value| {
        line.login.config = Some(value.to_owned());
        Ok(())
    }),
    value('i', "identity_file", |line, value| {
        line.login.identity.push(value.to_owned());
        Ok(())
    }),
    value('J', "destination", |line, value| {
        line.login.jump = Some(value.to_owned());
        Ok(())
    }),
    value('l', "limit", limit),
    ScpOption { fate: Fate::Taken(PROTOCOL), ..flag('O', |line| line.legacy = true) },
    value('o', "ssh_option", |line, value| {
        line.login.option.push(value.to_owned());
        Ok(())
    }),
    value('P', "port", |line, value| {
        line.login.port = Some(port(value.as_bytes())?);
        Ok(())
    }),
    flag('p', |line| line.preserve = true),
    flag('q', |line| line.quiet = true),
    taken('R', ORIGIN),
    flag('r', |line| line.recursive = true),
    value('S', "program", |line, value| {
        line.login.program = Some(value.to_owned());
        Ok(())
    }),
    ScpOption { fate: Fate::Taken(PROTOCOL), ..flag('s', |line| line.legacy = false) },
    taken('T', CHECKS),
    flag('v', |line| line.verbose += 1),
    ScpOption {
        fate: Fate::Taken("this option is for SFTP requests; linerate's streams fill the path without it"),
        ..value('X', "sftp_option", sftp)
    },
    refused('1', "neither linerate nor scp supports version 1 of the SSH protocol"),
    taken('2', "ssh has no other protocol"),
    flag('d', |line| line.into_directory = true),
    refused('f', SERVER),
    refused('t', SERVER),
];

/// Reads a TCP port.
///
/// # Errors
/// If the value is no port.
pub fn port(value: &[u8]) -> Result<u16, String> {
    let port = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    port.filter(|port| *port > 0).ok_or_else(|| "isn't a TCP port".to_owned())
}

/// Reads a limit in kibibits per second (1024 bits).
fn limit(line: &mut ScpLine, value: &OsStr) -> Result<(), String> {
    const MOST_KBITS: u64 = 100 << 20;
    let kbits = text(value)?.parse().ok().filter(|kbits| (1..=MOST_KBITS).contains(kbits));
    let kbits: u64 = kbits.ok_or_else(|| format!("isn't a number of Kbit/s from 1 to {MOST_KBITS}"))?;
    line.limit = Some(kbits * 1024 / 8);
    Ok(())
}

/// Reads `-X`: a valid value has no effect, and an invalid value is refused.
fn sftp(_: &mut ScpLine, value: &OsStr) -> Result<(), String> {
    let text = text(value)?;
    match text.strip_prefix("nrequests=").or_else(|| text.strip_prefix("buffer=")) {
        Some(number) if number.starts_with(|c: char| c.is_ascii_digit()) => Ok(()),
        _ => Err("is neither nrequests=NUMBER nor buffer=NUMBER".to_owned()),
    }
}

fn text(value: &OsStr) -> Result<&str, String> {
    value.to_str().ok_or_else(|| "is not text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scp::codes::MEANINGS;
    use std::collections::HashSet;

    /// The letters that the usage of OpenSSH 10's scp shows, followed by letters that scp accepts but doesn't
    /// show.
    const LETTERS: &str = "346ABCOpqRrsTvcDFiJloPSX12dft";

    #[test]
    fn each_letter_stands_once_and_the_guide_has_each_option() {
        let letters: HashSet<_> = OPTIONS.iter().map(|option| option.letter).collect();
        assert_eq!((letters.len(), letters), (OPTIONS.len(), LETTERS.chars().collect()));
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/scp.md");
        let page = std::fs::read_to_string(page).unwrap();
        let rows = OPTIONS.iter().map(|option| format!("| `{}` | {} |", option.shown(), option.verdict()));
        let codes = MEANINGS.iter().map(|(code, meaning)| format!("| {code} | {meaning} |"));
        let missing: Vec<_> = rows.chain(codes).filter(|row| !page.contains(row)).collect();
        assert!(missing.is_empty(), "docs/guide/scp.md lacks:\n{}", missing.join("\n"));
        let listed = page.lines().filter(|line| line.starts_with("| `-")).count();
        assert_eq!(listed, OPTIONS.len(), "the page has rows of no option");
    }
}
