use super::*;
use crate::tree::root::Root;
use linerate_wire::control::LEAST_PIECE;
use linerate_wire::entry::Timestamp;
use linerate_wire::path::RelPath;
use std::ffi::OsStr;
use std::os::unix::fs::FileExt;
use std::path::Path;

const SIZE: u64 = 4 * LEAST_PIECE + 5;

fn divided(first: u32, count: u32) -> DividedFile {
    let (mtime, ctime) = (Timestamp::default(), Timestamp::default());
    let path = RelPath::root();
    let piece = LEAST_PIECE;
    DividedFile { path, key: [7; 16], size: SIZE, mtime, ctime, inode: 1, piece, first, count }
}

fn open(top: &Path, first: u32, count: u32) -> Result<DividedTarget, Errno> {
    let root = Root::open(top).unwrap();
    DividedTarget::open(root.top().clone(), divided(first, count), count > 0)
}

fn bring(target: &DividedTarget, pieces: Range<u64>) {
    for piece in pieces {
        let (offset, length) = (piece * LEAST_PIECE, LEAST_PIECE.min(SIZE - piece * LEAST_PIECE));
        let file = std::fs::File::from(target.file.try_clone().unwrap());
        file.write_all_at(&vec![piece as u8 + 1; length as usize], offset).unwrap();
        // The bytes arrive in two halves, as chunks do.
        target.came(offset, length / 2).unwrap();
        target.came(offset + length / 2, length - length / 2).unwrap();
    }
}

fn names(top: &Path) -> Vec<String> {
    std::fs::read_dir(top).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn whoever_brings_the_last_piece_has_the_whole_file_and_nobody_before() {
    let top = tempfile::tempdir().unwrap();
    assert_eq!(open(top.path(), 0, 0).err(), Some(Errno::NOENT), "a missing file isn't created");
    let (one, other) = (open(top.path(), 0, 2).unwrap(), open(top.path(), 2, 3).unwrap());
    bring(&other, 2..5);
    assert_eq!((other.seal(), one.seal()), (Ok(DividedState::Lacks(2)), Ok(DividedState::Lacks(2))));
    bring(&one, 0..1);
    drop(one);
    // The next attempt continues after the pieces that have their marks.
    let one = open(top.path(), 0, 2).unwrap();
    assert_eq!(one.present().unwrap(), HashSet::from([0, 2, 3, 4]));
    bring(&one, 1..2);
    assert_eq!(one.seal(), Ok(DividedState::Whole));
    assert_eq!(other.seal(), Ok(DividedState::Whole), "it is complete for all transfers");
    assert_eq!(open(top.path(), 0, 0).unwrap().present().unwrap().len(), 5);
    assert_eq!(other.came(2 * LEAST_PIECE, LEAST_PIECE), Err(Errno::STALE), "no mark is put into the file");
    one.temporary().unwrap().rename(OsStr::new("file")).unwrap();
    assert_eq!(other.seal(), Ok(DividedState::Gone));
    other.temporary().unwrap().rename(OsStr::new("file")).unwrap();
    let file = std::fs::read(top.path().join("file")).unwrap();
    let expected: Vec<u8> = (0..SIZE).map(|at| (at / LEAST_PIECE) as u8 + 1).collect();
    assert!(file == expected && names(top.path()) == ["file"]);
}

#[test]
fn it_stays_whatever_becomes_of_a_transfer_and_is_not_the_file_of_another_one() {
    let top = tempfile::tempdir().unwrap();
    let target = open(top.path(), 0, 1).unwrap();
    target.temporary().unwrap().discard();
    drop(target.temporary().unwrap());
    let [name] = &names(top.path())[..] else { panic!() };
    let path = top.path().join(name);
    // A file with a second hard link, a file of another length, and a symbolic link aren't accepted.
    std::fs::hard_link(&path, top.path().join("x")).unwrap();
    assert_eq!(open(top.path(), 0, 1).err(), Some(Errno::STALE));
    std::fs::remove_file(top.path().join("x")).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(SIZE + 1).unwrap();
    assert_eq!(open(top.path(), 0, 1).err(), Some(Errno::STALE));
    std::fs::remove_file(&path).unwrap();
    // A file that was removed and created again has none of the earlier marks.
    let again = open(top.path(), 0, 5).unwrap();
    assert_eq!(again.present().unwrap(), HashSet::new());
    assert_eq!(target.seal(), Err(Errno::STALE));
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
    assert_eq!(open(top.path(), 0, 1).err(), Some(Errno::LOOP));
}

#[test]
fn chunks_are_parts_of_a_piece_and_not_too_many() {
    for (size, piece) in [(SIZE, LEAST_PIECE), (20_000_000_000, 64 << 20), (1 << 47, 1 << 37)] {
        let file = DividedFile { size, piece, ..divided(1, 2) };
        assert!(file.is_consistent(), "{size}");
        let chunk = chunk_of(&file);
        assert!(chunk.is_power_of_two() && chunk <= piece && size.div_ceil(chunk) <= 1 << 17, "{chunk}");
        let present = present_of_nothing(&file).len() as u64;
        assert_eq!(size.div_ceil(chunk) - present, 2 * piece / chunk);
    }
}
