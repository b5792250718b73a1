//! Trees of several shapes, each with an older version, and comparisons of two trees.

use anyhow::Context;
use fastrand::Rng;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, XattrFlags, mknodat, setxattr, utimensat,
};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::call;

/// A tree and an older version of it.
pub struct Shape {
    pub name: &'static str,
    /// The directory that holds both versions.
    pub top: PathBuf,
    /// The number of bytes that the tree takes on disk.
    pub bytes: u64,
    /// Whether the tree has only files, directories, and links that lead to files or directories.
    pub is_plain: bool,
}

impl Shape {
    pub fn tree(&self) -> PathBuf {
        self.top.join("tree")
    }

    pub fn older(&self) -> PathBuf {
        self.top.join("older")
    }
}

/// Makes all shapes below `top`. The trees are the same in every run.
pub fn make_shapes(top: &Path) -> anyhow::Result<Vec<Shape>> {
    let makers: [(&str, Maker, bool); 4] =
        [("small", small, true), ("large", large, true), ("mixed", mixed, true), ("kinds", kinds, false)];
    let shape = |(name, make, is_plain): (&'static str, Maker, bool)| {
        let mut rng = Rng::with_seed(7);
        let shape = Shape { name, top: top.join(name), bytes: 0, is_plain };
        fs::create_dir_all(shape.tree())?;
        make(&shape.tree(), &mut rng)?;
        call(Command::new("cp").arg("-a").args([shape.tree(), shape.older()]))?;
        age(&shape.older(), &mut rng).context("an older version")?;
        let bytes = names(&shape.tree())
            .into_iter()
            .filter_map(|path| shape.tree().join(path).symlink_metadata().ok());
        let bytes = bytes.filter(fs::Metadata::is_file).map(|meta| meta.blocks() * 512).sum();
        Ok(Shape { bytes, ..shape })
    };
    makers.into_iter().map(shape).collect()
}

type Maker = fn(&Path, &mut Rng) -> io::Result<()>;

fn small(top: &Path, rng: &mut Rng) -> io::Result<()> {
    for number in 0..1200 {
        let length = if number % 40 == 0 { rng.u64(60_000..300_000) } else { rng.u64(0..16_000) };
        write(&top.join(format!("{}/{}/{number}", number % 5, number % 37)), length, rng)?;
    }
    symlink("0/0/0", top.join("link"))?;
    fs::create_dir(top.join("empty"))
}

fn large(top: &Path, rng: &mut Rng) -> io::Result<()> {
    write(&top.join("one of chunks"), 26_000_000, rng)?;
    write(&top.join("deep/er/another of chunks"), 18_000_001, rng)?;
    write(&top.join("deep/whole"), 6_000_000, rng)?;
    for number in 0..20 {
        write(&top.join(format!("few/{number}")), 1000 * number, rng)?;
    }
    symlink("deep", top.join("link to a directory"))
}

fn mixed(top: &Path, rng: &mut Rng) -> io::Result<()> {
    write(&top.join("large"), 20_000_000, rng)?;
    for number in 0..12 {
        let length = (80_000.0 * (rng.f64() * 3.0).exp()) as u64;
        write(&top.join(format!("middle {}/{number}", number % 3)), length, rng)?;
    }
    for number in 0..300 {
        let length = rng.u64(0..20_000);
        write(&top.join(format!("small/{}/{number}", number % 20)), length, rng)?;
    }
    symlink("large", top.join("link"))
}

