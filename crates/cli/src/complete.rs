//! `linerate complete`: prints paths of a far host for a shell that completes a word. The scripts that
//! `linerate completions` prints call it.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::Args;
use linerate_remote::place::Place;
use linerate_sys::child::{die_with_parent, new_session};
use linerate_wire::path::printable;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::common::config::{apply_to_login, at_home};
use crate::common::failure::Failure;
use crate::common::login::LoginOptions;
use crate::common::spec::Spec;
use crate::exit::{Code, Meaning, USAGE, table};

const MEANINGS: [Meaning; 2] = [(Code::Done, "the matching paths were printed, if there are any"), USAGE];

/// The options with which ssh asks no questions and soon gives up, because a user is waiting for the shell.
const AT_ONCE: [&str; 2] = ["BatchMode=yes", "ConnectTimeout=5"];

/// The time limit of the whole command, because a user is waiting for the shell.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest number of bytes of a far host's list that are read.
const MOST_BYTES: usize = 1 << 20;

/// The largest number of names that are printed.
const MOST_NAMES: usize = 10_000;

/// Arguments of `linerate complete`.
#[derive(Debug, Args)]
#[command(after_long_help = table(&MEANINGS))]
pub struct CompleteArgs {
    /// The beginning of a word: HOST:PATH
    #[arg(value_name = "WORD", allow_hyphen_values = true)]
    word: OsString,
    /// The words before WORD, or the line before WORD as one word
    #[arg(value_name = "BEFORE", allow_hyphen_values = true, trailing_var_arg = true)]
    before: Vec<OsString>,
}

/// Prints each path of the far host that begins with the word, preceded by the host. A directory's path ends
/// in a slash.
///
/// # Errors
/// None: if ssh can't log in to the host without a question, nothing is printed.
pub fn run(args: &CompleteArgs) -> Result<Code, Failure> {
    let Spec::Remote(host, path) = Spec::parse(&args.word) else { return Ok(Code::Done) };
    let cut = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let (directory, beginning) = path.split_at(cut);
    let listed = list(&host, directory, &args.before).unwrap_or_default();
    let mut out = std::io::stdout().lock();
    for name in offered(&listed, beginning).take(MOST_NAMES) {
        // A shell that has ended needs no more output.
        let _ = out.write_all(&[host.as_bytes(), b":", directory, name, b"\n"].concat());
    }
    Ok(Code::Done)
}

/// The output of `ls` on the far host: one name per line, with a slash after directories.
fn list(host: &OsStr, directory: &[u8], before: &[OsString]) -> Option<Vec<u8>> {
    let before = words_of(before)?;
    if reads_configuration(&before) {
        apply_to_login(&crate::command_named("cp")).ok()?;
    }
    let mut login = login_of(&before);
    if login.configured(host).ok()?.rsh.is_none() {
        login.option.extend(AT_ONCE.map(OsString::from));
    }
    let far = login.far_end(host, true).ok()?;
    // A login begins in the home directory, so the prefix `~/` isn't needed.
    let directory = directory.strip_prefix(b"~/").unwrap_or(directory);
    let mut argv: Vec<OsString> = ["ls", "-1ap", "--"].map(OsString::from).to_vec();
    argv.push(OsString::from_vec(if directory.is_empty() { b".".to_vec() } else { directory.to_vec() }));
    let place = Place::Ssh { rsh: far.rsh, host: far.host };
    printed(place.command(&argv).ok()?)
}

/// Runs a command that can't ask questions, and returns the complete lines in its first [`MOST_BYTES`];
/// `None` if the command takes longer than [`COMMAND_TIMEOUT`].
fn printed(mut command: Command) -> Option<Vec<u8>> {
    // The ssh that ssh starts for a jump host doesn't get BatchMode. But without a terminal and a program for
    // questions (SSH_ASKPASS) it can't ask questions either.
    new_session(&mut command);
    command.env_remove("SSH_ASKPASS").env("SSH_ASKPASS_REQUIRE", "never");
    // Ctrl-C reaches only this process, so the command must end when this process ends.
    die_with_parent(&mut command, Signal::TERM);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let output = child.stdout.take()?.take(MOST_BYTES as u64);
    let (sender, read) = mpsc::channel();
    thread::spawn(move || sender.send(all_of(output)));
    let read = read.recv_timeout(COMMAND_TIMEOUT).ok().flatten();
    // A command that has printed everything ends by itself. It isn't killed then, because a process that it leaves
    // behind may be meant to continue, as with ssh's ControlPersist.
    if read.as_ref().is_none_or(|bytes| bytes.len() == MOST_BYTES) {
        kill(&mut child);
    }
    let mut bytes = read?;
    // The last name is ignored if it is incomplete.
    bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1));
    Some(bytes)
}

