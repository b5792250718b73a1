//! The properties that an archive keeps in addition to contents, mode and times: owners, extended attributes, ACLs,
//! hard links, holes. [`read`] is the sender's half, [`write`] the receiver's. [`fake`] is rsync's format for
//! properties that only root could set, and `store` is the receiver's half of that format.

pub mod accounts;
pub mod acl;
pub mod compare;
pub mod fake;
pub mod holes;
pub mod identities;
pub mod meantime;
pub mod read;
mod store;
pub mod write;

use linerate_wire::control::Keep;
use linerate_wire::entry::{Extra, Kind, MAX_ACL, MAX_XATTRS};
use std::collections::HashSet;

/// The attribute in which the kernel provides ACLs; `DEFAULT` is that for default ACLs. ACLs are sent
/// separately, and not as attributes.
const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// Attributes that make sense only on their own host and could do harm on another one: labels of its security policy
/// (SELinux, Smack, AppArmor), its measurements and signatures (IMA, EVM), and the locations of its overlays' layers.
/// With an attribute from another host, a file could be run with wrong rights, or a directory could show contents from
/// elsewhere. The list also contains the attributes in which XFS provides ACLs in its own format, because ACLs are sent
/// separately.
const OF_THE_HOST: [&[u8]; 8] = [
    b"security.apparmor",
    b"security.evm",
    b"security.ima",
    b"security.sehash",
    b"security.selinux",
    b"security.SMACK64",
    b"trusted.overlay.",
    b"trusted.SGI_ACL_",
];

/// Whether an extended attribute is kept, that is, sent, set, removed and compared. Attributes that the
/// kernel computes, and those of [`OF_THE_HOST`], aren't kept. An ordinary user may only set attributes in
/// the namespace `user.`.
pub(crate) fn is_kept(name: &[u8], is_root: bool) -> bool {
    if name.starts_with(b"user.") {
        return true;
    }
    // The names are compared by prefixes, because Smack has six labels and overlays have ten attributes.
    let is_of_the_host = OF_THE_HOST.iter().any(|of| name.starts_with(of));
    is_root && !name.starts_with(b"system.") && !is_of_the_host
}

/// The reason why an honest sender, under `keep`, wouldn't send an entry of this kind with these extra properties;
/// `None` if an honest sender would send it.
pub fn unasked(kind: &Kind, extra: Option<&Extra>, keep: &Keep) -> Option<&'static str> {
    let asked = match kind {
        Kind::File { .. } | Kind::Directory | Kind::Symlink { .. } => true,
        Kind::Device { .. } => keep.devices,
        Kind::Fifo | Kind::Socket => keep.specials,
        Kind::HardLink { .. } => keep.hard_links,
    };
    if !asked {
        return Some("an entry of a kind that wasn't requested");
    }
    extra.and_then(|extra| unasked_extra(extra, keep))
}

fn unasked_extra(extra: &Extra, keep: &Keep) -> Option<&'static str> {
    let asked = (extra.owner.is_none() || keep.owner || keep.group)
        && (extra.xattrs.is_empty() || keep.xattrs)
        && (extra.acl.is_empty() && extra.default_acl.is_empty() || keep.acls)
        && (!extra.linked || keep.hard_links);
    if !asked {
        return Some("metadata that wasn't requested");
    }
    if extra.acl.len() > MAX_ACL || extra.default_acl.len() > MAX_ACL {
        return Some("an ACL with too many entries");
    }
    if extra.xattrs.is_empty() {
        return None;
    }
    let size: usize = extra.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > MAX_XATTRS {
        return Some("too many extended attributes");
    }
    let mut seen = HashSet::new();
    let mut named =
        |name: &[u8]| is_name(name) && !name.starts_with(b"system.") && seen.insert(name.to_vec());
    let all_named = extra.xattrs.iter().all(|(name, _)| named(name));
    (!all_named).then_some("an extended attribute with an invalid or repeated name")
}

/// True for a valid attribute name: a namespace, a dot, and at least one more byte (xattr(7)).
fn is_name(name: &[u8]) -> bool {
    let dot = name.iter().position(|&byte| byte == b'.');
    name.len() <= 255 && !name.contains(&0) && dot.is_some_and(|at| at > 0 && at + 1 < name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(names: &[&[u8]]) -> Extra {
        let xattrs = names.iter().map(|name| (name.to_vec(), b"x".to_vec())).collect();
        Extra { xattrs, ..Extra::default() }
    }

    #[test]
    fn attributes_are_named_once_and_well() {
        let keep = Keep { xattrs: true, ..Keep::NOTHING };
        assert_eq!(unasked_extra(&with(&[b"user.a", b"user.b", b"security.capability"]), &keep), None);
        let long = [b"user.".to_vec(), vec![b'x'; 251]].concat();
        let refused: [&[&[u8]]; 7] = [
            &[b"user.a", b"user.a"],
            &[b"user"],
            &[b"user."],
            &[b".a"],
            &[b"user.a\0b"],
            &[b"system.posix_acl_access"],
            &[&long],
        ];
        for names in refused {
            assert!(unasked_extra(&with(names), &keep).is_some(), "{names:?}");
        }
        assert!(unasked_extra(&with(&[b"user.a"]), &Keep::NOTHING).is_some(), "not asked for");
        let large = Extra { xattrs: vec![(b"user.a".to_vec(), vec![0; MAX_XATTRS])], ..Extra::default() };
        assert!(unasked_extra(&large, &keep).is_some());
    }

    #[test]
    fn root_keeps_all_but_what_is_the_hosts() {
        assert!(
            is_kept(b"trusted.x", true) && is_kept(b"security.capability", true) && is_kept(b"user.x", false)
        );
        assert!(!is_kept(b"trusted.x", false) && !is_kept(b"security.capability", false));
        let not_kept: [&[u8]; 11] = [
            b"system.nfs4_acl",
            b"security.selinux",
            b"security.ima",
            b"security.evm",
            b"security.apparmor",
            b"security.SMACK64",
            b"security.SMACK64EXEC",
            b"trusted.overlay.redirect",
            b"trusted.overlay.opaque",
            b"trusted.SGI_ACL_FILE",
            b"trusted.SGI_ACL_DEFAULT",
        ];
        assert!(not_kept.iter().all(|name| !is_kept(name, true)));
        assert!(is_kept(b"trusted.overlays", true) && is_kept(b"security.other", true));
    }
}
