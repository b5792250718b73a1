//! Fuzz target for a whole receiver. Its sender sends arbitrary valid messages and frames in any order, about
//! paths, links and files that are chosen to conflict. Nothing may be written outside the destination,
//! nothing that wasn't requested inside it, and no temporary file may remain.

use linerate_transfer::admission::Request;
use linerate_transfer::bounds::Bounds;
use linerate_transfer::filter::{Builder, FilesFrom, Reading};
use linerate_transfer::problem::Observer;
use linerate_transfer::pulse::Pulse;
use linerate_transfer::receiver;
use linerate_transfer::session::{Client, Meters, Session};
use linerate_wire::PROTOCOL;
use linerate_wire::control::{
    self, AbortKind, Backup, BlockSearch, Change, Hello, Job, Keep, Listening, Message, Offered, Options,
    Problem, ProblemKind, Source, Sync, Totals,
};
use linerate_wire::entry::{Chunk, Entry, Extra, Kind, Origin, Timestamp};
use linerate_wire::frame::{FrameKind, Header};
use linerate_wire::path::RelPath;
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Paths below the source that conflict: names below a link, below a file, temporary names, excluded names.
const PATHS: [&str; 16] = [
    "",
    "a",
    "a/b",
    "a/b/c",
    "a/b/c/d/e/f",
    "b",
    "link",
    "link/x",
    "link/a/b",
    "listed/x",
    "listed",
    ".linerate.0123456789abcdef.1",
    "a/.linerate.journal.0123456789abcdef0123456789abcdef",
    ".ssh",
    ".ssh/authorized_keys",
    "a/x.o",
];
/// The number of these paths that an honest sender might send.
const FINE: usize = 11;
/// Targets of links; nothing may be written at the last of them.
const TARGETS: [&str; 5] = ["a", "..", "/", "../outside/kept", "../../outside"];
const STREAM: usize = 3000;

/// The fuzzer's input, from which choices are read byte by byte.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }
}

/// Runs one session with the choices in the input.
pub fn receiver(data: &[u8]) {
    let ground = Ground::new();
    let mut choices = Choices(data);
    let command = Command::choose(&mut choices);
    let (near, far) = UnixStream::pair().expect("the system has sockets");
    let script = script(&command, &mut choices);
    let peer = thread::spawn(move || speak(far, &script));
    command.run(near, &ground.inside());
    let _ = peer.join();
    ground.check(&command);
}

/// The options of the user's command.
struct Command {
    options: Options,
    listed: Option<FilesFrom>,
    excludes: bool,
    directory: bool,
}

impl Command {
    fn choose(choices: &mut Choices<'_>) -> Self {
        let sync = choices.flag().then(|| Sync {
            checksum: choices.flag(),
            update: choices.flag(),
            ignore_existing: choices.flag(),
            inplace: choices.flag(),
            search: if choices.flag() { BlockSearch::Everywhere } else { BlockSearch::SamePlaces },
            delete: choices.flag(),
            make_path: choices.flag(),
            dry_run: choices.flag(),
            force: choices.flag(),
            window: choices.flag().then_some(1),
            backup: choices.flag().then(|| Backup { directory: None, suffix: b"~".to_vec() }),
            ..Sync::default()
        });
        let keep = Keep {
            perms: choices.flag(),
            times: choices.flag(),
            hard_links: choices.flag(),
            specials: choices.flag(),
            xattrs: choices.flag(),
            sparse: choices.flag(),
            ..Keep::NOTHING
        };
        let (excludes, digests, directory) = (choices.flag(), choices.flag(), choices.flag());
        let mut rules = Builder::new(Reading::default());
        if excludes {
            rules.exclude(b".ssh").and_then(|()| rules.exclude(b"*.o")).expect("these are rules");
        }
        let listed = (sync.is_some() && choices.flag())
            .then(|| FilesFrom::parse(b"listed/x\na/b/\n", false).expect("this is a list"));
        let options = Options {
            recursive: true,
            keep,
            digests,
            verify: digests && choices.flag(),
            sync,
            filter: rules.build().expect("these are rules"),
            listed: listed.is_some(),
            safe_links: choices.flag(),
            listed_whole: choices.flag(),
            ignore_missing: choices.flag(),
            no_implied: choices.flag(),
            ..Options::default()
        };
        Self { options, listed, excludes, directory }
    }

    /// Runs the client's end; its result doesn't matter.
    fn run(&self, near: UnixStream, inside: &Path) {
        let sources = [if self.directory { b"tree/".to_vec() } else { b"tree".to_vec() }];
        let job = Job::Send { sources: sources.to_vec(), options: self.options.clone() };
        let pulse = Arc::new(Pulse::new(None));
        let client = Client {
            job,
            interrupted: Arc::default(),
            observer: Arc::new(Nobody),
            pulse,
            neighbour: None,
            interfaces: linerate_transfer::routes::Interfaces::One,
            linked: None,
        };
        let Ok(reader) = near.try_clone() else { return };
        let Ok(mut session) = Session::client(reader, near, client, Meters::default()) else { return };
        let request = Request { sources: &sources, options: &self.options, listed: self.listed.as_ref() };
        let destination = inside.join("tree");
        let destination = Bounds::here().name(destination.as_os_str().as_bytes()).expect("a name");
        let _ = receiver::run(&mut session, &destination, &self.options, Some(&request), &|_, _, _| {});
        session.cut();
    }
}