fn all_of(mut output: impl Read) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes).ok().map(|_| bytes)
}

/// Ends the leader of a session and all its children.
fn kill(child: &mut Child) {
    // If the group has already ended, there is nothing to do.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
}

/// The words before the one to complete. If `before` is a single word, this word is the whole line as the user
/// typed it; bash needs this, because it splits and joins words by its own rules. `None` if the line's quotes don't
/// match.
fn words_of(before: &[OsString]) -> Option<Vec<OsString>> {
    let [line] = before else { return Some(before.to_vec()) };
    let words = shlex::bytes::split(line.as_bytes())?;
    Some(words.into_iter().map(OsString::from_vec).collect())
}

/// True if the command that these words call reads the configuration files.
fn reads_configuration(before: &[OsString]) -> bool {
    fn has_option(command: &clap::Command) -> bool {
        command.get_arguments().any(|arg| arg.get_id() == "no_config")
            || command.get_subcommands().any(has_option)
    }
    let name = before.get(1).and_then(|name| name.to_str());
    let mut options = before.iter().skip(2).take_while(|word| *word != "--");
    name.is_some_and(|name| has_option(&crate::command_named(name)))
        && options.all(|word| word != "--no-config")
}

/// The options for ssh among the words before the one to complete.
fn login_of(before: &[OsString]) -> LoginOptions {
    let mut login = LoginOptions::default();
    let with_value = with_value(before.get(1).and_then(|command| command.to_str()));
    let mut words = before.iter().skip(2).take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        let OptionWord { flags, valued } = OptionWord::parse(word, with_value);
        if let Some(last) = flags.iter().rfind(|letter| b"46".contains(letter)) {
            (login.ipv4, login.ipv6) = (*last == b'4', *last == b'6');
        }
        let Some((letter, attached)) = valued else { continue };
        let Some(value) = attached.or_else(|| words.next().cloned()) else { break };
        match letter {
            b'P' => login.port = value.to_str().and_then(|port| port.parse().ok()),
            b'i' => login.identity.push(value),
            b'F' => login.config = Some(expanded(value)),
            b'S' => login.program = Some(expanded(value)),
            b'J' => login.jump = Some(value),
            b'o' => login.option.push(value),
            b'e' => login.rsh = value.into_string().ok(),
            _ => {}
        }
    }
    login
}

/// The path, with a leading `~` expanded. ssh relies on the shell for this, but the shell hasn't processed the line
/// yet.
fn expanded(path: OsString) -> OsString {
    path.into_string().map_or_else(|path| path, |path| at_home(path).into())
}

/// The one-letter options of a command that take a value. The letters P, i and S mean different options to rsync and
/// scp: only with scp they take a value.
fn with_value(command: Option<&str>) -> &'static [u8] {
    match command {
        Some("rsync") => b"eBMTf",
        Some("scp") => b"PiFJoclSDX",
        _ => b"PiFJoef",
    }
}

/// The one-letter options in a word.
#[derive(Default)]
struct OptionWord<'a> {
    /// The letters of the options without a value.
    flags: &'a [u8],
    /// The letter of the last option if it takes a value, and the value if it is in the same word.
    valued: Option<(u8, Option<OsString>)>,
}

