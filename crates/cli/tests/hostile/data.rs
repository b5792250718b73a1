//! Tests of a far end whose data contradicts its announcements.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use linerate_wire::control::Message;
use linerate_wire::frame::FrameKind::{Batch, Chunk, Data, End, GiveUp, Packed, Split};
use linerate_wire::frame::{FrameKind, HEADER, Header};

use crate::far::{Far, Ground, Said, chunk, encode, file, folder, link, record, source, totals};
use crate::support::Run;

type Behaviour = Box<dyn FnOnce(&mut Far) -> Said + Send>;

/// Sends frames of the source `x`, followed by the end messages for one file of two bytes.
fn pull(frames: Vec<(FrameKind, Vec<u8>)>) -> (Run, Ground) {
    let ground = Ground::new();
    let run = ground.run(&["far:x", "."], move |far| {
        far.announce(&[source("x", false)])?;
        frames.iter().try_for_each(|(kind, payload)| far.frame(*kind, payload))?;
        far.finish(totals(1, 2))
    });
    (run, ground)
}

fn x(offset: u64, length: u64, parts: u32) -> (FrameKind, Vec<u8>) {
    (Chunk, chunk(file("", 2), offset, length, parts))
}

fn data(bytes: &[u8]) -> (FrameKind, Vec<u8>) {
    (Data, bytes.to_vec())
}

fn split(parts: u32) -> (FrameKind, Vec<u8>) {
    (Split, parts.to_le_bytes().to_vec())
}

/// Checks that no file was created and that no success was reported.
#[track_caller]
fn assert_refused((run, ground): (Run, Ground), why: &str) {
    assert!(matches!(run.code, Some(1 | 3 | 5)), "{why}: {run}");
    assert!(run.err.starts_with("linerate: "), "{why}: no message: {run}");
    assert_eq!(ground.landed(), Vec::<PathBuf>::new(), "{why}");
}

#[test]
fn honest_chunks_land() {
    for frames in [
        vec![x(1, 1, 2), data(b"b"), x(0, 1, 2), data(b"a")],
        vec![x(0, 2, 1), data(b"a"), split(2), x(1, 1, 2), data(b"b")],
    ] {
        let (run, ground) = pull(frames);
        run.exits(0);
        assert_eq!(fs::read_to_string(ground.inside().join("x")).unwrap(), "ab");
    }
}

#[test]
fn parts_that_do_not_make_the_file_are_refused() {
    let other = |size, offset, length| (Chunk, chunk(file("", size), offset, length, 2));
    for (why, frames) in [
        ("overlapping parts", vec![x(0, 1, 2), data(b"a"), x(0, 1, 2), data(b"b")]),
        ("one part of two", vec![x(0, 1, 2), data(b"a")]),
        ("no data", vec![x(0, 2, 1)]),
        ("too little data", vec![x(0, 2, 1), data(b"a")]),
        ("too little data before another", vec![x(0, 2, 1), data(b"a"), x(0, 2, 1), data(b"ab")]),
        ("too much data", vec![x(0, 2, 1), data(b"abc")]),
        ("too much data in pieces", vec![x(0, 1, 2), data(b"a"), data(b"b")]),
        ("data of nothing", vec![data(b"a")]),
        ("no parts", vec![x(0, 2, 0), data(b"ab")]),
        ("a part behind the end", vec![x(2, 1, 2), data(b"a")]),
        ("an offset that overflows", vec![x(u64::MAX, 2, 2), data(b"ab")]),
        ("a part of all that isn't all", vec![x(0, 1, 1), data(b"a")]),
        ("more parts than bytes", vec![x(0, 1, u32::MAX), data(b"a"), x(1, 1, u32::MAX), data(b"b")]),
        ("parts of different sizes", vec![x(0, 1, 2), data(b"a"), other(1 << 40, 1 << 39, 1), data(b"b")]),
        ("another size for the last part", vec![x(0, 1, 2), data(b"a"), other(3, 2, 1), data(b"b")]),
        ("given up", vec![x(0, 2, 1), (GiveUp, vec![])]),
        ("split at its beginning", vec![x(0, 2, 1), split(2), x(0, 2, 2), data(b"ab")]),
        ("split into one", vec![x(0, 2, 1), data(b"a"), split(1)]),
        ("split, and no rest", vec![x(0, 2, 1), data(b"a"), split(2)]),
        ("split, and more parts than bytes", vec![x(0, 2, 1), data(b"a"), split(3), x(1, 1, 3), data(b"b")]),
        ("split, and too much", vec![x(0, 2, 1), data(b"a"), split(2), x(0, 2, 2), data(b"ab")]),
        ("split without a part", vec![split(2)]),
        ("given up without a part", vec![(GiveUp, vec![])]),
        ("the end inside a part", vec![x(0, 2, 1), data(b"a"), (End, vec![])]),
    ] {
        assert_refused(pull(frames), why);
    }
}

