//! Options that select the entries to send. The order of the options matters, because the first rule that matches
//! an entry decides.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use linerate_transfer::bounds::open_trusted;
use linerate_transfer::filter::{Builder, FilesFrom, FilterError, Reading, Rules, standard_input};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The filter options of the command line, in their order.
#[derive(Clone, Debug, Default)]
pub struct RuleArgs(Vec<(RuleOption, OsString)>);

/// An option that adds rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleOption {
    /// `--exclude`.
    Exclude,
    /// `--include`.
    Include,
    /// `--filter`.
    Filter,
    /// `--exclude-from`.
    ExcludeFrom,
    /// `--include-from`.
    IncludeFrom,
}

const RULES: [(RuleOption, &str, &str, &str); 5] = [
    (
        RuleOption::Exclude,
        "exclude",
        "PATTERN",
        "Leave out entries that match; the first rule that matches counts",
    ),
    (RuleOption::Include, "include", "PATTERN", "Don't leave out entries that match"),
    (
        RuleOption::ExcludeFrom,
        "exclude-from",
        "FILE",
        "Leave out entries that match patterns in FILE; - is standard input",
    ),
    (RuleOption::IncludeFrom, "include-from", "FILE", "Don't leave out entries that match patterns in FILE"),
    (RuleOption::Filter, "filter", "RULE", "A rule in rsync's syntax: '- *.o', 'P keep', ': .rules'"),
];

/// Rules that leave entries out.
#[derive(Debug, Args)]
pub struct Filtering {
    #[command(flatten)]
    rules: RuleArgs,
    /// Leave out files that CVS ignores
    #[arg(short = 'C', long)]
    cvs_exclude: bool,
    /// In files, end names and rules by zero bytes instead of newlines
    ///
    /// This option applies to every file of patterns, rules or names that another option reads.
    #[arg(short = '0', long)]
    from0: bool,
}

impl Filtering {
    /// The filter rules, followed by the rule `more`. With `delete_excluded`, entries that the rules exclude are
    /// deleted at the destination.
    ///
    /// # Errors
    /// If a rule is wrong, or a file can't be read.
    pub fn rules(&self, more: Option<OsString>, delete_excluded: bool) -> Result<Rules, FilterError> {
        let more = more.map(|rule| (RuleOption::Filter, rule));
        let rules: Vec<_> = self.rules.0.iter().cloned().chain(more).collect();
        build(&rules, Reading { delete_excluded, nul: self.from0 }, self.cvs_exclude)
    }
}

/// Options that select the entries to send.
#[derive(Debug, Args)]
pub struct Selecting {
    #[command(flatten)]
    filtering: Filtering,
    /// Send only the paths below SRC that FILE lists, one on each line
    ///
    /// A directory is sent without its contents, unless its line ends in a slash: then also its direct contents are
    /// sent.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["delete", "delete_excluded"])]
    files_from: Option<OsString>,
    /// Also delete entries at DST that the rules leave out
    #[arg(long, requires = "delete")]
    delete_excluded: bool,
}

impl Selecting {
    /// The filter rules, followed by `spares`, a rule that protects entries from deletion.
    ///
    /// # Errors
    /// If a rule is wrong, or a file can't be read.
    pub fn rules(&self, spares: Option<OsString>) -> Result<Rules, FilterError> {
        self.filtering.rules(spares.filter(|_| !self.delete_excluded), self.delete_excluded)
    }

    /// The list of files from `--files-from`, with paths below the single source.
    ///
    /// # Errors
    /// A message if the list can't be read, or is wrong, or if there are several sources.
    pub fn listed(&self, sources: &[OsString]) -> Result<Option<FilesFrom>, String> {
        let Some(file) = &self.files_from else { return Ok(None) };
        let listed = list(file, self.filtering.from0)?;
        if sources.len() > 1 {
            let several =
                "--files-from lists paths below one SRC, but there are several: sync them one by one";
            return Err(several.into());
        }
        Ok(Some(listed))
    }
}

