//! The worked examples of docs/protocol.md are what this program says.

use linerate_remote::binary::{Binaries, Binary, FarPart};
use linerate_remote::install::bootstrap;
use linerate_wire::batch;
use linerate_wire::control::{self, ChainNext, Job, Listening, LostNext, Message, Options, Sampling, Source};
use linerate_wire::entry::{Chunk, Entry, Kind, Origin, Timestamp};
use linerate_wire::frame::{FrameKind, Header};
use linerate_wire::identity::IDENTITY;
use linerate_wire::path::RelPath;

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/protocol.md")).unwrap()
}

/// The examples' bytes, in the page's order.
fn examples() -> Vec<Vec<u8>> {
    page().split("```hex\n").skip(1).map(|rest| bytes(rest.split("```").next().unwrap())).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

fn message(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    control::write(&mut bytes, message).unwrap();
    bytes
}

fn path(text: &str) -> RelPath {
    RelPath::new(text.as_bytes()).unwrap()
}

fn file(name: &str, size: u64) -> Entry {
    let mtime = Timestamp { seconds: 1_700_000_000, nanoseconds: 5 };
    let atime = Timestamp { seconds: -1, nanoseconds: 0 };
    Entry { source: 0, path: path(name), kind: Kind::File { size }, mode: 0o644, mtime, atime, extra: None }
}

fn job() -> Message {
    let options = Options {
        recursive: true,
        rate_limit: Some(125_000_000),
        ports: Some((50000, 50010)),
        ..Options::default()
    };
    Message::Job(Job::Receive { destination: b"/data".to_vec(), options })
}

fn listening() -> Message {
    let candidates = ["192.0.2.7:50000", "[2001:db8::7]:50000"].map(|text| text.parse().unwrap());
    let client = Some("192.0.2.1".parse().unwrap());
    let further = vec!["198.51.100.7".parse().unwrap()];
    Message::Listening(Listening { candidates: candidates.to_vec(), further, client, error: None })
}

fn next() -> Message {
    let host = |place: u8, public_key: [u8; 2], address: &str, behind| ChainNext {
        place,
        public_key: public_key.to_vec(),
        cookie: [place; 16],
        candidates: vec![address.parse().unwrap()],
        behind,
    };
    let hosts = [host(3, [0xab, 0xcd], "192.0.2.3:50000", 1), host(4, [0xef, 0x01], "192.0.2.4:50001", 0)];
    Message::Next(hosts.to_vec())
}

fn batch_frame() -> Vec<u8> {
    let mut payload = Vec::new();
    let read = |out: &mut Vec<u8>| {
        out.extend_from_slice(b"hello");
        Ok::<(), ()>(())
    };
    batch::Writer::new(&mut payload).push(&mut file("a/b", 5), read).unwrap();
    [&Header::of(FrameKind::Batch, &payload, true).encode()[..], &payload].concat()
}

fn chunk_frame() -> Vec<u8> {
    let part = 64 << 20;
    let origin = Origin { inode: 77, ctime: Timestamp { seconds: 1_700_000_000, nanoseconds: 5 } };
    let chunk = Chunk { entry: file("big", 1 << 30), file: 3, offset: part, length: part, parts: 16, origin };
    assert!(chunk.is_consistent());
    let payload = postcard::to_stdvec(&chunk).unwrap();
    [&Header::of(FrameKind::Chunk, &payload, false).encode()[..], &payload].concat()
}

#[test]
fn the_worked_examples_are_right() {
    let tree = Source { argument: 0, name: path("tree"), directory: true };
    let said = [
        message(&Message::MoreStreams(300)),
        message(&job()),
        message(&listening()),
        message(&next()),
        message(&Message::Sources(vec![tree])),
        batch_frame(),
        chunk_frame(),
    ];
    assert_eq!(examples(), said);
}

#[test]
fn the_far_shell_gets_the_line_that_is_shown() {
    let own =
        Binary { machine: "Linux x".into(), file: "x".into(), size: 7, id: "BUILD".into(), packed: None };
    let binaries = Binaries { own, others: Vec::new(), agents: Vec::new(), unfit: Vec::new() };
    for install in [false, true] {
        let line = bootstrap(&binaries, FarPart::Agent, install);
        let line = line.replace(IDENTITY, &format!("linerate VERSION protocol {}", linerate_wire::PROTOCOL));
        assert!(page().contains(&format!("```text\n{line}\n```")), "not on the page: {line}");
    }
}

#[test]
fn the_page_is_of_this_version() {
    let version = linerate_wire::PROTOCOL;
    assert!(page().starts_with(&format!("# The protocol, version {version}\n")));
    assert!(page().contains(&format!("| protocol | `u32` | {version} |")));
}

/// The page's table numbers the messages; this is how they are encoded.
#[test]
fn every_message_has_the_number_of_the_table() {
    let page = page();
    let table = page.split("## Messages").nth(1).unwrap().split("## ").next().unwrap();
    let named = |number: usize, name: &str| table.contains(&format!("\n| {number} | {name} |"));
    for (message, name) in [
        (job(), "Job"),
        (listening(), "Listening"),
        (Message::ConnectBack { candidates: Vec::new() }, "ConnectBack"),
        (Message::ConnectedBack { error: None }, "ConnectedBack"),
        (Message::UseTunnel, "UseTunnel"),
        (Message::Between, "Between"),
        (Message::Delivered(Vec::new()), "Delivered"),
        (Message::Tally(Default::default()), "Tally"),
        (Message::Routes(2), "Routes"),
        (Message::Chained, "Chained"),
        (next(), "Next"),
        (Message::NextLost(LostNext { place: 1, reason: String::new() }), "NextLost"),
        (Message::MoreStreams(1), "MoreStreams"),
        (Message::Tunnel(Vec::new()), "Tunnel"),
        (Message::Sources(Vec::new()), "Sources"),
        (Message::Ready { offers: false, window: 23 }, "Ready"),
        (Message::Skip { file: 0 }, "Skip"),
        (Message::Progress(Default::default()), "Progress"),
        (Message::Sent { totals: Default::default(), streams: 0, complete: true }, "Sent"),
        (Message::Committed(Default::default()), "Committed"),
        (Message::Report { stages: Default::default(), usage: Default::default() }, "Report"),
        (Message::AskFacts(Vec::new()), "AskFacts"),
        (Message::AskCpu, "AskCpu"),
        (Message::Answer(Vec::new()), "Answer"),
        (
            Message::StartSampling(Sampling { interval_ms: 0, processes: Vec::new(), names: Vec::new() }),
            "StartSampling",
        ),
        (Message::TakeSamples { last: true }, "TakeSamples"),
        (Message::Samples(Vec::new()), "Samples"),
        (Message::Offer(Vec::new()), "Offer"),
        (Message::Wanted(Vec::new()), "Wanted"),
        (Message::Again(Vec::new()), "Again"),
        (Message::Within(true), "Within"),
        (Message::Digested(Vec::new()), "Digested"),
    ] {
        let number = postcard::to_stdvec(&message).unwrap()[0];
        assert!(named(number.into(), name), "{name} is number {number}");
    }
}
