//! rsync's command line. Its words are read with the table of rsync's options.

use linerate_remote::agent_command::AgentCommand;
use linerate_wire::control::{Appending, Backup, BlockSearch, Keep, ModeRule, Sync};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::SystemTime;

use super::checked::{self, Checked};
use super::compress::CompressWords;
use super::details::{self, DetailWishes};
use super::far_words;
use super::info::{DEBUG_HELP, InfoLevels};
use super::table::{Does, OPTIONS, RsyncOption};
use crate::common::spec::Spec;
use crate::sync::selecting::RuleOption;

/// The time at which entries that the source lacks are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeleteTime {
    /// Before the first file is sent.
    Before,
    /// During the transfer: when the transfer reaches the directory of an entry, or after it has handled that
    /// directory.
    During,
    /// Once all files are sent.
    After,
}

/// The settings of an rsync command line.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub recursive: bool,
    /// Whether `recursive` was set by `-r` itself, and not only by `-a`.
    pub recursion_named: bool,
    /// Whether directories are sent without their contents, unless recursion is on. `None` means that they are sent
    /// only if a list of files is given, or entries are only listed.
    pub dirs: Option<bool>,
    /// Whether `dirs` was set by `--old-dirs`, which is recursion with a rule against everything deeper.
    pub old_dirs: bool,
    /// Whether directories are sent without their contents, except a source's own entries.
    pub shallow: bool,
    /// Whether entries are only listed, not copied. The destination is then optional.
    pub list: bool,
    /// Whether the permissions to execute are kept; without effect if all permissions are kept.
    pub executability: bool,
    pub links: bool,
    pub keep: Keep,
    pub details: DetailWishes,
    pub checked: Checked,
    pub sync: Sync,
    pub safe_links: bool,
    pub one_file_system: bool,
    /// Whether sources keep their whole paths at the destination, not only their last names.
    pub relative: Option<bool>,
    pub no_implied: bool,
    pub insecure_links: bool,
    pub prune_empty: bool,
    pub copy_links: bool,
    pub copy_dirlinks: bool,
    pub copy_unsafe_links: bool,
    pub remove_sources: bool,
    /// Whether sources that don't exist are ignored.
    pub ignore_missing: bool,
    /// Whether missing directories above the destination are created.
    pub makes_path: bool,
    pub modes: Vec<ModeRule>,
    pub backup: bool,
    pub suffix: Option<Vec<u8>>,
    pub backup_dir: Option<Vec<u8>>,
    /// The option for ssh that selects IPv4 or IPv6.
    pub family: Option<&'static str>,
    pub rules: Vec<(RuleOption, OsString)>,
    pub cvs_exclude: bool,
    pub delete_excluded: bool,
    /// The number of times that `-F` was given.
    pub per_directory: u8,
    pub files_from: Option<OsString>,
    pub from0: bool,
    pub rsh: Option<OsString>,
    /// The command that starts the far end, from `--rsync-path`.
    pub agent: Option<AgentCommand>,
    pub compress: CompressWords,
    pub bwlimit: Option<u64>,
    pub timeout: u32,
    pub whole: Option<bool>,
    pub verbose: u8,
    pub quiet: bool,
    /// The number of times that `-i` was given.
    pub itemize: u8,
    pub out_format: Option<OsString>,
    pub stop_at: Option<SystemTime>,
    pub log_file: Option<OsString>,
    pub log_format: Option<OsString>,
    pub stats: bool,
    pub progress: bool,
    pub info: InfoLevels,
    /// Whether rsync would read the whole list of files before it sends any. rsync then prints a different
    /// first line.
    pub whole_list: bool,
    /// The times of deletion that options name; rsync refuses several.
    pub delete_times: BTreeSet<DeleteTime>,
    pub human: u8,
    pub help: bool,
    /// The text that `help` as an option's value prints.
    pub words_help: Option<&'static str>,
    /// Whether the text after `HOST:` is split into words, as a far shell would do. `None` means that the environment
    /// variable RSYNC_OLD_ARGS decides.
    pub old_args: Option<bool>,
    /// Whether rsync would send its arguments past the far shell, as linerate always does.
    pub secluded: bool,
    /// Whether `-8` was given: bytes that aren't characters are printed unchanged.
    pub eight_bit: bool,
    /// The number of times that `--version` was given.
    pub version: u8,
    /// Sources, followed by the destination.
    pub paths: Vec<OsString>,
}

