//! POSIX ACLs in the kernel's format (linux/posix_acl_xattr.h): a version, and then the tag, permissions and
//! number of each entry, all little endian.

use linerate_wire::entry::{AclEntry, AclTag};
use rustix::fs::Mode;

const VERSION: u32 = 2;
const ENTRY: usize = 8;
/// The number in an entry that names no user or group.
const NOBODY: u32 = u32::MAX;

const USER_OBJ: u16 = 1;
const USER: u16 = 2;
const GROUP_OBJ: u16 = 4;
const GROUP: u16 = 8;
const MASK: u16 = 16;
const OTHER: u16 = 32;

/// Whether a number identifies a user or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The number identifies a user.
    User,
    /// The number identifies a group.
    Group,
}

/// Parses the kernel's format; `name` returns the name of a number, which may be empty. `None` if the bytes aren't an
/// ACL.
pub fn decode(value: &[u8], mut name: impl FnMut(Who, u32) -> String) -> Option<Vec<AclEntry>> {
    let (version, entries) = value.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != VERSION || entries.len() % ENTRY != 0 {
        return None;
    }
    entries.chunks_exact(ENTRY).map(|entry| decode_entry(entry, &mut name)).collect()
}

fn decode_entry(entry: &[u8], name: &mut impl FnMut(Who, u32) -> String) -> Option<AclEntry> {
    let short = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
    let number = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
    let tag = match short(0) {
        USER_OBJ => AclTag::UserObj,
        USER => AclTag::User(number, name(Who::User, number)),
        GROUP_OBJ => AclTag::GroupObj,
        GROUP => AclTag::Group(number, name(Who::Group, number)),
        MASK => AclTag::Mask,
        OTHER => AclTag::Other,
        _ => return None,
    };
    let permissions = u8::try_from(short(2)).ok().filter(|bits| *bits < 8)?;
    Some(AclEntry { tag, permissions })
}

/// Writes the kernel's format, in the order that the kernel requires; `number` returns the number of a named user or
/// group.
pub fn encode(acl: &[AclEntry], mut number: impl FnMut(Who, u32, &str) -> u32) -> Vec<u8> {
    let mut entries: Vec<(u16, u32, u16)> = acl
        .iter()
        .map(|entry| {
            let (tag, whose) = match &entry.tag {
                AclTag::UserObj => (USER_OBJ, NOBODY),
                AclTag::User(id, name) => (USER, number(Who::User, *id, name)),
                AclTag::GroupObj => (GROUP_OBJ, NOBODY),
                AclTag::Group(id, name) => (GROUP, number(Who::Group, *id, name)),
                AclTag::Mask => (MASK, NOBODY),
                AclTag::Other => (OTHER, NOBODY),
            };
            (tag, whose, u16::from(entry.permissions & 7))
        })
        .collect();
    entries.sort_unstable();
    let mut value = VERSION.to_le_bytes().to_vec();
    for (tag, whose, permissions) in entries {
        value.extend_from_slice(&tag.to_le_bytes());
        value.extend_from_slice(&permissions.to_le_bytes());
        value.extend_from_slice(&whose.to_le_bytes());
    }
    value
}

/// The ACL, with the entries for the owner, for others and for the mask taken from `mode`, because on a file these
/// entries always agree with the mode. The result grants no right that the mode doesn't grant. Without a mode, the ACL
/// is returned unchanged.
pub fn within(acl: &[AclEntry], mode: Option<Mode>) -> Vec<AclEntry> {
    let Some(mode) = mode else { return acl.to_vec() };
    let has_mask = acl.iter().any(|entry| entry.tag == AclTag::Mask);
    let class = |shift: u32| (mode.as_raw_mode() >> shift & 7) as u8;
    let permissions = |entry: &AclEntry| match entry.tag {
        AclTag::UserObj => class(6),
        AclTag::Mask => class(3),
        AclTag::GroupObj if !has_mask => class(3),
        AclTag::Other => class(0),
        AclTag::GroupObj | AclTag::User(..) | AclTag::Group(..) => entry.permissions,
    };
    acl.iter().map(|entry| AclEntry { permissions: permissions(entry), tag: entry.tag.clone() }).collect()
}

/// The mode of an entry that should have this ACL but can't have it. With the ACL, the mode's group bits
/// would be its mask; without it, the group bits must not grant more than the ACL grants to the group.
pub fn without(acl: &[AclEntry], mode: Mode) -> Mode {
    let group = acl.iter().find(|entry| entry.tag == AclTag::GroupObj);
    let rights = group.map_or(7, |entry| u32::from(entry.permissions & 7));
    mode & !Mode::from_raw_mode((!rights & 7) << 3)
}

