//! Tests of false offers and requests in a sync.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use linerate_wire::control::{Change, MAX_OFFERS, Message, Offered, Totals, Want};
use linerate_wire::entry::{Entry, Extra, Kind};
use linerate_wire::frame::FrameKind::{self, Batch, Chunk, Data, Same};

use crate::far::{
    Far, Ground, Said, chunk, entry, file, folder, is_sources, link, path, record, source, totals,
};
use crate::support::Run;

/// Syncs a directory with one file of 30 MiB to a receiver that behaves like this after the offers.
fn push(behave: impl FnOnce(&mut Far) -> Said + Send + 'static) -> Run {
    let ground = Ground::new();
    fs::create_dir(ground.inside().join("tree")).unwrap();
    fs::write(ground.inside().join("tree/x"), vec![1; 30 << 20]).unwrap();
    let behave = |far: &mut Far| {
        far.connect()?;
        far.hear_until(is_sources)?;
        far.say(&Message::Ready { offers: true, window: 23 })?;
        far.hear_until(|message| matches!(message, Message::Offer(offered) if offered.len() == 2))?;
        behave(far)
    };
    let run = ground.start_as("sync", &["tree", "far:to"], behave).end_within(crate::far::DEADLINE);
    ground.assert_untouched();
    run
}

fn answer(wants: Vec<Want>) -> Run {
    push(move |far| {
        far.say(&Message::Wanted(wants))?;
        far.hear_all()
    })
}

#[test]
fn one_that_has_everything_gets_nothing() {
    let run = push(|far| {
        far.say(&Message::Wanted(vec![Want::Nothing, Want::Nothing]))?;
        far.hear_until(|message| matches!(message, Message::Sent { complete: true, .. }))?;
        far.say(&Message::Committed(Totals { directories: 1, ..totals(1, 30 << 20) }))?;
        far.report()
    });
    run.exits(0);
}

#[test]
fn answers_that_fit_no_offer_are_refused() {
    let mib = 1 << 20;
    let missing = |chunk, present: usize| Want::Missing { chunk, present: vec![0; present] };
    let differing = |chunk, digests: usize| Want::Differing { chunk, digests: vec![[7; 32]; digests] };
    let blocks = |block, count| Want::Blocks { block, count };
    for (number, wants) in [
        vec![],
        vec![Want::Nothing],
        vec![Want::Nothing, Want::Nothing, Want::Nothing],
        vec![missing(mib, 4), Want::Nothing],
        vec![differing(mib, 0), Want::Nothing],
        vec![Want::Nothing, missing(mib, 3)],
        vec![Want::Nothing, missing(mib, 5)],
        vec![Want::Nothing, missing(0, 4)],
        vec![Want::Nothing, missing(1000, 3933)],
        vec![Want::Nothing, missing(u64::MAX, 1)],
        vec![Want::Nothing, missing(30 << 20, 1)],
        vec![Want::Nothing, differing(mib, 31)],
        vec![blocks(mib, 1), Want::Nothing],
        vec![Want::Nothing, blocks(mib, 0)],
        vec![Want::Nothing, blocks(mib, 5)],
        vec![Want::Nothing, blocks(mib + 1, 5)],
        vec![Want::Nothing, blocks(0, u32::MAX)],
        vec![Want::Nothing, differing(u64::MAX, 1)],
    ]
    .into_iter()
    .enumerate()
    {
        // The order of the two entries is known: a directory comes before what is in it.
        let run = answer(wants);
        assert_eq!(run.code, Some(5), "{number}: {run}");
        assert!(run.err.contains("breaks the protocol"), "{number}: {run}");
    }
}

#[test]
fn answers_to_nothing_are_refused() {
    let run = push(|far| {
        far.say(&Message::Wanted(vec![Want::Nothing, Want::Nothing]))?;
        for _ in 0..100 {
            far.say(&Message::Wanted(Vec::new()))?;
        }
        far.hear_all()
    });
    assert!(matches!(run.code, Some(5)), "{run}");
}

#[test]
fn one_that_never_answers_can_be_interrupted() {
    let ground = Ground::new();
    fs::create_dir(ground.inside().join("tree")).unwrap();
    let talk = ground.start_as("sync", &["tree", "far:to"], |far| {
        far.connect()?;
        far.hear_until(is_sources)?;
        far.say(&Message::Ready { offers: true, window: 23 })?;
        far.hear_all()
    });
    std::thread::sleep(Duration::from_millis(1500));
    talk.interrupt();
}

