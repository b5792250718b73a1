//! Tests of a receiver that falsely reports data as received.

use std::fs;
use std::time::Duration;

use linerate_wire::control::{Message, Totals};

use crate::far::{Far, Ground, Said, is_sources, report, totals};
use crate::support::Run;

/// Sends a file of 100,000 bytes to a receiver that behaves like this after it has reported its addresses.
fn push(behave: impl FnOnce(&mut Far) -> Said + Send + 'static) -> Run {
    let ground = Ground::new();
    fs::write(ground.inside().join("x"), vec![1; 100_000]).unwrap();
    ground.run(&["x", "far:to"], behave)
}

fn is_sent(message: &Message) -> bool {
    matches!(message, Message::Sent { .. })
}

fn commit(far: &mut Far, landed: Totals) -> Said {
    far.connect()?;
    far.hear_until(is_sources)?;
    far.say(&Message::Ready { offers: false, window: 23 })?;
    far.hear_until(is_sent)?;
    far.say(&Message::Committed(landed))?;
    far.report()?;
    far.hear_all()
}

#[test]
fn what_is_counted_right_is_believed() {
    push(|far| commit(far, totals(1, 100_000))).exits(0);
}

#[test]
fn what_is_counted_otherwise_is_no_success() {
    for landed in [
        totals(0, 0),
        totals(0, 100_000),
        totals(1, 0),
        totals(1, 99_999),
        totals(2, 100_000),
        Totals { directories: 1, ..totals(1, 100_000) },
        Totals { symlinks: 1, ..totals(0, 100_000) },
        Totals { files: u64::MAX, directories: 2, bytes: 100_000, ..Totals::default() },
        Totals { files: u64::MAX, directories: u64::MAX, symlinks: u64::MAX, bytes: u64::MAX, specials: 1 },
    ] {
        let run = push(move |far| commit(far, landed));
        assert_eq!(run.code, Some(1), "{landed:?}: {run}");
        assert!(run.err.contains("the copy is incomplete"), "{run}");
    }
}

#[test]
fn a_commit_before_everything_was_sent_is_refused() {
    let run = push(|far| {
        far.connect()?;
        far.hear_until(is_sources)?;
        far.say(&Message::Committed(totals(1, 100_000)))?;
        far.report()?;
        far.hear_all()
    });
    run.exits(5).says(&["unexpected message"]);
    // Bytes in flight.
    let ground = Ground::with_a_large_file();
    let run = ground.run(&["x", "far:to"], |far| {
        far.connect()?;
        far.hear_until(is_sources)?;
        far.say(&Message::Ready { offers: false, window: 23 })?;
        far.say(&Message::Committed(totals(1, 30 << 20)))?;
        far.report()?;
        far.hear_all()
    });
    run.exits(5).says(&["unexpected message"]);
}

#[test]
fn a_report_is_no_commit() {
    for early in [true, false] {
        let run = push(move |far| {
            far.connect()?;
            far.hear_until(is_sources)?;
            if early {
                far.say(&report())?;
            }
            far.say(&Message::Ready { offers: false, window: 23 })?;
            far.hear_until(is_sent)?;
            far.report()
        });
        run.exits(5);
    }
}

#[test]
fn one_that_wants_nothing_of_a_file_got_nothing() {
    let run = push(|far| {
        far.connect()?;
        far.hear_until(is_sources)?;
        far.say(&Message::Ready { offers: false, window: 23 })?;
        far.hear_until(|message| matches!(message, Message::Tunnel(_)))?;
        for _ in 0..100_000 {
            far.say(&Message::Skip { file: 0 })?;
        }
        far.hear_until(is_sent)?;
        far.say(&Message::Committed(totals(0, 0)))?;
        far.report()
    });
    assert!(matches!(run.code, Some(1 | 3)), "{run}");
}

#[test]
fn one_that_wants_nothing_of_what_was_never_sent_is_refused() {
    for file in [1, u64::MAX] {
        let run = push(move |far| {
            far.connect()?;
            far.hear_until(is_sources)?;
            far.say(&Message::Ready { offers: false, window: 23 })?;
            far.say(&Message::Skip { file })?;
            far.hear_all()
        });
        run.exits(5).says(&["breaks the protocol", "which was never sent"]);
    }
}

#[test]
fn one_that_reads_no_more_can_be_interrupted() {
    let ground = Ground::with_a_large_file();
    let talk = ground.start(&["x", "far:to"], |far| {
        far.connect()?;
        far.hear_until(is_sources)?;
        far.say(&Message::Ready { offers: false, window: 23 })?;
        // Takes nothing, and keeps the pipe.
        std::thread::sleep(Duration::from_secs(8));
        Ok(())
    });
    std::thread::sleep(Duration::from_millis(1500));
    talk.interrupt();
}