impl Line {
    /// The settings of a line without options: rsync's defaults, and the values of environment variables.
    fn before_words() -> Self {
        Self {
            keep: Keep::NOTHING,
            sync: Sync { into: true, window: Some(0), ..Sync::default() },
            rsh: std::env::var_os("RSYNC_RSH").filter(|rsh| !rsh.is_empty()),
            human: 1,
            ..Self::default()
        }
    }

    /// Reads the words as popt(3) does: options may follow paths, `--` ends the options, and short options may be
    /// joined.
    ///
    /// # Errors
    /// A message that names the first option that isn't supported, and the reason.
    pub fn parse(words: &[OsString]) -> Result<Self, String> {
        let (mut line, given, mut words) = (Self::before_words(), words.len(), words.iter());
        if let Some(charsets) = std::env::var("RSYNC_ICONV").ok().filter(|charsets| !charsets.is_empty()) {
            details::iconv(&mut line, &charsets).map_err(|why| format!("RSYNC_ICONV: {why}"))?;
        }
        while let Some(word) = words.next() {
            let bytes = word.as_bytes();
            match bytes {
                b"--" => line.paths.extend(words.by_ref().cloned()),
                [b'-', b'-', long @ ..] => line.long(long, &mut words)?,
                [b'-', short @ ..] if !short.is_empty() => line.short(short, &mut words)?,
                _ => line.paths.push(word.clone()),
            }
        }
        // -h is a request for help if it is alone.
        line.help |= given == 1 && line.human > 1;
        if line.help { Ok(line) } else { line.settle() }
    }

    /// Stores that entries are deleted, at this time.
    pub fn delete(&mut self, time: DeleteTime) {
        self.sync.delete = true;
        self.whole_list |= time != DeleteTime::During;
        self.delete_times.insert(time);
    }

    /// Whether entries are deleted before the first file is sent.
    pub fn deletes_before(&self) -> bool {
        self.sync.delete && self.delete_times.contains(&DeleteTime::Before)
    }

    /// Reads `--dirs`, `--no-dirs` or `--old-dirs`, of which the last one counts.
    pub fn send_directories(&mut self, on: bool, in_the_old_way: bool) {
        (self.dirs, self.old_dirs) = (Some(on), in_the_old_way);
    }