#[test]
fn what_it_says_it_changes_is_fit_for_a_terminal() {
    let run = push(|far| {
        let (item, link) = (*b"\x1b[31m\nxxx\x07\xff", None);
        let path = path("\x1b]0;evil\x07");
        far.say(&Message::Changes(vec![Change { item, path, directory: true, link, facts: None }]))?;
        far.say(&Message::Wanted(vec![Want::Nothing, Want::Nothing]))?;
        far.hear_until(|message| matches!(message, Message::Sent { .. }))?;
        far.say(&Message::Committed(Totals { directories: 1, ..totals(1, 30 << 20) }))?;
        far.report()
    });
    run.exits(0);
}

/// Pulls `tree` with these options from a sender that behaves like this once it may send.
fn pull(ground: &Ground, options: &[&str], behave: impl FnOnce(&mut Far) -> Said + Send + 'static) -> Run {
    let args = [options, &["far:tree", "copy"]].concat();
    let behave = |far: &mut Far| {
        far.announce(&[source("tree", true)])?;
        behave(far)
    };
    let run = ground.start_as("sync", &args, behave).end_within(crate::far::DEADLINE);
    ground.assert_untouched();
    run
}

fn offered(entry: Entry) -> Offered {
    let ctime = entry.mtime;
    Offered { entry, inode: 1, ctime, digest: None, whole: true }
}

fn offer(far: &mut Far, entries: Vec<Entry>) -> Result<Vec<Want>, linerate_wire::control::ControlError> {
    far.say(&Message::Offer(entries.into_iter().map(offered).collect()))?;
    match far.hear_until(|message| matches!(message, Message::Wanted(_)))? {
        Message::Wanted(wants) => Ok(wants),
        _ => Ok(Vec::new()),
    }
}

#[test]
fn offers_of_what_was_not_announced_are_refused() {
    let elsewhere = Entry { source: 7, ..file("x", 1) };
    let many = (0..=MAX_OFFERS).map(|number| file(&format!("{number}"), 1)).collect();
    let device = entry("null", Kind::Device { block: false, major: 1, minor: 3 });
    for entries in [vec![elsewhere], many, vec![device]] {
        let ground = Ground::new();
        let run = pull(&ground, &["--no-devices"], |far| {
            offer(far, entries)?;
            far.hear_all()
        });
        run.exits(5).says(&["breaks the protocol"]);
        assert_eq!(ground.landed(), Vec::<PathBuf>::new());
    }
}

#[test]
fn offers_without_a_sync_are_out_of_turn() {
    let ground = Ground::new();
    let run = ground.run(&["-r", "far:tree", "copy"], |far| {
        far.announce(&[source("tree", true)])?;
        offer(far, vec![folder("")])?;
        far.hear_all()
    });
    run.exits(5).says(&["unexpected message"]);
}

#[test]
fn a_chunk_is_here_only_where_it_was_said_to_be() {
    for parts in [1, 2] {
        let ground = Ground::new();
        let run = pull(&ground, &[], move |far| {
            offer(far, vec![folder(""), file("x", 8 << 20)])?;
            far.frame(Chunk, &chunk(file("x", 8 << 20), 0, (8 << 20) / u64::from(parts), parts))?;
            far.frame(Same, b"")?;
            far.hear_all()
        });
        run.exits(1).says(&["a chunk that this end doesn't have"]);
        assert!(!ground.inside().join("copy/x").exists());
    }
}

#[test]
fn of_an_older_file_only_what_was_named_is_taken() {
    let ground = Ground::new();
    fs::create_dir(ground.inside().join("copy")).unwrap();
    fs::write(ground.inside().join("copy/x"), vec![1; 5 << 20]).unwrap();
    let run = pull(&ground, &["--same-places"], |far| {
        let wants = offer(far, vec![folder(""), file("x", 8 << 20)])?;
        assert!(matches!(&wants[1], Want::Differing { digests, .. } if digests.len() == 5), "{wants:?}");
        far.frame(Chunk, &chunk(file("x", 8 << 20), 5 << 20, 1 << 20, 8))?;
        far.frame(Same, b"")?;
        far.hear_all()
    });
    run.exits(1).says(&["a chunk that this end doesn't have"]);
    assert_eq!(fs::read(ground.inside().join("copy/x")).unwrap(), vec![1; 5 << 20]);
}

