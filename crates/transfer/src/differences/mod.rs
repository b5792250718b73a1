//! Compares two trees, one at each end, without sending contents: both ends walk their tree in the same order, and
//! their files' digests are compared.

mod attributes;
pub mod walk;

use crossbeam_channel::{Receiver, bounded};
use linerate_wire::control::{Digested, Keep, MAX_DIGESTED, Message, Problem};
use linerate_wire::entry::{Entry, Extra, Kind};
use linerate_wire::path::RelPath;
use std::cmp::Ordering;
use std::thread;

use crate::base::problem::TransferError;
use crate::net::session::Session;
use crate::tree::bounds::Bounds;
use crate::tree::source_root::{Finding, SourceRoot};
use attributes::{Links, acls_differ, attributes_differ, groups_differ, users_differ};
use walk::walk;

/// The number of this end's entries that may wait to be compared with the other end's.
const WAITING: usize = 1024;
/// The most bytes of paths and ACLs in one message.
const LENGTHS: usize = 256 << 10;
/// Bytes that a line of an ACL takes in a message, with a name of usual length.
const ACL_LINE: usize = 40;

/// A property in which two entries of the same path differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// The kind: for example, one entry is a file and the other a directory.
    Kind,
    /// The bytes of a file.
    Contents,
    /// The target of a link, or the numbers of a device.
    Target,
    /// Permission bits.
    Mode,
    /// The modification time.
    Time,
    /// The user.
    Owner,
    /// The group.
    Group,
    /// Extended attributes.
    Xattrs,
    /// The access ACL, or a directory's default ACL.
    Acl,
    /// The other paths that name the same file.
    Links,
}

/// How the destination differs from the source at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The entry isn't at the destination.
    Missing,
    /// The entry is only at the destination.
    Extra,
    /// The entry is at both ends, and differs.
    Differs(Vec<Aspect>),
}

/// The totals of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Entries that are at both ends.
    pub entries: u64,
    /// Bytes of files that are equal.
    pub bytes: u64,
    /// Entries that differ.
    pub differ: u64,
    /// Entries that the destination lacks.
    pub missing: u64,
    /// Entries that only the destination has.
    pub extra: u64,
    /// Extended attributes outside `user.` were requested but not compared, because an end may not see them.
    pub user_only: bool,
}

impl Compared {
    /// True if the two trees are equal.
    pub fn is_same(&self) -> bool {
        (self.differ, self.missing, self.extra) == (0, 0, 0)
    }
}

/// Opens the directory or file that the user named.
///
/// # Errors
/// If it doesn't exist.
pub fn open(bounds: &Bounds, written: &[u8]) -> Result<SourceRoot, TransferError> {
    let written = if written.is_empty() { b"." } else { written };
    SourceRoot::find(&bounds.name(written)?, 0, Finding { recursive: true, ..Finding::default() }).map_err(
        |problem| {
            let shown = linerate_wire::path::printable(&problem.path);
            TransferError::Arguments(format!("{shown}: {}", problem.message))
        },
    )
}

/// The agent's part: sends all entries in `source`, sorted, with digests.
///
/// # Errors
/// If the client is gone.
pub fn serve(session: &mut Session, source: &SourceRoot, keep: Keep) -> Result<(), TransferError> {
    let reporter = session.reporter();
    let channel = session.channel();
    let (mut batch, mut bytes) = (Vec::new(), 0);
    walk(source, keep, &|problem| reporter.problem(problem), |found| {
        bytes += length(&found.entry);
        batch.push(found);
        if batch.len() < MAX_DIGESTED && bytes < LENGTHS {
            return true;
        }
        bytes = 0;
        channel.send(&Message::Digested(std::mem::take(&mut batch))).is_ok()
    });
    session.send(&Message::Digested(batch))?;
    session.send_report()
}

/// Bytes that an entry takes in a message, without the parts that have their own limit.
fn length(entry: &Entry) -> usize {
    let acls = entry.extra.as_deref().map_or(0, |extra| extra.acl.len() + extra.default_acl.len());
    entry.path.as_bytes().len() + acls * ACL_LINE
}