#[test]
fn a_part_too_many_does_not_change_what_is_there() {
    let (run, ground) = pull(vec![x(0, 1, 2), data(b"a"), x(1, 1, 2), data(b"b"), x(0, 1, 2), data(b"c")]);
    run.exits(1);
    assert!(fs::read_to_string(ground.inside().join("x")).is_ok_and(|contents| contents == "ab"));
    assert_eq!(ground.landed().len(), 1, "{:?}", ground.landed());
}

#[test]
fn a_size_that_no_disk_has_is_refused() {
    for size in [u64::MAX, 1 << 63, 1 << 62] {
        let whole = vec![(Chunk, chunk(file("", size), 0, size, 1)), data(b"a")];
        assert_refused(pull(whole), "a huge file in one part");
        let parts = vec![(Chunk, chunk(file("", size), size - 1, 1, 2)), data(b"a")];
        assert_refused(pull(parts), "a huge file in two parts");
    }
}

#[test]
fn a_chunk_that_is_no_file_is_refused() {
    for entry in [folder(""), link("", "target")] {
        assert_refused(pull(vec![(Chunk, chunk(entry, 0, 0, 1))]), "a chunk of something else");
    }
    assert_refused(pull(vec![(Chunk, vec![0xff; 100])]), "garbage as a chunk");
    assert_refused(pull(vec![(Chunk, Vec::new())]), "nothing as a chunk");
}

