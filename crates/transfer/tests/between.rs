//! A hostile host of two, with the cipher that the two have: what it sends by its stream is held against what the client has asked
//! it for, of which the other host knows from the client alone.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::unbounded;
use linerate_transfer::agent::{self, HostObserver, Recording};
use linerate_transfer::between::{Carriage, CarriedSums, FarError, FarRole, carry, give_up, introduce, meet};
use linerate_transfer::clock::Clock;
use linerate_transfer::filter::{Builder, FilesFrom, Reading};
use linerate_transfer::permit::Permit;
use linerate_transfer::problem::{Observer, TransferError};
use linerate_transfer::pulse::Pulse;
use linerate_transfer::session::{Client, Event, Meters, Session};
use linerate_wire::control::{
    AskedSources, Change, Job, Message, Options, Problem, Sampling, Source, Totals,
};
use linerate_wire::entry::{Entry, Kind, Timestamp};
use linerate_wire::frame::FrameKind;
use linerate_wire::path::RelPath;
use tempfile::TempDir;

/// A receiver changes its process's umask for as long as it works.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Hears of nothing.
struct Nobody;

impl Observer for Nobody {
    fn problem(&self, _: Problem) {}
    fn changes(&self, _: Vec<Change>) {}
    fn note(&self, _: &str) {}
}

impl HostObserver for Nobody {
    fn facts(&self, _: Vec<Vec<u8>>) -> Vec<u8> {
        Vec::new()
    }

    fn cpu(&self) -> Vec<u8> {
        Vec::new()
    }

    fn record(&self, _: &Sampling) -> Result<Box<dyn Recording>, String> {
        Err("nothing is recorded".into())
    }
}

/// What the client asks for, and where it is to land.
struct Command {
    options: Options,
    listed: Option<FilesFrom>,
    ground: TempDir,
}

impl Command {
    fn new(options: Options) -> Self {
        let options = Options { recursive: true, timeout: Some(20), ..options };
        let ground = tempfile::tempdir().expect("writable");
        fs::create_dir(ground.path().join("outside")).expect("writable");
        Self { options, listed: None, ground }
    }

    fn excluding(pattern: &str) -> Self {
        let mut builder = Builder::new(Reading::default());
        builder.exclude(pattern.as_bytes()).expect("a rule");
        Self::new(Options { filter: builder.build().expect("rules"), ..Options::default() })
    }

    fn listing(list: &str) -> Self {
        let listed = FilesFrom::parse(list.as_bytes(), false).expect("a list");
        let command = Self::new(Options { listed: true, ..Options::default() });
        Self { listed: Some(listed), ..command }
    }

    fn destination(&self) -> PathBuf {
        self.ground.path().join("to")
    }

    /// The client, with a hostile source that sends `entries`, and an honest destination.
    fn run(&self, sources: &[Source], entries: &[Entry]) -> Result<CarriedSums, FarError> {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let (sources, entries) = (sources.to_vec(), entries.to_vec());
        let hostile = move |end| send(end, &sources, &entries);
        let honest = |end: UnixStream| {
            let copy = end.try_clone().expect("a descriptor is free");
            agent::serve(end, copy, &Nobody, Ok(Permit::all()))
        };
        let sending = Job::Send { sources: vec![b"tree".to_vec()], options: self.options.clone() };
        let destination = self.destination().as_os_str().as_bytes().to_vec();
        let receiving = Job::Receive { destination, options: self.options.clone() };
        let (mut sender, mut receiver) = (session(sending, hostile), session(receiving, honest));
        let carried = self.carry(&mut sender, &mut receiver);
        carried.map_err(|failed| give_up((&mut sender, &mut receiver), ("a", "b"), failed))
    }

