//! The identity of the source directory, which a plan stores.

use rustix::fs::{AtFlags, CWD, StatxFlags};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::plan::FleetPlan;

/// Properties that identify a directory on all hosts that mount its file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceIdentity {
    /// The inode number of the directory.
    pub inode: u64,
    /// The creation time of the directory (seconds since 1970, nanoseconds), if its file system records it.
    /// The root directories of two file systems often have the same inode number.
    pub born: Option<(i64, u32)>,
}

impl SourceIdentity {
    /// The identity of the directory `path`.
    ///
    /// # Errors
    /// Those of statx(2).
    pub fn of(path: &Path) -> std::io::Result<Self> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let found = rustix::fs::statx(CWD, path, AtFlags::empty(), wanted)?;
        let knows = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        let born = knows.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec));
        Ok(Self { inode: found.stx_ino, born })
    }

    /// Whether two identities could belong to the same directory.
    fn may_be(&self, other: &Self) -> bool {
        self.inode == other.inode && self.born.zip(other.born).is_none_or(|(one, other)| one == other)
    }
}

/// True if the directory at the path of the plan's source on this host can be the planned one: the plan has no identity
/// or the same identity, or the directory has one of the planned `names`, or there are no such names. If the result is
/// false, the source's file system may not be mounted, and all its entries would seem to have vanished.
///
/// # Errors
/// Those of `names`.
pub fn is_here(
    plan: &FleetPlan,
    names: impl IntoIterator<Item = anyhow::Result<Vec<u8>>>,
) -> anyhow::Result<bool> {
    let (source, mut is_planned) = (Path::new(&plan.source), false);
    let may_be = |then: SourceIdentity| SourceIdentity::of(source).is_ok_and(|now| then.may_be(&now));
    if plan.source_identity.is_none_or(may_be) {
        return Ok(true);
    }
    for name in names {
        let name = name?;
        if name.is_empty() || name == b"." {
            continue;
        }
        if !is_gone(&source.join(OsStr::from_bytes(&name))) {
            return Ok(true);
        }
        is_planned = true;
    }
    Ok(!is_planned)
}

/// Whether no entry exists at a path. If the lookup fails for another reason, the entry may exist, and the
/// result is false.
pub fn is_gone(path: &Path) -> bool {
    let found = path.symlink_metadata().map_err(|error| error.kind());
    matches!(found, Err(ErrorKind::NotFound | ErrorKind::NotADirectory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;
    use std::fs;

    fn is_here_with(identity: Option<SourceIdentity>, source: &Path, names: &[&str]) -> bool {
        let mut plan = plan(&[]);
        (plan.source, plan.source_identity) = (source.display().to_string(), identity);
        is_here(&plan, names.iter().map(|name| Ok(name.as_bytes().to_vec()))).unwrap()
    }

    #[test]
    fn another_directory_without_a_planned_name_is_not_the_source() {
        let place = tempfile::tempdir().unwrap();
        let source = place.path().join("source");
        fs::create_dir(&source).unwrap();
        fs::write(source.join("left"), "").unwrap();
        let same = SourceIdentity::of(&source).unwrap();
        let other = Some(SourceIdentity { inode: same.inode + 1, ..same });
        for (identity, names, expected) in [
            (None, ["gone"].as_slice(), true),
            (Some(same), &["gone"], true),
            (other, &["gone"], false),
            (other, &[".", ""], true),
            (other, &["gone", "left"], true),
            (Some(SourceIdentity { born: Some((1, 2)), ..same }), &["gone"], same.born.is_none()),
            (Some(SourceIdentity { born: None, ..same }), &["gone"], true),
        ] {
            assert_eq!(is_here_with(identity, &source, names), expected, "{identity:?} {names:?}");
        }
        assert!(!is_here_with(Some(same), &place.path().join("missing"), &["left"]));
    }
}
