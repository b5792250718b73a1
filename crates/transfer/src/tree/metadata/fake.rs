//! `--fake-super`: properties that only root could set are stored in attributes of ordinary files, in rsync's format.
//! `user.rsync.%stat` contains type and mode (octal), device numbers, owner and group: `20644 1,3 0:0`.
//! `user.rsync.%aacl` and `user.rsync.%dacl` are ACLs. An attribute `NAME` outside `user.` is stored as
//! `user.rsync.NAME`.

use linerate_wire::entry::{AclEntry, AclTag, Kind, MAX_ACL};
use rustix::fs::{FileType, Mode, RawMode, Stat};

use super::acl::Who;
use super::is_name;

/// The attribute that holds the type, mode, device numbers and owner of the entry for which a file stands.
pub const STAT: &str = "user.rsync.%stat";
/// The attribute that holds the ACL.
pub const ACCESS: &str = "user.rsync.%aacl";
/// The attribute that holds a directory's default ACL.
pub const DEFAULT: &str = "user.rsync.%dacl";
/// The prefix of the names under which attributes that only root could set are stored.
const PREFIX: &[u8] = b"user.rsync.";
/// The most bytes of [`STAT`] that are read. Its numbers are never longer.
pub const MOST_STAT_BYTES: usize = 255;

/// Marks an ACL entry as missing, because its permissions are in the mode.
const NO_ENTRY: u32 = 0x80;
/// Marks a named ACL entry as that of a user, and not of a group.
const IS_USER: u32 = 1 << 31;
const NUMBER: usize = 4;

/// The parsed value of [`STAT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FakeStat {
    /// The type and permissions of the entry.
    pub mode: u32,
    /// The device's major and minor number; zeros for other kinds of entries.
    pub device: (u32, u32),
    /// The owner's user number.
    pub uid: u32,
    /// The owner's group number.
    pub gid: u32,
}

impl FakeStat {
    /// Parses the attribute of a file of the type `real`. `None` if the value is invalid for such a file: a
    /// directory can stand only for a directory.
    pub fn parse(value: &[u8], real: FileType) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let mut parts = text.split_ascii_whitespace();
        let mode = u32::from_str_radix(parts.next()?, 8).ok()?;
        let (device, owner) = (pair(parts.next()?, ',')?, pair(parts.next()?, ':')?);
        let stands_for = FileType::from_raw_mode(mode);
        let is_possible = match real {
            FileType::Directory => stands_for == FileType::Directory,
            FileType::RegularFile => !matches!(stands_for, FileType::Directory | FileType::Unknown),
            _ => false,
        };
        let (uid, gid) = owner;
        (is_possible && parts.next().is_none()).then_some(Self { mode: mode & 0o177_777, device, uid, gid })
    }

    /// The value in the attribute's format.
    pub fn text(&self) -> String {
        let Self { mode, device: (major, minor), uid, gid } = self;
        format!("{mode:o} {major},{minor} {uid}:{gid}")
    }

    /// The stat of the entry for which the file stands. The file's own stat is `real`.
    pub fn apply(&self, real: &Stat) -> Stat {
        let mut seen = *real;
        let (major, minor) = self.device;
        seen.st_mode = self.mode;
        seen.st_rdev = rustix::fs::makedev(major, minor);
        (seen.st_uid, seen.st_gid) = (self.uid, self.gid);
        seen
    }

    /// The mode of the file that has this attribute.
    pub fn real_mode(&self) -> Mode {
        real_mode(self.mode)
    }

    /// True if the file itself, with the mode [`FakeStat::real_mode`], already has all properties that this
    /// value declares.
    pub fn is_real(&self, real: &Stat) -> bool {
        let kind = FileType::from_raw_mode(self.mode);
        kind == FileType::from_raw_mode(real.st_mode)
            && self.real_mode().as_raw_mode() == self.mode & 0o7777
            && (self.uid, self.gid) == (real.st_uid, real.st_gid)
    }
}

/// The mode of a file that stands for an entry with this type and mode. The file's owner has access in any
/// case, and the file has no set-id bits.
pub fn real_mode(mode: RawMode) -> Mode {
    let needed = match FileType::from_raw_mode(mode) {
        FileType::Directory => Mode::RWXU,
        _ => Mode::RUSR | Mode::WUSR,
    };
    Mode::from_raw_mode(mode & 0o777) | needed
}

fn pair(text: &str, between: char) -> Option<(u32, u32)> {
    let (first, second) = text.split_once(between)?;
    Some((first.parse().ok()?, second.parse().ok()?))
}

