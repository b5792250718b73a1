//! All options of rsync 3.5, and the effect that each has in linerate.

mod rows;

use linerate_remote::agent_command::AgentCommand;
use linerate_sys::process::umask;
use linerate_wire::control::{Appending, MAX_OTHER_TREES, OtherTrees, OtherUse};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::details::Acting;
use super::info::INFO_HELP;
use super::line::{DeleteTime, Line};
use super::{checked, details, stop};
use crate::common::refused_number::whole;
use crate::modes;
use crate::sync::selecting::RuleOption;
use crate::units::{parse_rate, parse_rsync_size};
use rows::{always, always_of, flag, refused, refused_of, switch, value, with_off};

/// One of rsync's options.
pub struct RsyncOption {
    /// The option's long names, without `--`; empty if the option has only a letter.
    pub names: &'static [&'static str],
    /// The option's letter.
    pub short: Option<char>,
    /// The option's effect in linerate.
    pub does: Does,
    /// The effect of the option's name with `no-` before it; `None` if this form isn't supported.
    pub off: Option<fn(&mut Line)>,
}

/// The effect of an rsync option in linerate.
#[derive(Clone, Copy)]
pub enum Does {
    /// The option has no value, and the same effect as with rsync.
    Flag(fn(&mut Line)),
    /// The option has a value, and the same effect as with rsync.
    Value(fn(&mut Line, &OsStr) -> Result<(), String>),
    /// The option is accepted without effect, for this reason: its effect is always there, or no user could
    /// see it.
    Always(&'static str),
    /// As [`Does::Always`], for an option with a value.
    AlwaysOf(&'static str),
    /// The option is refused: the reason, and what to do.
    Refused(&'static str),
    /// As [`Does::Refused`], for an option with a value.
    RefusedOf(&'static str),
}

impl RsyncOption {
    /// Finds an option by name. The flag is false if the name begins with `no-`, true otherwise.
    pub fn of(name: &str) -> Option<(&'static Self, bool)> {
        let named = |name: &str| OPTIONS.iter().find(|option| option.names.contains(&name));
        if let Some(option) = named(name) {
            return Some((option, true));
        }
        let name = name.strip_prefix("no-").filter(|name| !NEVER_OFF.contains(name))?;
        let mut letters = name.chars();
        let by_letter = |letter: char| OPTIONS.iter().find(|option| option.short == Some(letter));
        let letter = letters.next().filter(|_| letters.next().is_none()).and_then(by_letter);
        named(name).or(letter).map(|option| (option, false))
    }

    /// The option's names, in the form for the help.
    pub fn shown(&self) -> String {
        let long = self.names.iter().map(|name| format!("--{name}"));
        let names: Vec<_> = self.short.map(|letter| format!("-{letter}")).into_iter().chain(long).collect();
        names.join(", ")
    }

    /// The effect of the option, in words.
    pub fn verdict(&self) -> String {
        match self.does {
            Does::Flag(_) | Does::Value(_) => "as rsync".to_owned(),
            Does::Always(why) | Does::AlwaysOf(why) => format!("accepted, without effect: {why}"),
            Does::Refused(why) | Does::RefusedOf(why) => format!("refused: {why}"),
        }
    }

    /// True if a value follows the option.
    pub fn takes_value(&self) -> bool {
        matches!(self.does, Does::Value(_) | Does::AlwaysOf(_) | Does::RefusedOf(_))
    }
}

/// Names that rsync doesn't accept behind `no-`, although it accepts another name of the same option there.
const NEVER_OFF: [&str; 5] = ["new-compress", "old-compress", "b", "P", "0"];

const DAEMON: &str = "this option is for rsync's daemon; linerate uses only ssh";
const NO_DAEMON: &str = "this option is for rsync's daemon";
const BATCH: &str = "a batch is in rsync's own protocol; use rsync";
const LATER: &str = "linerate doesn't support this; use rsync";
const PARTIAL: &str = "partial data is always kept, and the same command resumes";
const THREADS: &str = "linerate uses as many threads as the path and the processors need, at most four";

/// The options, in the order of rsync's manual.
pub const OPTIONS: &[RsyncOption] = &[
    flag(&["help"], None, |line| line.help = true),
    flag(&["version"], Some('V'), |line| line.version += 1),
    switch(&["verbose"], Some('v'), |line| line.verbose += 1, |line| line.verbose = 0),
    value(&["info"], None, info),
    always_of(&["debug"], None, "linerate lacks rsync's internals; only FUZZY and NSTR have an effect"),
    value(&["stderr"], None, |line, value| checked::stderr(line, text(value)?)),
    switch(&["msgs2stderr"], None, |line| line.checked.aside = true, |line| line.checked.aside = false),
    flag(&["quiet"], Some('q'), |line| line.quiet = true),
    switch(&["motd"], None, |_| (), |_| ()),
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
    switch(&["inc-recursive", "i-r"], None, |line| line.whole_list = false, |line| line.whole_list = true),
    switch(
        &["dirs"],
        Some('d'),
        |line| line.send_directories(true, false),
        |line| {
            line.send_directories(false, false);
        },
    ),
    flag(&["old-dirs", "old-d"], None, |line| line.send_directories(true, true)),
    switch(&["perms"], Some('p'), |line| line.keep.perms = true, |line| line.keep.perms = false),
    flag(&["executability"], Some('E'), |line| line.executability = true),
    switch(
        &["acls"],
        Some('A'),
        |line| (line.keep.acls, line.keep.perms) = (true, true),
        |line| line.keep.acls = false,
    ),
    switch(&["xattrs"], Some('X'), details::xattrs, |line| {
        (line.details.xattrs, line.keep.xattrs) = (0, false)
    }),
    switch(&["times"], Some('t'), |line| line.keep.times = true, |line| line.keep.times = false),
    switch(
        &["atimes"],
        Some('U'),
        |line| line.details.atimes = line.details.atimes.saturating_add(1),
        |line| line.details.atimes = 0,
    ),
    switch(
        &["open-noatime"],
        None,
        |line| line.details.open_noatime = true,
        |line| line.details.open_noatime = false,
    ),
    with_off(refused(&["crtimes"], Some('N'), "Linux can't set creation times")),
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
        let window: i32 = whole(text(value)?, "seconds")?;
        line.sync.window = u32::try_from(window).ok();
        Ok(())
    }),
    switch(
        &["super"],
        None,
        |line| line.details.acting = Some(Acting::AsRoot),
        |line| line.details.acting = Some(Acting::AsUser),
    ),
    flag(&["fake-super"], None, |line| line.details.acting = Some(Acting::Faking)),
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
    with_off(refused(&["write-devices"], None, LATER)),
    switch(&["specials"], None, |line| line.keep.specials = true, |line| line.keep.specials = false),
    switch(
        &["drop-D"],
        None,
        |line| line.details.drop_devices = true,
        |line| line.details.drop_devices = false,
    ),
    refused_of(&["confine-root"], None, "'linerate agent --below DIR' confines the far end"),
    switch(&["links"], Some('l'), |line| line.links = true, |line| line.links = false),
    flag(&["copy-links"], Some('L'), |line| line.copy_links = true),
    flag(&["copy-unsafe-links"], None, |line| line.copy_unsafe_links = true),
    flag(&["safe-links"], None, |line| line.safe_links = true),
    switch(&["insecure-links"], None, |line| line.insecure_links = true, |line| line.insecure_links = false),
    switch(&["munge-links"], None, |line| line.details.munge = true, |line| line.details.munge = false),
    flag(&["copy-dirlinks"], Some('k'), |line| line.copy_dirlinks = true),
    flag(&["keep-dirlinks"], Some('K'), |line| line.details.keep_dirlinks = true),
    switch(
        &["hard-links"],
        Some('H'),
        |line| line.keep.hard_links = true,
        |line| line.keep.hard_links = false,
    ),
    switch(&["relative"], Some('R'), |line| line.relative = Some(true), |line| line.relative = Some(false)),
    switch(&["implied-dirs", "i-d"], None, |line| line.no_implied = false, |line| line.no_implied = true),
    value(&["chmod"], None, |line, value| {
        line.modes.extend(modes::parse(text(value)?, umask().as_raw_mode())?);
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
    value(&["max-alloc"], None, |_, value| checked::max_alloc(text(value)?)),
    switch(&["sparse"], Some('S'), |line| line.keep.sparse = true, |line| line.keep.sparse = false),
    flag(&["preallocate"], None, |line| line.details.preallocate = true),
    switch(&["inplace"], None, |line| line.sync.inplace = true, |line| line.sync.inplace = false),
    switch(
        &["append"],
        None,
        |line| line.details.placing.append = Appending::Trusting,
        |line| line.details.placing.append = Appending::Never,
    ),
    flag(&["append-verify"], None, |line| line.details.placing.append = Appending::Comparing),
    flag(&["delete"], None, |line| line.sync.delete = true),
    flag(&["del", "delete-during", "delete-delay"], None, |line| line.delete(DeleteTime::During)),
    flag(&["delete-before"], None, |line| line.delete(DeleteTime::Before)),
    flag(&["delete-after"], None, |line| line.delete(DeleteTime::After)),
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
        let most = whole::<i64>(text(value)?, "entries")?;
        line.sync.max_delete = Some(u64::try_from(most).unwrap_or(0));
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
    value(&["checksum-choice", "cc"], None, |line, value| {
        checked::choice(line, text(value)?);
        Ok(())
    }),
    value(&["block-size"], Some('B'), |_, value| checked::block_size(text(value)?)),
    value(&["compare-dest"], None, |line, value| other_tree(line, OtherUse::Compare, value)),
    value(&["copy-dest"], None, |line, value| other_tree(line, OtherUse::Copy, value)),
    value(&["link-dest"], None, |line, value| other_tree(line, OtherUse::Link, value)),
    switch(
        &["fuzzy"],
        Some('y'),
        |line| line.details.placing.fuzzy = line.details.placing.fuzzy.saturating_add(1),
        |line| line.details.placing.fuzzy = 0,
    ),
    switch(
        &["compress", "old-compress", "new-compress"],
        Some('z'),
        |line| line.compress.switch(true),
        |line| line.compress.switch(false),
    ),
    value(&["compress-choice", "zc"], None, |line, value| {
        line.compress.choose(text(value)?);
        Ok(())
    }),
    value(&["skip-compress"], None, |line, value| line.compress.skip(value.as_bytes())),
    value(&["compress-level", "zl"], None, |line, value| line.compress.level(text(value)?)),
    always_of(&["compress-threads", "zt"], None, THREADS),
    switch(&["progress"], Some('P'), |line| line.progress = true, |line| line.progress = false),
    RsyncOption {
        off: Some(|line| line.details.placing.partial = false),
        ..always(&["partial"], None, PARTIAL)
    },
    value(&["partial-dir"], None, |line, value| {
        line.details.placing.directory = Some(value.as_bytes().to_vec());
        Ok(())
    }),
    switch(
        &["delay-updates"],
        None,
        |line| line.details.placing.delayed = true,
        |line| line.details.placing.delayed = false,
    ),
    switch(&["prune-empty-dirs"], Some('m'), |line| line.prune_empty = true, |line| line.prune_empty = false),
    value(&["log-file"], None, |line, value| {
        line.log_file = Some(value.to_owned());
        Ok(())
    }),
    value(&["log-file-format"], None, |line, value| {
        line.log_format = Some(value.to_owned());
        Ok(())
    }),
    value(&["out-format", "log-format"], None, |line, value| {
        line.out_format = Some(value.to_owned());
        Ok(())
    }),
    switch(
        &["itemize-changes"],
        Some('i'),
        |line| line.itemize = line.itemize.saturating_add(1),
        |line| line.itemize = 0,
    ),
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
    flag(&["list-only"], None, |line| line.list = true),
    refused_of(&["read-batch"], None, BATCH),
    refused_of(&["write-batch", "only-write-batch"], None, BATCH),
    value(&["files-from"], None, |line, value| {
        line.files_from = Some(value.to_owned());
        Ok(())
    }),
    switch(&["from0"], Some('0'), |line| line.from0 = true, |line| line.from0 = false),
    switch(&["old-args"], None, |line| line.old_args = Some(true), |line| line.old_args = Some(false)),
    switch(
        &["secluded-args", "protect-args"],
        Some('s'),
        |line| line.secluded = true,
        |line| line.secluded = false,
    ),
    flag(&["trust-sender"], None, |_| ()),
    switch(&["numeric-ids"], None, |line| line.keep.numeric_ids = true, |line| line.keep.numeric_ids = false),
    value(&["usermap"], None, |line, value| details::usermap(line, text(value)?)),
    value(&["groupmap"], None, |line, value| details::groupmap(line, text(value)?)),
    value(&["chown"], None, |line, value| details::chown(line, text(value)?)),
    RsyncOption {
        off: Some(|line| line.timeout = 0),
        ..value(&["timeout"], None, |line, value| {
            line.timeout = whole(text(value)?, "seconds")?;
            Ok(())
        })
    },
    with_off(refused_of(&["contimeout"], None, DAEMON)),
    flag(&["fsync"], None, |_| ()),
    value(&["stop-after", "time-limit"], None, |line, value| {
        line.stop_at = Some(stop::after(text(value)?)?);
        Ok(())
    }),
    value(&["stop-at"], None, |line, value| {
        line.stop_at = Some(stop::at(text(value)?)?);
        Ok(())
    }),
    value(&["rsh"], Some('e'), |line, value| {
        line.rsh = Some(value.to_owned());
        Ok(())
    }),
    value(&["rsync-path"], None, |line, value| {
        line.agent = Some(AgentCommand::parse(text(value)?, Some("rsync"))?);
        Ok(())
    }),
    value(&["temp-dir"], Some('T'), |line, value| {
        line.details.placing.temporary = Some(value.as_bytes().to_vec());
        Ok(())
    }),
    RsyncOption {
        off: Some(details::no_iconv),
        ..value(&["iconv"], None, |line, value| details::iconv(line, text(value)?))
    },
    flag(&["ipv4"], Some('4'), |line| line.family = Some("-4")),
    flag(&["ipv6"], Some('6'), |line| line.family = Some("-6")),
    switch(&["8-bit-output"], Some('8'), |line| line.eight_bit = true, |line| line.eight_bit = false),
    switch(&["mkpath"], None, |line| line.makes_path = true, |line| line.makes_path = false),
    flag(&["qsort"], None, |line| line.whole_list = true),
    refused_of(&["copy-as"], None, LATER),
    always_of(&["address"], None, NO_DAEMON),
    always_of(&["port"], None, NO_DAEMON),
    always_of(&["sockopts"], None, NO_DAEMON),
    refused_of(&["password-file"], None, DAEMON),
    always_of(&["early-input"], None, NO_DAEMON),
    switch(&["blocking-io"], None, |_| (), |_| ()),
    value(&["outbuf"], None, |_, value| checked::outbuf(text(value)?)),
    value(&["remote-option"], Some('M'), |line, value| details::remote_option(line, text(value)?)),
    always_of(&["protocol"], None, "linerate has its own protocol, the same at both ends"),
    value(&["checksum-seed"], None, |_, value| checked::seed(text(value)?)),
    refused(&["server"], None, "rsync uses this option only for its own far end"),
    refused(&["sender"], None, "rsync uses this option only for its own far end"),
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
        return Err("--compare-dest, --copy-dest and --link-dest can't be combined".into());
    }
    if others.directories.len() == MAX_OTHER_TREES {
        return Err(format!("there can be at most {MAX_OTHER_TREES} of these options"));
    }
    others.directories.push(value.as_bytes().to_vec());
    Ok(())
}

fn rule(line: &mut Line, kind: RuleOption, value: &OsStr) -> Result<(), String> {
    line.rules.push((kind, value.to_owned()));
    Ok(())
}

/// Reads a value of `--info`, for example `progress2,stats2`.
fn info(line: &mut Line, value: &OsStr) -> Result<(), String> {
    if line.info.read(text(value)?)? {
        line.words_help = Some(INFO_HELP);
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
