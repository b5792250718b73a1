//! All options of rsync 3.5, and what becomes of each.

use linerate_wire::control::{MAX_OTHER_TREES, OtherTrees, OtherUse};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::chmod;
use super::line::Line;
use crate::sync::selecting::RuleOption;
use crate::units::{parse_rate, parse_rsync_size};

/// One of rsync's options.
pub struct RsyncOption {
    /// Its long names, without `--`; none has only a letter.
    pub names: &'static [&'static str],
    /// Its letter.
    pub short: Option<char>,
    /// What it does.
    pub does: Does,
    /// What `--no-` and one of its names does.
    pub off: Option<fn(&mut Line)>,
}

/// What becomes of an option.
#[derive(Clone, Copy)]
pub enum Does {
    /// What rsync does.
    Flag(fn(&mut Line)),
    /// What rsync does, with a value.
    Value(fn(&mut Line, &OsStr) -> Result<(), String>),
    /// Nothing: what it asks for is always so, or changes nothing that a user sees. Why.
    Always(&'static str),
    /// The same, with a value.
    AlwaysOf(&'static str),
    /// It is refused. Why, and what to do.
    Refused(&'static str),
    /// The same, with a value.
    RefusedOf(&'static str),
}

impl RsyncOption {
    /// By one of its names; false where that has a `no-` before it.
    pub fn of(name: &str) -> Option<(&'static Self, bool)> {
        let named = |name: &str| OPTIONS.iter().find(|option| option.names.contains(&name));
        if let Some(option) = named(name) {
            return Some((option, true));
        }
        let name = name.strip_prefix("no-")?;
        let mut letters = name.chars();
        let by_letter = |letter: char| OPTIONS.iter().find(|option| option.short == Some(letter));
        let letter = letters.next().filter(|_| letters.next().is_none()).and_then(by_letter);
        named(name).or(letter).map(|option| (option, false))
    }

    /// Its names, as they are written.
    pub fn shown(&self) -> String {
        let long = self.names.iter().map(|name| format!("--{name}"));
        let names: Vec<_> = self.short.map(|letter| format!("-{letter}")).into_iter().chain(long).collect();
        names.join(", ")
    }

    /// What becomes of it.
    pub fn verdict(&self) -> String {
        match self.does {
            Does::Flag(_) | Does::Value(_) => "as rsync".to_owned(),
            Does::Always(why) | Does::AlwaysOf(why) => format!("taken, and changes nothing: {why}"),
            Does::Refused(why) | Does::RefusedOf(why) => format!("refused: {why}"),
        }
    }

    /// True where a value follows it.
    pub fn takes_value(&self) -> bool {
        matches!(self.does, Does::Value(_) | Does::AlwaysOf(_) | Does::RefusedOf(_))
    }
}

const DAEMON: &str = "it is for rsync's daemon; linerate uses ssh alone";
const LATER: &str = "linerate doesn't do this; use rsync for it";
const CHECKS: &str = "sums are always those of BLAKE3";
const PARTIAL: &str = "what has come is always kept, and the same command goes on from there";
const NOT_COMPRESSED: &str = "what arrives is the same; nothing is compressed on the way";
const SAME_TREE: &str = "what arrives is the same";
const NAMES: &str = "names never pass through a shell";

const fn flag(name: &'static [&'static str], short: Option<char>, set: fn(&mut Line)) -> RsyncOption {
    RsyncOption { names: name, short, does: Does::Flag(set), off: None }
}

const fn switch(
    names: &'static [&'static str],
    short: Option<char>,
    set: fn(&mut Line),
    off: fn(&mut Line),
) -> RsyncOption {
    RsyncOption { names, short, does: Does::Flag(set), off: Some(off) }
}

const fn value(
    names: &'static [&'static str],
    short: Option<char>,
    set: fn(&mut Line, &OsStr) -> Result<(), String>,
) -> RsyncOption {
    RsyncOption { names, short, does: Does::Value(set), off: None }
}

const fn always(names: &'static [&'static str], short: Option<char>, why: &'static str) -> RsyncOption {
    RsyncOption { names, short, does: Does::Always(why), off: Some(|_| ()) }
}

const fn always_of(names: &'static [&'static str], short: Option<char>, why: &'static str) -> RsyncOption {
    RsyncOption { names, short, does: Does::AlwaysOf(why), off: Some(|_| ()) }
}

