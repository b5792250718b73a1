//! `linerate scp`: accepts scp command lines without changes.

mod codes;
mod line;
mod place;
mod printer;
mod table;

use clap::Args;
use linerate_remote::patience::Patience;
use linerate_transfer::routes::Interfaces;
use linerate_transfer::sender::Selection;
use linerate_wire::control::{Keep, Options};
use linerate_wire::path::printable;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::common::failure::Failure;
use crate::common::far::SILENCE;
use crate::common::login::LoginOptions;
use crate::common::output::{Output, Style};
use crate::common::spec::check_places;
use crate::copying::perform;
use crate::copying::task::Task;
use crate::exit::Code;
use codes::{FAILED, FATAL, MEANINGS, number};
use line::{ScpLine, Wrong};
use place::SourcePlace;
use printer::ScpPrinter;
use table::OPTIONS;

/// Arguments of `linerate scp`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = codes_table(), override_usage = FORM)]
pub struct ScpArgs {
    /// scp's own options and paths
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "SCP-ARGUMENT")]
    words: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  linerate scp -rp tree host:/data/
      makes the same copy as scp with these arguments
  linerate scp --help
      lists scp's options, and the effect of each
";

const FORM: &str = "\
linerate scp [-346ABCOpqRrsTv] [-c cipher] [-F ssh_config]
           [-i identity_file] [-J destination] [-l limit] [-o ssh_option]
           [-P port] [-S program] [-X sftp_option] source ... target";

/// Copies as scp would.
///
/// # Errors
/// None: failures are printed as scp prints them.
pub fn run(args: ScpArgs) -> Result<Code, Failure> {
    let done = ScpLine::parse(&args.words).and_then(|line| line.copy());
    Ok(Code::Command(done.unwrap_or_else(|Wrong { message, code }| {
        message!("scp: {message}");
        code
    })))
}

/// The help: how the command is called, and the effect of each of scp's options.
fn help() -> String {
    let rows = OPTIONS.iter().map(|option| format!("\n  {:<20} {}", option.shown(), option.verdict()));
    format!("usage: {FORM}\n\nscp's options:{}\n\n{}", rows.collect::<String>(), codes_table())
}

fn codes_table() -> String {
    let codes = MEANINGS.iter().map(|(code, meaning)| format!("\n  {code:<4} {meaning}"));
    format!("Exit codes:{}", codes.collect::<String>())
}

fn failed(message: String) -> Wrong {
    Wrong { message, code: FAILED }
}

impl ScpLine {
    /// Copies all sources to the destination, and returns scp's exit code.
    fn copy(&self) -> Result<u8, Wrong> {
        if self.help || self.version {
            let version = format!("linerate {} as scp", env!("CARGO_PKG_VERSION"));
            output!("{}", if self.help { help() } else { version });
            return Ok(0);
        }
        let Some((destination, sources)) = self.paths.split_last().filter(|(_, rest)| !rest.is_empty())
        else {
            return Err(failed(format!("there are no source and target\nusage: {FORM}")));
        };
        check_places(&self.paths).map_err(failed)?;
        let destination = SourcePlace::parse(destination).map_err(failed)?;
        let sources: Result<Vec<_>, _> = sources.iter().map(|word| SourcePlace::parse(word)).collect();
        let (sources, missing) = self.there(sources.map_err(failed)?, &destination);
        let (sources, destination) = match <[SourcePlace; 1]>::try_from(sources) {
            Ok([source]) if !self.is_into() => {
                let (source, destination) = self.alone(source, destination)?;
                (vec![source], destination)
            }
            Ok([source]) => (vec![source], as_directory(destination)?),
            Err(sources) if self.is_into() => (sources, as_directory(destination)?),
            Err(sources) => (sources, destination),
        };
        let mut worst = missing;
        for group in groups(sources) {
            let code = self.copy_together(&group, &destination);
            worst = worst.max(code);
            if code > FAILED {
                break;
            }
        }
        Ok(worst)
    }

    /// The sources to copy, and the exit code so far. scp stops at the first source that is missing on this host, so
    /// only the sources before it are copied. With scp's old protocol, scp leaves out only the missing sources.
    fn there(&self, sources: Vec<SourcePlace>, destination: &SourcePlace) -> (Vec<SourcePlace>, u8) {
        if destination.host.is_none() {
            return (sources, 0);
        }
        let (mut found, mut code) = (Vec::new(), 0);
        for source in sources {
            let Some(why) = why_missing(&source) else {
                found.push(source);
                continue;
            };
            let shown = printable(source.written.as_bytes());
            if !self.legacy {
                message!("scp: stat local \"{shown}\": {why}");
                return (found, FATAL);
            }
            message!("scp: {shown}: {why}");
            code = FAILED;
        }
        (found, code)
    }

    /// A single source, and its destination. If the source is a directory, it gets the destination's name, also if this
    /// name ends in a slash. A file can't get a name that ends in a slash, so this name must be an existing directory.
    fn alone(
        &self,
        source: SourcePlace,
        destination: SourcePlace,
    ) -> Result<(SourcePlace, SourcePlace), Wrong> {
        if !destination.path.ends_with(b"/") {
            return Ok((source, destination));
        }
        let is_missing = destination.host.is_none() && fs::metadata(&destination.written).is_err();
        let kind = fs::metadata(&source.written).ok().filter(|_| source.host.is_none());
        let is_directory = kind.map(|kind| kind.is_dir());
        match is_directory {
            Some(true) if self.recursive => Ok((source, destination.without_slash())),
            // It isn't known yet whether a far source is a directory. If it isn't one, copying its contents fails.
            None if self.recursive && is_missing && !source.is_pattern() => {
                Ok((source.contents(), destination))
            }
            None if self.recursive => Ok((source, destination)),
            _ if is_missing => {
                Err(failed(format!("{}: Is a directory", printable(destination.written.as_bytes()))))
            }
            _ => Ok((source, destination)),
        }
    }