    fn carry(&self, sender: &mut Session, receiver: &mut Session) -> Result<CarriedSums, FarError> {
        let asked = AskedSources { sources: vec![b"tree".to_vec()], delivered: false };
        introduce(sender, receiver, asked, self.listed.as_ref())?;
        let way = meet((&mut *sender, &mut *receiver), &self.options, ("a", "b"), &Nobody)?;
        carry(sender, receiver, Carriage { digests: false, verify: false, way }, &|_| {})
    }

    /// The destination ends it, says `why`, and has nothing.
    #[track_caller]
    fn refuses(&self, entries: &[Entry], why: &str) {
        let sources = [tree_of(0)];
        let failed = self.run(&sources, entries).err().expect("it is refused");
        assert_eq!(failed.role, FarRole::Receiver, "{}", failed.error);
        assert!(failed.error.to_string().contains(why), "{why:?} is missing from: {}", failed.error);
        let left = within(&self.destination(), |names| !names.iter().any(|name| name.contains("evil")));
        assert!(left, "{:?}", names(&self.destination()));
        assert_eq!(names(&self.ground.path().join("outside")), Vec::<String>::new());
    }
}

/// What is left under way is removed by the time that the other end has ended.
fn within(top: &Path, mut done: impl FnMut(Vec<String>) -> bool) -> bool {
    (0..50).any(|_| {
        thread::sleep(Duration::from_millis(20));
        done(names(top))
    })
}

