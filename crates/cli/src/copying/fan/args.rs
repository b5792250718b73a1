//! The options for several destinations, and the options that conflict with them.

use clap::{ArgGroup, Args, ValueEnum};
use linerate_wire::path::printable;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::common::failure::Failure;
use crate::common::spec::{Spec, check_destination, check_places, listed};
use crate::copying::task::Task;

/// The largest number of destinations, which is also the largest number of logins at the same time.
const MOST_DESTINATIONS: usize = 64;

/// Options of commands that copy to several hosts.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("several").args(["to", "to_file"]).multiple(true)))]
pub struct FanArgs {
    /// Copy to this destination; all arguments SRC are then sources
    ///
    /// Give this option once for each destination. The source is read only once. Each destination succeeds or fails by
    /// itself.
    #[arg(long, value_name = "HOST:PATH", help_heading = "Several destinations")]
    to: Vec<OsString>,
    /// Copy to the destinations in FILE, one on each line
    ///
    /// Empty lines and lines that begin with # are ignored.
    #[arg(long, value_name = "FILE", help_heading = "Several destinations")]
    to_file: Option<PathBuf>,
    /// How the data gets there: star, chain, tree or auto
    ///
    /// star: this host sends to each destination. chain: this host sends to the first destination, which passes the data on to
    /// the second, and so on; the data leaves this host once. tree: like a chain, but each destination passes the data on to two
    /// others. auto: a chain for three or more destinations, otherwise a star.
    #[arg(
        long,
        value_name = "SHAPE",
        default_value = "star",
        requires = "several",
        hide_possible_values = true,
        help_heading = "Several destinations"
    )]
    fan_out: FanShape,
}

/// The route of the data to several hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FanShape {
    /// From this host to each destination
    Star,
    /// From this host to the first destination, from there to the second, and so on
    Chain,
    /// From this host to the first destination, from there to two others, and so on
    Tree,
    /// Chain for three or more destinations, otherwise star
    Auto,
}

/// The shape in which the hosts forward the data to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandingOn {
    /// Each host forwards the data to one host.
    Chain,
    /// Each host forwards the data to two hosts.
    Tree,
}

impl HandingOn {
    /// The shape's name in messages and in `--fan-out`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Tree => "tree",
        }
    }

    /// The largest number of hosts to which one host forwards the data.
    pub fn branches(self) -> usize {
        match self {
            Self::Chain => 1,
            Self::Tree => 2,
        }
    }
}

/// Several destinations, and how the data gets to them.
#[derive(Debug, PartialEq, Eq)]
pub struct FanPlaces {
    /// The destinations as the user wrote them.
    pub places: Vec<OsString>,
    /// The shape in which the data is sent.
    pub shape: FanShape,
}

impl FanPlaces {
    /// The shape in which the hosts forward the data to each other; `None` for a star, in which this host
    /// sends the data to all destinations. With `auto`, two destinations get a star: it sends the data over this
    /// host's link twice, but a chain would move the data over the first destination's link twice. With three or
    /// more destinations, a star would use this host's link more often than a chain uses any link.
    pub fn handing_on(&self) -> Option<HandingOn> {
        match self.shape {
            FanShape::Star => None,
            FanShape::Auto => (self.places.len() > 2).then_some(HandingOn::Chain),
            FanShape::Chain => Some(HandingOn::Chain),
            FanShape::Tree => Some(HandingOn::Tree),
        }
    }
}

/// The destinations of a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Destinations {
    /// A single destination.
    One(OsString),
    /// Several destinations on other hosts.
    Several(FanPlaces),
}

impl Destinations {
    /// The only destination, or the first of several; in the latter case also all of them.
    pub fn split(self) -> (OsString, Option<FanPlaces>) {
        match self {
            Self::One(place) => (place, None),
            Self::Several(to) => (to.places.first().cloned().unwrap_or_default(), Some(to)),
        }
    }
}

impl FanArgs {
    /// A command's sources and destinations for a log, even if they aren't valid. The destinations in a file
    /// are represented by the file's name.
    pub fn named(&self, places: &[OsString]) -> (Vec<OsString>, Vec<OsString>) {
        let mut sources = places.to_vec();
        let mut to = self.to.clone();
        to.extend(self.to_file.iter().map(|file| file.clone().into_os_string()));
        if to.is_empty() && sources.len() > 1 {
            to.extend(sources.pop());
        }
        (sources, to)
    }

    /// Separates a command's arguments into sources and destinations.
    ///
    /// # Errors
    /// If the sources or the destinations are missing or empty, or a file of destinations can't be read.
    pub fn divide(&self, mut places: Vec<OsString>) -> Result<(Vec<OsString>, Destinations), Failure> {
        check_places(places.iter().chain(&self.to)).map_err(Failure::usage)?;
        let mut to = self.to.clone();
        if let Some(file) = &self.to_file {
            to.extend(read(file)?);
        }
        if self.to.is_empty() && self.to_file.is_none() {
            return match places.pop() {
                Some(last) if !places.is_empty() => {
                    check_destination(&last).map_err(Failure::usage)?;
                    Ok((places, Destinations::One(last)))
                }
                _ => Err(Failure::usage("SRC or DST is missing: name both, or DST by --to".into())),
            };
        }
        check_sources(&places)?;
        if to.is_empty() {
            return Err(Failure::usage("--to-file names no destination".into()));
        }
        check_destinations(&to)?;
        let one = (to.len() == 1).then(|| to.pop()).flatten();
        let several = FanPlaces { places: to, shape: self.fan_out };
        Ok((places, one.map_or(Destinations::Several(several), Destinations::One)))
    }
}

