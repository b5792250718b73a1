//! Counts losses of metadata, so that each kind of loss is reported once for all entries that it affects.

use std::collections::BTreeMap;

use crate::units::show_count;

/// The largest number of kinds of losses that are counted separately. A limit is necessary because a far end may invent
/// any number of kinds.
const MOST_LOSS_KINDS: usize = 16;

/// Losses by their message: for each, the number of entries and the path of the first one.
#[derive(Default)]
pub struct Losses {
    counted: BTreeMap<String, (u64, String)>,
    others: u64,
}

impl Losses {
    /// Counts a loss of the entry at `path`.
    pub fn add(&mut self, message: String, path: String) {
        if self.counted.len() == MOST_LOSS_KINDS && !self.counted.contains_key(&message) {
            self.others += 1;
            return;
        }
        self.counted.entry(message).or_insert((0, path)).0 += 1;
    }

    /// A line for each kind of loss. `shown` converts paths to text.
    pub fn lines(&self, shown: impl Fn(&str) -> String) -> impl Iterator<Item = String> {
        let reported = self.counted.iter().map(move |(message, (count, path))| match (count, shown(path)) {
            (1, path) => format!("{path}: {message}"),
            (count, path) => {
                format!("{} entries, each: {message} (the first is {path}; -v lists all)", show_count(*count))
            }
        });
        let others = (self.others > 0)
            .then(|| format!("{} more entries have other losses (-v lists all)", show_count(self.others)));
        reported.chain(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_losses_are_reported_once_and_not_without_end() {
        let mut losses = Losses::default();
        for number in 0..312 {
            losses.add("its owner could not be kept: no".into(), format!("f{number}"));
        }
        losses.add("its ACL could not be kept: no".into(), "x".into());
        let lines: Vec<_> = losses.lines(str::to_owned).collect();
        let owners = "312 entries, each: its owner could not be kept: no (the first is f0; -v lists all)";
        assert_eq!(lines, ["x: its ACL could not be kept: no", owners]);
        (0..1000).for_each(|number| losses.add(format!("{number}"), String::new()));
        assert!(
            losses.lines(str::to_owned).count() == MOST_LOSS_KINDS + 1
                && losses.counted.len() == MOST_LOSS_KINDS
        );
    }
}
