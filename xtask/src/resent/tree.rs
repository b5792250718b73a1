//! Makes a tree with files of mixed sizes, and compares two trees.

use fastrand::Rng;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::chaos::tree::{names, write};

/// Makes files with about `size` bytes in total: three large, many of some MB, and many small files. Returns the size
/// of the largest file.
pub fn make(top: &Path, size: u64, rng: &mut Rng) -> io::Result<u64> {
    let largest = size / 5;
    for (name, length) in [("large a", largest), ("large b", size / 10), ("deep/er/large c", size / 20)] {
        write(&top.join(name), length, rng)?;
    }
    let mut left = size / 2;
    for number in 0.. {
        // Most files are small; a few are 20 times as large.
        let length = (100_000.0 * (rng.f64() * 5.0).exp()) as u64;
        if length > left {
            break;
        }
        left -= length;
        write(&top.join(format!("middle {}/{number}", number % 7)), length, rng)?;
    }
    for number in 0..size / 10 / 20_000 {
        let length = rng.u64(0..20_000);
        write(&top.join(format!("small/{}/{number}", number % 20)), length, rng)?;
    }
    symlink("large a", top.join("link"))?;
    fs::create_dir(top.join("empty"))?;
    Ok(largest)
}

/// The differences between two trees, one per line.
pub fn differences(here: &Path, there: &Path) -> io::Result<Vec<String>> {
    let [ours, theirs] = [here, there].map(|top| BTreeSet::from_iter(names(top)));
    let mut lines: Vec<String> = ours
        .symmetric_difference(&theirs)
        .map(|path| format!("{} is in one tree only", path.display()))
        .collect();
    for path in ours.intersection(&theirs) {
        if !is_same(&here.join(path), &there.join(path))? {
            lines.push(format!("{} differs", path.display()));
        }
    }
    Ok(lines)
}

/// Whether both paths are the same kind of entry: the same link, a directory, or a file with the same
/// contents.
pub fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (a, b) = (one.symlink_metadata()?, other.symlink_metadata()?);
    if a.file_type() != b.file_type() {
        return Ok(false);
    }
    if a.is_symlink() {
        return Ok(fs::read_link(one)? == fs::read_link(other)?);
    }
    if a.is_dir() {
        return Ok(true);
    }
    if a.len() != b.len() {
        return Ok(false);
    }
    let (mut a, mut b) = (File::open(one)?, File::open(other)?);
    let (mut x, mut y) = (vec![0; 256 << 10], vec![0; 256 << 10]);
    loop {
        let got = a.read(&mut x)?;
        if got == 0 {
            return Ok(b.read(&mut y)? == 0);
        }
        if b.read_exact(&mut y[..got]).is_err() || x[..got] != y[..got] {
            return Ok(false);
        }
    }
}
