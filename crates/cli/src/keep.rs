//! Which metadata of entries are kept: rsync's `--archive` and its parts, for all commands that copy trees.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use linerate_wire::control::Keep;

/// The value that keeps everything that can be kept.
pub const ARCHIVE: Keep = Keep {
    perms: true,
    times: true,
    owner: true,
    group: true,
    numeric_ids: false,
    hard_links: true,
    devices: true,
    specials: true,
    xattrs: true,
    acls: true,
    special_bits: true,
    sparse: true,
    omit_dir_times: false,
    omit_link_times: false,
};

/// A part of the metadata that can be kept, with its option.
struct KeepPart {
    name: &'static str,
    without: &'static str,
    help: &'static str,
    /// The help text for commands that compare trees; `None` if they don't compare this part.
    compared: Option<&'static str>,
    set: fn(&mut Keep, bool),
}

const PARTS: [KeepPart; 11] = [
    KeepPart {
        name: "perms",
        without: "no-perms",
        help: "Keep permission bits, with setuid, setgid and sticky",
        compared: Some("Modes, with setuid, setgid and sticky"),
        set: |keep, on| {
            (keep.perms, keep.special_bits) = (on, on);
            // An ACL contains the permission bits too, so ACLs aren't kept without them.
            keep.acls &= on;
        },
    },
    KeepPart {
        name: "times",
        without: "no-times",
        help: "Keep times, to the nanosecond",
        compared: Some("Times of modification, to the nanosecond"),
        set: |keep, on| keep.times = on,
    },
    KeepPart {
        name: "owner",
        without: "no-owner",
        help: "Keep owners (only as root), by name if both hosts know the name",
        compared: Some("Owners, equal by name or by number"),
        set: |keep, on| keep.owner = on,
    },
    KeepPart {
        name: "group",
        without: "no-group",
        help: "Keep groups, by name if possible; without root, only the user's groups",
        compared: Some("Groups, equal by name or by number"),
        set: |keep, on| keep.group = on,
    },
    KeepPart {
        name: "numeric-ids",
        without: "no-numeric-ids",
        help: "Keep owners and groups by number, ignoring their names",
        compared: Some("Owners and groups only by number"),
        set: |keep, on| keep.numeric_ids = on,
    },
    KeepPart {
        name: "hard-links",
        without: "no-hard-links",
        help: "Keep hard links, also between sources",
        compared: Some("Hard links: the names that belong to one file"),
        set: |keep, on| keep.hard_links = on,
    },
    KeepPart {
        name: "devices",
        without: "no-devices",
        help: "Copy device nodes (only as root)",
        compared: None,
        set: |keep, on| keep.devices = on,
    },
    KeepPart {
        name: "specials",
        without: "no-specials",
        help: "Copy fifos and sockets",
        compared: None,
        set: |keep, on| keep.specials = on,
    },
    KeepPart {
        name: "xattrs",
        without: "no-xattrs",
        help: "Keep extended attributes; without root, only those in 'user.'",
        compared: Some("Extended attributes; those outside 'user.' only if both ends are root"),
        set: |keep, on| keep.xattrs = on,
    },
    KeepPart {
        name: "acls",
        without: "no-acls",
        help: "Keep POSIX ACLs, also default ones, and thus the permission bits",
        compared: Some("POSIX ACLs, also default ones, and modes"),
        set: |keep, on| {
            keep.acls = on;
            if on {
                (keep.perms, keep.special_bits) = (true, true);
            }
        },
    },
    KeepPart {
        name: "sparse",
        without: "no-sparse",
        help: "Keep holes in files",
        compared: None,
        set: |keep, on| keep.sparse = on,
    },
];

/// The options on the command line about metadata.
#[derive(Clone, Debug, Default)]
pub struct KeepArgs {
    /// True if `--archive` is given.
    pub archive: bool,
    /// For each part, in the order of [`PARTS`]: whether the user wants it kept; `None` if the user didn't
    /// name it.
    named: [Option<bool>; PARTS.len()],
}

