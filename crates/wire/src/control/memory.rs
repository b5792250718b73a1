//! Estimates the memory that a message takes. An end that keeps messages for later limits the sum of their estimates.

use super::{
    Change, DeliveredContents, Delivery, Digested, IdentityFrom, IdentityRule, Job, Link, ListedPath,
    Listening, LostNext, Message, Options, Placing, Sampling, Source, Want,
};
use crate::entry::{AclEntry, AclTag, Entry, Extra, Kind};
use crate::filter::Rule;
use crate::path::RelPath;

/// The bytes that a memory allocation takes in addition to its contents.
const ALLOCATION_OVERHEAD: usize = 16;

impl Message {
    /// An estimate of the number of bytes that the message takes in memory.
    #[expect(clippy::too_many_lines, reason = "a table of all messages")]
    pub fn memory(&self) -> usize {
        let lists = match self {
            Self::Offer(list) => all(list, |offered| entry(&offered.entry)),
            Self::Sources(list) => all(list, |source: &Source| path(&source.name)),
            Self::Wanted(list) => all(list, want),
            Self::Blocks(list) => size_of_val(&list[..]),
            Self::Again(list) => all(list, |(_, name)| path(name)),
            Self::Changes(list) => {
                all(list, |change: &Change| path(&change.path) + link(change.link.as_ref()))
            }
            Self::Select(list) => all(list, |listed: &ListedPath| path(&listed.path)),
            Self::Digested(list) => all(list, |digested: &Digested| entry(&digested.entry)),
            Self::Listed { path, entry: listed, .. } => path.len() + entry(listed),
            Self::Leftover(left) => left.path.len(),
            Self::Tunnel(bytes)
            | Self::Answer(bytes)
            | Self::Samples(bytes)
            | Self::JobRecord(bytes)
            | Self::JobEvents(bytes) => bytes.len(),
            Self::Detached(job) => job.from.len() + job.to.len(),
            Self::Problem(problem) => problem.path.len() + problem.message.len(),
            Self::Abort { reason, .. } | Self::NextLost(LostNext { reason, .. }) => reason.len(),
            Self::ConnectBack { candidates } => size_of_val(&candidates[..]),
            Self::Hello(hello) => hello.version.len() + hello.public_key.len(),
            Self::Job(asked) => job(asked),
            Self::Listening(found) => listening(found),
            Self::ConnectedBack { error } => error.as_ref().map_or(0, String::len),
            Self::Partner(partner) => {
                let asked = partner
                    .asked
                    .as_ref()
                    .map_or(0, |asked| all(&asked.sources, |source| source.len() + ALLOCATION_OVERHEAD));
                partner.public_key.len() + asked
            }
            Self::Delivered(list) => all(list, delivery),
            Self::Tally(tally) => tally.cipher.as_ref().map_or(0, String::len),
            Self::Link(link) => link.previous.len(),
            Self::Next(list) => all(list, |next| {
                next.public_key.len() + size_of_val(&next.candidates[..]) + 2 * ALLOCATION_OVERHEAD
            }),
            Self::AskFacts(paths) => all(paths, |path| path.len() + ALLOCATION_OVERHEAD),
            Self::StartSampling(asked) => sampling(asked),
            // These messages own no memory on the heap.
            Self::UseTunnel
            | Self::Between
            | Self::Chained
            | Self::UnderWay
            | Self::MoreStreams(_)
            | Self::Routes(_)
            | Self::Ready { .. }
            | Self::Skip { .. }
            | Self::Progress(_)
            | Self::Sent { .. }
            | Self::Committed(_)
            | Self::Report { .. }
            | Self::AskCpu
            | Self::TakeSamples { .. }
            | Self::Within(_) => 0,
        };
        size_of::<Self>() + lists
    }
}

fn all<T>(list: &[T], beside: impl Fn(&T) -> usize) -> usize {
    size_of_val(list) + list.iter().map(beside).sum::<usize>()
}

fn job(job: &Job) -> usize {
    match job {
        Job::Receive { destination, options } => destination.len() + held(options),
        Job::Send { sources, options } | Job::List { sources, options } => {
            all(sources, |source| source.len() + ALLOCATION_OVERHEAD) + held(options)
        }
        Job::Discard { options } => held(options),
        Job::Clean { destination: path, .. } | Job::Digests { path, .. } => path.len(),
        Job::Attach(attention) => attention.id.len(),
        Job::Observe | Job::Background | Job::Jobs { .. } => 0,
    }
}

fn listening(found: &Listening) -> usize {
    size_of_val(&found.candidates[..]) + found.error.as_ref().map_or(0, String::len)
}

fn sampling(asked: &Sampling) -> usize {
    size_of_val(&asked.processes[..]) + all(&asked.names, |name| name.len() + ALLOCATION_OVERHEAD)
}

fn held(options: &Options) -> usize {
    let details = &options.details;
    let Placing { temporary, partial, .. } = &details.placing;
    let directories: usize =
        [temporary, partial].into_iter().flatten().map(|path| path.len() + ALLOCATION_OVERHEAD).sum();
    size_of_val(&**details)
        + directories
        + details
            .charsets
            .as_ref()
            .map_or(0, |sets| sets.from.len() + sets.to.len() + 2 * ALLOCATION_OVERHEAD)
        + rules(options)
        + all(&details.users, identity)
        + all(&details.groups, identity)
}