const fn refused(names: &'static [&'static str], short: Option<char>, why: &'static str) -> RsyncOption {
    RsyncOption { names, short, does: Does::Refused(why), off: Some(|_| ()) }
}

const fn refused_of(names: &'static [&'static str], short: Option<char>, why: &'static str) -> RsyncOption {
    RsyncOption { names, short, does: Does::RefusedOf(why), off: Some(|_| ()) }
}

/// In the order of rsync's manual.
pub const OPTIONS: &[RsyncOption] = &[
    flag(&["help"], None, |line| line.help = true),
    flag(&["version"], Some('V'), |line| line.version = true),
    switch(&["verbose"], Some('v'), |line| line.verbose += 1, |line| line.verbose = 0),
    value(&["info"], None, info),
    always_of(&["debug"], None, "rsync's inner workings aren't linerate's"),
    always_of(&["stderr"], None, "errors go to standard error"),
    always(&["msgs2stderr"], None, "errors go to standard error"),
    flag(&["quiet"], Some('q'), |line| line.quiet = true),
    always(&["motd"], None, "there is no daemon that greets"),
    flag(&["stats"], None, |line| line.stats = true),
    switch(&["human-readable"], Some('h'), |line| line.human += 1, |line| line.human = 0),
    flag(&["dry-run"], Some('n'), |line| line.sync.dry_run = true),
    flag(&["archive"], Some('a'), archive),
    switch(
        &["recursive"],
        Some('r'),
        |line| (line.recursive, line.recursion_named) = (true, true),
        |line| (line.recursive, line.recursion_named) = (false, false),
    ),
    always(&["inc-recursive", "i-r"], None, "the scan and the copy always go on together"),
    switch(&["dirs", "old-dirs", "old-d"], Some('d'), |line| line.dirs = true, |line| line.dirs = false),
    switch(&["perms"], Some('p'), |line| line.keep.perms = true, |line| line.keep.perms = false),
    flag(&["executability"], Some('E'), |line| line.executability = true),
    switch(
        &["acls"],
        Some('A'),
        |line| (line.keep.acls, line.keep.perms) = (true, true),
        |line| line.keep.acls = false,
    ),
    switch(&["xattrs"], Some('X'), |line| line.keep.xattrs = true, |line| line.keep.xattrs = false),
    switch(&["times"], Some('t'), |line| line.keep.times = true, |line| line.keep.times = false),
    refused(&["atimes"], Some('U'), LATER),
    refused(&["open-noatime"], None, LATER),
    refused(&["crtimes"], Some('N'), "Linux lets nobody set them"),
    switch(
        &["omit-dir-times"],
        Some('O'),
        |line| line.keep.omit_dir_times = true,
        |line| line.keep.omit_dir_times = false,
    ),
    switch(
        &["omit-link-times"],
        Some('J'),
        |line| line.keep.omit_link_times = true,
        |line| line.keep.omit_link_times = false,
    ),
    value(&["modify-window"], Some('@'), |line, value| {
        let window: i32 = text(value)?.parse().map_err(|_| "not a number of seconds".to_owned())?;
        line.sync.window = u32::try_from(window).ok();
        Ok(())
    }),
    always(&["super"], None, "root does what root may"),
    refused(&["fake-super"], None, LATER),
    switch(&["owner"], Some('o'), |line| line.keep.owner = true, |line| line.keep.owner = false),
    switch(&["group"], Some('g'), |line| line.keep.group = true, |line| line.keep.group = false),
    switch(
        &[],
        Some('D'),
        |line| (line.keep.devices, line.keep.specials) = (true, true),
        |line| (line.keep.devices, line.keep.specials) = (false, false),
    ),
    switch(&["devices"], None, |line| line.keep.devices = true, |line| line.keep.devices = false),
    refused(&["copy-devices"], None, LATER),
    refused(&["write-devices"], None, LATER),
    switch(&["specials"], None, |line| line.keep.specials = true, |line| line.keep.specials = false),
    refused(&["drop-D"], None, LATER),
    refused_of(&["confine-root"], None, "'linerate agent --below DIR' confines the far end"),
    switch(&["links"], Some('l'), |line| line.links = true, |line| line.links = false),
    switch(&["copy-links"], Some('L'), |line| line.copy_links = true, |line| line.copy_links = false),
    switch(
        &["copy-unsafe-links"],
        None,
        |line| line.copy_unsafe_links = true,
        |line| line.copy_unsafe_links = false,
    ),
    flag(&["safe-links"], None, |line| line.safe_links = true),
    refused(&["insecure-links"], None, "a link of another user's is never followed at the destination"),
    refused(&["munge-links"], None, LATER),
    switch(
        &["copy-dirlinks"],
        Some('k'),
        |line| line.copy_dirlinks = true,
        |line| line.copy_dirlinks = false,
    ),
    refused(&["keep-dirlinks"], Some('K'), LATER),
    switch(
        &["hard-links"],
        Some('H'),
        |line| line.keep.hard_links = true,
        |line| line.keep.hard_links = false,
    ),
    switch(&["relative"], Some('R'), |line| line.relative = Some(true), |line| line.relative = Some(false)),
    switch(&["implied-dirs", "i-d"], None, |line| line.no_implied = false, |line| line.no_implied = true),
    value(&["chmod"], None, |line, value| {
        line.modes.extend(chmod::parse(text(value)?, chmod::umask())?);
        Ok(())
    }),
    flag(&["ignore-times"], Some('I'), |line| line.sync.ignore_times = true),
    flag(&["size-only"], None, |line| line.sync.size_only = true),
    switch(
        &["one-file-system"],
        Some('x'),
        |line| line.one_file_system = true,
        |line| line.one_file_system = false,
    ),
    flag(&["update"], Some('u'), |line| line.sync.update = true),
    flag(&["existing", "ignore-non-existing"], None, |line| line.sync.existing = true),
    flag(&["ignore-existing"], None, |line| line.sync.ignore_existing = true),
    value(&["max-size"], None, |line, value| size(value).map(|bytes| line.sync.most = Some(bytes))),
    value(&["min-size"], None, |line, value| size(value).map(|bytes| line.sync.least = Some(bytes))),
    always_of(&["max-alloc"], None, "memory doesn't grow with the tree"),
    switch(&["sparse"], Some('S'), |line| line.keep.sparse = true, |line| line.keep.sparse = false),
    refused(&["preallocate"], None, LATER),
    switch(&["inplace"], None, |line| line.sync.inplace = true, |line| line.sync.inplace = false),
    refused(&["append", "append-verify"], None, "the same command goes on with a part of a file by itself"),
    flag(&["delete", "del", "delete-after", "delete-delay"], None, |line| line.sync.delete = true),
    flag(&["delete-before", "delete-during"], None, |line| line.sync.delete = true),
    flag(&["delete-excluded"], None, |line| line.delete_excluded = true),
    refused(&["delete-missing-args"], None, LATER),
    flag(&["ignore-missing-args"], None, |line| line.ignore_missing = true),
    flag(&["remove-source-files", "remove-sent-files"], None, |line| line.remove_sources = true),
    switch(&["force"], None, |line| line.sync.force = true, |line| line.sync.force = false),
    switch(
        &["ignore-errors"],
        None,
        |line| line.sync.ignore_errors = true,
        |line| line.sync.ignore_errors = false,
    ),
    value(&["max-delete"], None, |line, value| {
        let most = text(value)?.parse::<i64>().map_err(|error| error.to_string())?;
        line.sync.max_delete = u64::try_from(most).ok();
        Ok(())
    }),
    flag(&[], Some('F'), |line| line.per_directory = line.per_directory.saturating_add(1)),
    value(&["filter"], Some('f'), |line, value| rule(line, RuleOption::Filter, value)),
    value(&["exclude"], None, |line, value| rule(line, RuleOption::Exclude, value)),
    value(&["include"], None, |line, value| rule(line, RuleOption::Include, value)),
    value(&["exclude-from"], None, |line, value| rule(line, RuleOption::ExcludeFrom, value)),
    value(&["include-from"], None, |line, value| rule(line, RuleOption::IncludeFrom, value)),
    flag(&["cvs-exclude"], Some('C'), |line| line.cvs_exclude = true),
    switch(&["whole-file"], Some('W'), |line| line.whole = Some(true), |line| line.whole = Some(false)),
    switch(&["checksum"], Some('c'), |line| line.sync.checksum = true, |line| line.sync.checksum = false),
    always_of(&["checksum-choice", "cc"], None, CHECKS),
    always_of(&["block-size"], Some('B'), SAME_TREE),
    value(&["compare-dest"], None, |line, value| other_tree(line, OtherUse::Compare, value)),
    value(&["copy-dest"], None, |line, value| other_tree(line, OtherUse::Copy, value)),
    value(&["link-dest"], None, |line, value| other_tree(line, OtherUse::Link, value)),
    always(&["fuzzy"], Some('y'), SAME_TREE),
    always(&["compress", "old-compress", "new-compress"], Some('z'), NOT_COMPRESSED),
    always_of(&["compress-choice", "zc"], None, NOT_COMPRESSED),
    always_of(&["skip-compress"], None, NOT_COMPRESSED),
    always_of(&["compress-level", "zl"], None, NOT_COMPRESSED),
    always_of(&["compress-threads", "zt"], None, NOT_COMPRESSED),
    switch(&[], Some('P'), |line| line.progress = true, |line| line.progress = false),
    switch(&["progress"], None, |line| line.progress = true, |line| line.progress = false),
    always(&["partial"], None, PARTIAL),
    always_of(&["partial-dir"], None, PARTIAL),
    refused(&["delay-updates"], None, "each file gets its name when it is whole and on stable storage"),
    switch(&["prune-empty-dirs"], Some('m'), |line| line.prune_empty = true, |line| line.prune_empty = false),
    refused_of(&["log-file"], None, LATER),
    refused_of(&["log-file-format"], None, LATER),
    value(&["out-format", "log-format"], None, |line, value| {
        line.out_format = Some(value.to_owned());
        Ok(())
    }),
    switch(&["itemize-changes"], Some('i'), |line| line.itemize = true, |line| line.itemize = false),
    RsyncOption {
        off: Some(|line| line.bwlimit = None),
        ..value(&["bwlimit"], None, |line, value| {
            line.bwlimit = parse_rate(text(value)?)?;
            Ok(())
        })
    },
    switch(&["backup"], Some('b'), |line| line.backup = true, |line| line.backup = false),
    value(&["backup-dir"], None, |line, value| {
        line.backup_dir = Some(value.as_bytes().to_vec());
        Ok(())
    }),
    value(&["suffix"], None, |line, value| {
        line.suffix = Some(value.as_bytes().to_vec());
        Ok(())
    }),
    refused(&["list-only"], None, "use ls, or 'linerate cp --dry-run'"),
    refused_of(&["read-batch"], None, LATER),
    refused_of(&["write-batch", "only-write-batch"], None, LATER),
    value(&["files-from"], None, |line, value| {
        line.files_from = Some(value.to_owned());
        Ok(())
    }),
    switch(&["from0"], Some('0'), |line| line.from0 = true, |line| line.from0 = false),
    always(&["old-args"], None, NAMES),
    always(&["secluded-args", "protect-args"], Some('s'), NAMES),
    always(&["trust-sender"], None, "what comes is always judged by this command line"),
    switch(&["numeric-ids"], None, |line| line.keep.numeric_ids = true, |line| line.keep.numeric_ids = false),
    refused_of(&["usermap"], None, LATER),
    refused_of(&["groupmap"], None, LATER),
    refused_of(&["chown"], None, LATER),
    RsyncOption {
        off: Some(|line| line.timeout = 0),
        ..value(&["timeout"], None, |line, value| {
            line.timeout = text(value)?.parse().map_err(|_| "not a number of seconds".to_owned())?;
            Ok(())
        })
    },
    refused_of(&["contimeout"], None, DAEMON),
    always(&["fsync"], None, "every file is on stable storage before it gets its name"),
    refused_of(&["stop-after", "time-limit"], None, "use timeout(1); the same command goes on from there"),
    refused_of(&["stop-at"], None, "use timeout(1); the same command goes on from there"),
    value(&["rsh"], Some('e'), |line, value| {
        line.rsh = Some(value.to_owned());
        Ok(())
    }),
    refused_of(&["rsync-path"], None, "the far end is linerate, which brings itself where it is missing"),
    always_of(&["temp-dir"], Some('T'), "files that are under way have no name, or lie beside their places"),
    refused_of(&["iconv"], None, "names are bytes, and stay as they are"),
    flag(&["ipv4"], Some('4'), |line| line.family = Some("-4")),
    flag(&["ipv6"], Some('6'), |line| line.family = Some("-6")),
    always(&["8-bit-output"], Some('8'), "names are shown as they are where they are UTF-8"),
    switch(&["mkpath"], None, |line| line.makes_path = true, |line| line.makes_path = false),
    always(&["qsort"], None, SAME_TREE),
    refused_of(&["copy-as"], None, LATER),
    refused_of(&["address"], None, DAEMON),
    refused_of(&["port"], None, DAEMON),
    refused_of(&["sockopts"], None, DAEMON),
    refused_of(&["password-file"], None, DAEMON),
    refused_of(&["early-input"], None, DAEMON),
    always(&["blocking-io"], None, "it is about how rsync calls rsh"),
    always_of(&["outbuf"], None, "lines are written as they come"),
    refused_of(&["remote-option"], Some('M'), "the far end has no options of its own"),
    refused_of(&["protocol"], None, "the protocol is linerate's"),
    always_of(&["checksum-seed"], None, CHECKS),
    refused(&["server"], None, "it is how rsync calls itself"),
    refused(&["sender"], None, "it is how rsync calls itself"),
    refused(&["daemon", "detach"], None, DAEMON),
    refused_of(&["config", "dparam"], None, DAEMON),
];

