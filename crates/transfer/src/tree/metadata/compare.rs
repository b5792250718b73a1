//! Compares the metadata of an existing entry with that of the sender's entry.

use linerate_wire::control::Keep;
use linerate_wire::entry::{AclEntry, Entry, Extra, Kind};
use rustix::fs::{Mode, Stat};

use super::read::{At, Faked, Reader};
use super::write::MetadataWriter;
use super::{acl, acl::Who};

/// The properties that differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// The owner differs.
    pub owner: bool,
    /// The group differs.
    pub group: bool,
    /// The ACL or the default ACL differs.
    pub acl: bool,
    /// The extended attributes differ.
    pub xattrs: bool,
}

/// Compares the sender's entries with existing entries, one after the other.
pub struct Comparing {
    keep: Keep,
    reader: Reader,
}

impl Comparing {
    /// A comparison of the properties in `keep`, without the attributes that the rules of `writer` leave out.
    pub fn new(keep: Keep, writer: &MetadataWriter) -> Self {
        // The other properties are in the entry's stat. ACLs are compared by numbers of users and groups.
        let read = Keep { xattrs: keep.xattrs, acls: keep.acls, numeric_ids: true, ..Keep::NOTHING };
        let reader = Reader::new(read).with_rules(writer.rules().clone());
        Self { keep, reader: reader.with_fakes(writer.fakes().then_some(Faked::Stored)) }
    }

    /// The differences between `entry` and the existing entry at its place. The existing entry is found by `at`, and
    /// its stat is `there`. Only differences that `writer` may repair count.
    pub fn differences(
        &mut self,
        writer: &MetadataWriter,
        entry: &Entry,
        there: &Stat,
        at: At<'_>,
    ) -> Differences {
        let nothing = Extra::default();
        let extra = entry.extra.as_deref().unwrap_or(&nothing);
        let (owner, group) =
            extra.owner.as_ref().map_or((false, false), |owner| writer.differs(owner, there));
        if !self.keep.xattrs && !self.keep.acls {
            return Differences { owner, group, ..Differences::default() };
        }
        let mut has = Extra::default();
        // Attributes that can't be read count as missing. The writer then reports the error.
        let _ = self.reader.attributes(&mut has, there, at);
        Differences {
            owner,
            group,
            acl: self.acls_differ(writer, entry, extra, &has),
            xattrs: self.xattrs_differ(writer, extra, &has),
        }
    }

    fn acls_differ(&self, writer: &MetadataWriter, entry: &Entry, wanted: &Extra, has: &Extra) -> bool {
        if !self.keep.acls || matches!(entry.kind, Kind::Symlink { .. }) {
            return false;
        }
        let here = |acl: &[AclEntry]| acl::encode(acl, |who, number, name| writer.number(who, number, name));
        let there = |acl: &[AclEntry]| acl::encode(acl, |_: Who, number, _| number);
        let differ =
            |wanted: &[AclEntry], has: &[AclEntry]| wanted.len() != has.len() || here(wanted) != there(has);
        // The part of an ACL that corresponds to the mode is compared with the mode.
        let mode = Some(Mode::from_raw_mode(entry.mode));
        differ(&acl::within(&wanted.acl, mode), &acl::within(&has.acl, mode))
            || entry.kind == Kind::Directory && differ(&wanted.default_acl, &has.default_acl)
    }

    fn xattrs_differ(&self, writer: &MetadataWriter, wanted: &Extra, has: &Extra) -> bool {
        let kept = |extra: &Extra| {
            let kept = extra.xattrs.iter().filter(|(name, _)| writer.keeps(name));
            let mut kept: Vec<_> = kept.cloned().collect();
            kept.sort_unstable();
            kept
        };
        self.keep.xattrs && !(wanted.xattrs.is_empty() && has.xattrs.is_empty()) && kept(wanted) != kept(has)
    }
}
