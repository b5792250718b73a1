//! Checks of a program's file that don't run the program.

use rustix::fs::OFlags;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::strangers;

/// The number of bytes at the beginning of a program that [`fault`] examines: the ELF header.
pub const HEAD: usize = 64;

/// The kinds of machine for which an ELF header (elf(5)) can be checked: their names as `uname -m` prints them, and
/// their numbers in ELF headers (EM_X86_64, EM_AARCH64, EM_RISCV). All have 64 bits and are little endian.
const MACHINES: [(&str, u16); 3] = [("x86_64", 62), ("aarch64", 183), ("riscv64", 243)];

/// The reason, as the end of a sentence, why a program of `size` bytes that begins with the bytes `head` can't run on
/// the kind of machine `arch`; `None` if no reason is found. Scripts can run on all kinds of machine.
#[must_use]
pub fn fault(head: &[u8], size: u64, arch: &str) -> Option<String> {
    let number = MACHINES.iter().find(|(name, _)| *name == arch).map(|(_, number)| *number)?;
    let at = |at: usize| head.get(at..at + 2).map(|two| u16::from_le_bytes([two[0], two[1]]));
    match head {
        [] => return Some("it is empty".into()),
        _ if head.starts_with(b"#!") => return None,
        _ if !head.starts_with(b"\x7fELF") => return Some("it isn't a program".into()),
        _ => {}
    }
    let found = at(18).unwrap_or_default();
    if found != number {
        let other = MACHINES.iter().find(|(_, number)| *number == found);
        let other = other.map_or_else(|| format!("ELF's machine {found}"), |(name, _)| (*name).to_owned());
        return Some(format!("it is a program for {other}, not for {arch}"));
    }
    // The last part of an ELF file is usually the table of sections, so the end of this table shows whether the file is
    // complete.
    let place = head.get(40..48).and_then(|place| place.try_into().ok()).map(u64::from_le_bytes);
    let length = at(58).zip(at(60)).map(|(each, count)| u64::from(each) * u64::from(count));
    let end = place.zip(length).map(|(place, length)| place.saturating_add(length));
    end.is_none_or(|end| end > size).then(|| "its end is missing".into())
}

/// Opens a program's file for reading. A fifo or a device is refused, because reading it might not end. A file is also
/// refused if it is empty, or if it can be written by a user who may not write the running program.
///
/// # Errors
/// The reason, as the end of a sentence.
pub fn open(path: &Path) -> Result<File, String> {
    let mut options = File::options();
    options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path).map_err(|error| format!("it can't be read: {error}"))?;
    let metadata = file.metadata().map_err(|error| format!("it can't be read: {error}"))?;
    match metadata.len() {
        _ if metadata.is_dir() => Err("it is a directory".into()),
        _ if !metadata.is_file() => Err("it isn't a regular file".into()),
        0 => Err("it is empty".into()),
        _ => strangers::refuse(&metadata).map(|()| file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_says_the_machine_and_the_length() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        let (head, size, here) = (&own[..HEAD], own.len() as u64, std::env::consts::ARCH);
        assert_eq!(fault(head, size, here), None);
        let other = if here == "aarch64" { "x86_64" } else { "aarch64" };
        let of_other = fault(head, size, other).unwrap();
        assert_eq!(of_other, format!("it is a program for {here}, not for {other}"));
        let cut = |size| fault(head, size, here).is_some_and(|why| why.contains("end is missing"));
        assert!(cut(size / 2) && cut(HEAD as u64) && fault(&head[..20], 20, here).is_some());
        assert_eq!(fault(b"", 0, here).as_deref(), Some("it is empty"));
        assert_eq!(fault(b"text", 4, here).as_deref(), Some("it isn't a program"));
        assert_eq!((fault(b"#!/bin/sh", 9, here), fault(b"text", 4, "another")), (None, None));
    }

    #[test]
    fn only_files_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("empty"), "").unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        for (name, why) in [
            ("empty", "empty"),
            ("fifo", "isn't a regular file"),
            (".", "directory"),
            ("none", "No such file"),
        ] {
            let refused = open(&at(name)).unwrap_err();
            assert!(refused.contains(why), "{name}: {refused}");
        }
    }
}