fn archive(line: &mut Line) {
    (line.recursive, line.links) = (true, true);
    let keep = &mut line.keep;
    for kept in [
        &mut keep.perms,
        &mut keep.times,
        &mut keep.owner,
        &mut keep.group,
        &mut keep.devices,
        &mut keep.specials,
    ] {
        *kept = true;
    }
}

fn other_tree(line: &mut Line, used: OtherUse, value: &OsStr) -> Result<(), String> {
    let others = line.sync.others.get_or_insert_with(|| OtherTrees { directories: Vec::new(), used });
    if others.used != used {
        return Err("--compare-dest, --copy-dest and --link-dest can't be mixed".into());
    }
    if others.directories.len() == MAX_OTHER_TREES {
        return Err(format!("there are {MAX_OTHER_TREES} of these at most"));
    }
    others.directories.push(value.as_bytes().to_vec());
    Ok(())
}

fn rule(line: &mut Line, kind: RuleOption, value: &OsStr) -> Result<(), String> {
    line.rules.push((kind, value.to_owned()));
    Ok(())
}

/// `--info=progress2,stats2`: of its words those that have a counterpart do what they do there.
fn info(line: &mut Line, value: &OsStr) -> Result<(), String> {
    for word in text(value)?.split(',') {
        let (name, level) = word.split_at(word.find(|c: char| c.is_ascii_digit()).unwrap_or(word.len()));
        let on = level != "0";
        match name.to_ascii_lowercase().as_str() {
            "progress" => line.progress = on,
            "stats" => line.stats = on,
            "name" => line.verbose = line.verbose.max(u8::from(on)),
            "all" | "none" | "backup" | "copy" | "del" | "flist" | "misc" | "mount" | "nonreg" | "remove"
            | "skip" | "symsafe" => {}
            _ => return Err(format!("'{name}' is none of rsync's words")),
        }
    }
    Ok(())
}