/// Every kind of entry, with metadata.
pub fn kinds(top: &Path, rng: &mut Rng) -> io::Result<()> {
    for number in 0..150 {
        let path = top.join(format!("{}/file {number}", number % 7));
        write(&path, rng.u64(0..60_000), rng)?;
        let mode = [0o644, 0o600, 0o400, 0o4755, 0o2711, 0o000, 0o666, 0o640][number % 8];
        chown(&path, Some(number as u32 % 3 * 1000), Some(number as u32 % 2 * 1000))?;
        fs::set_permissions(&path, PermissionsExt::from_mode(mode))?;
        set_time(&path, 1_000_000_000 + number as i64, 123_456_789)?;
        if number % 5 == 0 {
            setxattr(&path, "user.note", format!("{number}").as_bytes(), XattrFlags::empty())?;
        }
        if number % 9 == 0 {
            setxattr(&path, "system.posix_acl_access", &acl(number as u32), XattrFlags::empty())?;
        }
        if number % 11 == 0 {
            fs::hard_link(&path, top.join(format!("name {number}")))?;
        }
    }
    let mut sparse = File::create(top.join("sparse"))?;
    sparse.set_len(24 << 20)?;
    sparse.seek(SeekFrom::Start(9 << 20))?;
    sparse.write_all(&[7; 100_000])?;
    symlink("leads nowhere", top.join("dangling"))?;
    mknodat(CWD, top.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o620), 0)?;
    mknodat(
        CWD,
        top.join("device"),
        FileType::CharacterDevice,
        Mode::from_raw_mode(0o600),
        rustix::fs::makedev(1, 3),
    )?;
    write(&top.join("odd \n\t \\ na\u{7f}me"), 10, rng)?;
    for (name, mode) in [("closed", 0o700), ("unwritable", 0o555), ("sticky", 0o1777), ("group", 0o2755)] {
        write(&top.join(name).join("file"), 5000, rng)?;
        fs::set_permissions(top.join(name), PermissionsExt::from_mode(mode))?;
        set_time(&top.join(name), 1_100_000_000, 5)?;
    }
    setxattr(top.join("sticky"), "system.posix_acl_default", &acl(3), XattrFlags::empty())?;
    Ok(())
}

/// An ACL in which user 1000 + `number` may read (linux/posix_acl_xattr.h).
fn acl(number: u32) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    let none = u32::MAX;
    for (tag, rights, id) in
        [(1u16, 6u16, none), (2, 4, 1000 + number), (4, 4, none), (0x10, 4, none), (0x20, 0, none)]
    {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// Changes some files, removes some, and adds others.
fn age(top: &Path, rng: &mut Rng) -> io::Result<()> {
    for path in names(top) {
        let path = top.join(path);
        let meta = path.symlink_metadata()?;
        if !meta.is_file() || meta.nlink() > 1 {
            continue;
        }
        match rng.u32(0..10) {
            0 => fs::remove_file(&path)?,
            1..4 => {
                let mut file = File::options().write(true).open(&path)?;
                for _ in 0..3 {
                    file.seek(SeekFrom::Start(rng.u64(0..meta.len().max(1))))?;
                    file.write_all(b"older")?;
                }
                set_time(&path, 1_200_000_000, 0)?;
            }
            4 => {
                File::options().write(true).open(&path)?.set_len(meta.len() / 2)?;
                set_time(&path, 1_200_000_000, 0)?;
            }
            // In the older version, all bytes of the file are at other positions.
            5 => {
                let bytes = fs::read(&path)?;
                fs::write(&path, &bytes[bytes.len() / 50..])?;
                set_time(&path, 1_200_000_000, 0)?;
            }
            6 => fs::set_permissions(&path, PermissionsExt::from_mode(0o604))?,
            _ => {}
        }
    }
    for name in ["further", "further directory/deep/file", "further directory/other"] {
        write(&top.join(name), 30_000, rng)?;
    }
    Ok(())
}

fn set_time(path: &Path, seconds: i64, nanoseconds: i64) -> io::Result<()> {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Makes a file of `length` random bytes, and the directories above it.
pub fn write(path: &Path, length: u64, rng: &mut Rng) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let (mut file, mut left) = (File::create(path)?, length as usize);
    let mut block = vec![0; left.min(1 << 20)];
    while left > 0 {
        let take = left.min(block.len());
        rng.fill(&mut block[..take]);
        file.write_all(&block[..take])?;
        left -= take;
    }
    Ok(())
}

/// The paths of all entries below `top`, in no particular order; entries may appear or vanish meanwhile.
pub fn names(top: &Path) -> Vec<PathBuf> {
    let (mut found, mut waiting) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(path) = waiting.pop() {
        for entry in fs::read_dir(top.join(&path)).into_iter().flatten().flatten() {
            let below = path.join(entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(below.clone());
            }
            found.push(below);
        }
    }
    found.sort();
    found
}

/// Whether both paths are regular files, or links to files, with the same contents.
pub fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut a, mut b) = (open(one)?, open(other)?);
    let (left, right) = (a.metadata()?, b.metadata()?);
    if !left.is_file() || !right.is_file() || left.len() != right.len() {
        return Ok(false);
    }
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

/// Opens a file; for a FIFO, it doesn't wait for a writer.
fn open(path: &Path) -> io::Result<File> {
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?.into())
}
