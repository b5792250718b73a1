//! scp's command line. Its words are read with the table of scp's options.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use linerate_wire::path::printable;

use super::codes::{FAILED, FATAL};
use super::table::{Effect, Fate, ScpOption};
use crate::common::login::LoginOptions;

/// The settings of an scp command line.
#[derive(Debug, Default)]
pub struct ScpLine {
    pub recursive: bool,
    pub preserve: bool,
    pub quiet: bool,
    pub verbose: u8,
    /// Whether the destination must be a directory, even for a single source.
    pub into_directory: bool,
    /// Whether scp would use its old protocol, so that it goes on after a missing source.
    pub legacy: bool,
    /// The limit of the rate, in bytes per second.
    pub limit: Option<u64>,
    pub login: LoginOptions,
    pub help: bool,
    pub version: bool,
    /// Sources, followed by the destination.
    pub paths: Vec<OsString>,
}

/// The reason why a command line is refused, and scp's exit code for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Wrong {
    pub message: String,
    pub code: u8,
}

impl ScpLine {
    /// Reads the words as getopt(3) of OpenSSH does: options end at the first path, or at `--`.
    ///
    /// # Errors
    /// The first option that can't be served, and the reason.
    pub fn parse(words: &[OsString]) -> Result<Self, Wrong> {
        let (mut line, mut rest) = (Self::default(), words.iter());
        while let Some(word) = rest.as_slice().first() {
            match word.as_bytes() {
                b"--" => {
                    rest.next();
                    break;
                }
                b"--help" => line.help = true,
                b"--version" => line.version = true,
                [b'-', letters @ ..] if !letters.is_empty() => {
                    rest.next();
                    line.letters(letters, &mut rest)?;
                    continue;
                }
                _ => break,
            }
            rest.next();
        }
        line.paths = rest.cloned().collect();
        line.settle();
        Ok(line)
    }

    /// Adds an option for ssh, in the syntax of ssh's configuration file.
    pub fn ssh(&mut self, option: &str) {
        self.login.option.push(option.into());
    }

    fn letters<'a>(
        &mut self,
        mut letters: &[u8],
        words: &mut impl Iterator<Item = &'a OsString>,
    ) -> Result<(), Wrong> {
        while let [letter, rest @ ..] = letters {
            let shown = format!("-{}", char::from(*letter));
            let wrong = |message: String| Wrong { message, code: FAILED };
            let option = ScpOption::of(*letter).ok_or_else(|| wrong(format!("{shown}: unknown option")))?;
            if let Fate::Refused(why) = option.fate {
                return Err(wrong(format!("{shown} is not supported by linerate scp: {why}")));
            }
            match option.does {
                Effect::Flag(set) => set(self),
                Effect::Value(name, set) => {
                    let attached = (!rest.is_empty()).then(|| OsString::from_vec(rest.to_vec()));
                    let value = attached.or_else(|| words.next().cloned());
                    let value = value.ok_or_else(|| wrong(format!("{shown} needs a value: {name}")))?;
                    return set(self, &value).map_err(|why| wrong_value(option, &value, &why));
                }
            }
            letters = rest;
        }
        Ok(())
    }

    /// Adds the options that scp always gives ssh, unless an option of the command line overrides them.
    fn settle(&mut self) {
        if self.verbose > 0 {
            self.ssh(
                ["LogLevel=DEBUG1", "LogLevel=DEBUG2", "LogLevel=DEBUG3"]
                    [usize::from(self.verbose.min(3)) - 1],
            );
        }
        self.ssh("ControlMaster=no");
        self.ssh("ForwardAgent=no");
    }
}

/// The error for a wrong value. scp prints its usage for a wrong limit, and only an error for other values.
fn wrong_value(option: &ScpOption, value: &OsStr, why: &str) -> Wrong {
    let code = if option.letter == 'l' { FAILED } else { FATAL };
    Wrong { message: format!("-{} {}: {why}", option.letter, printable(value.as_bytes())), code }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<ScpLine, Wrong> {
        ScpLine::parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_read_as_scp_reads_them() {
        let line = parse("-rpP 2222 -l8 -oBatchMode=no -S /bin/ssh a -r").unwrap();
        assert!(line.recursive && line.preserve && !line.quiet);
        assert_eq!((line.login.port, line.limit), (Some(2222), Some(1024)));
        assert_eq!(line.login.program.as_deref(), Some(OsStr::new("/bin/ssh")));
        assert_eq!(line.paths, ["a", "-r"], "options end at the first path");
        assert_eq!(line.login.option, ["BatchMode=no", "ControlMaster=no", "ForwardAgent=no"]);
        assert_eq!(parse("-- -r x").unwrap().paths, ["-r", "x"]);
        assert_eq!(parse("-A a b").unwrap().login.option[0], "ForwardAgent=yes");
    }

    #[test]
    fn what_cannot_be_served_is_named() {
        for (line, message, code) in [
            ("-D /sftp a b", "-D is not supported by linerate scp: the far end", FAILED),
            ("-rt x", "-t is not supported", FAILED),
            ("-z a b", "-z: unknown option", FAILED),
            ("-l 0 a b", "-l 0: isn't a number of Kbit/s", FAILED),
            ("-P 0 a b", "-P 0: isn't a TCP port", FATAL),
            ("-X x=1 a b", "-X x=1: is neither", FATAL),
            ("-r -i", "-i needs a value: identity_file", FAILED),
        ] {
            let wrong = parse(line).unwrap_err();
            assert!(wrong.message.starts_with(message) && wrong.code == code, "{line}: {wrong:?}");
        }
    }
}