/// Otherwise a new version could contain a byte of the older one next to known bytes, and the next run would
/// reveal the hash of both.
#[test]
fn of_an_older_file_a_named_chunk_is_taken_whole_or_not_at_all() {
    const MIB: u64 = 1 << 20;
    // Where a part begins and ends, and what comes in it before the word that the rest is the same.
    for (offset, length, before) in [(0, MIB / 2, 0), (MIB / 2, MIB, 0), (0, MIB, 10), (0, 2 * MIB, 0)] {
        let ground = Ground::new();
        fs::create_dir(ground.inside().join("copy")).unwrap();
        fs::write(ground.inside().join("copy/x"), vec![1; 5 << 20]).unwrap();
        let run = pull(&ground, &["--same-places"], move |far| {
            offer(far, vec![folder(""), file("x", 8 << 20)])?;
            far.frame(Chunk, &chunk(file("x", 8 << 20), offset, length, 8))?;
            if before > 0 {
                far.frame(Data, &vec![7; before])?;
            }
            far.frame(Same, b"")?;
            far.hear_all()
        });
        run.exits(1).says(&["a chunk that this end doesn't have"]);
        assert_eq!(fs::read(ground.inside().join("copy/x")).unwrap(), vec![1; 5 << 20], "{offset} {length}");
    }
}

/// A client with a file of 5 MiB of ones, and a far end that makes 8 MiB from it.
fn take_blocks(behave: impl FnOnce(&mut Far) -> Said + Send + 'static) -> Run {
    let ground = Ground::new();
    fs::create_dir(ground.inside().join("copy")).unwrap();
    fs::write(ground.inside().join("copy/x"), vec![1; 5 << 20]).unwrap();
    let run = pull(&ground, &[], move |far| {
        let wants = offer(far, vec![folder(""), file("x", 8 << 20)])?;
        assert_eq!(wants[1], Want::Blocks { block: 8 << 10, count: 640 });
        behave(far)
    });
    assert_eq!(fs::read(ground.inside().join("copy/x")).unwrap(), vec![1; 5 << 20]);
    assert_eq!(ground.landed().len(), 2, "{:?}", ground.landed());
    run
}

fn piece(from: u64, length: u64) -> Vec<u8> {
    [from.to_le_bytes(), length.to_le_bytes()].concat()
}

/// Otherwise a sender without access to the older file could combine its bytes with known bytes, and find
/// them out one by one.
#[test]
fn of_an_older_file_whole_blocks_are_taken_wherever_they_are() {
    const BLOCK: u64 = 8 << 10;
    const MIB: u64 = 1 << 20;
    for (before, from, length) in [
        (0, 5 * MIB, BLOCK),
        (0, 5 * MIB - BLOCK, 2 * BLOCK),
        (0, u64::MAX, BLOCK),
        (0, 0, 0),
        (0, 0, u64::MAX),
        (0, 0, 5 * MIB),
        (0, 0, BLOCK + 1),
        (0, 0, 1),
        (1, 7, BLOCK),
        (1, 7, BLOCK - 7),
    ] {
        let run = take_blocks(move |far| {
            far.frame(Chunk, &chunk(file("x", 8 * MIB), 0, 4 * MIB, 2))?;
            if before > 0 {
                far.frame(Data, &vec![7; before])?;
            }
            far.frame(FrameKind::Copy, &piece(from, length))?;
            far.hear_all()
        });
        run.exits(1).says(&["of an older version"]);
    }
    let without_a_chunk = take_blocks(|far| {
        far.frame(FrameKind::Copy, &piece(0, 8 << 10))?;
        far.hear_all()
    });
    without_a_chunk.exits(1).says(&["of an older version"]);
}

/// The digest of a part is required, and a sender can compute it only if it knows the bytes.
#[test]
fn of_pieces_of_an_older_file_the_sender_knows_the_digest_or_nothing_is_made_of_them() {
    const BLOCK: u64 = 8 << 10;
    const MIB: u64 = 1 << 20;
    let send = |digest: Option<[u8; 32]>, from: u64| {
        take_blocks(move |far| {
            for (offset, from) in [(0, 0), (4 * MIB, from)] {
                let copied = MIB - from % BLOCK;
                far.frame(Chunk, &chunk(file("x", 8 * MIB), offset, 4 * MIB, 2))?;
                far.frame(FrameKind::Copy, &piece(from, copied))?;
                for some in vec![9; (4 * MIB - copied) as usize].chunks(64 << 10) {
                    far.frame(Data, some)?;
                }
                digest.map_or(Ok(()), |digest| far.frame(FrameKind::Digest, &digest))?;
            }
            far.finish(totals(1, 8 << 20))
        })
    };
    send(None, 0).exits(1).says(&["breaks the protocol"]);
    send(Some([7; 32]), 5).exits(1).says(&["don't fit"]);
    send(Some([7; 32]), 0).exits(3).says(&["another program while it was compared"]);
}