/// The mode that corresponds to the ACL.
pub fn permissions(acl: &[AclEntry]) -> Mode {
    let of =
        |tag: AclTag| acl.iter().find(|entry| entry.tag == tag).map(|entry| u32::from(entry.permissions & 7));
    let group = of(AclTag::Mask).or_else(|| of(AclTag::GroupObj));
    let [user, group, other] = [of(AclTag::UserObj), group, of(AclTag::Other)].map(Option::unwrap_or_default);
    Mode::from_raw_mode(user << 6 | group << 3 | other)
}

/// True if the ACL contains only entries for the owner, the group and others, so that the mode expresses the same
/// rights.
pub fn is_mode(acl: &[AclEntry]) -> bool {
    let plain = |entry: &AclEntry| matches!(entry.tag, AclTag::UserObj | AclTag::GroupObj | AclTag::Other);
    acl.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(tag: AclTag, permissions: u8) -> AclEntry {
        AclEntry { tag, permissions }
    }

    fn acl() -> Vec<AclEntry> {
        vec![
            entry(AclTag::UserObj, 7),
            entry(AclTag::User(1000, "ann".into()), 5),
            entry(AclTag::GroupObj, 5),
            entry(AclTag::Group(50, String::new()), 4),
            entry(AclTag::Mask, 5),
            entry(AclTag::Other, 0),
        ]
    }

    fn name(who: Who, number: u32) -> String {
        if (who, number) == (Who::User, 1000) { "ann".into() } else { String::new() }
    }

    #[test]
    fn the_kernels_form_comes_back() {
        let value = encode(&acl(), |_, number, _| number);
        // The expected bytes are those that `getfattr -n system.posix_acl_access -e hex` prints.
        let expected: Vec<u8> = [
            &[2, 0, 0, 0][..],
            &[1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 5, 0, 232, 3, 0, 0],
            &[4, 0, 5, 0, 255, 255, 255, 255, 8, 0, 4, 0, 50, 0, 0, 0],
            &[16, 0, 5, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255],
        ]
        .concat();
        assert_eq!(value, expected);
        assert_eq!(decode(&value, name), Some(acl()));
    }

    #[test]
    fn entries_get_the_kernels_order_whatever_the_numbers_become() {
        let two = [
            entry(AclTag::Other, 0),
            entry(AclTag::User(1, "b".into()), 1),
            entry(AclTag::User(2, "a".into()), 2),
        ];
        let value = encode(&two, |_, number, name| if name == "b" { 9 } else { number });
        let back = decode(&value, |_, _| String::new()).unwrap();
        let tags: Vec<_> = back.into_iter().map(|entry| entry.tag).collect();
        assert_eq!(tags, [AclTag::User(2, String::new()), AclTag::User(9, String::new()), AclTag::Other]);
    }

    #[test]
    fn an_acl_of_three_entries_is_a_mode() {
        assert!(!is_mode(&acl()) && is_mode(&[]));
        assert!(is_mode(&[acl()[0].clone(), acl()[2].clone(), acl()[5].clone()]));
    }

    #[test]
    fn an_acl_opens_no_more_than_the_mode() {
        let cut = |mode| within(&acl(), Some(Mode::from_raw_mode(mode)));
        let expected = |owner, mask, other| {
            let mut expected = acl();
            (expected[0].permissions, expected[4].permissions, expected[5].permissions) =
                (owner, mask, other);
            expected
        };
        assert_eq!(cut(0o750), acl());
        assert_eq!(cut(0o640), expected(6, 4, 0));
        assert_eq!(cut(0o601), expected(6, 0, 1));
        let plain = [entry(AclTag::GroupObj, 7)];
        assert_eq!(within(&plain, Some(Mode::from_raw_mode(0o750))), [entry(AclTag::GroupObj, 5)]);
    }

    #[test]
    fn a_mask_is_no_right_of_the_group() {
        let acl =
            [entry(AclTag::GroupObj, 0), entry(AclTag::User(1, String::new()), 7), entry(AclTag::Mask, 7)];
        assert_eq!(without(&acl, Mode::from_raw_mode(0o6770)).as_raw_mode(), 0o6700);
        assert_eq!(without(&[], Mode::from_raw_mode(0o770)).as_raw_mode(), 0o770);
    }

    proptest! {
        #[test]
        fn garbage_never_panics(value in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode(&value, |_, _| String::new());
        }
    }
}