fn size(value: &OsStr) -> Result<u64, String> {
    parse_rsync_size(text(value)?)
}

fn text(value: &OsStr) -> Result<&str, String> {
    std::str::from_utf8(value.as_bytes()).map_err(|_| "not text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_name_stands_once_and_the_guide_has_each_option() {
        let mut names = HashSet::new();
        for option in OPTIONS {
            assert!(option.names.iter().all(|name| names.insert((*name).to_owned())), "{}", option.shown());
            assert!(option.short.is_none_or(|letter| names.insert(letter.to_string())), "{}", option.shown());
        }
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/rsync.md");
        let page = std::fs::read_to_string(page).unwrap();
        let rows: Vec<_> =
            OPTIONS.iter().map(|option| format!("| `{}` | {} |", option.shown(), option.verdict())).collect();
        let codes = crate::rsync::codes::MEANINGS.iter();
        let rows: Vec<_> =
            rows.into_iter().chain(codes.map(|(code, meaning)| format!("| {code} | {meaning} |"))).collect();
        let missing: Vec<_> = rows.iter().filter(|row| !page.contains(*row)).cloned().collect();
        assert!(missing.is_empty(), "docs/guide/rsync.md lacks:\n{}", missing.join("\n"));
        let listed = page.lines().filter(|line| line.starts_with("| `-")).count();
        assert_eq!(listed, OPTIONS.len(), "the page has rows of no option");
    }
}
