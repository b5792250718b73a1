//! Tests of the parts of a changed file that `linerate sync` sends, and of files that are written in place.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bed::{Case, args, case};
use crate::json::{summary_of, u64_at};
use crate::syncs::{assert_rsync_finds_nothing, make_tree, paths};
use crate::tree::{noise, set_time, write};

const MIB: usize = 1 << 20;

/// Changes one byte in each of the given MiB of a file.
fn change(path: &Path, places: &[usize]) {
    let mut bytes = fs::read(path).unwrap();
    places.iter().for_each(|mib| bytes[mib * MIB + 77] ^= 1);
    fs::write(path, bytes).unwrap();
}

fn sent(case: &Case, options: &[&str]) -> u64 {
    let mut words = args!["--json"];
    words.extend(options.iter().map(Into::into));
    words.extend(args!["tree", case.b("copy")]);
    u64_at(&summary_of(&case.sync(words).exits(0).out), "/sender/stages/bytes")
}

#[test]
fn of_a_large_file_only_the_chunks_travel_that_differ() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree/large"), case.far.join("copy/large"));
    // Nothing is said of what is there of less than a chunk, so that comes each time.
    let rest = 12_345;
    write(here.clone(), noise(3, 20 * MIB + rest));
    assert_eq!(sent(&case, &[]), (20 * MIB + rest) as u64);
    change(&here, &[0, 7, 19]);
    assert_eq!(sent(&case, &["--same-places"]), (3 * MIB + rest) as u64);
    change(&here, &[0, 7, 19]);
    let block = 16 << 10;
    assert_eq!(sent(&case, &[]), (3 * block + rest) as u64);
    assert_rsync_finds_nothing(&case.near.join("tree"), &case.far.join("copy"), &[]);
    set_time(&here, Duration::from_secs(7));
    assert_eq!(sent(&case, &[]), rest as u64, "touched, not changed");
    let inode = |path: &Path| path.metadata().unwrap().ino();
    let before = inode(&there);
    change(&here, &[5]);
    assert_eq!(sent(&case, &["--inplace"]), (MIB + rest) as u64);
    assert_eq!(inode(&there), before, "it is the same file still");
    let mut before = 20 * MIB;
    for length in [15 * MIB, 33 * MIB, 5 * MIB + 1] {
        write(here.clone(), noise(3, length));
        let (grown, changed) = (length.saturating_sub(before), if before == 20 * MIB { 3 } else { 1 });
        assert!(sent(&case, &[]) <= (grown + changed * MIB + rest) as u64);
        assert_rsync_finds_nothing(&case.near.join("tree"), &case.far.join("copy"), &[]);
        before = length;
    }
}

#[test]
fn what_is_written_into_keeps_its_inode_and_gets_everything_else() {
    let Some(case) = case() else { return };
    case.sync(args!["--inplace", "--update", "tree", case.b("copy")]).exits(2).says(&["cannot be used with"]);
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    make_tree(&here);
    case.sync(args!["tree", case.b("copy")]).exits(0);
    let inodes = |top: &Path| -> Vec<(PathBuf, u64)> {
        let files = paths(top).into_iter().filter(|path| path.symlink_metadata().unwrap().is_file());
        files.map(|path| (path.clone(), path.metadata().unwrap().ino())).collect()
    };
    let before = inodes(&there);
    for path in paths(&here).into_iter().filter(|path| path.symlink_metadata().unwrap().is_file()) {
        write(path.clone(), noise(8, path.metadata().unwrap().len() as usize / 2));
        fs::set_permissions(path, PermissionsExt::from_mode(0o640)).unwrap();
    }
    case.sync(args!["--inplace", case.near.join("tree"), case.b("copy")]).exits(0);
    assert_rsync_finds_nothing(&here, &there, &[]);
    assert_eq!(inodes(&there), before);
}