/// Otherwise the sender could learn from the kept parts which guessed byte was correct.
#[test]
fn of_pieces_of_an_older_file_nothing_is_kept_that_the_sender_may_not_know() {
    const BLOCK: u64 = 8 << 10;
    const MIB: u64 = 1 << 20;
    let kept = |copied: (u64, u64), guess: Option<[u8; 32]>, goes_on: bool| {
        let ground = Ground::new();
        let copy = ground.inside().join("copy/tree");
        fs::create_dir_all(&copy).unwrap();
        fs::write(copy.join("x"), vec![1; 5 << 20]).unwrap();
        let behave = move |far: &mut Far| {
            far.announce(&[source("tree", true)])?;
            let wants = offer(far, vec![folder(""), file("x", 8 * MIB)])?;
            assert_eq!(wants[1], Want::Blocks { block: BLOCK, count: 640 });
            let literal = vec![9; (MIB - copied.1) as usize];
            far.frame(Chunk, &chunk(file("x", 8 * MIB), 0, MIB, 8))?;
            for some in literal.chunks(64 << 10) {
                far.frame(Data, some)?;
            }
            far.frame(FrameKind::Copy, &piece(copied.0, copied.1))?;
            guess.map_or(Ok(()), |guess| far.frame(FrameKind::Digest, &guess))?;
            if goes_on {
                // The rest of the block, of which no digest comes.
                far.frame(Chunk, &chunk(file("x", 8 * MIB), MIB, MIB, 8))?;
                far.frame(FrameKind::Copy, &piece(copied.0 + copied.1, BLOCK - copied.1))?;
            }
            std::thread::sleep(Duration::from_millis(300));
            Ok(())
        };
        let args = ["-a", "--no-whole-file", "--partial-dir=.part", "far:tree", "copy/"];
        ground.start_as("rsync", &args, behave).end_within(crate::far::DEADLINE);
        ground.assert_untouched();
        assert_eq!(fs::read(copy.join("x")).unwrap(), vec![1; 5 << 20]);
        fs::read(copy.join(".part/x")).map_or(0, |kept| kept.len())
    };
    for goes_on in [false, true] {
        for guess in [&[1], &[2]] {
            let digest = blake3::hash(&[&[1, 1, 0, 0, 0, 0, 0, 0, 0], &guess[..]].concat());
            assert_eq!(kept((0, 1), Some(digest.into()), goes_on), 0, "{guess:?}");
        }
    }
    assert_eq!(kept((0, BLOCK), None, false), 0);
    let [other, own] = [2, 1].map(|byte| *blake3::hash(&[byte; BLOCK as usize]).as_bytes());
    let guess = |half: &[u8]| Some(*blake3::hash(&[&[0], half].concat()).as_bytes());
    assert_eq!(kept((0, BLOCK), guess(&other[16..]), false), 0);
    assert_eq!(
        kept((0, BLOCK), guess(&own[..16]), false),
        0,
        "it knows the name of the block, and that alone"
    );
    assert_eq!(kept((0, BLOCK), guess(&own[16..]), false), MIB as usize, "it knows the block");
}

