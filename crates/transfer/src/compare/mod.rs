//! Compares two trees, one at each end, of which no contents travel: both are walked in the same order, and the files'
//! digests are compared.

pub mod walk;

use crossbeam_channel::{Receiver, bounded};
use linerate_wire::control::{MAX_DIGESTED, Message, Problem};
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use std::cmp::Ordering;
use std::thread;

use crate::pattern::{Named, expand_home};
use crate::problem::TransferError;
use crate::session::Session;
use crate::source::SourceRoot;
use walk::{Found, walk};

/// Entries of this end that wait for the other.
const WAITING: usize = 1024;
/// Bytes of paths in one message, which has its limit.
const PATHS: usize = 256 << 10;

/// What is compared beside kinds, contents and links' targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aspects {
    /// Permission bits.
    pub modes: bool,
    /// Times of modification.
    pub times: bool,
    /// Numbers of user and group.
    pub owners: bool,
}

/// One thing in which two entries of the same path differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// One is a file and the other a directory, and the like.
    Kind,
    /// The bytes of a file.
    Contents,
    /// What a link says, or which device a node is.
    Target,
    /// Permission bits.
    Mode,
    /// The time of modification.
    Time,
    /// The user's or the group's number.
    Owner,
}

/// How the destination differs from the source at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// It isn't at the destination.
    Missing,
    /// It is only at the destination.
    Extra,
    /// It is at both, and not the same.
    Differs(Vec<Aspect>),
}

/// Sums of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Entries that are at both ends.
    pub entries: u64,
    /// Bytes of files that are the same.
    pub bytes: u64,
    /// Entries that differ.
    pub differ: u64,
    /// Entries that the destination lacks.
    pub missing: u64,
    /// Entries that only the destination has.
    pub extra: u64,
}

impl Compared {
    /// True where the two trees are the same.
    pub fn is_same(&self) -> bool {
        (self.differ, self.missing, self.extra) == (0, 0, 0)
    }
}

/// Opens the tree or file that the user named; at the far end no shell has seen the name.
///
/// # Errors
/// Where it isn't there.
pub fn open(written: &[u8], far: bool) -> Result<SourceRoot, TransferError> {
    let written = if written.is_empty() { b"." } else { written };
    let path = if far { expand_home(written) } else { written.to_vec() };
    SourceRoot::find(&Named::plain(&path), 0, true).map_err(|problem| {
        let shown = linerate_wire::path::printable(&problem.path);
        TransferError::Arguments(format!("{shown}: {}", problem.message))
    })
}

/// The agent: tells everything that is at `path`, sorted, with digests.
///
/// # Errors
/// Where nothing is there, or the client is gone.
pub fn serve(session: &mut Session, path: &[u8]) -> Result<(), TransferError> {
    let source = open(path, true)?;
    let reporter = session.reporter();
    let channel = session.channel();
    let (mut batch, mut bytes) = (Vec::new(), 0);
    walk(&source, &|problem| reporter.problem(problem), |found| {
        bytes += found.0.path.as_bytes().len();
        batch.push(found);
        if batch.len() < MAX_DIGESTED && bytes < PATHS {
            return true;
        }
        bytes = 0;
        channel.send(&Message::Digested(std::mem::take(&mut batch))).is_ok()
    });
    session.send(&Message::Digested(batch))?;
    session.tell_report()
}

/// The client: compares what is at this end with what the agent tells. `each` is told every difference, sorted.
///
/// # Errors
/// Where the agent gives up, goes away or breaks the protocol.
pub fn compare(
    session: &mut Session,
    near: &SourceRoot,
    near_is_source: bool,
    aspects: Aspects,
    mut each: impl FnMut(&RelPath, &Difference),
) -> Result<Compared, TransferError> {
    let reporter = session.reporter();
    let tell = |problem: Problem| reporter.problem(problem);
    let (founds, found) = bounded(WAITING);
    thread::scope(|scope| {
        scope.spawn(|| walk(near, &tell, move |found| founds.send(found).is_ok()));
        let mut merge = Merge::new(found, near_is_source, aspects, &mut each);
        session.receive_digests(|batch| batch.into_iter().try_for_each(|far| merge.far(far)))?;
        merge.rest();
        Ok(merge.compared)
    })
}

/// Two sorted lists become one.
struct Merge<'a> {
    near: Receiver<Found>,
    next: Option<Found>,
    /// The last path of the far end.
    last: Option<RelPath>,
    near_is_source: bool,
    aspects: Aspects,
    compared: Compared,
    each: &'a mut dyn FnMut(&RelPath, &Difference),
}

impl<'a> Merge<'a> {
    fn new(
        near: Receiver<Found>,
        near_is_source: bool,
        aspects: Aspects,
        each: &'a mut dyn FnMut(&RelPath, &Difference),
    ) -> Self {
        let compared = Compared::default();
        Self { near, next: None, last: None, near_is_source, aspects, compared, each }
    }

