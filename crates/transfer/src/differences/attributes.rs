//! Digests of extended attributes, and comparisons of ACLs, owners and hard links.

use linerate_wire::control::{Attributes, Digest};
use linerate_wire::entry::{AclEntry, AclTag, Extra, Owner};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::tree::metadata::is_kept;

/// Identifies a file by its device and inode numbers.
type FileId = (u64, u64);

/// The digests of an entry's extended attributes: one of the attributes in the namespace `user.` and, if `is_root` is
/// set, one of all others, which an ordinary user can't see.
pub fn attributes(mut xattrs: Vec<(Vec<u8>, Vec<u8>)>, is_root: bool) -> Attributes {
    xattrs.sort_unstable();
    let (user, others): (Vec<_>, Vec<_>) = xattrs.into_iter().partition(|(name, _)| is_kept(name, false));
    Attributes { user: digest(&user), others: is_root.then(|| digest(&others)) }
}

fn digest(xattrs: &[(Vec<u8>, Vec<u8>)]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    for part in xattrs.iter().flat_map(|(name, value)| [name, value]) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// Whether the attributes of two ends differ, as far as both ends could read them.
pub fn attributes_differ(one: &Attributes, other: &Attributes) -> bool {
    let others = one.others.is_some() && other.others.is_some() && one.others != other.others;
    one.user != other.user || others
}

/// Whether two ends mean the same user or group: their numbers are equal or, unless `by_number` is set, their names are
/// equal and not empty.
fn same(by_number: bool, one: (u32, &str), other: (u32, &str)) -> bool {
    one.0 == other.0 || !by_number && !one.1.is_empty() && one.1 == other.1
}

/// Whether the users of two entries differ.
pub fn users_differ(by_number: bool, one: &Owner, other: &Owner) -> bool {
    !same(by_number, (one.uid, &one.user), (other.uid, &other.user))
}

/// Whether the groups of two entries differ.
pub fn groups_differ(by_number: bool, one: &Owner, other: &Owner) -> bool {
    !same(by_number, (one.gid, &one.group), (other.gid, &other.group))
}

/// Whether the ACLs of two entries differ. The order of their lines doesn't matter.
pub fn acls_differ(by_number: bool, one: &Extra, other: &Extra) -> bool {
    let differ = |one: &[AclEntry], other: &[AclEntry]| {
        let alike = |line: &AclEntry| other.iter().any(|of| lines_agree(by_number, line, of));
        one.len() != other.len() || !one.iter().all(alike)
    };
    differ(&one.acl, &other.acl) || differ(&one.default_acl, &other.default_acl)
}

fn lines_agree(by_number: bool, one: &AclEntry, other: &AclEntry) -> bool {
    let whose = match (&one.tag, &other.tag) {
        (AclTag::User(id, name), AclTag::User(far, far_name))
        | (AclTag::Group(id, name), AclTag::Group(far, far_name)) => {
            same(by_number, (*id, name), (*far, far_name))
        }
        (one, other) => one == other,
    };
    whose && one.permissions == other.permissions
}

/// Pairs of files with several names: for each such file at one end, the file at the other end that has the
/// same names.
#[derive(Debug, Default)]
pub struct Links {
    near: HashMap<FileId, Option<FileId>>,
    far: HashMap<FileId, Option<FileId>>,
}

impl Links {
    /// Compares the two files that one path names at the two ends; `None` for a file with only one name.
    /// Returns true if an earlier path paired one of these files with a different file.
    pub fn differ(&mut self, near: Option<FileId>, far: Option<FileId>) -> bool {
        let of_near = near.is_some_and(|near| is_another(&mut self.near, near, far));
        let of_far = far.is_some_and(|far| is_another(&mut self.far, far, near));
        of_near || of_far
    }
}

/// Whether an earlier path paired `file` with a different file than `beside`. `None` stands for a file with only one
/// name; any two such files are different files.
fn is_another(seen: &mut HashMap<FileId, Option<FileId>>, file: FileId, beside: Option<FileId>) -> bool {
    match seen.entry(file) {
        Entry::Occupied(of) => beside.is_none() || *of.get() != beside,
        Entry::Vacant(free) => {
            free.insert(beside);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
        names.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
    }

    #[test]
    fn attributes_are_compared_in_any_order_and_as_far_as_both_ends_see() {
        let all = named(&[("user.a", "x"), ("trusted.t", "y"), ("user.b", "")]);
        let mut turned = all.clone();
        turned.reverse();
        let root = attributes(all.clone(), true);
        assert!(!attributes_differ(&root, &attributes(turned, true)));
        assert!(!attributes_differ(&root, &attributes(named(&[("user.a", "x"), ("user.b", "")]), false)));
        for other in [
            named(&[("user.a", "x"), ("user.b", "")]),
            named(&[("user.a", "x"), ("trusted.t", "z"), ("user.b", "")]),
            named(&[("user.a", "xuser.b"), ("trusted.t", "y")]),
        ] {
            assert!(attributes_differ(&root, &attributes(other, true)));
        }
        assert!(attributes_differ(&root, &attributes(named(&[("user.a", "x")]), false)));
    }

    #[test]
    fn owners_are_the_same_by_name_or_by_number() {
        let owner = |uid, user: &str| Owner { uid, gid: uid, user: user.into(), group: user.into() };
        let differ = |by_number, one: &Owner, other: &Owner| {
            assert_eq!(users_differ(by_number, one, other), groups_differ(by_number, one, other));
            users_differ(by_number, one, other)
        };
        assert!(!differ(false, &owner(1, "ann"), &owner(2, "ann")));
        assert!(differ(true, &owner(1, "ann"), &owner(2, "ann")));
        assert!(!differ(false, &owner(1, "ann"), &owner(1, "")));
        assert!(differ(false, &owner(1, ""), &owner(2, "")));
        assert!(differ(false, &owner(1, "ann"), &owner(2, "bob")));
    }

    #[test]
    fn lines_of_an_acl_have_no_order() {
        let line = |tag, permissions| AclEntry { tag, permissions };
        let with = |acl: Vec<AclEntry>| Extra { acl, ..Extra::default() };
        let (ann, mask) = (|id| line(AclTag::User(id, "ann".into()), 4), line(AclTag::Mask, 4));
        let one = with(vec![ann(1), mask.clone()]);
        assert!(!acls_differ(false, &one, &with(vec![mask.clone(), ann(2)])));
        assert!(acls_differ(true, &one, &with(vec![mask.clone(), ann(2)])));
        assert!(acls_differ(false, &one, &with(vec![ann(1), line(AclTag::Mask, 6)])));
        assert!(acls_differ(false, &one, &with(vec![ann(1)])));
        let default = Extra { default_acl: vec![mask], ..one.clone() };
        assert!(acls_differ(false, &one, &default) && acls_differ(false, &default, &one));
    }

    #[test]
    fn groups_of_names_are_found_whatever_their_numbers() {
        let pairs = |pairs: &[(u64, u64)]| {
            let mut links = Links::default();
            let file = |number| (number > 0).then_some((1, number));
            pairs.iter().map(|&(near, far)| links.differ(file(near), file(far))).collect::<Vec<_>>()
        };
        assert_eq!(pairs(&[(1, 7), (2, 8), (1, 7), (2, 8), (0, 0), (0, 0)]), [false; 6]);
        // Names that belong to one file at only one end.
        assert_eq!(pairs(&[(1, 0), (1, 0)]), [false, true]);
        assert_eq!(pairs(&[(0, 7), (0, 7)]), [false, true]);
        assert_eq!(pairs(&[(1, 7), (1, 8), (2, 8)]), [false, true, true]);
        // Files whose further names lie outside the tree.
        assert_eq!(pairs(&[(1, 0), (0, 7), (2, 8)]), [false; 3]);
    }
}
