//! Permits: which jobs an agent does for its client, either all that the account may do or fewer.

use linerate_wire::control::{Appending, BlockSearch, CompressionLevel, Job, Options};
use std::path::Path;

use crate::base::problem::{BY_WHOM, TransferError};
use crate::tree::bounds::Bounds;
use crate::tree::pattern::literal;

/// The jobs that a client may request from an agent.
#[derive(Clone, Debug)]
pub struct Permit {
    bounds: Bounds,
    /// `None` if the client may do everything that the account may do.
    restriction: Option<Restriction>,
}

/// The limits of a client that is restricted to a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restriction {
    /// The client may not write or remove anything.
    pub read_only: bool,
    /// The client may not read or list anything.
    pub write_only: bool,
    /// The client may not remove an entry, except to replace it by another.
    pub no_delete: bool,
}

impl Permit {
    /// A permit for all jobs that the account may do.
    pub fn all() -> Self {
        Self { bounds: Bounds::anywhere(), restriction: None }
    }

    /// A permit for jobs below `directory`, except those that `restriction` forbids.
    ///
    /// # Errors
    /// If the directory can't be opened. The message is sent to the client, so it contains no path.
    pub fn below(directory: &Path, restriction: Restriction) -> Result<Self, TransferError> {
        let bounds = Bounds::below(directory).map_err(|error| {
            TransferError::Failed(format!(
                "the directory that this login is restricted to can't be opened: {error}; {BY_WHOM}"
            ))
        })?;
        Ok(Self { bounds, restriction: Some(restriction) })
    }

    /// The directories that the client's paths may reach.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// True if this permit allows less than the account may do.
    pub fn is_restricted(&self) -> bool {
        self.restriction.is_some()
    }

    /// Adds protections to a job of a restricted client. The client's journal key isn't used, because with this key the
    /// client could make the account trust journals that the client wrote. A client that may not read files gets
    /// neither sums of small blocks nor names of other files; so its destination isn't used as a pattern, either.
    pub fn guarded(&self, mut job: Job) -> Job {
        let (Some(restriction), Job::Receive { options, destination }) = (self.restriction, &mut job) else {
            return job;
        };
        options.details.journal_key = None;
        if restriction.write_only {
            options.sync.iter_mut().for_each(|sync| sync.search = BlockSearch::SamePlaces);
            options.details.placing.fuzzy = 0;
            if options.sync.as_ref().is_some_and(|sync| sync.into) {
                *destination = literal(destination);
            }
        }
        job
    }

    /// Checks whether `job` may be done.
    ///
    /// # Errors
    /// If the job isn't permitted. The message states which job is refused, and who can permit it.
    pub fn check(&self, job: &Job) -> Result<(), TransferError> {
        match self.restriction.and_then(|restriction| restriction.refuses(job)) {
            None => Ok(()),
            Some(what) => Err(TransferError::Arguments(format!("this login may not {what}: {BY_WHOM}"))),
        }
    }
}

impl Restriction {
    /// The reason why `job` is refused; `None` if `job` is permitted. Each new kind of job must be handled
    /// here.
    fn refuses(self, job: &Job) -> Option<&'static str> {
        let Self { read_only, write_only, no_delete } = self;
        match job {
            Job::Receive { options, .. } => {
                let is_delete = no_delete && deletes(options);
                let read_only = read_only.then_some("write anything (--read-only)");
                // A client that may choose how many bytes of a file it doesn't know could find these bytes from digests
                // of the file.
                let append = write_only && options.details.placing.append != Appending::Never;
                let append = append.then_some("append to files that it may not read (--write-only)");
                let follows = options.details.keep_dirlinks || follows_ways(options);
                let follows = follows.then_some("have symbolic links followed");
                read_only.or(is_delete.then_some("delete anything (--no-delete)")).or(append).or(follows)
            }
            // Links that are followed may lead anywhere.
            Job::Send { options, .. } | Job::List { options, .. }
                if options.follows_links() && !write_only =>
            {
                Some("have symbolic links followed")
            }
            Job::Send { options, .. } if options.remove_sources && (read_only || no_delete) => {
                Some("remove anything (--read-only, --no-delete)")
            }
            // Higher levels need much memory for each stream.
            Job::Send { options, .. } if compresses_hard(options) => {
                Some("request compression by a level above 9")
            }
            Job::Send { .. } | Job::List { .. } | Job::Digests { .. } => {
                write_only.then_some("read, list or compare anything (--write-only)")
            }
            Job::Clean { remove: true, .. } => match (read_only, no_delete) {
                (true, _) => Some("remove anything (--read-only)"),
                (_, true) => Some("remove anything (--no-delete)"),
                _ => None,
            },
            Job::Clean { remove: false, .. } => write_only.then_some("list anything (--write-only)"),
            Job::Discard { .. } => None,
            Job::Observe => Some("query the host's facts"),
            // A process in the background isn't restricted to the directory, and its records are outside it.
            Job::Background => Some("leave a process behind (--detach)"),
            Job::Jobs { .. } | Job::Attach(_) => Some("query detached jobs"),
        }
    }
}