/// The client's part: compares this end's tree with the agent's. `each` receives every difference, sorted.
///
/// # Errors
/// If the agent gives up, goes away or breaks the protocol.
pub fn compare(
    session: &mut Session,
    near: &SourceRoot,
    near_is_source: bool,
    keep: Keep,
    mut each: impl FnMut(&RelPath, &Difference),
) -> Result<Compared, TransferError> {
    let reporter = session.reporter();
    let report = |problem: Problem| reporter.problem(problem);
    let (founds, found) = bounded(WAITING);
    thread::scope(|scope| {
        scope.spawn(|| walk(near, keep, &report, move |found| founds.send(found).is_ok()));
        let mut merge = Merge::new(found, near_is_source, keep, &mut each);
        session.receive_digests(|batch| batch.into_iter().try_for_each(|far| merge.far(far)))?;
        merge.rest();
        Ok(merge.compared)
    })
}

/// The part of the client of two agents: compares the trees of both agents. `each` receives every difference, sorted.
///
/// # Errors
/// If either agent gives up, goes away or breaks the protocol. The boolean is true if it was the source's agent.
pub fn compare_far(
    source: &mut Session,
    destination: &mut Session,
    keep: Keep,
    mut each: impl FnMut(&RelPath, &Difference),
) -> Result<Compared, (bool, TransferError)> {
    let (founds, found) = bounded(WAITING);
    thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut last = None;
            source.receive_digests(|batch| {
                for entry in batch {
                    in_order(&mut last, &entry.entry.path)?;
                    // If the comparison has ended, it has reported its own reason.
                    founds.send(entry).map_err(|_| TransferError::Interrupted)?;
                }
                Ok(())
            })
        });
        let mut merge = Merge::new(found, true, keep, &mut each);
        let compared =
            destination.receive_digests(|batch| batch.into_iter().try_for_each(|far| merge.far(far)));
        if compared.is_ok() {
            merge.rest();
        }
        let sums = merge.compared;
        drop(merge);
        let read = reading
            .join()
            .unwrap_or_else(|_| Err(TransferError::Failed("reading the source's list failed".into())));
        compared.map_err(|error| (false, error))?;
        read.map_err(|error| (true, error)).map(|()| sums)
    })
}

/// Fails unless `path` comes after the last path; then stores `path` as the last one.
fn in_order(last: &mut Option<RelPath>, path: &RelPath) -> Result<(), TransferError> {
    if last.as_ref().is_some_and(|last| order(last, path) != Ordering::Less) {
        return Err(TransferError::FarEnd("the far end sends its entries in the wrong order".into()));
    }
    *last = Some(path.clone());
    Ok(())
}

/// Merges two sorted lists.
struct Merge<'a> {
    near: Receiver<Digested>,
    next: Option<Digested>,
    /// The last path of the far end.
    last: Option<RelPath>,
    near_is_source: bool,
    keep: Keep,
    links: Links,
    compared: Compared,
    each: &'a mut dyn FnMut(&RelPath, &Difference),
}

impl<'a> Merge<'a> {
    fn new(
        near: Receiver<Digested>,
        near_is_source: bool,
        keep: Keep,
        each: &'a mut dyn FnMut(&RelPath, &Difference),
    ) -> Self {
        let compared = Compared::default();
        Self { near, next: None, last: None, near_is_source, keep, links: Links::default(), compared, each }
    }

    fn far(&mut self, far: Digested) -> Result<(), TransferError> {
        let path = far.entry.path.clone();
        if self.last.as_ref().is_some_and(|last| order(last, &path) != Ordering::Less) {
            return Err(TransferError::FarEnd("the far end sends its entries in the wrong order".into()));
        }
        while let Some(near) = self.take() {
            match order(&near.entry.path, &path) {
                Ordering::Less => self.alone(&near.entry.path, true),
                Ordering::Equal => {
                    self.last = Some(path);
                    self.both(&near, &far);
                    return Ok(());
                }
                Ordering::Greater => {
                    self.next = Some(near);
                    break;
                }
            }
        }
        self.alone(&path, false);
        self.last = Some(path);
        Ok(())
    }

    fn rest(&mut self) {
        while let Some(near) = self.take() {
            self.alone(&near.entry.path, true);
        }
    }

    fn take(&mut self) -> Option<Digested> {
        self.next.take().or_else(|| self.near.recv().ok())
    }

    fn alone(&mut self, path: &RelPath, near: bool) {
        if near == self.near_is_source {
            self.compared.missing += 1;
            (self.each)(path, &Difference::Missing);
        } else {
            self.compared.extra += 1;
            (self.each)(path, &Difference::Extra);
        }
    }