/// The type bits of the mode of an entry of this kind, and the entry's device numbers.
pub fn kind_of(kind: &Kind) -> (u32, (u32, u32)) {
    let of = |kind: FileType| (kind.as_raw_mode(), (0, 0));
    match kind {
        Kind::File { .. } | Kind::HardLink { .. } => of(FileType::RegularFile),
        Kind::Directory => of(FileType::Directory),
        Kind::Symlink { .. } => of(FileType::Symlink),
        Kind::Fifo => of(FileType::Fifo),
        Kind::Socket => of(FileType::Socket),
        Kind::Device { block, major, minor } => {
            let kind = if *block { FileType::BlockDevice } else { FileType::CharacterDevice };
            (kind.as_raw_mode(), (*major, *minor))
        }
    }
}

/// True for the attributes of this format that store the stat or an ACL, and not another attribute.
pub fn is_own(name: &[u8]) -> bool {
    [STAT, ACCESS, DEFAULT].iter().any(|own| own.as_bytes() == name)
}

/// The name under which an attribute is stored.
pub fn stored(name: &[u8]) -> Vec<u8> {
    if name.starts_with(b"user.") { name.to_vec() } else { [PREFIX, name].concat() }
}

/// The name of the attribute that is stored under the name `stored`.
pub fn meant(stored: &[u8]) -> &[u8] {
    let name = stored.strip_prefix(PREFIX).filter(|name| is_name(name) && !name.starts_with(b"%"));
    // Attributes in the namespace `user.` are stored under their own names.
    name.filter(|name| !name.starts_with(b"user.") && !name.starts_with(b"system.")).unwrap_or(stored)
}

/// Parses an ACL of a file with `mode`; `name` returns the name of a number. `None` if the bytes aren't an ACL.
pub fn decode_acl(
    value: &[u8],
    mode: u32,
    mut name: impl FnMut(Who, u32) -> String,
) -> Option<Vec<AclEntry>> {
    let mut numbers = value
        .chunks(NUMBER)
        .map(|bytes| bytes.try_into().ok().map(u32::from_le_bytes))
        .collect::<Option<Vec<_>>>()?;
    if numbers.len() < 4 || numbers.len() % 2 == 1 || numbers.len() / 2 + 3 > MAX_ACL {
        return None;
    }
    let named = numbers.split_off(4);
    let or_mode = |permissions: u32, shift: u32| match permissions {
        NO_ENTRY => Some((mode >> shift & 7) as u8),
        other => u8::try_from(other).ok().filter(|bits| *bits <= 7),
    };
    let mut acl = vec![AclEntry { tag: AclTag::UserObj, permissions: or_mode(numbers[0], 6)? }];
    for pair in named.chunks(2) {
        let (number, permissions) =
            (pair[0], u8::try_from(pair[1] & !IS_USER).ok().filter(|bits| *bits <= 7)?);
        let tag = match pair[1] & IS_USER != 0 {
            true => AclTag::User(number, name(Who::User, number)),
            false => AclTag::Group(number, name(Who::Group, number)),
        };
        acl.push(AclEntry { tag, permissions });
    }
    acl.push(AclEntry { tag: AclTag::GroupObj, permissions: or_mode(numbers[1], 3)? });
    if numbers[2] != NO_ENTRY || !named.is_empty() {
        acl.push(AclEntry { tag: AclTag::Mask, permissions: or_mode(numbers[2], 3)? });
    }
    acl.push(AclEntry { tag: AclTag::Other, permissions: or_mode(numbers[3], 0)? });
    Some(acl)
}