#[test]
fn what_is_written_into_keeps_whole_blocks_alone() {
    const MIB: usize = 1 << 20;
    let size = 4 * MIB as u64;
    let write_into = |older: usize, behave: fn(&mut Far) -> Said| {
        let ground = Ground::new();
        fs::create_dir(ground.inside().join("copy")).unwrap();
        fs::write(ground.inside().join("copy/x"), vec![1; older]).unwrap();
        let run = pull(&ground, &["--inplace"], move |far| {
            offer(far, vec![folder(""), file("x", 4 << 20)])?;
            behave(far)
        });
        (run, fs::read(ground.inside().join("copy/x")).unwrap())
    };
    let (run, there) = write_into(5 * MIB, |far| {
        far.frame(Chunk, &chunk(file("x", 4 << 20), 1, (4 << 20) - 2, 3))?;
        far.frame(Data, &[7; 100])?;
        far.hear_all()
    });
    run.exits(1).says(&["isn't aligned with the blocks"]);
    assert_eq!(there, vec![1; 5 * MIB]);
    // A few bytes of a part, and then nothing more: nothing is left of what the block had.
    let (_, there) = write_into(5 * MIB, |far| {
        far.frame(Chunk, &chunk(file("x", 4 << 20), 1 << 20, 1 << 20, 4))?;
        far.frame(Data, &[7; 100])?;
        std::thread::sleep(Duration::from_millis(300));
        Ok(())
    });
    assert!(
        there[..MIB] == vec![1; MIB] && there[2 * MIB..] == vec![1; 2 * MIB] && there.len() as u64 == size
    );
    assert!(there[MIB..2 * MIB].iter().all(|byte| [0, 7].contains(byte)), "old bytes beside new ones");
    // What is shorter than a block is never beside what is appended to it.
    let (_, there) = write_into(12, |far| {
        far.frame(Chunk, &chunk(file("x", 4 << 20), 1 << 20, 1 << 20, 4))?;
        far.frame(Data, &[7; 100])?;
        std::thread::sleep(Duration::from_millis(300));
        Ok(())
    });
    assert!(there.len() == 12 || there[..MIB].iter().all(|byte| *byte == 0), "old bytes beside zeros");
}

#[test]
fn what_is_to_be_left_alone_is_left_alone_by_what_nobody_wanted() {
    for option in ["--ignore-existing", "--update"] {
        let ground = Ground::new();
        fs::create_dir(ground.inside().join("copy")).unwrap();
        fs::write(ground.inside().join("copy/x"), "mine").unwrap();
        let run = pull(&ground, &[option], |far| {
            far.frame(Batch, &[record(&folder(""), b""), record(&file("x", 4), b"evil")].concat())?;
            far.finish(Totals { directories: 1, ..totals(1, 4) })
        });
        run.exits(3).says(&["copy/x: ", "is skipped, because it exists at the destination"]);
        assert_eq!(fs::read(ground.inside().join("copy/x")).unwrap(), b"mine", "{option}");
    }
}

#[test]
fn one_more_name_of_a_link_leads_no_further_out_than_the_link() {
    let ground = Ground::new();
    let run = pull(&ground, &["--safe-links"], |far| {
        let linked = Extra { linked: true, ..Extra::default() };
        let inner = Entry { extra: Some(Box::new(linked)), ..link("a/b/l", "../../x") };
        let name = Kind::HardLink { source: 0, path: path("a/b/l") };
        let entries = [folder(""), folder("a"), folder("a/b"), inner, entry("out", name)];
        far.frame(Batch, &entries.iter().flat_map(|entry| record(entry, b"")).collect::<Vec<_>>())?;
        far.finish(Totals { directories: 3, symlinks: 1, files: 1, ..Totals::default() })
    });
    run.exits(3).says(&["copy/out: ", "--safe-links"]);
    assert!(
        ground.inside().join("copy/a/b/l").is_symlink() && !ground.inside().join("copy/out").is_symlink()
    );
}

#[test]
fn a_dry_run_writes_nothing_whatever_is_sent() {
    let ground = Ground::new();
    let run = pull(&ground, &["--dry-run"], |far| {
        offer(far, vec![folder(""), file("x", 2)])?;
        far.frame(Batch, &record(&file("x", 2), b"ab"))?;
        far.hear_all()
    });
    run.exits(1).says(&["data in a dry run"]);
    assert_eq!(ground.landed(), Vec::<PathBuf>::new());
}

#[test]
fn nothing_is_deleted_or_compared_through_a_link() {
    let ground = Ground::new();
    let copy = ground.inside().join("copy");
    fs::create_dir_all(copy.join("dir")).unwrap();
    for link in ["link", "dir/link"] {
        symlink(ground.out_of_bounds(), copy.join(link)).unwrap();
    }
    let run = pull(&ground, &["--delete"], |far| {
        let wants = offer(far, vec![folder(""), folder("dir"), folder("link"), file("link/file", 4)])?;
        assert_eq!(
            wants[2..],
            [Want::Whole, Want::Whole],
            "the link is no directory, and nothing lies behind it"
        );
        far.frame(Batch, &[record(&folder("link"), b""), record(&file("link/file", 4), b"mine")].concat())?;
        far.finish(Totals { directories: 3, ..totals(1, 4) })
    });
    run.exits(0);
    assert!(!copy.join("dir/link").exists(), "the link itself goes");
    assert_eq!(fs::read(copy.join("link/file")).unwrap(), b"mine");
}