    fn long<'a>(
        &mut self,
        text: &[u8],
        words: &mut impl Iterator<Item = &'a OsString>,
    ) -> Result<(), String> {
        let (name, value) = match text.iter().position(|&byte| byte == b'=') {
            Some(at) => (&text[..at], Some(OsString::from_vec(text[at + 1..].to_vec()))),
            None => (text, None),
        };
        let name = String::from_utf8_lossy(name).into_owned();
        let shown = format!("--{name}");
        let Some((option, on)) = RsyncOption::of(&name) else { return Err(unknown(&shown)) };
        if value.is_some() && (!on || !option.takes_value()) {
            return Err(if on {
                format!("{shown}: option does not take an argument")
            } else {
                unknown(&shown)
            });
        }
        if !on {
            return option.off.map(|off| off(self)).ok_or_else(|| unknown(&shown));
        }
        let value = if option.takes_value() { value.or_else(|| words.next().cloned()) } else { None };
        self.apply(option, &shown, value)
    }

    fn short<'a>(
        &mut self,
        mut text: &[u8],
        words: &mut impl Iterator<Item = &'a OsString>,
    ) -> Result<(), String> {
        while let [letter, rest @ ..] = text {
            let shown = format!("-{}", char::from(*letter));
            let option = OPTIONS.iter().find(|option| option.short == Some(char::from(*letter)));
            let option = option.ok_or_else(|| unknown(&shown))?;
            if option.takes_value() {
                let rest = rest.strip_prefix(b"=").unwrap_or(rest);
                let attached = (!rest.is_empty()).then(|| OsString::from_vec(rest.to_vec()));
                let value = attached.or_else(|| words.next().cloned());
                return self.apply(option, &shown, value);
            }
            self.apply(option, &shown, None)?;
            text = rest;
        }
        Ok(())
    }

    fn apply(&mut self, option: &RsyncOption, shown: &str, value: Option<OsString>) -> Result<(), String> {
        let missing = || format!("{shown} needs a value");
        // RSYNC_PARTIAL_DIR is also read if one of these options is given.
        self.details.placing.partial |= matches!(shown, "-P" | "--partial");
        match option.does {
            Does::Flag(set) => set(self),
            Does::Value(set) => {
                let value = value.ok_or_else(missing)?;
                set(self, &value).map_err(|why| format!("{shown} {}: {why}", printable(&value)))?;
            }
            Does::Always(_) => {}
            Does::AlwaysOf(_) => {
                let value = value.ok_or_else(missing)?;
                if shown == "--debug" && value.eq_ignore_ascii_case("help") {
                    self.words_help = Some(DEBUG_HELP);
                }
                if shown == "--debug" {
                    checked::debug_words(&value)?;
                    self.details.placing.debug(&value);
                    self.checked.debug(&value);
                }
            }
            Does::Refused(why) | Does::RefusedOf(why) => {
                return Err(format!("{shown} is not supported by linerate rsync: {why}"));
            }
        }
        Ok(())
    }

    /// Whether the first source is on another host.
    pub fn pulls(&self) -> bool {
        self.paths.first().is_some_and(|source| matches!(Spec::parse(source), Spec::Remote(..)))
    }

    /// The sources, without the destination.
    pub fn sources(&self) -> &[OsString] {
        match self.paths.split_last() {
            Some((_, [])) if self.list => &self.paths,
            Some((_, sources)) => sources,
            None => &[],
        }
    }

    /// Applies the effects that options have on each other, once all options are read.
    fn settle(mut self) -> Result<Self, String> {
        self.name_hosts();
        self.settle_words()?;
        if self.files_from.is_some() && self.paths.len() == 1 {
            return Err("--files-from needs SRC and DST; to list the files, add --list-only".into());
        }
        self.list |= self.paths.len() == 1;
        if self.old_dirs {
            (self.recursive, self.recursion_named) = (true, true);
            self.rules.push((RuleOption::Filter, "- /*/*".into()));
        }
        self.shallow = self.sends_directories() && !self.recursive && self.files_from.is_none();
        self.details.executability = self.executability;
        self.details.dig_holes = self.keep.sparse;
        self.settle_deletion()?;
        if self.details.placing.append != Appending::Never {
            if self.whole == Some(true) {
                return Err("--append cannot be used with --whole-file".into());
            }
            self.sync.inplace = true;
        }
        self.settle_backup()?;
        self.details.placing.settle(self.sync.inplace)?;
        self.sync.itemize = true;
        self.sync.whole = self.whole.unwrap_or(false);
        self.sync.search = match self.whole {
            None => BlockSearch::Measured,
            Some(true) => BlockSearch::SamePlaces,
            Some(false) => BlockSearch::Everywhere,
        };
        self.keep.special_bits = self.keep.perms;
        Ok(self)
    }
}

impl Line {
    /// Splits the paths as a far shell would, if the user wants that.
    fn settle_words(&mut self) -> Result<(), String> {
        if self.secluded && self.old_args == Some(true) {
            return Err("--secluded-args conflicts with --old-args.".into());
        }
        let by_environment = || {
            !self.secluded && std::env::var("RSYNC_OLD_ARGS").is_ok_and(|value| !matches!(&*value, "" | "0"))
        };
        if !self.old_args.unwrap_or_else(by_environment) {
            self.paths.iter_mut().for_each(|path| *path = with_far_path(path, far_words::protected));
            return Ok(());
        }
        let destination = if self.paths.len() > 1 { self.paths.pop() } else { None };
        let sources = self.paths.iter().map(split_far).collect::<Result<Vec<_>, _>>()?;
        self.paths = sources.concat();
        // If the destination consists of several words, rsync takes only the first one.
        self.paths
            .extend(destination.map(|path| split_far(&path)).transpose()?.into_iter().flatten().take(1));
        Ok(())
    }

