//! Divides a data set into slices of about equal bytes, as hard links to its files.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::tree::{Kind, Tree};

/// Makes `n` directories `slice-0`, `slice-1` ... below `parent`. Together they hold every file and link of
/// `tree` (the list of `root`) once, each at the same relative path. Each slice has about the same number of
/// bytes.
///
/// # Errors
/// The first error of linking, with the name of the file.
pub(crate) fn make(root: &Path, tree: &Tree, parent: &Path, n: usize) -> io::Result<Vec<PathBuf>> {
    let slices: Vec<PathBuf> = (0..n).map(|i| parent.join(format!("slice-{i}"))).collect();
    for (slice, entries) in slices.iter().zip(divide(tree, n)) {
        fs::create_dir_all(slice)?;
        let mut made = BTreeSet::new();
        for (path, kind) in entries {
            link(root, slice, path, kind, &mut made)
                .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", slice.join(path).display())))?;
        }
    }
    Ok(slices)
}

/// Distributes the entries, the largest first, each to the slice that has the fewest bytes so far. Empty
/// directories go to the first slice.
fn divide(tree: &Tree, n: usize) -> Vec<Vec<(&Path, &Kind)>> {
    let mut order: Vec<(&Path, &Kind)> =
        tree.entries().iter().map(|(path, kind)| (path.as_path(), kind)).collect();
    order.sort_by_key(|(_, kind)| Reverse(size(kind)));
    let mut slices = vec![(0, Vec::new()); n];
    for (path, kind) in order {
        let least = match kind {
            Kind::Directory => slices.first_mut(),
            _ => slices.iter_mut().min_by_key(|(bytes, entries)| (*bytes, entries.len())),
        };
        if let Some((bytes, entries)) = least {
            *bytes += size(kind);
            entries.push((path, kind));
        }
    }
    slices.into_iter().map(|(_, entries)| entries).collect()
}

fn size(kind: &Kind) -> u64 {
    match kind {
        Kind::File(size) => *size,
        _ => 0,
    }
}

fn link<'p>(
    root: &Path,
    slice: &Path,
    path: &'p Path,
    kind: &Kind,
    made: &mut BTreeSet<&'p Path>,
) -> io::Result<()> {
    let target = slice.join(path);
    if let Some(parent) = path.parent()
        && made.insert(parent)
    {
        fs::create_dir_all(slice.join(parent))?;
    }
    match kind {
        Kind::Directory => fs::create_dir_all(target),
        Kind::File(_) => fs::hard_link(root.join(path), target),
        Kind::Link(to) => symlink(to, target),
        Kind::Other => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::generate;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn slices_hold_everything_once_and_about_equal(
            sizes in proptest::collection::vec(0_u64..5000, 1..60), n in 1_usize..9,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().join("data");
            generate::files(&root, &sizes, 7, 1).unwrap();
            let tree = Tree::read(&root).unwrap();
            let slices = make(&root, &tree, &dir.path().join("s"), n).unwrap();
            let trees: Vec<Tree> = slices.iter().map(|slice| Tree::read(slice).unwrap()).collect();
            prop_assert_eq!(trees.iter().map(Tree::files).sum::<u64>(), tree.files());
            prop_assert_eq!(trees.iter().map(Tree::bytes).sum::<u64>(), tree.bytes());
            // With this greedy distribution, two slices differ by at most the size of the largest file.
            let bytes: Vec<u64> = trees.iter().map(Tree::bytes).collect();
            let spread = bytes.iter().max().unwrap() - bytes.iter().min().unwrap();
            prop_assert!(spread <= *sizes.iter().max().unwrap());
            let mut names: Vec<_> = trees.iter().flat_map(Tree::entries)
                .filter(|(_, kind)| matches!(kind, Kind::File(_))).map(|(path, _)| path).collect();
            names.sort();
            names.dedup();
            prop_assert_eq!(names.len() as u64, tree.files());
        }
    }

    #[test]
    fn links_and_empty_directories_come_along() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("data");
        fs::create_dir_all(root.join("empty")).unwrap();
        fs::write(root.join("a"), b"1234").unwrap();
        symlink("a", root.join("l")).unwrap();
        let tree = Tree::read(&root).unwrap();
        let slices = make(&root, &tree, &dir.path().join("s"), 2).unwrap();
        assert!(slices[0].join("empty").is_dir());
        let kinds: Vec<Kind> = slices
            .iter()
            .flat_map(|s| Tree::read(s).unwrap().entries().to_vec())
            .map(|(_, kind)| kind)
            .collect();
        assert!(kinds.contains(&Kind::Link("a".into())) && kinds.contains(&Kind::File(4)));
    }
}
