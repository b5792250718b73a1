//! Changes of modes at the sender (`--chmod`).

use linerate_wire::control::ModeRule;
use linerate_wire::entry::{Entry, Kind};

/// The mode of `entry` after all rules; each rule applies to the result of the previous one.
pub fn changed(rules: &[ModeRule], entry: &Entry) -> u32 {
    if matches!(entry.kind, Kind::Symlink { .. }) {
        return entry.mode;
    }
    let is_directory = entry.kind == Kind::Directory;
    let is_for = |rule: &&ModeRule| if is_directory { rule.directories } else { rule.others };
    rules.iter().filter(is_for).fold(entry.mode, |mode, rule| {
        let may_execute = is_directory || !rule.conditional || mode & 0o111 != 0;
        let set = if may_execute { rule.set } else { rule.set & !0o111 };
        (mode & rule.keep | set) & 0o7777
    })
}
