//! rsync's command line: its words, by the table of its options.

use linerate_wire::control::{Backup, Keep, ModeRule, Sync};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::table::{Does, OPTIONS, RsyncOption};
use crate::sync::selecting::RuleOption;

/// What an rsync command line asks for.
#[derive(Clone, Debug)]
pub struct Line {
    pub recursive: bool,
    /// By `-r` itself, not by `-a`.
    pub recursion_named: bool,
    /// Directories without what is in them, unless they come whole.
    pub dirs: bool,
    /// Of the permissions those to execute, unless all are kept.
    pub executability: bool,
    pub links: bool,
    pub keep: Keep,
    pub sync: Sync,
    pub safe_links: bool,
    pub one_file_system: bool,
    /// Sources keep their paths, not only their names.
    pub relative: Option<bool>,
    pub no_implied: bool,
    pub prune_empty: bool,
    pub copy_links: bool,
    pub copy_dirlinks: bool,
    pub copy_unsafe_links: bool,
    pub remove_sources: bool,
    /// Sources of this host that aren't there are passed over.
    pub ignore_missing: bool,
    /// Directories above the destination are made.
    pub makes_path: bool,
    pub modes: Vec<ModeRule>,
    pub backup: bool,
    pub suffix: Option<Vec<u8>>,
    pub backup_dir: Option<Vec<u8>>,
    /// An option of ssh by which addresses it looks for the host.
    pub family: Option<&'static str>,
    pub rules: Vec<(RuleOption, OsString)>,
    pub cvs_exclude: bool,
    pub delete_excluded: bool,
    /// How often `-F` was named.
    pub per_directory: u8,
    pub files_from: Option<OsString>,
    pub from0: bool,
    pub rsh: Option<OsString>,
    pub bwlimit: Option<u64>,
    pub timeout: u32,
    pub whole: Option<bool>,
    pub verbose: u8,
    pub quiet: bool,
    pub itemize: bool,
    pub out_format: Option<OsString>,
    pub stats: bool,
    pub progress: bool,
    pub human: u8,
    pub help: bool,
    pub version: bool,
    /// Sources, and behind them the destination.
    pub paths: Vec<OsString>,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            recursive: false,
            recursion_named: false,
            dirs: false,
            executability: false,
            links: false,
            keep: Keep::NOTHING,
            sync: Sync { into: true, window: Some(0), ..Sync::default() },
            safe_links: false,
            one_file_system: false,
            relative: None,
            no_implied: false,
            prune_empty: false,
            copy_links: false,
            copy_dirlinks: false,
            copy_unsafe_links: false,
            remove_sources: false,
            ignore_missing: false,
            makes_path: false,
            modes: Vec::new(),
            backup: false,
            suffix: None,
            backup_dir: None,
            family: None,
            rules: Vec::new(),
            cvs_exclude: false,
            delete_excluded: false,
            per_directory: 0,
            files_from: None,
            from0: false,
            rsh: std::env::var_os("RSYNC_RSH").filter(|rsh| !rsh.is_empty()),
            bwlimit: None,
            timeout: 0,
            whole: None,
            verbose: 0,
            quiet: false,
            itemize: false,
            out_format: None,
            stats: false,
            progress: false,
            human: 1,
            help: false,
            version: false,
            paths: Vec::new(),
        }
    }
}

impl Line {
    /// Reads the words as popt(3) does: options may stand behind paths, `--` ends them, short ones may stand together.
    ///
    /// # Errors
    /// A message that names the first option that can't be served, and why.
    pub fn parse(words: &[OsString]) -> Result<Self, String> {
        let (mut line, mut words) = (Self::default(), words.iter());
        while let Some(word) = words.next() {
            let bytes = word.as_bytes();
            match bytes {
                b"--" => line.paths.extend(words.by_ref().cloned()),
                [b'-', b'-', long @ ..] => line.long(long, &mut words)?,
                [b'-', short @ ..] if !short.is_empty() => line.short(short, &mut words)?,
                _ => line.paths.push(word.clone()),
            }
        }
        line.settle()
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
        match option.does {
            Does::Flag(set) => set(self),
            Does::Value(set) => {
                let value = value.ok_or_else(missing)?;
                set(self, &value).map_err(|why| format!("{shown} {}: {why}", printable(&value)))?;
            }
            Does::Always(_) => {}
            Does::AlwaysOf(_) => drop(value.ok_or_else(missing)?),
            Does::Refused(why) | Does::RefusedOf(why) => {
                return Err(format!("{shown} is not supported by linerate rsync: {why}"));
            }
        }
        Ok(())
    }

    /// What options come to together.
    fn settle(mut self) -> Result<Self, String> {
        if self.files_from.is_some() && self.relative == Some(false) {
            return Err("--files-from with --no-relative is not supported by linerate rsync".into());
        }
        if self.dirs && !self.recursive {
            return Err(
                "-d without -r is not supported by linerate rsync: use 'linerate sync --files-from'".into()
            );
        }
        if self.executability && !self.keep.perms {
            return Err("-E without -p is not supported by linerate rsync: -p keeps all permissions".into());
        }
        if self.delete_excluded {
            self.sync.delete = true;
        }
        if self.sync.delete && !self.recursive {
            return Err("--delete does not work without --recursive (-r)".into());
        }
        if self.sync.max_delete.is_some() && !self.sync.delete {
            self.sync.max_delete = None;
        }
        self.settle_backup()?;
        self.sync.itemize = true;
        self.sync.whole = self.whole.unwrap_or(false);
        self.keep.special_bits = self.keep.perms;
        Ok(self)
    }
}

impl Line {
    fn settle_backup(&mut self) -> Result<(), String> {
        if !self.backup && self.backup_dir.is_none() {
            return Ok(());
        }
        if self.sync.inplace {
            return Err("--backup with --inplace is not supported by linerate rsync: what is written into has no copy".into());
        }
        let usual: &[u8] = if self.backup_dir.is_some() { b"" } else { b"~" };
        let suffix = self.suffix.take().unwrap_or_else(|| usual.to_vec());
        if self.backup_dir.is_none() && self.sync.delete && !self.delete_excluded {
            let rule = [b"P *", suffix.as_slice()].concat();
            self.rules.push((RuleOption::Filter, OsString::from_vec(rule)));
        }
        // Backups change the times of the directories that they are in.
        self.keep.omit_dir_times |= self.backup_dir.is_none();
        self.sync.backup = Some(Backup { directory: self.backup_dir.take(), suffix });
        Ok(())
    }
}

fn unknown(shown: &str) -> String {
    format!("{shown}: unknown option")
}

fn printable(value: &OsStr) -> String {
    linerate_wire::path::printable(value.as_bytes())
}