    fn far(&mut self, far: Found) -> Result<(), TransferError> {
        let path = far.0.path.clone();
        if self.last.as_ref().is_some_and(|last| order(last, &path) != Ordering::Less) {
            return Err(TransferError::FarEnd("the far end tells its entries out of order".into()));
        }
        while let Some(near) = self.take() {
            match order(&near.0.path, &path) {
                Ordering::Less => self.alone(&near.0.path, true),
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
        while let Some((entry, _)) = self.take() {
            self.alone(&entry.path, true);
        }
    }

    fn take(&mut self) -> Option<Found> {
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

    fn both(&mut self, near: &Found, far: &Found) {
        self.compared.entries += 1;
        let aspects = differing(near, far, self.aspects);
        if aspects.is_empty() {
            if let Kind::File { size } = near.0.kind {
                self.compared.bytes += size;
            }
            return;
        }
        self.compared.differ += 1;
        (self.each)(&near.0.path, &Difference::Differs(aspects));
    }
}

/// The order in which trees are walked: a directory before what is in it, names by their bytes.
fn order(one: &RelPath, other: &RelPath) -> Ordering {
    one.components().cmp(other.components())
}

fn differing(near: &Found, far: &Found, aspects: Aspects) -> Vec<Aspect> {
    let ((one, digest), (other, far_digest)) = (near, far);
    let mut differing = Vec::new();
    let mut note = |differs: bool, aspect| differing.extend(differs.then_some(aspect));
    match (&one.kind, &other.kind) {
        (Kind::File { size }, Kind::File { size: far_size }) => {
            // One without a digest could not be read, which was told.
            let contents = digest.is_some() && far_digest.is_some() && digest != far_digest;
            note(size != far_size || contents, Aspect::Contents);
        }
        (one, other) if std::mem::discriminant(one) == std::mem::discriminant(other) => {
            note(one != other, Aspect::Target);
        }
        _ => note(true, Aspect::Kind),
    }
    // A link's mode means nothing.
    let is_link = matches!(one.kind, Kind::Symlink { .. });
    note(aspects.modes && !is_link && one.mode != other.mode, Aspect::Mode);
    note(aspects.times && one.mtime != other.mtime, Aspect::Time);
    note(aspects.owners && owner(one) != owner(other), Aspect::Owner);
    differing
}

fn owner(entry: &Entry) -> Option<(u32, u32)> {
    let owner = entry.extra.as_ref()?.owner.as_ref()?;
    Some((owner.uid, owner.gid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn walked(path: &Path) -> Vec<Found> {
        let mut found = Vec::new();
        let source = open(path.as_os_str().as_encoded_bytes(), false).unwrap();
        walk(&source, &|problem| panic!("{problem:?}"), |entry| {
            found.push(entry);
            true
        });
        found
    }

    fn compared(
        source: &Path,
        destination: &Path,
        near_is_source: bool,
    ) -> (Vec<(String, Difference)>, Compared) {
        let (near, far) = if near_is_source { (source, destination) } else { (destination, source) };
        let (founds, found) = bounded(WAITING);
        walked(near).into_iter().for_each(|near| founds.send(near).unwrap());
        drop(founds);
        let mut differences = Vec::new();
        let mut each = |path: &RelPath, difference: &Difference| {
            differences.push((format!("{path:?}").trim_matches('"').to_owned(), difference.clone()));
        };
        let aspects = Aspects { modes: true, times: false, owners: true };
        let mut merge = Merge::new(found, near_is_source, aspects, &mut each);
        walked(far).into_iter().for_each(|far| merge.far(far).unwrap());
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
        let found = walked(top.path());
        assert!(found.windows(2).all(|pair| order(&pair[0].0.path, &pair[1].0.path) == Ordering::Less));
        assert_eq!(found.len(), 11);
        let digest = |name: &str| {
            let is_it = |found: &&Found| found.0.path.as_bytes() == name.as_bytes();
            found.iter().find(is_it).unwrap().1
        };
        assert_eq!(digest("z/y/x"), Some(crate::digest::of_bytes(b"z/y/x")));
        assert_eq!(digest("link"), None);
    }

    #[test]
    fn every_difference_is_found_whichever_end_is_near() {
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        tree(one.path());
        tree(other.path());
        for near_is_source in [true, false] {
            let (differences, compared) = compared(one.path(), other.path(), near_is_source);
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
            let (differences, compared) = compared(one.path(), other.path(), near_is_source);
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
        let found = walked(top.path());
        let (_, near) = bounded(1);
        let mut each = |_: &RelPath, _: &Difference| {};
        let (last, aspects) = (None, Aspects::default());
        let compared = Compared::default();
        let mut merge =
            Merge { near, next: None, last, near_is_source: true, aspects, compared, each: &mut each };
        merge.far(found[3].clone()).unwrap();
        assert!(merge.far(found[3].clone()).is_err() && merge.far(found[1].clone()).is_err());
        assert!(merge.far(found[4].clone()).is_ok());
    }
}
