//! Tests of a chain in which a hostile host comes before an honest one.

use linerate_wire::control::{
    self, ChainLink, Hello, Job, Keep, Listening, Message, Options, Sampling, Source, Totals,
};
use linerate_wire::entry::{Entry, Kind, Timestamp};
use linerate_wire::frame::{FrameKind, Header};
use linerate_wire::path::RelPath;
use linerate_wire::{PROTOCOL, batch};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use super::{HostObserver, Recording, serve};
use crate::net::chain::ChainSource;
use crate::net::clock::Clock;
use crate::net::dial::dial;
use crate::net::handshake::ConnectionConfig;
use crate::net::keys::Keys;
use crate::net::transport::Registry;
use crate::permit::Permit;

struct Nothing;

impl HostObserver for Nothing {
    fn facts(&self, _: Vec<Vec<u8>>) -> Vec<u8> {
        Vec::new()
    }

    fn cpu(&self) -> Vec<u8> {
        Vec::new()
    }

    fn record(&self, _: &Sampling) -> Result<Box<dyn Recording>, String> {
        Err("nothing to record".into())
    }
}

const COOKIE: [u8; 16] = [9; 16];
const FILES: [(&str, &[u8]); 3] = [("one", b"the first"), ("two", b"the second"), ("three", b"the third")];

fn entry(path: &str, kind: Kind) -> Entry {
    let time = Timestamp { seconds: 1_600_000_000, nanoseconds: 0 };
    let path = RelPath::new(path.as_bytes()).unwrap();
    Entry { source: 0, path, kind, mode: 0o755, mtime: time, atime: time, extra: None }
}

fn frame(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    [&Header::of(kind, payload, false).encode()[..], payload].concat()
}

fn record(entry: &mut Entry, contents: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    let read = |buffer: &mut Vec<u8>| {
        buffer.extend(contents);
        Ok::<(), ()>(())
    };
    batch::Writer::new(&mut payload).push(entry, read).unwrap();
    frame(FrameKind::Batch, &payload)
}

/// The parts that an honest source sends: one for the directory, one for each file, and one for the end.
fn honest(source: &ChainSource, stream: u32) -> Vec<Vec<u8>> {
    let directory = record(&mut entry("", Kind::Directory), b"");
    let file = |(name, contents): (&str, &[u8])| {
        record(&mut entry(name, Kind::File { size: contents.len() as u64 }), contents)
    };
    let frames = [directory].into_iter().chain(FILES.map(file)).chain([frame(FrameKind::End, &[])]);
    let seal = |(number, bytes): (usize, Vec<u8>)| {
        let mut payload = Vec::new();
        source.seal((stream, number as u64), &bytes, &mut payload);
        payload
    };
    frames.enumerate().map(seal).collect()
}

/// A function that turns the source's parts into the frames that the first host forwards.
type Doing = fn(&ChainSource, Vec<Vec<u8>>) -> Vec<(FrameKind, Vec<u8>)>;

fn as_they_are(parts: Vec<Vec<u8>>) -> Vec<(FrameKind, Vec<u8>)> {
    parts.into_iter().map(|part| (FrameKind::Sealed, part)).chain([(FrameKind::End, Vec::new())]).collect()
}

/// Runs an agent as the second host of a chain, whose first host forwards the frames that `doing` returns.
/// Returns the agent's last message, and the names and contents of the files that have landed at the agent.
fn behind(doing: Doing) -> (Message, Vec<(String, Vec<u8>)>) {
    let ground = tempfile::tempdir().unwrap();
    let (mut near, far) = UnixStream::pair().unwrap();
    let agent = thread::spawn(move || serve(far.try_clone().unwrap(), far, &Nothing, Ok(Permit::all())));
    let mut say = {
        let mut to = near.try_clone().unwrap();
        move |message: &Message| control::write(&mut to, message).unwrap()
    };
    let mut hear = |is_it: &dyn Fn(&Message) -> bool| loop {
        match control::read(&mut near).unwrap() {
            message if is_it(&message) => return message,
            message @ Message::Abort { .. } => panic!("{message:?}"),
            _ => {}
        }
    };
    let (hop, source) = (Keys::generate().unwrap(), ChainSource::new(2).unwrap());
    let client = Keys::generate().unwrap();
    say(&Message::Hello(Hello {
        protocol: PROTOCOL,
        version: "1".into(),
        public_key: client.public().to_vec(),
        cookie: [1; 16],
    }));
    say(&Message::Chained);
    let options = Options { recursive: true, keep: Keep::SCP, timeout: Some(10), ..Options::default() };
    let destination = ground.path().to_owned().into_os_string().into_vec();
    say(&Message::Job(Job::Receive { destination, options }));
    let Message::Hello(hello) = hear(&|message| matches!(message, Message::Hello(_))) else { unreachable!() };
    let name = RelPath::new(b"tree").unwrap();
    say(&Message::Sources(vec![Source { argument: 0, name, directory: true }]));
    hear(&|message| matches!(message, Message::Ready { offers: false, .. }));
    let key = source.key(1).unwrap().clone();
    let previous = hop.public().to_vec();
    say(&Message::Link(ChainLink { previous, cookie: COOKIE, key, place: 1, hosts: 2 }));
    let listening = hear(&|message| matches!(message, Message::Listening(_)));
    say(&Message::Next(Vec::new()));
    hand_on(&listening, &hop, &hello.public_key, doing(&source, honest(&source, 0)));
    let totals = Totals { files: 3, directories: 1, bytes: 29, ..Totals::default() };
    say(&Message::Sent { totals, streams: 1, complete: true });
    let last = loop {
        let heard = control::read(&mut near).unwrap();
        if matches!(heard, Message::Committed(_) | Message::Abort { .. }) {
            break heard;
        }
    };
    drop((say, near));
    let _ = agent.join();
    let mut landed: Vec<_> = fs::read_dir(ground.path().join("tree"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()))
        .collect();
    landed.sort();
    (last, landed)
}