    /// Copies sources that are on one host, and returns scp's exit code.
    fn copy_together(&self, sources: &[SourcePlace], destination: &SourcePlace) -> u8 {
        let style = if self.verbose > 0 { Style::Verbose } else { Style::Quiet };
        let output = Output::new(style).with_printer(ScpPrinter::new(sources, self.quiet));
        let code = perform(output, Ok(self.task(sources, destination)));
        let code = code.unwrap_or_else(|Failure(message, code)| {
            // If no source exists, an error line was already printed for each source.
            if code != Code::NoSource {
                message!("scp: {message}");
            }
            code
        });
        match code {
            // The destination must be a directory of the far host, but isn't one.
            Code::Usage if self.is_into() && destination.host.is_some() => FATAL,
            code => number(code),
        }
    }

    /// Whether the destination must be a directory.
    fn is_into(&self) -> bool {
        self.into_directory || self.paths.len() > 2
    }

    fn task(&self, sources: &[SourcePlace], destination: &SourcePlace) -> Task {
        let far = sources.iter().chain([destination]).find(|place| place.host.is_some());
        let by =
            |place: &SourcePlace| LoginOptions { port: place.port.or(self.login.port), ..self.login.clone() };
        let options = Options {
            recursive: self.recursive,
            // In a copy within one host, symbolic links stay links, as with cp(1).
            copy_links: self.recursive && far.is_some(),
            keep: self.keep(far.is_none()),
            rate_limit: self.limit,
            timeout: Some(SILENCE),
            ..Options::default()
        };
        Task {
            selection: Selection::new(&options, None),
            sources: sources.iter().map(|source| source.written.clone()).collect(),
            destination: destination.written.clone(),
            options,
            manifest: None,
            list: false,
            patience: Patience::by_option(None),
            quiet: self.quiet,
            retries: 0,
            interfaces: Interfaces::One,
            stop: None,
            detach: false,
            login: far.map_or_else(|| self.login.clone(), by),
            destination_login: Some(by(destination)),
        }
    }

    /// The metadata that a copy keeps: within this host the same as cp(1), otherwise the same as scp.
    fn keep(&self, within: bool) -> Keep {
        let kept = if self.preserve { Keep::SCP } else { Keep::NOTHING };
        if !within {
            return kept;
        }
        let (own, special) = (self.preserve, self.recursive);
        Keep { owner: own, group: own, special_bits: own, devices: special, specials: special, ..kept }
    }
}

/// The reason why a source on this host doesn't exist; `None` if it exists, or if it is on another host.
fn why_missing(source: &SourcePlace) -> Option<String> {
    let error = source.host.is_none().then(|| fs::metadata(&source.written).err()).flatten()?;
    Some(reason(&error))
}

/// The system's text for an error, such as `No such file or directory`.
fn reason(error: &io::Error) -> String {
    let errno = rustix::io::Errno::from_io_error(error);
    let why = errno.map_or_else(|| error.to_string(), |errno| errno.to_string());
    why.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Checks that the destination is a directory if it is on this host. If it is on another host, adds a slash to its
/// path, so that the path means a directory there, which is created if it is missing.
fn as_directory(mut destination: SourcePlace) -> Result<SourcePlace, Wrong> {
    if destination.host.is_none() {
        let why = match fs::metadata(&destination.written) {
            Ok(found) if found.is_dir() => return Ok(destination),
            Ok(_) => "Not a directory".to_owned(),
            Err(error) => reason(&error),
        };
        return Err(failed(format!("{}: {why}", printable(destination.written.as_bytes()))));
    }
    if !destination.path.is_empty() && !destination.path.ends_with(b"/") {
        let written = destination.written.into_vec();
        destination.written = OsString::from_vec([&written, &b"/"[..]].concat());
    }
    Ok(destination)
}

/// Divides the sources into groups that can be copied together: consecutive sources on the same host. A source with
/// the same name as an earlier one of the group begins a new group. So it replaces the earlier one at the
/// destination, as with scp.
fn groups(sources: Vec<SourcePlace>) -> Vec<Vec<SourcePlace>> {
    let mut groups: Vec<Vec<SourcePlace>> = Vec::new();
    let mut names = HashSet::new();
    for source in sources {
        let is_new = names.insert(source.name().to_vec());
        let host = |place: &SourcePlace| (place.host.clone(), place.port);
        match groups.last_mut().filter(|group| is_new && host(&group[0]) == host(&source)) {
            Some(group) => group.push(source),
            None => {
                names = HashSet::from([source.name().to_vec()]);
                groups.push(vec![source]);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_one_host_travel_together_unless_they_have_the_same_name() {
        let places = ["a", "b", "x/a", "h:a", "h:b", "g:b", "scp://g:22/c"];
        let places = places.map(|word| SourcePlace::parse(word.as_ref()).unwrap());
        let counts: Vec<_> = groups(places.to_vec()).iter().map(Vec::len).collect();
        assert_eq!(counts, [2, 1, 2, 1, 1]);
    }
}