    fn both(&mut self, near: &Digested, far: &Digested) {
        self.compared.entries += 1;
        self.compared.user_only |= self.keep.xattrs && (is_user_only(near) || is_user_only(far));
        let mut aspects = differing(near, far, self.keep);
        if self.keep.hard_links && self.links.differ(near.file, far.file) {
            aspects.push(Aspect::Links);
        }
        if aspects.is_empty() {
            if let Kind::File { size } = near.entry.kind {
                self.compared.bytes += size;
            }
            return;
        }
        self.compared.differ += 1;
        (self.each)(&near.entry.path, &Difference::Differs(aspects));
    }
}

fn is_user_only(found: &Digested) -> bool {
    found.attributes.as_ref().is_some_and(|attributes| attributes.others.is_none())
}

/// The order in which trees are walked: a directory before its contents, and names by their bytes.
fn order(one: &RelPath, other: &RelPath) -> Ordering {
    one.components().cmp(other.components())
}

fn differing(near: &Digested, far: &Digested, keep: Keep) -> Vec<Aspect> {
    let (one, other) = (&near.entry, &far.entry);
    let mut differing = Vec::new();
    let mut note = |differs: bool, aspect| differing.extend(differs.then_some(aspect));
    match (&one.kind, &other.kind) {
        (Kind::File { size }, Kind::File { size: far_size }) => {
            // A file without a digest could not be read, which has been reported.
            let both = near.contents.is_some() && far.contents.is_some();
            note(size != far_size || both && near.contents != far.contents, Aspect::Contents);
        }
        (one, other) if std::mem::discriminant(one) == std::mem::discriminant(other) => {
            note(one != other, Aspect::Target);
        }
        _ => note(true, Aspect::Kind),
    }
    // A link's mode has no meaning.
    let is_link = matches!(one.kind, Kind::Symlink { .. });
    note(keep.perms && !is_link && one.mode != other.mode, Aspect::Mode);
    note(keep.times && one.mtime != other.mtime, Aspect::Time);
    differing.extend(differing_extras(near, far, keep));
    differing
}

