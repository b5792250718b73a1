//! A place in which a process can run: this host, a network namespace of this host, or another host that a
//! remote shell reaches.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::Command;

use linerate_sys::netns;

/// A place in which a process can be started. The caller sets standard input and output, environment and working
/// directory on the [`Command`] that [`Place::command`] returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// This host, in the network namespace of this process.
    Here,
    /// The network namespace that this file refers to, such as `/run/netns/NAME`. The process sees the same
    /// files as with [`Place::Here`].
    Namespace(PathBuf),
    /// Another host, which is reached by `rsh... HOST COMMAND`. Of the settings on the [`Command`], only standard input
    /// and output have an effect on that host.
    Ssh {
        /// The remote shell and its options, such as `ssh -F CONF`.
        rsh: Vec<OsString>,
        /// The host's name for the remote shell, perhaps `USER@HOST`.
        host: OsString,
    },
}

impl Place {
    /// The command that runs `argv` in this place.
    ///
    /// # Errors
    /// `InvalidInput` if `argv`, the remote shell or the host's name is empty, or if the host's name starts with a dash
    /// (the remote shell would read the name as an option). Otherwise the errors of opening the namespace's file.
    pub fn command(&self, argv: &[OsString]) -> io::Result<Command> {
        match self {
            Self::Here => local(argv),
            Self::Namespace(path) => {
                let mut command = local(argv)?;
                netns::enter(&mut command, open_namespace(path)?.into());
                Ok(command)
            }
            Self::Ssh { rsh, host } => over(rsh, host, argv),
        }
    }
}

/// Quotes `argv` as one line, which a POSIX shell splits into exactly `argv`, whatever bytes `argv` contains.
pub fn quote(argv: &[OsString]) -> OsString {
    let words: Vec<Vec<u8>> = argv.iter().map(|word| quote_word(word.as_bytes())).collect();
    OsString::from_vec(words.join(&b' '))
}

fn local(argv: &[OsString]) -> io::Result<Command> {
    let (program, arguments) = argv.split_first().ok_or_else(|| invalid("there is no command to run"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

fn over(rsh: &[OsString], host: &OsStr, argv: &[OsString]) -> io::Result<Command> {
    if argv.is_empty() {
        return Err(invalid("there is no command to run"));
    }
    if host.is_empty() || host.as_bytes().starts_with(b"-") {
        return Err(invalid("a host's name can't be empty or start with a dash"));
    }
    let mut command = local(rsh).map_err(|_| invalid("the remote shell is empty"))?;
    command.arg(host).arg(quote(argv));
    Ok(command)
}

fn open_namespace(path: &std::path::Path) -> io::Result<File> {
    File::open(path).map_err(|error| {
        let message = format!("opening the network namespace {}: {error}", path.display());
        io::Error::new(error.kind(), message)
    })
}

fn quote_word(word: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"%+,-./:@_".contains(byte);
    if !word.is_empty() && word.iter().all(plain) {
        return word.to_vec();
    }
    // Inside single quotes, only the single quote itself is special. A single quote in the word is written as a closing
    // quote, an escaped quote and an opening quote.
    let mut quoted = vec![b'\''];
    for &byte in word {
        if byte == b'\'' { quoted.extend_from_slice(b"'\\''") } else { quoted.push(byte) }
    }
    quoted.push(b'\'');
    quoted
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Vec<OsString> {
        list.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_shell_gives_back_every_word() {
        let mut argv = words(&[
            "printf",
            "%s|",
            "a b",
            "it's",
            "",
            "$HOME `id` \\ \"x\" *",
            "new\nline",
            "~",
            "a=b",
            "#",
        ]);
        argv.push(OsString::from_vec(vec![b'x', 0xff, 0xfe, b'\'']));
        let output = Command::new("sh").arg("-c").arg(quote(&argv)).output().expect("a POSIX shell is there");
        let mut expected = argv[2..].join(OsStr::new("|"));
        expected.push("|");
        assert_eq!(OsString::from_vec(output.stdout), expected);
    }

    #[test]
    fn ssh_gets_its_options_then_the_host_then_one_line() {
        let place = Place::Ssh { rsh: words(&["ssh", "-F", "conf"]), host: "b".into() };
        let command = place.command(&words(&["ls", "a b"])).expect("well-formed");
        assert_eq!(command.get_program(), "ssh");
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["-F", "conf", "b", "ls 'a b'"]);
    }

    #[test]
    fn what_cannot_run_is_refused() {
        let to = |host: &str| Place::Ssh { rsh: words(&["ssh"]), host: host.into() };
        for (place, argv) in
            [(Place::Here, &[][..]), (to("-oProxyCommand=x"), &["ls"][..]), (to(""), &["ls"]), (to("b"), &[])]
        {
            let error = place.command(&words(argv)).expect_err("nothing runnable");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        let nowhere = Place::Ssh { rsh: Vec::new(), host: "b".into() };
        assert_eq!(
            nowhere.command(&words(&["ls"])).expect_err("no shell").kind(),
            io::ErrorKind::InvalidInput
        );
    }

    #[test]
    fn a_missing_namespace_is_named() {
        let place = Place::Namespace("/run/netns/there-is-none".into());
        let error = place.command(&words(&["true"])).expect_err("no such file");
        assert!(error.to_string().contains("/run/netns/there-is-none"), "{error}");
    }

    #[test]
    fn here_runs_here() {
        let output =
            Place::Here.command(&words(&["echo", "x"])).and_then(|mut c| c.output()).expect("echo runs");
        assert_eq!(output.stdout, b"x\n");
    }
}