    /// Whether directories are sent, with or without their contents.
    fn sends_directories(&self) -> bool {
        self.recursive || self.dirs.unwrap_or(self.list || self.files_from.is_some())
    }

    fn settle_deletion(&mut self) -> Result<(), String> {
        self.sync.delete |= self.delete_excluded;
        if self.delete_times.len() > 1 {
            return Err("You may not combine multiple --delete-WHEN options.".into());
        }
        if self.sync.delete && !self.sends_directories() {
            return Err("--delete does not work without --recursive (-r) or --dirs (-d).".into());
        }
        if !self.sync.delete {
            self.sync.max_delete = None;
        }
        Ok(())
    }

    /// Adds the host of the preceding source to each source of the form `:PATH`.
    fn name_hosts(&mut self) {
        let mut host: Option<Vec<u8>> = None;
        for path in &mut self.paths {
            if let (Some(host), [b':', rest @ ..]) = (&host, path.as_bytes())
                && !rest.starts_with(b":")
            {
                *path = OsString::from_vec([host.as_slice(), path.as_bytes()].concat());
            }
            host = match Spec::parse(path) {
                Spec::Remote(host, _) => Some(host.as_bytes().to_vec()),
                Spec::Local(_) => None,
            };
        }
    }

    fn settle_backup(&mut self) -> Result<(), String> {
        match self.suffix.as_deref() {
            Some(suffix) if suffix.contains(&b'/') => {
                return Err(format!(
                    "--suffix cannot contain slashes: {}",
                    printable(OsStr::from_bytes(suffix))
                ));
            }
            Some([]) if self.backup_dir.is_none() => {
                return Err("--suffix cannot be empty without a --backup-dir".into());
            }
            _ => {}
        }
        if !self.backup && self.backup_dir.is_none() {
            return Ok(());
        }
        let usual: &[u8] = if self.backup_dir.is_some() { b"" } else { b"~" };
        let suffix = self.suffix.take().unwrap_or_else(|| usual.to_vec());
        if self.backup_dir.is_none() && self.sync.delete && !self.delete_excluded {
            let rule = [b"P *", suffix.as_slice()].concat();
            self.rules.push((RuleOption::Filter, OsString::from_vec(rule)));
        }
        // Creating a backup in a directory changes the directory's times.
        self.keep.omit_dir_times |= self.backup_dir.is_none();
        self.sync.backup = Some(Backup { directory: self.backup_dir.take(), suffix });
        Ok(())
    }
}

/// The paths into which a far shell would split a path on another host.
fn split_far(path: &OsString) -> Result<Vec<OsString>, String> {
    let Spec::Remote(host, words) = Spec::parse(path) else { return Ok(vec![path.clone()]) };
    let words =
        far_words::split(&words).map_err(|why| format!("--old-args: '{}': {why}", printable(path)))?;
    Ok(words.iter().map(|word| far(&host, word)).collect())
}

/// `path`, with the path on another host replaced.
fn with_far_path(path: &OsString, replaced: fn(&[u8]) -> Vec<u8>) -> OsString {
    match Spec::parse(path) {
        Spec::Remote(host, there) => far(&host, &replaced(&there)),
        Spec::Local(_) => path.clone(),
    }
}

fn far(host: &OsStr, path: &[u8]) -> OsString {
    OsString::from_vec([host.as_bytes(), b":", path].concat())
}

fn unknown(shown: &str) -> String {
    format!("{shown}: unknown option")
}

fn printable(value: &OsStr) -> String {
    linerate_wire::path::printable(value.as_bytes())
}
