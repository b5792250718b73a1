//! Reads and parses files of the kernel.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::Fact;
use crate::root::Root;

/// An upper limit for the number of processors of a host: the most that a kernel for x86 can have (NR_CPUS).
pub(super) const MOST_CPUS: u32 = 8192;

/// Reads a file that contains one number.
pub(super) fn number<T: FromStr>(root: &Root, path: &str) -> Fact<T> {
    root.text(path).and_then(|text| parsed(path, &text))
}

/// Reads a file that contains 0 (false) or another number (true).
pub(super) fn flag(root: &Root, path: &str) -> Fact<bool> {
    number::<i64>(root, path).map(|value| value != 0)
}

/// Reads a file that contains three numbers.
pub(super) fn three(root: &Root, path: &str) -> Fact<[u64; 3]> {
    root.text(path).and_then(|text| {
        let values = text.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>();
        match values.map(<[u64; 3]>::try_from) {
            Ok(Ok(values)) => Fact::Known(values),
            _ => Fact::Unreadable(format!("/{path} holds {:?} instead of three numbers", start(&text))),
        }
    })
}

/// Reads a file that contains words.
pub(super) fn words(root: &Root, path: &str) -> Fact<Vec<String>> {
    root.text(path).map(|text| text.split_whitespace().map(str::to_owned).collect())
}

/// Reads a file that contains a list of processors ("0-3,8").
pub(super) fn cpu_list(root: &Root, path: &str) -> Fact<Vec<u32>> {
    root.text(path).and_then(|text| cpu_list_of(path, &text))
}

/// Parses a list of processors ("0-3,8"); `path` is named in an error.
pub(super) fn cpu_list_of(path: &str, text: &str) -> Fact<Vec<u32>> {
    or_odd(path, text, cpus_of_list(text))
}

/// Reads a file that contains a mask of processors ("00000000,0000000f").
pub(super) fn cpu_mask(root: &Root, path: &str) -> Fact<Vec<u32>> {
    root.text(path).and_then(|text| or_odd(path, &text, cpus_of_mask(&text)))
}

/// Parses a number; `path` is named in an error.
pub(super) fn parsed<T: FromStr>(path: &str, text: &str) -> Fact<T> {
    or_odd(path, text, text.trim().parse().ok())
}

/// The value as a known fact; if the value is `None`, an unreadable fact that quotes the text.
pub(super) fn or_odd<T>(path: &str, text: &str, value: Option<T>) -> Fact<T> {
    match value {
        Some(value) => Fact::Known(value),
        None => Fact::Unreadable(format!("/{path} holds {:?}", start(text))),
    }
}

fn start(text: &str) -> String {
    text.chars().take(60).collect()
}

/// Combines several facts into one: known if all facts are known, not applicable if there are no facts or all of them
/// are not applicable, and otherwise unreadable.
pub(super) fn all<T>(facts: impl IntoIterator<Item = Fact<T>>) -> Fact<Vec<T>> {
    let (mut known, mut absent) = (Vec::new(), false);
    for fact in facts {
        match fact {
            Fact::Known(value) => known.push(value),
            Fact::NotApplicable => absent = true,
            Fact::Unreadable(reason) => return Fact::Unreadable(reason),
        }
    }
    match (known.is_empty(), absent) {
        (true, _) => Fact::NotApplicable,
        (false, false) => Fact::Known(known),
        (false, true) => Fact::Unreadable("only some of these files exist".into()),
    }
}

/// Parses lines "KEY VALUE". A value is the rest of its line.
pub(super) fn pairs(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once(' ')).map(|(key, value)| (key, value.trim())).collect()
}

/// Returns the fact. But if the fact is unreadable because the port is down, the result is not applicable.
pub(super) fn unless_down<T>(fact: Fact<T>) -> Fact<T> {
    match fact {
        Fact::Unreadable(reason) if reason.contains("Invalid argument") => Fact::NotApplicable,
        fact => fact,
    }
}

/// The processors of a list such as `0-3,8`.
pub fn cpus_of_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in text.split(',').map(str::trim).filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if last < first || last >= MOST_CPUS || cpus.len() > MOST_CPUS as usize {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// The processors of a mask such as `00000001,ffffffff`. The last word has the processors 0 to 31.
pub fn cpus_of_mask(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for (at, digits) in text.rsplit(',').enumerate() {
        let (word, base) = (u32::from_str_radix(digits.trim(), 16).ok()?, u32::try_from(at).ok()? * 32);
        cpus.extend((0..32).filter(|bit| word >> bit & 1 == 1).map(|bit| base + bit));
    }
    cpus.iter().all(|cpu| *cpu < MOST_CPUS).then_some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_masks_name_processors() {
        assert_eq!(cpus_of_list("0-2,8"), Some(vec![0, 1, 2, 8]));
        assert_eq!(cpus_of_list(""), Some(vec![]));
        assert_eq!(
            (cpus_of_list("3-0"), cpus_of_list("0-4294967295"), cpus_of_list("x")),
            (None, None, None)
        );
        assert_eq!(cpus_of_mask("00000001,8000000f"), Some(vec![0, 1, 2, 3, 31, 32]));
        assert_eq!(
            (cpus_of_mask("0"), cpus_of_mask("00"), cpus_of_mask("g")),
            (Some(vec![]), Some(vec![]), None)
        );
    }

    #[test]
    fn a_part_is_not_the_whole() {
        let known = |n: u32| Fact::Known(n);
        assert_eq!(all([known(1), known(2)]), Fact::Known(vec![1, 2]));
        assert_eq!(all::<u32>([Fact::NotApplicable]), Fact::NotApplicable);
        assert!(matches!(all([known(1), Fact::NotApplicable]), Fact::Unreadable(_)));
        assert_eq!(all([known(1), Fact::Unreadable("no".into())]), Fact::Unreadable("no".into()));
    }
}