/// The stored format of an ACL that isn't empty. If `access` is set, the permissions of the owner and others aren't
/// stored, because the mode contains them.
pub fn encode_acl(acl: &[AclEntry], access: bool, mut number: impl FnMut(Who, u32, &str) -> u32) -> Vec<u8> {
    let (mut own, mut named) = ([NO_ENTRY; 4], Vec::new());
    for AclEntry { tag, permissions } in acl {
        let bits = u32::from(*permissions & 7);
        match tag {
            AclTag::UserObj if !access => own[0] = bits,
            AclTag::GroupObj => own[1] = bits,
            AclTag::Mask => own[2] = bits,
            AclTag::Other if !access => own[3] = bits,
            AclTag::UserObj | AclTag::Other => {}
            // Users come before groups, and both are sorted by number.
            AclTag::User(id, name) => named.push((0, number(Who::User, *id, name), bits | IS_USER)),
            AclTag::Group(id, name) => named.push((1, number(Who::Group, *id, name), bits)),
        }
    }
    if access && own[1] == own[2] {
        // If the group's permissions equal the mask, they equal the mode's group bits, so they aren't stored.
        own[1] = NO_ENTRY;
    }
    named.sort_unstable();
    let named = named.into_iter().flat_map(|(_, number, bits)| [number, bits]);
    own.into_iter().chain(named).flat_map(u32::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rsyncs_words_are_read_and_written() {
        let (file, directory) = (FileType::RegularFile, FileType::Directory);
        let device = FakeStat::parse(b"20644 1,3 0:7", file).unwrap();
        assert_eq!(device, FakeStat { mode: 0o20644, device: (1, 3), uid: 0, gid: 7 });
        assert_eq!((device.text().as_str(), device.real_mode().as_raw_mode()), ("20644 1,3 0:7", 0o644));
        let closed = FakeStat::parse(b"42000 0,0 1:2", directory).unwrap();
        assert_eq!(closed.real_mode(), Mode::RWXU, "no set-id bit, and its owner gets in");
        for (value, real) in [
            (&b""[..], file),
            (b"100644 0,0 0", file),
            (b"100644 0,0 0:0 1", file),
            (b"100648 0,0 0:0", file),
            (b"100644 0,-1 0:0", file),
            (b"644 0,0 0:0", file),
            (b"40755 0,0 0:0", file),
            (b"100644 0,0 0:0", directory),
            (b"100644 0,0 0:0", FileType::Symlink),
            (b"100644 0,0 4294967296:0", file),
            (b"\xff", file),
        ] {
            assert_eq!(FakeStat::parse(value, real), None, "{value:?}");
        }
    }

    #[test]
    fn what_the_file_is_itself_needs_no_words() {
        let mut real = rustix::fs::stat("/proc/self/exe").unwrap();
        (real.st_mode, real.st_uid, real.st_gid) = (0o100_644, 5, 6);
        let said = FakeStat { mode: 0o100_644, device: (0, 0), uid: 5, gid: 6 };
        assert!(said.is_real(&real));
        let others = [
            FakeStat { mode: 0o104_755, ..said },
            FakeStat { mode: 0o100_444, ..said },
            FakeStat { mode: 0o010_644, ..said },
            FakeStat { uid: 6, ..said },
        ];
        assert!(others.iter().all(|said| !said.is_real(&real)));
        assert_eq!(others[2].apply(&real).st_mode, 0o010_644);
    }

    #[test]
    fn names_are_stored_and_found_again() {
        for (name, kept) in [
            (&b"user.a"[..], &b"user.a"[..]),
            (b"security.capability", b"user.rsync.security.capability"),
            (b"trusted.x", b"user.rsync.trusted.x"),
        ] {
            assert_eq!((stored(name).as_slice(), meant(kept)), (kept, name));
        }
        for unlike in [
            &b"user.rsync.%stat"[..],
            b"user.rsync.x",
            b"user.rsync.user.a",
            b"user.rsync.system.posix_acl_access",
        ] {
            assert_eq!(meant(unlike), unlike, "not another's name");
        }
    }

    #[test]
    fn an_acl_has_rsyncs_form() {
        let nameless = |_: Who, _: u32| String::new();
        let bytes = [0x80, 5, 0x80, 0x80, 7, 4 | IS_USER].map(u32::to_le_bytes).concat();
        let entry = |tag, permissions| AclEntry { tag, permissions };
        let acl = vec![
            entry(AclTag::UserObj, 7),
            entry(AclTag::User(7, String::new()), 4),
            entry(AclTag::GroupObj, 5),
            entry(AclTag::Mask, 5),
            entry(AclTag::Other, 1),
        ];
        assert_eq!(decode_acl(&bytes, 0o751, nameless), Some(acl.clone()));
        let written = encode_acl(&acl, true, |_, number, _| number);
        assert_eq!(written, [0x80, 0x80, 5, 0x80, 7, 4 | IS_USER].map(u32::to_le_bytes).concat());
        let whole = encode_acl(&acl, false, |_, number, _| number);
        assert_eq!(decode_acl(&whole, 0, nameless), Some(acl));
        for broken in
            [&bytes[..12], &bytes[..20], &bytes[..23], &[8u32, 8, 8, 8].map(u32::to_le_bytes).concat()]
        {
            assert_eq!(decode_acl(broken, 0o751, nameless), None);
        }
    }
}