struct Nobody;

impl Observer for Nobody {
    fn problem(&self, _: Problem) {}

    fn changes(&self, _: Vec<Change>) {}

    fn note(&self, _: &str) {}
}

/// The messages that the far end sends once data may be sent over the channel.
fn script(command: &Command, choices: &mut Choices<'_>) -> Vec<u8> {
    let name = RelPath::new("tree").expect("a name");
    let mut said = Vec::new();
    let mut say = |message: Message| control::write(&mut said, &message).expect("it is short");
    let directory = command.directory || choices.flag();
    say(Message::Sources(vec![Source { argument: 0, name, directory }]));
    let mut frames = 0;
    while !choices.0.is_empty() && frames < STREAM {
        frames += 1;
        say(next(command, choices));
    }
    say(frame(FrameKind::End, &[]));
    say(sent(choices));
    say(Message::Abort { reason: "that was all".into(), kind: AbortKind::Failed });
    said
}

fn next(command: &Command, choices: &mut Choices<'_>) -> Message {
    match choices.below(14) {
        0..3 => batch(command, choices),
        3 => chunk(command, choices),
        4 => frame(FrameKind::Data, &vec![choices.byte(); 1 + choices.below(200)]),
        5 => frame(FrameKind::Hole, &(choices.below(200) as u64).to_le_bytes()),
        6 => frame(FrameKind::Same, &[]),
        7 => frame(FrameKind::Digest, &[choices.byte(); 32]),
        8 => frame(FrameKind::GiveUp, &[]),
        13 => frame(FrameKind::Copy, &[choices.below(9) as u64 * 1024; 2].map(u64::to_le_bytes).concat()),
        9 => frame(FrameKind::Split, &u32::from(choices.byte()).to_le_bytes()),
        10 | 11 if command.options.sync.is_some() => {
            Message::Offer((0..=choices.below(3)).map(|_| offered(command, choices)).collect())
        }
        _ => match choices.byte() {
            0 => sent(choices),
            1 => Message::Skip { file: u64::from(choices.byte()) },
            2..100 => Message::MoreStreams(u32::from(choices.byte() % 3)),
            _ => Message::Problem(Problem {
                path: vec![choices.byte()],
                message: "\x1b".into(),
                kind: ProblemKind::Failed,
            }),
        },
    }
}

fn sent(choices: &mut Choices<'_>) -> Message {
    let totals = Totals { files: choices.byte().into(), ..Totals::default() };
    Message::Sent { totals, streams: 1, complete: choices.flag() }
}

fn frame(kind: FrameKind, payload: &[u8]) -> Message {
    let mut bytes = Header::of(kind, payload, true).encode().to_vec();
    bytes.extend_from_slice(payload);
    Message::Tunnel(bytes)
}

fn batch(command: &Command, choices: &mut Choices<'_>) -> Message {
    let mut payload = Vec::new();
    for _ in 0..=choices.below(4) {
        let entry = entry(command, choices);
        let mut contents =
            if let Kind::File { size } = entry.kind { vec![7; size as usize] } else { Vec::new() };
        if command.options.digests && matches!(entry.kind, Kind::File { .. }) {
            // In most cases, the digest is correct.
            let digest = if choices.byte() < 200 { *blake3::hash(&contents).as_bytes() } else { [1; 32] };
            contents.extend_from_slice(&digest);
        }
        let entry = postcard::to_stdvec(&entry).expect("it can be encoded");
        payload.extend_from_slice(&(entry.len() as u32).to_le_bytes());
        payload.extend_from_slice(&(contents.len() as u32).to_le_bytes());
        payload.extend_from_slice(&entry);
        payload.extend_from_slice(&contents);
    }
    frame(FrameKind::Batch, &payload)
}

fn chunk(command: &Command, choices: &mut Choices<'_>) -> Message {
    let (parts, length) = (1 + choices.below(3) as u32, choices.below(200) as u64);
    let offset = choices.below(3) as u64 * length;
    let mut entry = entry(command, choices);
    entry.kind = Kind::File { size: u64::from(parts) * length };
    let file = choices.below(4) as u64;
    let chunk = Chunk { entry, file, offset, length, parts, origin: Origin::default() };
    frame(FrameKind::Chunk, &postcard::to_stdvec(&chunk).expect("it can be encoded"))
}

fn offered(command: &Command, choices: &mut Choices<'_>) -> Offered {
    let entry = entry(command, choices);
    let digest = choices.flag().then_some([choices.byte(); 32]);
    Offered { ctime: entry.mtime, inode: u64::from(choices.byte()), digest, whole: choices.flag(), entry }
}

