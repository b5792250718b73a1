//! Fuzz target for data from the other end of a session: lines of its shell, control messages, TLS records,
//! frames, batches, chunks.

use linerate_remote::greeting::{Greeting, Heard, TooMuch};
use linerate_wire::batch;
use linerate_wire::control::{self, MAX_MESSAGE, Message, Source};
use linerate_wire::entry::{Chunk, Entry, Kind};
use linerate_wire::frame::{FrameKind, MAX_DATA, MAX_OTHER, Parser, Piece};
use linerate_wire::path::{RelPath, printable, printable_path};
use linerate_wire::sealed::{MAX_SEALED, SealedPart};

/// Decodes the input as data of one of the channels, which the first byte selects.
pub fn wire(data: &[u8]) {
    match data.split_first() {
        Some((0..100, rest)) => control(rest),
        Some((100..196, rest)) => frames(rest),
        Some((&first @ 196..200, rest)) => sealed(rest, usize::from(first - 195)),
        Some((200..228, rest)) => greeting(rest),
        Some((_, rest)) => linerate_transfer::foreign::tls_records(rest),
        None => {}
    }
}

/// Decodes the text that a far shell prints before its agent is ready.
fn greeting(data: &[u8]) {
    let mut greeting = Greeting::default();
    for byte in data {
        match greeting.take(*byte) {
            Ok(Some(Heard::Ready) | None) => {}
            Ok(Some(Heard::Failed(why))) => assert!(!why.contains(char::is_control)),
            Ok(Some(Heard::Wanted { machine, .. })) => check_printed(&machine),
            Ok(Some(Heard::Noise)) => assert_eq!(*byte, b'\n'),
            Err(TooMuch) => break,
        }
    }
    assert!(!greeting.shown().contains(char::is_control));
}

/// Decodes a part of a stream that passes through N hosts, with a seal for each.
fn sealed(data: &[u8], hosts: usize) {
    if let Some(part) = SealedPart::decode(data, hosts) {
        assert!(!part.bytes.is_empty() && part.bytes.len() <= MAX_SEALED);
        (0..=hosts).for_each(|place| assert_eq!(part.mark(place).is_some(), place < hosts));
    }
}

/// Decodes a control channel, which is a sequence of messages.
pub fn control(data: &[u8]) {
    let mut channel = data;
    while let Ok(message) = control::read(&mut channel) {
        let mut said = Vec::new();
        control::write(&mut said, &message).expect("what was read can be written");
        assert!(said.len() <= MAX_MESSAGE + 4);
        let back = control::read(&mut &said[..]).expect("what was written can be read");
        let mut again = Vec::new();
        control::write(&mut again, &back).expect("it was written before");
        assert_eq!(said, again);
        check_message(&message);
    }
    // The same decoder without the length prefix, which a fuzzer rarely gets right.
    if let Ok(message) = postcard::from_bytes::<Message>(data) {
        check_message(&message);
    }
}

fn check_message(message: &Message) {
    match message {
        Message::Sources(sources) => sources.iter().for_each(|Source { name, .. }| check_path(name)),
        Message::Problem(problem) => check_printed(&problem.path),
        Message::Listed { path, entry, .. } => {
            check_printed(path);
            check_entry(entry);
        }
        Message::Leftover(left) => check_printed(&left.path),
        Message::Abort { reason, .. } => check_printed(reason.as_bytes()),
        _ => {}
    }
}

/// Decodes a data stream, encrypted (first byte even) or not: frames and their contents.
pub fn frames(data: &[u8]) {
    let Some((mode, mut rest)) = data.split_first() else { return };
    let mut parser = Parser::new(mode & 1 == 1);
    let (mut payload, mut expected) = (Vec::new(), 0);
    loop {
        match parser.next(&mut rest) {
            Ok(Some(Piece::Start(header))) => {
                payload.clear();
                expected = header.length as usize;
                let most = if header.kind == FrameKind::Data { MAX_DATA } else { MAX_OTHER };
                assert!(expected <= most);
            }
            Ok(Some(Piece::Payload(bytes))) => payload.extend_from_slice(bytes),
            Ok(Some(Piece::Done(kind))) => {
                assert_eq!(payload.len(), expected);
                frame(kind, &payload);
            }
            Ok(None) | Err(_) => break,
        }
    }
    // The same decoder without the checksum and the header, which a fuzzer rarely gets right.
    match (mode >> 1) & 1 {
        0 => frame(FrameKind::Batch, &data[1..]),
        _ => frame(FrameKind::Chunk, &data[1..]),
    }
}

fn frame(kind: FrameKind, payload: &[u8]) {
    match kind {
        FrameKind::Batch => {
            for records in [batch::Reader::new(payload), batch::Reader::with_digests(payload)] {
                for record in records.map_while(Result::ok) {
                    let stated = if let Kind::File { size } = record.entry.kind { size } else { 0 };
                    assert_eq!(record.contents.len() as u64, stated);
                    check_entry(&record.entry);
                }
            }
        }
        FrameKind::Chunk => {
            if let Ok(chunk) = postcard::from_bytes::<Chunk>(payload) {
                check_entry(&chunk.entry);
                if chunk.is_consistent() {
                    assert!(chunk.parts > 0);
                    assert!(
                        matches!(chunk.entry.kind, Kind::File { size } if chunk.offset + chunk.length <= size)
                    );
                }
            }
        }
        _ => {}
    }
}

/// Checks that a decoded entry names nothing outside its source, and that its texts can be printed.
fn check_entry(entry: &Entry) {
    check_path(&entry.path);
    match &entry.kind {
        Kind::Symlink { target } => check_printed(target),
        Kind::HardLink { path, .. } => check_path(path),
        _ => {}
    }
}

fn check_path(path: &RelPath) {
    let bytes = path.as_bytes();
    assert!(!bytes.starts_with(b"/") && !bytes.contains(&0));
    let components: Vec<_> = path.components().collect();
    assert!(components.iter().all(|name| !name.is_empty() && *name != "." && *name != ".."));
    assert!(components.iter().all(|name| name.len() <= linerate_wire::path::MAX_NAME));
    check_printed(bytes);
    if let Some((parent, name)) = path.split() {
        assert_eq!(&parent.join(std::os::unix::ffi::OsStrExt::as_bytes(name)).expect("it was one"), path);
    }
}

fn check_printed(bytes: &[u8]) {
    let unfit = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!printable(bytes).contains(unfit));
    assert!(!printable_path(bytes).contains(unfit));
}