/// Builds the filter rules from the options, in their order.
///
/// # Errors
/// If a rule is wrong, or a file can't be read.
pub fn build(
    rules: &[(RuleOption, OsString)],
    reading: Reading,
    cvs_exclude: bool,
) -> Result<Rules, FilterError> {
    let mut builder = Builder::new(reading);
    // Rules with the modifier `C`, also those in files, use these words.
    builder.cvs_words(&cvs_words());
    for (rule, value) in rules {
        match rule {
            RuleOption::Exclude => builder.exclude(value.as_bytes()),
            RuleOption::Include => builder.include(value.as_bytes()),
            RuleOption::Filter => builder.filter(value.as_bytes()),
            RuleOption::ExcludeFrom => builder.exclude_from(Path::new(value)),
            RuleOption::IncludeFrom => builder.include_from(Path::new(value)),
        }?;
    }
    if cvs_exclude {
        builder.cvs_exclude();
    }
    builder.build()
}

/// Reads a list of files. Its names end with zero bytes if `nul` is set, otherwise with newlines.
///
/// # Errors
/// A message if the list can't be read, or is wrong.
pub fn list(file: &OsString, nul: bool) -> Result<FilesFrom, String> {
    FilesFrom::parse(&read_list(file)?, nul).map_err(|error| error.to_string())
}

/// The text of a list of files.
///
/// # Errors
/// A message if the list can't be read.
pub fn read_list(file: &OsString) -> Result<Vec<u8>, String> {
    read(file).map_err(|error| {
        let shown = linerate_wire::path::printable(file.as_bytes());
        format!("reading the list of files {shown} failed: {error}")
    })
}

fn read(file: &OsString) -> std::io::Result<Vec<u8>> {
    if file == "-" {
        let mut text = Vec::new();
        return standard_input()?.read_to_end(&mut text).map(|_| text);
    }
    let mut text = Vec::new();
    open_trusted(Path::new(file))?.read_to_end(&mut text)?;
    Ok(text)
}

/// The ignore patterns of the user's CVS configuration.
fn cvs_words() -> Vec<u8> {
    let home =
        std::env::var_os("HOME").and_then(|home| std::fs::read(Path::new(&home).join(".cvsignore")).ok());
    let variable = std::env::var_os("CVSIGNORE").map(OsString::into_vec);
    [home.unwrap_or_default(), variable.unwrap_or_default()].join(&b' ')
}

impl FromArgMatches for RuleArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found = Vec::new();
        for (rule, id, ..) in RULES {
            let indices = matches.indices_of(id).into_iter().flatten();
            let values = matches.get_many::<OsString>(id).into_iter().flatten();
            found.extend(indices.zip(values).map(|(index, value)| (index, rule, value.clone())));
        }
        found.sort_by_key(|(index, ..)| *index);
        Ok(Self(found.into_iter().map(|(_, rule, value)| (rule, value)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for RuleArgs {
    fn augment_args(command: Command) -> Command {
        RULES.into_iter().fold(command, |command, (rule, id, value, help)| {
            let arg = Arg::new(id).long(id).value_name(value).help(help).action(ArgAction::Append);
            let arg = arg.value_parser(ValueParser::os_string()).allow_hyphen_values(true);
            command.arg(if rule == RuleOption::Filter { arg.short('f') } else { arg })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        rules: RuleArgs,
    }

    #[test]
    fn rules_keep_the_order_of_the_line() {
        let line = ["x", "--include", "a", "--exclude=*", "-f", "- b", "--include", "c"];
        let found = Line::try_parse_from(line).unwrap().rules.0;
        let kinds: Vec<RuleOption> = found.iter().map(|(rule, _)| *rule).collect();
        assert_eq!(
            kinds,
            [RuleOption::Include, RuleOption::Exclude, RuleOption::Filter, RuleOption::Include]
        );
        assert_eq!(found[3].1, "c");
    }
}