#[test]
fn damaged_batches_are_refused() {
    let good = record(&file("", 2), b"ab");
    let mut longer = good.clone();
    longer[4] += 1;
    let mut long_entry = good.clone();
    long_entry[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    let entry = encode(&file("", 2));
    let padded =
        [&(entry.len() as u32 + 1).to_le_bytes()[..], &2_u32.to_le_bytes(), &entry, &[0], b"ab"].concat();
    for (why, payload) in [
        ("cut in its contents", good[..good.len() - 1].to_vec()),
        ("cut in its entry", good[..12].to_vec()),
        ("cut in its head", good[..5].to_vec()),
        ("contents behind its end", longer),
        ("an entry behind its end", long_entry),
        ("an entry with something behind it", padded),
        ("another size than stated", record(&file("", 3), b"ab")),
        ("a directory with contents", record(&folder(""), b"ab")),
        ("garbage", vec![0xa5; 1000]),
    ] {
        assert_refused(pull(vec![(Batch, payload)]), why);
    }
}

#[test]
fn damaged_frames_are_refused() {
    let good = record(&file("", 2), b"ab");
    let header = |kind, checked| Header::of(kind, &good, checked).encode();
    let with = |at: usize, byte: u8| {
        let mut bytes = header(Batch, true);
        bytes[at] = byte;
        bytes
    };
    for (why, header) in [
        ("no checksum", header(Batch, false)),
        ("another checksum", with(9, header(Batch, true)[9] ^ 1)),
        ("an unknown kind", with(0, 77)),
        ("a reserved bit", with(1, 5)),
        ("a length above all bounds", with(7, 0xff)),
        ("another kind", header(Data, true)),
    ] {
        let bytes = [&header[..], &good].concat();
        let ground = Ground::new();
        let run = ground.run(&["far:x", "."], move |far| {
            far.announce(&[source("x", false)])?;
            far.say(&Message::Tunnel(bytes))?;
            far.finish(totals(1, 2))
        });
        assert_refused((run, ground), why);
    }
}

/// Sends frames of the source `x` in one compressed payload, to a client with this option.
fn pull_packed(option: &str, frames: &[(FrameKind, Vec<u8>)]) -> (Run, Ground) {
    let frame = |(kind, payload): &(FrameKind, Vec<u8>)| {
        [&Header::of(*kind, payload, true).encode()[..], payload].concat()
    };
    let bytes: Vec<u8> = frames.iter().flat_map(frame).collect();
    let ground = Ground::new();
    let run = ground.run(&[option, "far:x", "."], move |far| {
        far.announce(&[source("x", false)])?;
        bytes.chunks(200_000).try_for_each(|piece| far.say(&Message::Tunnel(piece.to_vec())))?;
        far.finish(totals(1, 2))
    });
    (run, ground)
}

/// A frame inside compressed data.
fn inner(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    [&Header::unchecked(kind, payload.len()).encode()[..], payload].concat()
}

/// The beginning of a zstd frame with this window, flushed after `plain`.
fn compressed(window: u32, plain: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(window).unwrap();
    encoder.write_all(plain).unwrap();
    encoder.flush().unwrap();
    encoder.get_ref().clone()
}

#[test]
fn what_compressed_frames_hold_is_judged_as_any_other() {
    let good = inner(Batch, &record(&file("", 2), b"ab"));
    let packed = |plain: &[u8]| vec![(Packed, compressed(23, plain))];
    let honest = packed(&good);
    for window in [20, 23] {
        let (run, ground) = pull_packed("--compress=auto", &[(Packed, compressed(window, &good))]);
        run.exits(0);
        assert_eq!(fs::read_to_string(ground.inside().join("x")).unwrap(), "ab");
    }
    let mut between = packed(&good[..good.len() - 1]);
    between.push((Batch, record(&file("", 2), b"ab")));
    let whole = |plain: &[u8]| vec![(Packed, zstd::stream::encode_all(plain, 1).unwrap())];
    for (why, frames) in [
        ("cut", packed(&good[..good.len() - 3])),
        ("garbage", vec![(Packed, vec![0x5a; 50])]),
        ("a window above all bounds", vec![(Packed, compressed(28, &good))]),
        ("another frame inside of one", between),
        ("the end among others", packed(&inner(End, &[]))),
        ("compressed twice", packed(&inner(Packed, &compressed(23, &good)))),
        ("a checksum inside", packed(&Header::of(Batch, &good, true).encode())),
        ("bytes that are no frames", packed(&vec![0; 1 << 28])),
        ("a frame of zstd that ends", whole(&good)),
        ("more than a batch may have", packed(&[&inner(Batch, &[0; 9])[..4], &[0xff; 300]].concat())),
    ] {
        assert_refused(pull_packed("--compress=auto", &frames), why);
    }
    assert_refused(pull_packed("--compress=off", &honest), "not asked for");
}

#[test]
fn a_stream_that_ends_inside_a_frame_is_refused() {
    let good = Header::of(Batch, &[0; 100], true).encode();
    for length in [1, HEADER - 1, HEADER] {
        let piece = good[..length].to_vec();
        let ground = Ground::new();
        let run = ground.run(&["far:x", "."], move |far| {
            far.announce(&[source("x", false)])?;
            far.say(&Message::Tunnel(piece))?;
            far.say(&Message::Tunnel(Vec::new()))?;
            far.hear_all()
        });
        assert_refused((run, ground), "a cut frame");
    }
}

#[test]
fn frames_behind_the_end_are_refused() {
    let (run, ground) = pull(vec![(End, vec![]), (Batch, record(&file("", 2), b"ab"))]);
    assert!(!ground.inside().join("x").exists(), "{run}");
    assert_ne!(run.code, Some(0), "{run}");
}

#[test]
fn what_was_not_sent_is_no_success() {
    // All that the sender says it found must be there; so must what was asked for.
    let empty = |far: &mut Far| -> Said {
        far.announce(&[source("x", false)])?;
        far.finish(totals(1, 2))
    };
    let silent = |far: &mut Far| -> Said {
        far.announce(&[source("x", false)])?;
        far.finish(totals(0, 0))
    };
    let no_stream = |far: &mut Far| -> Said {
        far.announce(&[source("x", false)])?;
        far.say(&Message::Sent { totals: totals(0, 0), streams: 0, complete: true })?;
        far.hear_until(|message| matches!(message, Message::Committed(_)))?;
        far.report()
    };
    let fewer = |far: &mut Far| -> Said {
        far.announce(&[source("x", false)])?;
        far.frame(Batch, &record(&file("", 1), b"a"))?;
        far.finish(totals(1, 2))
    };
    let behaviours: [(&str, Behaviour); 4] = [
        ("nothing of one file", Box::new(empty)),
        ("nothing of nothing", Box::new(silent)),
        ("no stream", Box::new(no_stream)),
        ("fewer bytes than it says", Box::new(fewer)),
    ];
    for (why, behave) in behaviours {
        let ground = Ground::new();
        let run = ground.run(&["far:x", "."], behave);
        assert!(matches!(run.code, Some(1 | 3 | 5)), "{why}: {run}");
    }
}

#[test]
fn a_stream_that_never_came_is_not_waited_for_without_end() {
    let ground = Ground::new();
    let run = ground.run(&["far:x", "."], |far| {
        far.announce(&[source("x", false)])?;
        far.frame(Batch, &record(&file("", 2), b"ab"))?;
        far.frame(End, &[])?;
        far.say(&Message::Sent { totals: totals(1, 2), streams: 2, complete: true })?;
        far.hear_all()
    });
    run.exits(5).says(&["1 of 2 data connections broke before any data arrived on them"]);
}

#[test]
fn problems_that_are_reported_are_no_success() {
    use linerate_wire::control::{Problem, ProblemKind};
    for (kind, code) in [(ProblemKind::Failed, 3), (ProblemKind::Skipped, 3), (ProblemKind::Changed, 4)] {
        let ground = Ground::new();
        let run = ground.run(&["far:x", "."], move |far| {
            far.announce(&[source("x", false)])?;
            far.say(&Message::Problem(Problem {
                path: b"x\x1b[2J".to_vec(),
                message: "no\x07\r".into(),
                kind,
            }))?;
            far.finish(totals(0, 0))
        });
        run.exits(code).says(&["x\\u{1b}[2J: no\\u{7}\\r"]);
    }
}