/// Differences in owners, attributes and ACLs, as far as both ends could read them.
fn differing_extras(near: &Digested, far: &Digested, keep: Keep) -> Vec<Aspect> {
    let nothing = Extra::default();
    let [one, other] = [near, far].map(|found| found.entry.extra.as_deref().unwrap_or(&nothing));
    let owners = one.owner.as_ref().zip(other.owner.as_ref());
    let owners_differ = |differ: fn(bool, &_, &_) -> bool| {
        owners.is_some_and(|(one, other)| differ(keep.numeric_ids, one, other))
    };
    let both = near.attributes.as_ref().zip(far.attributes.as_ref());
    let xattrs = both.is_some_and(|(one, other)| attributes_differ(one, other));
    let found = [
        (keep.owner && owners_differ(users_differ), Aspect::Owner),
        (keep.group && owners_differ(groups_differ), Aspect::Group),
        (keep.xattrs && xattrs, Aspect::Xattrs),
        (keep.acls && both.is_some() && acls_differ(keep.numeric_ids, one, other), Aspect::Acl),
    ];
    found.into_iter().filter_map(|(differs, aspect)| differs.then_some(aspect)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    const KEEP: Keep = Keep { times: false, ..Keep::SCP };

    fn walked(path: &Path, keep: Keep) -> Vec<Digested> {
        let mut found = Vec::new();
        let source = open(&Bounds::here(), path.as_os_str().as_encoded_bytes()).unwrap();
        walk(&source, keep, &|problem| panic!("{problem:?}"), |entry| {
            found.push(entry);
            true
        });
        found
    }

    fn compared(
        source: &Path,
        destination: &Path,
        near_is_source: bool,
        keep: Keep,
    ) -> (Vec<(String, Difference)>, Compared) {
        let (near, far) = if near_is_source { (source, destination) } else { (destination, source) };
        let (founds, found) = bounded(WAITING);
        walked(near, keep).into_iter().for_each(|near| founds.send(near).unwrap());
        drop(founds);
        let mut differences = Vec::new();
        let mut each = |path: &RelPath, difference: &Difference| {
            differences.push((format!("{path:?}").trim_matches('"').to_owned(), difference.clone()));
        };
        let mut merge = Merge::new(found, near_is_source, keep, &mut each);
        walked(far, keep).into_iter().for_each(|far| merge.far(far).unwrap());
        merge.rest();
        let compared = merge.compared;
        (differences, compared)
    }

    fn tree(top: &Path) {
        for name in ["a/x", "a-b/x", "a.b", "z/y/x", "both"] {
            let path = top.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        symlink("a", top.join("link")).unwrap();
    }

    #[test]
    fn a_walk_is_sorted_by_components() {
        let top = tempfile::tempdir().unwrap();
        tree(top.path());
        let found = walked(top.path(), KEEP);
        assert!(
            found.windows(2).all(|pair| order(&pair[0].entry.path, &pair[1].entry.path) == Ordering::Less)
        );
        assert_eq!(found.len(), 11);
        let digest = |name: &str| {
            let is_it = |found: &&Digested| found.entry.path.as_bytes() == name.as_bytes();
            found.iter().find(is_it).unwrap().contents
        };
        assert_eq!(digest("z/y/x"), Some(crate::tree::digest::of_bytes(b"z/y/x")));
        assert_eq!(digest("link"), None);
    }

    #[test]
    fn every_difference_is_found_whichever_end_is_near() {
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        tree(one.path());
        tree(other.path());
        for near_is_source in [true, false] {
            let (differences, compared) = compared(one.path(), other.path(), near_is_source, KEEP);
            assert!(differences.is_empty() && compared.is_same(), "{differences:?}");
            assert_eq!((compared.entries, compared.bytes), (11, 3 + 5 + 3 + 5 + 4));
        }
        fs::write(other.path().join("both"), "BOTH").unwrap();
        fs::remove_dir_all(other.path().join("a-b")).unwrap();
        fs::create_dir(other.path().join("a-a")).unwrap();
        fs::remove_file(other.path().join("link")).unwrap();
        symlink("b", other.path().join("link")).unwrap();
        fs::remove_file(other.path().join("a.b")).unwrap();
        fs::create_dir(other.path().join("a.b")).unwrap();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(other.path().join("a/x"), PermissionsExt::from_mode(0o600)).unwrap();
        for near_is_source in [true, false] {
            let (differences, compared) = compared(one.path(), other.path(), near_is_source, KEEP);
            let expected = [
                ("a/x", Difference::Differs(vec![Aspect::Mode])),
                ("a-a", Difference::Extra),
                ("a-b", Difference::Missing),
                ("a-b/x", Difference::Missing),
                ("a.b", Difference::Differs(vec![Aspect::Kind, Aspect::Mode])),
                ("both", Difference::Differs(vec![Aspect::Contents])),
                ("link", Difference::Differs(vec![Aspect::Target])),
            ];
            let expected: Vec<_> = expected.into_iter().map(|(path, d)| (path.to_owned(), d)).collect();
            assert_eq!(differences, expected);
            assert_eq!((compared.differ, compared.missing, compared.extra), (4, 2, 1));
        }
    }

    #[test]
    fn a_far_end_out_of_order_is_refused() {
        let top = tempfile::tempdir().unwrap();
        tree(top.path());
        let found = walked(top.path(), KEEP);
        let (_, near) = bounded(1);
        let mut each = |_: &RelPath, _: &Difference| {};
        let mut merge = Merge::new(near, true, KEEP, &mut each);
        merge.far(found[3].clone()).unwrap();
        assert!(merge.far(found[3].clone()).is_err() && merge.far(found[1].clone()).is_err());
        assert!(merge.far(found[4].clone()).is_ok());
    }

    #[test]
    fn names_of_one_file_are_compared_where_that_is_asked_for() {
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for top in [one.path(), other.path()] {
            for name in ["a", "c"] {
                fs::write(top.join(name), "x").unwrap();
            }
            fs::hard_link(top.join("a"), top.join("b")).unwrap();
        }
        let keep = Keep { hard_links: true, ..KEEP };
        assert!(compared(one.path(), other.path(), true, keep).1.is_same());
        fs::remove_file(other.path().join("c")).unwrap();
        fs::hard_link(other.path().join("a"), other.path().join("c")).unwrap();
        assert!(compared(one.path(), other.path(), true, KEEP).1.is_same());
        for near_is_source in [true, false] {
            let (differences, _) = compared(one.path(), other.path(), near_is_source, keep);
            assert_eq!(differences, [("c".to_owned(), Difference::Differs(vec![Aspect::Links]))]);
        }
    }
}