fn hand_on(listening: &Message, hop: &Keys, agent: &[u8], frames: Vec<(FrameKind, Vec<u8>)>) {
    let Message::Listening(Listening { candidates, .. }) = listening else { unreachable!() };
    let address = SocketAddr::new([127, 0, 0, 1].into(), candidates[0].port());
    let registry = Registry::default();
    let link = ConnectionConfig { pinned: hop.pin(agent).unwrap(), clear: false, registry };
    let stream = dial(address, &COOKIE, &link, Duration::from_secs(5)).unwrap();
    let (mut writer, mut clock) = (stream.into_writer(), Clock::start());
    for (kind, payload) in frames {
        // The agent may have closed the connection already.
        if kind == FrameKind::End {
            let _ = writer.end(&mut clock);
            return;
        }
        let _ = writer.send(kind, &payload, &mut clock);
    }
}

/// Asserts that the session fails with a message that contains `why`, and that each file that has landed
/// equals the source's file.
#[track_caller]
fn assert_refused(why: &str, doing: Doing) {
    let (last, landed) = behind(doing);
    let Message::Abort { reason, .. } = last else { panic!("it takes this for the whole: {landed:?}") };
    assert!(reason.contains(why), "{reason}");
    for (name, contents) in landed.iter().filter(|(name, _)| !name.starts_with('.')) {
        assert!(FILES.contains(&(name, contents)), "{name}: {contents:?}");
    }
}

#[test]
fn what_an_honest_host_of_a_chain_hands_on_lands() {
    let (last, landed) = behind(|_, parts| as_they_are(parts));
    assert!(matches!(last, Message::Committed(landed) if landed.files == 3), "{last:?}");
    assert_eq!(landed.len(), 3);
}

#[test]
fn a_host_that_changes_a_byte_is_found_out() {
    assert_refused("differs from the one that the source sent", |_, mut parts| {
        let last = parts[2].len() - 1;
        parts[2][last] ^= 1;
        as_they_are(parts)
    });
}

#[test]
fn a_host_that_makes_parts_of_its_own_is_found_out() {
    assert_refused("differs from the one that the source sent", |_, mut parts| {
        let evil = record(&mut entry("two", Kind::File { size: 4 }), b"evil");
        let mut payload = Vec::new();
        ChainSource::new(2).unwrap().seal((0, 2), &evil, &mut payload);
        parts[2] = payload;
        as_they_are(parts)
    });
}

#[test]
fn a_host_that_leaves_out_repeats_or_reorders_parts_is_found_out() {
    assert_refused("another order", |_, mut parts| {
        parts.remove(2);
        as_they_are(parts)
    });
    assert_refused("another order", |_, mut parts| {
        parts.insert(2, parts[2].clone());
        as_they_are(parts)
    });
    assert_refused("another order", |_, mut parts| {
        parts.swap(2, 3);
        as_they_are(parts)
    });
    assert_refused("another order", |source, mut parts| {
        parts[2] = honest(source, 1)[2].clone();
        as_they_are(parts)
    });
}

#[test]
fn a_host_that_ends_a_stream_early_is_found_out() {
    assert_refused("closed in the middle", |_, mut parts| {
        parts.truncate(3);
        as_they_are(parts)
    });
    assert_refused("connection", |_, mut parts| {
        parts.truncate(3);
        let mut frames = as_they_are(parts);
        frames.pop();
        frames
    });
}

#[test]
fn a_host_that_sends_more_than_the_source_is_found_out() {
    assert_refused("without a mark", |_, parts| {
        let evil = record(&mut entry("evil", Kind::File { size: 4 }), b"evil");
        let bare = (FrameKind::Batch, evil[linerate_wire::frame::HEADER..].to_vec());
        let mut frames = as_they_are(parts);
        frames.insert(2, bare);
        frames
    });
    assert_refused("", |_, mut parts| {
        let again = parts[4].clone();
        parts.push(again);
        as_they_are(parts)
    });
}
