//! Changes modes at the sender (`--chmod`).

use linerate_wire::control::ModeRule;
use linerate_wire::entry::{Entry, Kind};

/// The mode of `entry` after all rules were applied in order. `X` adds execute permission only to directories
/// and to files that somebody may execute at the source.
pub fn changed(rules: &[ModeRule], entry: &Entry) -> u32 {
    if matches!(entry.kind, Kind::Symlink { .. }) {
        return entry.mode;
    }
    let is_directory = entry.kind == Kind::Directory;
    let is_for = |rule: &&ModeRule| if is_directory { rule.directories } else { rule.others };
    let is_executable = is_directory || entry.mode & 0o111 != 0;
    rules.iter().filter(is_for).fold(entry.mode, |mode, rule| {
        let may_execute = is_executable || !rule.conditional;
        let set = if may_execute { rule.set } else { rule.set & !0o111 };
        (mode & rule.keep | set) & 0o7777
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_wire::path::RelPath;

    fn rule(keep: u32, set: u32, conditional: bool) -> ModeRule {
        ModeRule { keep, set, conditional, directories: false, others: true }
    }

    #[test]
    fn whether_x_applies_is_decided_by_the_mode_at_the_source() {
        let plain = |mode| Entry {
            source: 0,
            path: RelPath::root(),
            kind: Kind::File { size: 1 },
            mode,
            mtime: Default::default(),
            atime: Default::default(),
            extra: None,
        };
        let [all, user] = [rule(0, 0o640, false), rule(0o7777, 0o100, true)];
        assert_eq!(changed(&[all, user], &plain(0o755)), 0o740);
        assert_eq!(changed(&[all, user], &plain(0o644)), 0o640);
        let given = rule(0o7777, 0o001, false);
        assert_eq!(changed(&[given, user], &plain(0o644)), 0o645);
    }
}