fn names(top: &Path) -> Vec<String> {
    let entries = fs::read_dir(top).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The client's end of a session with what `serve` does.
fn session(
    job: Job,
    serve: impl FnOnce(UnixStream) -> Result<(), TransferError> + Send + 'static,
) -> Session {
    let (near, far) = UnixStream::pair().expect("descriptors are free");
    thread::spawn(move || serve(far));
    let client = Client {
        job,
        interrupted: Arc::default(),
        observer: Arc::new(Nobody),
        pulse: Arc::new(Pulse::new(Some(Duration::from_secs(20)))),
        neighbour: None,
        interfaces: linerate_transfer::routes::Interfaces::One,
        linked: None,
    };
    let copy = near.try_clone().expect("a descriptor is free");
    Session::between(near, copy, client, Meters::default(), Arc::default()).expect("both speak this protocol")
}

/// A source that announces and sends what it likes, and says that this was all.
fn send(end: UnixStream, sources: &[Source], entries: &[Entry]) -> Result<(), TransferError> {
    let copy = end.try_clone().expect("a descriptor is free");
    let (mut session, job) = Session::agent(end, copy)?;
    let Job::Send { options, .. } = job else { panic!("it is told to send") };
    session.offer(&options)?;
    if options.listed {
        session.receive_selection(|_| Ok(()))?;
    }
    session.send(&Message::Sources(sources.to_vec()))?;
    session.wait_for_ready()?;
    session.more(1)?;
    let (_workers, ends) = unbounded();
    let mut writer = loop {
        if let Event::Stream(stream) = session.next(&ends)? {
            break stream.into_writer();
        }
    };
    let mut clock = Clock::start();
    writer.send(FrameKind::Batch, &batch(entries), &mut clock).map_err(broken)?;
    writer.end(&mut clock).map_err(broken)?;
    let totals = Totals { files: entries.len() as u64, ..Totals::default() };
    session.send(&Message::Sent { totals, streams: 1, complete: true })?;
    session.wait_for_commit()?;
    session.send_report()
}

fn broken(error: impl ToString) -> TransferError {
    TransferError::Cut(error.to_string())
}

/// Records of `entries`, each file with one byte for each of its size.
fn batch(entries: &[Entry]) -> Vec<u8> {
    let mut payload = Vec::new();
    for entry in entries {
        let contents =
            if let Kind::File { size } = entry.kind { vec![b'x'; size as usize] } else { Vec::new() };
        let encoded = postcard::to_stdvec(entry).expect("it can be encoded");
        payload.extend((encoded.len() as u32).to_le_bytes());
        payload.extend((contents.len() as u32).to_le_bytes());
        payload.extend(encoded);
        payload.extend(contents);
    }
    payload
}

fn path(text: &str) -> RelPath {
    RelPath::new(text).expect("a path")
}

fn tree_of(argument: u32) -> Source {
    Source { argument, name: path("tree"), directory: true }
}

fn entry(at: &str, kind: Kind, mode: u32) -> Entry {
    let time = Timestamp { seconds: 1_000_000_000, nanoseconds: 0 };
    Entry { source: 0, path: path(at), kind, mode, mtime: time, atime: time, extra: None }
}

fn file(at: &str) -> Entry {
    entry(at, Kind::File { size: 3 }, 0o644)
}

fn top() -> Entry {
    entry("", Kind::Directory, 0o755)
}

#[test]
fn what_was_asked_for_lands() {
    let command = Command::excluding("evil");
    let carried = command.run(&[tree_of(0)], &[top(), file("good")]).expect("it is as asked for");
    assert_eq!(carried.landed.files, 1);
    assert_eq!(fs::read(command.destination().join("good")).unwrap(), b"xxx");
    let listed = Command::listing("good\n");
    assert!(listed.run(&[tree_of(0)], &[file("good")]).is_ok());
}

#[test]
fn what_the_clients_rules_leave_out_does_not_land() {
    Command::excluding("evil").refuses(&[top(), file("evil")], "this command's filter rules leave out");
    Command::excluding("evil").refuses(&[top(), file("evil/below")], "this command's filter rules leave out");
}

#[test]
fn what_is_not_on_the_clients_list_does_not_land() {
    Command::listing("good\n").refuses(&[file("evil")], "isn't on the list of files");
}

#[test]
fn links_that_lead_out_do_not_land_where_the_client_has_said_so() {
    let link = entry("evil", Kind::Symlink { target: b"../../outside".to_vec() }, 0o777);
    let command = Command::new(Options { safe_links: true, ..Options::default() });
    command.refuses(&[top(), link], "--safe-links");
}

#[test]
fn nothing_is_written_through_a_link() {
    let command = Command::new(Options::default());
    let link = entry("evil", Kind::Symlink { target: b"../outside".to_vec() }, 0o777);
    let _ = command.run(&[tree_of(0)], &[top(), link, file("evil/planted")]);
    assert_eq!(names(&command.ground.path().join("outside")), Vec::<String>::new());
    // The same with a link that is there before.
    let command = Command::new(Options::default());
    fs::create_dir(command.destination()).unwrap();
    fs::create_dir(command.destination().join("tree")).unwrap();
    symlink("../../outside", command.destination().join("tree/evil")).unwrap();
    let _ = command.run(&[tree_of(0)], &[top(), file("evil/planted")]);
    assert_eq!(names(&command.ground.path().join("outside")), Vec::<String>::new());
}

#[test]
fn devices_and_setuid_that_were_not_asked_for_do_not_land() {
    let device = entry("evil", Kind::Device { block: false, major: 1, minor: 3 }, 0o666);
    Command::new(Options::default()).refuses(&[top(), device], "");
    let command = Command::new(Options::default());
    let setuid = entry("file", Kind::File { size: 3 }, 0o4755);
    command.run(&[tree_of(0)], &[top(), setuid]).expect("without the bit it is as asked for");
    let mode = fs::metadata(command.destination().join("file")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7000, 0, "{mode:o}");
}

#[test]
fn other_sources_than_those_of_the_command_are_refused() {
    for source in [
        Source { argument: 0, name: path("evil"), directory: true },
        Source { argument: 1, name: path("tree"), directory: true },
        Source { argument: 0, name: path("tree/evil"), directory: true },
    ] {
        let command = Command::new(Options::default());
        let failed = command.run(&[source], &[top(), file("evil")]).err().expect("it is refused");
        assert_eq!(failed.role, FarRole::Receiver, "{}", failed.error);
        assert!(failed.error.to_string().contains("which this command didn't request"), "{}", failed.error);
        assert!(!command.destination().exists());
    }
}
