//! Tests of digests that are wrong, missing or not requested, and of files that are requested again.

use std::fs;
use std::path::PathBuf;

use linerate_wire::control::{Digested, Message};
use linerate_wire::frame::FrameKind::{self, Batch, Chunk, Data, Digest, End};

use crate::far::{Far, Ground, Said, chunk, file, folder, is_sources, path, record, report, source, totals};
use crate::support::Run;

type Frames = Vec<(FrameKind, Vec<u8>)>;

fn hash(bytes: &[u8]) -> Vec<u8> {
    blake3::hash(bytes).as_bytes().to_vec()
}

/// The source `x` with the contents `ab` and this digest.
fn x(digest: Vec<u8>) -> Frames {
    vec![(Chunk, chunk(file("", 2), 0, 2, 1)), (Data, b"ab".to_vec()), (Digest, digest)]
}

/// The source's record in a batch, with a digest after the contents.
fn batched(digest: &[u8]) -> Frames {
    let mut bytes = record(&file("", 2), &[b"ab", digest].concat());
    let length = u32::try_from(2 + digest.len()).unwrap().to_le_bytes();
    bytes[4..8].copy_from_slice(&length);
    vec![(Batch, bytes)]
}

fn is_again(message: &Message) -> bool {
    matches!(message, Message::Again(_))
}

fn send(far: &mut Far, frames: &Frames) -> Said {
    frames.iter().try_for_each(|(kind, payload)| far.frame(*kind, payload))
}

fn pull(args: &[&str], frames: Frames) -> (Run, Ground) {
    let ground = Ground::new();
    let run = ground.run(&[args, &["far:x", "."]].concat(), move |far| {
        far.announce(&[source("x", false)])?;
        send(far, &frames)?;
        far.finish(totals(1, 2))
    });
    (run, ground)
}

#[track_caller]
fn assert_refused((run, ground): (Run, Ground), why: &str) {
    assert!(matches!(run.code, Some(1 | 5)), "{why}: {run}");
    assert_eq!(ground.landed(), Vec::<PathBuf>::new(), "{why}");
}

#[test]
fn right_digests_are_accepted() {
    for frames in [x(hash(b"ab")), batched(&hash(b"ab"))] {
        let (run, ground) = pull(&["--verify", "--manifest", "list"], frames);
        run.exits(0);
        assert_eq!(fs::read_to_string(ground.inside().join("x")).unwrap(), "ab");
        let list = fs::read_to_string(ground.inside().join("list")).unwrap();
        assert_eq!(list, format!("{}  x\n", blake3::hash(b"ab")));
    }
}

#[test]
fn digests_that_have_no_place_are_refused() {
    let right = hash(b"ab");
    let with = |extra: Frames| [x(right.clone()), extra].concat();
    for (why, frames) in [
        ("none", x(right.clone())[..2].to_vec()),
        ("none, and another file", [&x(right.clone())[..2], &x(right.clone())].concat()),
        ("none, and the end", [&x(right.clone())[..2], &[(End, vec![])]].concat()),
        ("before the data", vec![(Chunk, chunk(file("", 2), 0, 2, 1)), (Digest, right.clone())]),
        ("too short", x(right[..31].to_vec())),
        ("empty", x(Vec::new())),
        ("without a chunk", vec![(Digest, right.clone())]),
        ("none in a batch", vec![(Batch, record(&file("", 2), b"ab"))]),
        ("a part of one in a batch", batched(&right[..31])),
        ("parts that are no subtrees", {
            let part = |offset, length| (Chunk, chunk(file("", 3), offset, length, 2));
            vec![
                (part(0, 2)),
                (Data, b"ab".to_vec()),
                (Digest, right.clone()),
                (part(2, 1)),
                (Data, b"c".to_vec()),
                (Digest, right.clone()),
            ]
        }),
    ] {
        assert_refused(pull(&["--verify"], frames), why);
    }
    // Without digests the file was whole before its digest came.
    let (run, _) = pull(&[], x(right.clone()));
    assert!(matches!(run.code, Some(1 | 5)), "not asked for: {run}");
    assert_refused(pull(&[], batched(&right)), "not asked for, in a batch");
    let (run, _) = pull(&["--verify"], with(vec![(Digest, right.clone())]));
    assert!(matches!(run.code, Some(1 | 5)), "twice: {run}");
}

/// Sends `first`, and `second` if the file is requested again.
fn twice(first: Frames, second: Frames) -> (Run, Ground) {
    let ground = Ground::new();
    let run = ground.run(&["--verify", "--manifest", "list", "far:x", "."], move |far| {
        far.announce(&[source("x", false)])?;
        send(far, &first)?;
        far.frame(End, &[])?;
        let sent = |streams| Message::Sent { totals: totals(1, 2), streams, complete: true };
        far.say(&sent(1))?;
        let again = far.hear_until(is_again)?;
        assert_eq!(again, Message::Again(vec![(0, path(""))]));
        send(far, &second)?;
        far.frame(End, &[])?;
        far.say(&sent(2))?;
        far.hear_until(|message| matches!(message, Message::Committed(_)))?;
        far.report()
    });
    (run, ground)
}

#[test]
fn a_file_that_differs_is_asked_for_once_more() {
    for right in [x(hash(b"ab")), batched(&hash(b"ab"))] {
        let (run, ground) = twice(x(hash(b"other")), right);
        run.exits(0);
        assert_eq!(fs::read_to_string(ground.inside().join("x")).unwrap(), "ab");
    }
}