/// Returns an error for options of a task that only work with a single destination.
///
/// # Errors
/// The message names the option, and what to do instead.
pub fn check(task: &Task, to: &FanPlaces, has_metrics: bool) -> Result<(), Failure> {
    let refused = |option: &str, instead: &str| {
        Err(Failure::usage(format!("{option} is for a single destination, but there are several: {instead}")))
    };
    match task {
        _ if task.manifest.is_some() => refused(
            "--manifest",
            "copy to one destination with this option; --verify checks the copy at each",
        ),
        _ if task.options.remove_sources => {
            refused("--remove-source-files", "remove the sources yourself when all destinations have them")
        }
        _ if has_metrics => refused("--metrics", "use --json, or run a command for each"),
        _ => check_shape(task, to),
    }
}

fn check_shape(task: &Task, to: &FanPlaces) -> Result<(), Failure> {
    let shape = to.handing_on().filter(|_| task.options.sync.is_some() && to.shape != FanShape::Auto);
    let refused = |shape: HandingOn| {
        let name = shape.name();
        format!(
            "--fan-out={name} is only for cp, because sync sends different data to each destination: leave the option out"
        )
    };
    shape.map_or(Ok(()), |shape| Err(Failure::usage(refused(shape))))
}

fn read(file: &Path) -> Result<Vec<OsString>, Failure> {
    let shown = || printable(file.as_os_str().as_bytes());
    listed(file).map_err(|error| Failure::usage(format!("--to-file {} can't be read: {error}", shown())))
}

fn check_sources(places: &[OsString]) -> Result<(), Failure> {
    let far = places.iter().find(|place| matches!(Spec::parse(place), Spec::Remote(..)));
    let message = match far {
        None if places.is_empty() => "SRC is missing".into(),
        None => return Ok(()),
        Some(place) => {
            let place = shown(place);
            format!(
                "{place} counts as a source, because --to names the destinations, but with --to the sources must be on this host: write --to {place} if it is a destination; to copy from another host, name one destination at a time"
            )
        }
    };
    Err(Failure::usage(message))
}

fn check_destinations(to: &[OsString]) -> Result<(), Failure> {
    let mut met = HashSet::new();
    for place in to {
        let message = match Spec::parse(place) {
            Spec::Local(_) => {
                format!(
                    "--to {} is on this host: write HOST:PATH, or copy there with a separate command",
                    shown(place)
                )
            }
            Spec::Remote(..) if !met.insert(place) => format!("--to {} is named twice", shown(place)),
            Spec::Remote(..) => continue,
        };
        return Err(Failure::usage(message));
    }
    if to.len() > MOST_DESTINATIONS {
        let message =
            format!("{} destinations are too many: copy to at most {MOST_DESTINATIONS} at a time", to.len());
        return Err(Failure::usage(message));
    }
    Ok(())
}

fn shown(place: &OsStr) -> String {
    printable(place.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn fan(to: &[&str]) -> FanArgs {
        FanArgs { to: to.iter().map(OsString::from).collect(), to_file: None, fan_out: FanShape::Star }
    }

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn refusal(fan: &FanArgs, places: &[&str]) -> String {
        fan.divide(words(places)).unwrap_err().0
    }

    #[test]
    fn without_to_the_last_argument_is_the_destination() {
        let one = fan(&[]).divide(words(&["a", "b", "h:c"])).unwrap();
        assert_eq!(one, (words(&["a", "b"]), Destinations::One("h:c".into())));
        assert!(refusal(&fan(&[]), &["a"]).contains("DST"));
    }

    #[test]
    fn with_to_all_arguments_are_sources() {
        let several = fan(&["g:", "h:x"]).divide(words(&["a", "b"])).unwrap();
        let places = |words| Destinations::Several(FanPlaces { places: words, shape: FanShape::Star });
        assert_eq!(several, (words(&["a", "b"]), places(words(&["g:", "h:x"]))));
        let one = fan(&["h:x"]).divide(words(&["a"])).unwrap();
        assert_eq!(one.1, Destinations::One("h:x".into()));
    }

    #[test]
    fn what_can_not_be_a_source_or_a_destination_is_refused_by_name() {
        assert!(refusal(&fan(&["g:"]), &["a", "h:b"]).contains("write --to h:b"));
        assert!(refusal(&fan(&["g:"]), &[]).contains("SRC is missing"));
        assert!(refusal(&fan(&["g:", "/mnt"]), &["a"]).contains("--to /mnt is on this host"));
        assert!(refusal(&fan(&["g:", "h:", "g:"]), &["a"]).contains("g: is named twice"));
    }

    #[test]
    fn a_file_names_destinations_and_has_comments() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"# all of them\n\ng:d\n  h:d \n").unwrap();
        let mut args = fan(&["f:d"]);
        args.to_file = Some(file.path().to_owned());
        let (_, destinations) = args.divide(words(&["a"])).unwrap();
        let places = words(&["f:d", "g:d", "h:d"]);
        assert_eq!(destinations, Destinations::Several(FanPlaces { places, shape: FanShape::Star }));
        args.to_file = Some("/not/there".into());
        assert!(refusal(&args, &["a"]).contains("/not/there can't be read"));
    }

    #[test]
    fn a_chain_has_three_places_unless_the_user_wants_it_of_two() {
        let shape = |shape, places: &[&str]| FanPlaces { places: words(places), shape }.handing_on();
        assert_eq!(shape(FanShape::Auto, &["g:", "h:"]), None);
        assert_eq!(shape(FanShape::Auto, &["f:", "g:", "h:"]), Some(HandingOn::Chain));
        assert_eq!(shape(FanShape::Chain, &["g:", "h:"]), Some(HandingOn::Chain));
        assert_eq!(shape(FanShape::Tree, &["g:", "h:"]), Some(HandingOn::Tree));
        assert_eq!(shape(FanShape::Star, &["f:", "g:", "h:"]), None);
    }
}