impl KeepArgs {
    /// The metadata to keep, for a command that keeps `usual` without options.
    pub fn keep(&self, usual: Keep) -> Keep {
        let mut keep = if self.archive { ARCHIVE } else { usual };
        for (part, on) in PARTS.iter().zip(self.named) {
            if let Some(on) = on {
                (part.set)(&mut keep, on);
            }
        }
        keep
    }
}

/// The options of [`KeepArgs`] for commands that compare trees.
#[derive(Clone, Debug, Default)]
pub struct AspectArgs(pub KeepArgs);

impl Args for KeepArgs {
    fn augment_args(command: Command) -> Command {
        let heading = "Metadata to keep (each option has a --no- form, which turns it off)";
        let everything = "Everything: -r and all below except --numeric-ids, like rsync's -aHAXS";
        let links = flag("links", heading).hide(true).help("Symbolic links are always copied as links");
        add(command.arg(links), heading, everything, |part| Some(part.help))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl Args for AspectArgs {
    fn augment_args(command: Command) -> Command {
        let heading = "Metadata to compare, in addition to kinds and contents (each option has a --no- form)";
        add(command, heading, "Everything: all below except --numeric-ids", |part| part.compared)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn flag(name: &'static str, heading: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help_heading(heading)
}

/// Adds the options to a command: `--archive`, and the parts that have a help text.
fn add(
    command: Command,
    heading: &'static str,
    everything: &'static str,
    help: fn(&KeepPart) -> Option<&'static str>,
) -> Command {
    let command = command.arg(flag("archive", heading).short('a').help(everything));
    let parts = PARTS.iter().filter_map(|part| Some((part, help(part)?)));
    parts.fold(command, |command, (part, help)| {
        let with = flag(part.name, heading).help(help).overrides_with(part.without);
        command.arg(with).arg(flag(part.without, heading).hide(true).overrides_with(part.name))
    })
}

impl FromArgMatches for KeepArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        // A command may not have all parts, so a missing option counts as not set.
        let is_set = |name| matches.try_get_one::<bool>(name).ok().flatten().is_some_and(|set| *set);
        let named = PARTS.each_ref().map(|part| match (is_set(part.name), part.without) {
            (true, _) => Some(true),
            (false, without) => is_set(without).then_some(false),
        });
        Ok(Self { archive: matches.get_flag("archive"), named })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl FromArgMatches for AspectArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        KeepArgs::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(line: &str, usual: Keep) -> Keep {
        let command = KeepArgs::augment_args(Command::new("x"));
        let matches = command.try_get_matches_from(format!("x {line}").split_whitespace()).unwrap();
        KeepArgs::from_arg_matches(&matches).unwrap().keep(usual)
    }

    #[test]
    fn an_archive_is_the_sum_of_its_parts() {
        let all = PARTS.iter().filter(|part| part.name != "numeric-ids");
        let all: String = all.map(|part| format!("--{} ", part.name)).collect();
        assert_eq!(keep(&all, Keep::NOTHING), ARCHIVE);
        assert_eq!(keep("-a", Keep::NOTHING), ARCHIVE);
        assert_eq!(keep("--links", Keep::SCP), Keep::SCP);
    }

    #[test]
    fn parts_are_added_and_taken_off_and_the_last_word_counts() {
        assert_eq!(keep("-a --no-owner", Keep::NOTHING), Keep { owner: false, ..ARCHIVE });
        assert_eq!(keep("--no-owner --owner -a", Keep::NOTHING), ARCHIVE);
        let modeless = Keep { perms: false, special_bits: false, acls: false, ..ARCHIVE };
        assert_eq!(keep("--no-perms", ARCHIVE), modeless);
        let acls = Keep { perms: true, special_bits: true, acls: true, ..Keep::NOTHING };
        assert_eq!(keep("--acls", Keep::NOTHING), acls);
        assert_eq!(keep("--numeric-ids", ARCHIVE), Keep { numeric_ids: true, ..ARCHIVE });
    }
}