/// True if the receiver may follow links in the directories that lead to listed paths.
fn follows_ways(options: &Options) -> bool {
    options.no_implied && options.sync.as_ref().is_some_and(|sync| sync.into)
}

fn compresses_hard(options: &Options) -> bool {
    matches!(options.compression.level, CompressionLevel::Fixed(level) if level > 9)
}

/// True if the job may delete entries of any name: entries that the source doesn't have, a non-empty directory that has
/// the name of a file, or the contents of a partial directory. Replacing a file doesn't count, because a client that
/// may write can also overwrite the file's contents.
fn deletes(options: &Options) -> bool {
    options.sync.as_ref().is_some_and(|sync| sync.delete || sync.force)
        || options.details.placing.partial.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_wire::control::{Details, Fakes, JournalKey, Keep, Placing, Sync};

    fn jobs() -> Vec<(&'static str, Job)> {
        let options = |delete| {
            let sync = Sync { delete, ..Sync::default() };
            Options { sync: Some(sync), ..Options::default() }
        };
        let path = || b"x".to_vec();
        let follow = Options { copy_links: true, ..Options::default() };
        let remove = Options { remove_sources: true, ..Options::default() };
        let details = Details { keep_dirlinks: true, ..Details::default() };
        let dirlinks = Options { details: Box::new(details), ..Options::default() };
        let placing = Placing { partial: Some(b"x".to_vec()), ..Placing::default() };
        let partial =
            Options { details: Box::new(Details { placing, ..Details::default() }), ..follow.clone() };
        let placing = Placing { append: Appending::Trusting, ..Placing::default() };
        let append =
            Options { details: Box::new(Details { placing, ..Details::default() }), ..follow.clone() };
        let sync = Some(Sync { into: true, ..Sync::default() });
        let ways = Options { no_implied: true, sync, ..Options::default() };
        let details = Details { fakes: Fakes::Both, ..Details::default() };
        let fakes = Options { details: Box::new(details), ..Options::default() };
        let force = Options { sync: Some(Sync { force: true, ..Sync::default() }), ..Options::default() };
        vec![
            ("parts", Job::Receive { destination: path(), options: partial }),
            ("append", Job::Receive { destination: path(), options: append }),
            ("receive", Job::Receive { destination: path(), options: options(false) }),
            ("delete", Job::Receive { destination: path(), options: options(true) }),
            ("send", Job::Send { sources: vec![path()], options: options(true) }),
            ("list", Job::List { sources: vec![path()], options: options(false) }),
            ("look", Job::List { sources: vec![path()], options: follow.clone() }),
            ("follow", Job::Send { sources: vec![path()], options: follow }),
            ("move", Job::Send { sources: vec![path()], options: remove }),
            ("force", Job::Receive { destination: path(), options: force }),
            ("dirlinks", Job::Receive { destination: path(), options: dirlinks }),
            ("ways", Job::Receive { destination: path(), options: ways }),
            // The attributes that `--fake-super` stores give nobody rights, and a file that stands for a link
            // isn't followed, just as a real link isn't followed.
            ("fakes", Job::Receive { destination: path(), options: fakes.clone() }),
            ("faked", Job::Send { sources: vec![path()], options: fakes }),
            ("discard", Job::Discard { options: options(true) }),
            ("observe", Job::Observe),
            ("clean", Job::Clean { destination: path(), remove: true }),
            ("left", Job::Clean { destination: path(), remove: false }),
            ("digests", Job::Digests { path: path(), keep: Keep::NOTHING }),
        ]
    }

    fn refused(restriction: Restriction) -> Vec<&'static str> {
        let permit = Permit::below(Path::new("/"), restriction).unwrap();
        jobs().into_iter().filter(|(_, job)| permit.check(job).is_err()).map(|(name, _)| name).collect()
    }

    #[test]
    fn each_restriction_takes_away_what_it_says() {
        let all = Restriction::default();
        assert_eq!(refused(all), ["look", "follow", "dirlinks", "ways", "observe"]);
        let read_only = Restriction { read_only: true, ..all };
        assert_eq!(
            refused(read_only),
            [
                "parts", "append", "receive", "delete", "look", "follow", "move", "force", "dirlinks",
                "ways", "fakes", "observe", "clean"
            ]
        );
        let write_only = Restriction { write_only: true, ..all };
        assert_eq!(
            refused(write_only),
            [
                "append", "send", "list", "look", "follow", "move", "dirlinks", "ways", "faked", "observe",
                "left", "digests"
            ]
        );
        let no_delete = Restriction { no_delete: true, ..all };
        assert_eq!(
            refused(no_delete),
            ["parts", "delete", "look", "follow", "move", "force", "dirlinks", "ways", "observe", "clean"]
        );
        let both = Restriction { write_only: true, no_delete: true, ..all };
        assert_eq!(
            refused(both),
            [
                "parts", "append", "delete", "send", "list", "look", "follow", "move", "force", "dirlinks",
                "ways", "faked", "observe", "clean", "left", "digests"
            ]
        );
        assert!(jobs().iter().all(|(_, job)| Permit::all().check(job).is_ok()));
    }

    #[test]
    fn a_restricted_login_has_no_journal_key_and_if_it_may_not_read_learns_no_small_blocks_and_no_names() {
        let placing = Placing { fuzzy: 2, ..Placing::default() };
        let details = Details { placing, journal_key: Some(JournalKey([1; 32])), ..Details::default() };
        let (sync, details) = (Some(Sync { into: true, ..Sync::default() }), Box::new(details));
        let options = Options { sync, details, ..Options::default() };
        let job = Job::Receive { destination: b"x*".to_vec(), options };
        let guarded = |write_only| {
            let restriction = Restriction { write_only, ..Restriction::default() };
            let permit = Permit::below(Path::new("/"), restriction).unwrap();
            let Job::Receive { options, destination } = permit.guarded(job.clone()) else { unreachable!() };
            assert_eq!(options.details.journal_key, None);
            assert_eq!(destination, if write_only { &b"x\\*"[..] } else { b"x*" });
            (options.sync.unwrap().search == BlockSearch::SamePlaces, options.details.placing.fuzzy)
        };
        assert_eq!(guarded(true), (true, 0));
        assert_eq!(guarded(false), (Sync::default().search == BlockSearch::SamePlaces, 2));
        assert_eq!(Permit::all().guarded(job.clone()), job);
    }

    #[test]
    fn a_refusal_says_whose_it_is() {
        let permit = Permit::below(Path::new("/"), Restriction::default()).unwrap();
        let error = permit.check(&Job::Observe).unwrap_err();
        assert!(matches!(error, TransferError::Arguments(_)));
        assert!(
            error.to_string().contains("query the host's facts")
                && error.to_string().contains("authorized_keys")
        );
        let missing = Permit::below(Path::new("/no/such"), Restriction::default()).unwrap_err().to_string();
        assert!(missing.contains("can't be opened") && !missing.contains("/no/such"), "{missing}");
    }
}