impl<'a> OptionWord<'a> {
    fn parse(word: &'a OsStr, with_value: &[u8]) -> Self {
        let bytes = word.as_bytes();
        let owned = |bytes| Some(OsStr::from_bytes(bytes).to_owned());
        match bytes {
            b"--ipv4" => Self { flags: b"4", valued: None },
            b"--ipv6" => Self { flags: b"6", valued: None },
            b"--rsh" => Self { flags: b"", valued: Some((b'e', None)) },
            [b'-', b'-', b'r', b's', b'h', b'=', value @ ..] => {
                Self { flags: b"", valued: Some((b'e', owned(value))) }
            }
            [b'-', b'-', ..] => Self::default(),
            [b'-', letters @ ..] => {
                let Some(at) = letters.iter().position(|letter| with_value.contains(letter)) else {
                    return Self { flags: letters, valued: None };
                };
                let value = &letters[at + 1..];
                let value = value.strip_prefix(b"=").unwrap_or(value);
                let value = if value.is_empty() { None } else { owned(value) };
                Self { flags: &letters[..at], valued: Some((letters[at], value)) }
            }
            _ => Self::default(),
        }
    }
}

/// The listed names that begin with `beginning`. Hidden names are included only if `beginning` begins with a dot.
/// Names that could change the terminal's state or deceive the user aren't included.
fn offered<'a>(listed: &'a [u8], beginning: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    listed.split(|byte| *byte == b'\n').filter(move |name| {
        let is_itself = matches!(*name, b"" | b"./" | b"../");
        let is_wanted = !name.starts_with(b".") || beginning.starts_with(b".");
        !is_itself && is_wanted && name.starts_with(beginning) && printable(name).as_bytes() == *name
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_offered_by_their_beginning() {
        let listed = b"./\n../\n.ssh/\ndata/\ndays\nx\x1b]0;y\n\n";
        let of = |beginning: &'static [u8]| {
            offered(listed, beginning)
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(of(b"da"), ["data/", "days"]);
        assert_eq!(of(b""), ["data/", "days"]);
        assert_eq!(of(b"."), [".ssh/"]);
        assert_eq!(of(b"x"), [""; 0]);
    }

    #[test]
    fn the_options_with_values_are_those_of_the_commands() {
        for name in ["cp", "sync", "verify", "clean"] {
            let command = crate::command_named(name);
            let valued = command.get_arguments().filter(|arg| arg.get_action().takes_values());
            let letters: Vec<_> = valued.filter_map(|arg| arg.get_short()).collect();
            assert!(letters.len() > 4, "{name}: {letters:?}");
            assert!(letters.iter().all(|letter| with_value(Some(name)).contains(&(*letter as u8))), "{name}");
        }
    }

    #[test]
    fn options_of_ssh_are_taken_from_the_words_before() {
        let login = |line: &str| login_of(&words_of(&[line.into()]).unwrap());
        for line in [
            "linerate cp -P 2222 -F 'a file' -o A=b -r tree",
            "linerate cp -P2222 '-Fa file' -oA=b rsync",
            "/bin/linerate scp -rP2222 -F=a\\ file -o A=b --rsh-like -- -P 7",
        ] {
            let login = login(line);
            assert_eq!((login.port, login.config), (Some(2222), Some("a file".into())), "{line}");
            assert_eq!(login.option, ["A=b"], "{line}");
        }
        for line in [
            "linerate rsync -P tree -e 'ssh -v'",
            "linerate rsync -Pave 'ssh -v'",
            "linerate rsync '--rsh=ssh -v' -i",
            "linerate cp --rsh 'ssh -v'",
            "linerate cp -e'ssh -v'",
        ] {
            let login = login(line);
            assert_eq!((login.port, login.rsh.as_deref()), (None, Some("ssh -v")), "{line}");
            assert!(login.identity.is_empty(), "{line}");
        }
        for line in [
            "linerate cp -4 tree",
            "linerate scp -r6 -q4 tree",
            "linerate rsync -aS4 tree",
            "linerate rsync --ipv4",
        ] {
            let login = login(line);
            assert_eq!((login.ipv4, login.ipv6, login.program), (true, false, None), "{line}");
        }
        let far = login("linerate scp -6S /opt/ssh -c aes128-gcm@openssh.com -P 7");
        assert_eq!((far.ipv6, far.program, far.port), (true, Some("/opt/ssh".into()), Some(7)));
        let other = login("linerate cp -f -6 -- -4");
        assert!(!other.ipv4 && !other.ipv6, "a rule, and a file");
        assert!(words_of(&["linerate cp 'x".into()]).is_none());
        let words = ["linerate", "cp", "-F", "a file"].map(OsString::from);
        assert_eq!(login_of(&words_of(&words).unwrap()).config, Some("a file".into()));
    }
}
