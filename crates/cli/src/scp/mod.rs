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
      the same copy as by scp with these arguments
  linerate scp --help
      scp's options, and the effect of each
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
        let (sources, missing) = there(sources.map_err(failed)?, &destination)?;
        let destination = if self.is_into() { as_directory(destination)? } else { destination };
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

    /// Copies sources of one host, and returns scp's exit code.
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
            // A copy within one host keeps symbolic links, as cp does.
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

    /// The metadata that a copy keeps: as cp for a copy within this host, otherwise as scp.
    fn keep(&self, within: bool) -> Keep {
        let kept = if self.preserve { Keep::SCP } else { Keep::NOTHING };
        if !within {
            return kept;
        }
        let (own, special) = (self.preserve, self.recursive);
        Keep { owner: own, group: own, special_bits: own, devices: special, specials: special, ..kept }
    }
}

/// The sources of this host up to the first missing one, at which scp stops, and the exit code so far.
fn there(mut sources: Vec<SourcePlace>, destination: &SourcePlace) -> Result<(Vec<SourcePlace>, u8), Wrong> {
    if destination.host.is_none() {
        return Ok((sources, 0));
    }
    let local = sources.iter().enumerate().filter(|(_, source)| source.host.is_none());
    let stats = local.map(|(at, source)| (at, fs::metadata(&source.written)));
    let missing = stats.into_iter().find_map(|(at, stat)| Some((at, stat.err()?)));
    let Some((at, error)) = missing else { return Ok((sources, 0)) };
    let errno = rustix::io::Errno::from_io_error(&error);
    let why = errno.map_or_else(|| error.to_string(), |errno| errno.to_string());
    let why = why.split(" (os error").next().unwrap_or_default().to_owned();
    message!("scp: stat local \"{}\": {why}", printable(sources[at].written.as_bytes()));
    sources.truncate(at);
    Ok((sources, FATAL))
}

/// Checks that the destination is a directory. On this host it must exist; on another host it is created.
fn as_directory(mut destination: SourcePlace) -> Result<SourcePlace, Wrong> {
    if destination.host.is_none() {
        let why = match fs::metadata(&destination.written) {
            Ok(found) if found.is_dir() => return Ok(destination),
            Ok(_) => "Not a directory".to_owned(),
            Err(error) => error.to_string().split(" (os error").next().unwrap_or_default().to_owned(),
        };
        return Err(failed(format!("{}: {why}", printable(destination.written.as_bytes()))));
    }
    if !destination.path.is_empty() && !destination.path.ends_with(b"/") {
        let written = destination.written.into_vec();
        destination.written = OsString::from_vec([&written, &b"/"[..]].concat());
    }
    Ok(destination)
}

/// Groups sources that can be copied together: neighbours on the same host. A source with the same name as an
/// earlier one of its group begins a new group, so that it replaces the earlier one at the destination, as
/// with scp.
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