/// An entry, which in most cases the options allow.
fn entry(command: &Command, choices: &mut Choices<'_>) -> Entry {
    let keep = &command.options.keep;
    let (at, other) = (path(choices), path(choices));
    let target = TARGETS[choices.below(TARGETS.len())].into();
    let kind = match choices.below(8) {
        0..2 => Kind::Directory,
        2..5 => Kind::File { size: choices.below(100) as u64 },
        5 => Kind::Symlink { target },
        6 if keep.specials || choices.byte() == 0 => Kind::Fifo,
        _ if keep.hard_links || choices.byte() == 0 => {
            Kind::HardLink { source: u32::from(choices.byte() == 255), path: other }
        }
        _ => Kind::Directory,
    };
    let kind = if at.is_root() && choices.byte() > 5 { own_kind(command) } else { kind };
    let xattrs = vec![(b"user.x".to_vec(), vec![1])];
    let linked = (keep.hard_links || choices.byte() == 255) && choices.byte() > 100;
    let has_xattrs = keep.xattrs && choices.byte() > 100;
    let extra = Extra { linked, xattrs: if has_xattrs { xattrs } else { Vec::new() }, ..Extra::default() };
    let mtime = Timestamp { seconds: i64::from(choices.byte()) << choices.below(56), nanoseconds: 0 };
    Entry {
        source: u32::from(choices.byte() == 255),
        path: at,
        kind,
        mode: u32::from(choices.byte()) << 4 | 0o600,
        mtime,
        atime: mtime,
        extra: (linked || has_xattrs).then(|| Box::new(extra)),
    }
}

/// A path, which is rarely one that ends the session.
fn path(choices: &mut Choices<'_>) -> RelPath {
    let paths = if choices.byte() < 16 { &PATHS[..] } else { &PATHS[..FINE] };
    RelPath::new(paths[choices.below(paths.len())]).expect("a path")
}

fn own_kind(command: &Command) -> Kind {
    if command.directory { Kind::Directory } else { Kind::File { size: 5 } }
}

/// Sends the whole script, and ignores the answers.
fn speak(mut far: UnixStream, script: &[u8]) -> Option<()> {
    let mut say = |message: Message| control::write(&mut far, &message).ok();
    let hello = Hello { protocol: PROTOCOL, version: "0".into(), public_key: key(), cookie: [0; 16] };
    say(Message::Hello(hello))?;
    say(Message::Listening(Listening {
        candidates: Vec::new(),
        further: Vec::new(),
        client: None,
        error: Some("no".into()),
    }))?;
    say(Message::ConnectedBack { error: Some("no".into()) })?;
    while control::read(&mut far).ok()? != Message::UseTunnel {}
    let mut ear = far.try_clone().ok()?;
    let hearing = thread::spawn(move || ear.read_to_end(&mut Vec::new()).map(drop));
    let said = far.write_all(script);
    // The other end reads until the end of the data, and then closes the connection.
    let _ = far.shutdown(Shutdown::Write);
    let _ = hearing.join();
    said.ok()
}

/// The SubjectPublicKeyInfo of an Ed25519 key.
fn key() -> Vec<u8> {
    let front = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    [&front[..], &[9; 32]].concat()
}

/// The test's directory: `in/tree` is the destination, and nothing may be written in `outside`.
struct Ground(PathBuf);

static NUMBER: AtomicU64 = AtomicU64::new(0);

impl Ground {
    fn new() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let ground = Self(base.join(format!("linerate-fuzz-{}-{number}", std::process::id())));
        fs::create_dir_all(ground.inside()).expect("writable");
        fs::create_dir_all(ground.0.join("outside")).expect("writable");
        fs::write(ground.0.join("outside/kept"), "kept").expect("writable");
        ground
    }

    fn inside(&self) -> PathBuf {
        self.0.join("in")
    }

    fn check(&self, command: &Command) {
        assert_eq!(names(&self.0), ["in", "outside"]);
        assert_eq!(names(&self.0.join("outside")), ["kept"]);
        assert_eq!(fs::read(self.0.join("outside/kept")).expect("readable"), b"kept");
        assert!(names(&self.inside()).iter().all(|name| name == "tree"), "{:?}", names(&self.inside()));
        let mut waiting = vec![self.inside()];
        while let Some(directory) = waiting.pop() {
            for name in names(&directory) {
                assert!(!name.starts_with(".linerate."), "{name} stays");
                assert!(!command.excludes || name != ".ssh" && !name.ends_with(".o"), "{name} is excluded");
                let path = directory.join(&name);
                let found = path.symlink_metadata().expect("it is there");
                if found.is_dir() {
                    waiting.push(path);
                } else if found.is_symlink() && command.options.safe_links {
                    let target = fs::read_link(&path).expect("readable");
                    assert!(target.is_relative(), "{target:?} leads out");
                }
            }
        }
    }
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .expect("readable")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