fn identity(rule: &IdentityRule) -> usize {
    let from = match &rule.from {
        IdentityFrom::Numbers(..) => 0,
        IdentityFrom::Name(name) | IdentityFrom::Pattern(name) => name.len() + ALLOCATION_OVERHEAD,
    };
    from + rule.to.len() + ALLOCATION_OVERHEAD
}

fn rules(options: &Options) -> usize {
    let skipped = options.compression.skip.as_deref().unwrap_or_default();
    all(skipped, |suffix| suffix.len() + ALLOCATION_OVERHEAD)
        + all(options.filter.as_slice(), |rule| match rule {
            Rule::Pattern(rule) => rule.pattern.len() + ALLOCATION_OVERHEAD,
            Rule::Merge(merge) => {
                merge.name.len() + merge.above.as_ref().map_or(0, Vec::len) + 2 * ALLOCATION_OVERHEAD
            }
        })
}

fn path(path: &RelPath) -> usize {
    path.as_bytes().len() + ALLOCATION_OVERHEAD
}

fn delivery(reported: &Delivery) -> usize {
    let first = if let DeliveredContents::SameAs(_, first) = &reported.contents { path(first) } else { 0 };
    path(&reported.path) + first
}

fn link(link: Option<&Link>) -> usize {
    match link {
        Some(Link::Target(target)) => target.len() + ALLOCATION_OVERHEAD,
        Some(Link::SameAs(name)) => path(name),
        None => 0,
    }
}

fn want(want: &Want) -> usize {
    match want {
        Want::Missing { present, .. } => present.len(),
        Want::Differing { digests, .. } => size_of_val(&digests[..]),
        Want::Nothing
        | Want::Whole
        | Want::Digest
        | Want::LeftAlone
        | Want::Blocks { .. }
        | Want::Rest { .. } => 0,
    }
}

fn entry(entry: &Entry) -> usize {
    let kind = match &entry.kind {
        Kind::Symlink { target } => target.len() + ALLOCATION_OVERHEAD,
        Kind::HardLink { path: first, .. } => path(first),
        _ => 0,
    };
    path(&entry.path) + kind + entry.extra.as_deref().map_or(0, extra)
}

fn extra(extra: &Extra) -> usize {
    let owner = extra.owner.as_ref().map_or(0, |owner| owner.user.len() + owner.group.len());
    let xattrs = all(&extra.xattrs, |(name, value)| name.len() + value.len() + 2 * ALLOCATION_OVERHEAD);
    size_of::<Extra>() + owner + xattrs + all(&extra.acl, acl) + all(&extra.default_acl, acl)
}

fn acl(line: &AclEntry) -> usize {
    match &line.tag {
        AclTag::User(_, name) | AclTag::Group(_, name) => name.len() + ALLOCATION_OVERHEAD,
        AclTag::UserObj | AclTag::GroupObj | AclTag::Mask | AclTag::Other => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Offered;
    use super::*;

    /// An element of a list takes 24 bytes in memory even if it is empty, and one byte in a message.
    #[test]
    fn questions_and_jobs_weigh_what_is_in_them() {
        let none = size_of::<Message>();
        let nothing = vec![Vec::new(); 1000];
        assert!(Message::AskFacts(nothing.clone()).memory() >= none + 1000 * size_of::<Vec<u8>>());
        let job = Job::Send { sources: nothing, options: Options::default() };
        assert!(Message::Job(job).memory() >= none + 1000 * size_of::<Vec<u8>>());
        let names = vec![String::new(); 1000];
        let sampling = Sampling { interval_ms: 1, processes: vec![1; 10], names };
        assert!(Message::StartSampling(sampling).memory() >= none + 1000 * size_of::<String>() + 40);
        assert_eq!(Message::AskCpu.memory(), none);
    }

    #[test]
    fn lists_weigh_what_is_in_them() {
        let empty = Message::Wanted(Vec::new()).memory();
        let differing = Want::Differing { chunk: 1, digests: vec![[0; 32]; 100] };
        assert_eq!(Message::Wanted(vec![differing]).memory(), empty + size_of::<Want>() + 3200);
        let wants = Message::Wanted(vec![Want::Nothing; 1000]).memory();
        assert_eq!(wants, empty + 1000 * size_of::<Want>());
        let xattrs = vec![(vec![1], Vec::new()); 50];
        let extra = Some(Box::new(Extra { xattrs, ..Extra::default() }));
        let (path, time) = (RelPath::new("abc").unwrap(), Default::default());
        let entry =
            Entry { source: 0, path, kind: Kind::Directory, mode: 0, mtime: time, atime: time, extra };
        let offered = Offered { entry, inode: 0, ctime: time, digest: None, whole: true };
        assert!(Message::Offer(vec![offered]).memory() > 50 * 48 + size_of::<Offered>());
    }
}