#[test]
fn a_file_that_differs_twice_is_not_there() {
    for wrong in [x(hash(b"other")), batched(&hash(b"other"))] {
        let (run, ground) = twice(x(hash(b"other")), wrong);
        run.exits(3).says(&["x: ", "twice"]);
        assert_eq!(ground.landed(), [PathBuf::from("list")]);
        assert_eq!(fs::read_to_string(ground.inside().join("list")).unwrap(), "");
    }
}

/// Sends the directory `tree` with one file to a receiver that behaves like this.
fn push(args: &'static [&str], behave: impl FnOnce(&mut Far) -> Said + Send + 'static) -> Run {
    let ground = Ground::new();
    fs::create_dir(ground.inside().join("tree")).unwrap();
    fs::write(ground.inside().join("tree/file"), "first").unwrap();
    fs::write(ground.inside().join("secret"), "secret").unwrap();
    ground.run(&[args, &["-r", "tree", "far:to"]].concat(), move |far| {
        far.connect()?;
        far.hear_until(is_sources)?;
        if args.contains(&"--verify") {
            far.say(&Message::Within(false))?;
        }
        far.say(&Message::Ready { offers: false, window: 23 })?;
        bytes_until_sent(far)?;
        behave(far)
    })
}

/// The bytes of the data stream up to the end of the round.
fn bytes_until_sent(far: &mut Far) -> Result<Vec<u8>, linerate_wire::control::ControlError> {
    let mut bytes = Vec::new();
    loop {
        match far.hear()? {
            Message::Tunnel(more) => bytes.extend(more),
            Message::Sent { .. } => return Ok(bytes),
            Message::Abort { .. } => return Err(linerate_wire::control::ControlError::Closed),
            _ => {}
        }
    }
}

fn has(bytes: &[u8], what: &str) -> bool {
    bytes.windows(what.len()).any(|part| part == what.as_bytes())
}

fn commit(far: &mut Far) -> Said {
    let landed = linerate_wire::control::Totals { directories: 1, ..totals(1, 5) };
    far.say(&Message::Committed(landed))?;
    far.say(&report())?;
    far.hear_all()
}

#[test]
fn what_was_sent_is_sent_once_more() {
    let run = push(&["--verify"], |far| {
        far.say(&Message::Again(vec![(0, path("file"))]))?;
        let bytes = bytes_until_sent(far)?;
        assert!(has(&bytes, "first") && !has(&bytes, "tree"));
        commit(far)
    });
    run.exits(0);
}

#[test]
fn what_was_never_sent_cannot_be_had() {
    for name in ["other", "file/x", "secret", ""] {
        let run = push(&["--verify"], move |far| {
            far.say(&Message::Again(vec![(0, path(name))]))?;
            let bytes = bytes_until_sent(far)?;
            assert!(!has(&bytes, "first") && !has(&bytes, "secret"), "{name}");
            commit(far)
        });
        assert_eq!(run.code, Some(4), "{name}: {run}");
    }
}

#[test]
fn strange_wishes_end_it() {
    let names = |count: u32| (0..count).map(|number| (0, path(&number.to_string()))).collect::<Vec<_>>();
    for again in [vec![], vec![(1, path("file"))], vec![(u32::MAX, path("file"))], names(1025)] {
        let run = push(&["--verify"], move |far| {
            far.say(&Message::Again(again))?;
            far.hear_all()
        });
        assert_eq!(run.code, Some(5), "{run}");
    }
    let run = push(&[], |far| {
        far.say(&Message::Again(vec![(0, path("file"))]))?;
        far.hear_all()
    });
    assert_eq!(run.code, Some(5), "not asked for: {run}");
}

#[test]
fn there_is_one_more_round_and_no_other() {
    let run = push(&["--verify"], |far| {
        for _ in 0..2 {
            far.say(&Message::Again(vec![(0, path("file"))]))?;
            bytes_until_sent(far)?;
        }
        commit(far)
    });
    assert_eq!(run.code, Some(5), "{run}");
}

/// Runs `linerate verify` with a far end that reports these entries.
fn compared(entries: Vec<Digested>) -> Run {
    let ground = Ground::new();
    fs::write(ground.inside().join("x"), "ab").unwrap();
    let talk = ground.start_as("verify", &[".", "far:"], move |far| {
        far.greet()?;
        far.say(&Message::Digested(entries))?;
        far.report()?;
        far.hear_all()
    });
    talk.end_within(crate::far::DEADLINE)
}

#[test]
fn a_comparison_believes_no_order_and_no_digest() {
    let reported = |entry, contents| Digested { entry, contents, attributes: None, file: None };
    let top = || reported(folder(""), None);
    let file = |digest| reported(file("x", 2), Some(digest));
    let right = *blake3::hash(b"ab").as_bytes();
    compared(vec![top(), file(right)]).exits(0);
    compared(vec![top(), file([0; 32])]).exits(3);
    compared(vec![top()]).exits(3);
    compared(Vec::new()).exits(3);
    compared(vec![file(right), top()]).exits(5);
    compared(vec![top(), file(right), file(right)]).exits(5);
    compared(vec![top(); 129]).exits(5);
}
