//! Tests of a far end that closes the connection, violates the protocol, or sends nothing.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use linerate_wire::PROTOCOL;
use linerate_wire::control::{AbortKind, Listening, MAX_MESSAGE, Message};
use linerate_wire::frame::FrameKind;

use crate::far::{AT_ONCE, Far, Ground, Said, file, frame, hello, nowhere, record, report, source, totals};

/// All messages of an honest sender of one file, each with the message that must precede it.
fn steps() -> Vec<(Heard, Message)> {
    vec![
        (Heard::Nothing, hello(PROTOCOL)),
        (Heard::Job, nowhere()),
        (Heard::ConnectBack, Message::ConnectedBack { error: Some("no way back".into()) }),
        (Heard::UseTunnel, Message::Sources(vec![source("x", false)])),
        (Heard::Ready, frame(FrameKind::Batch, &record(&file("", 3), b"abc"))),
        (Heard::Nothing, frame(FrameKind::End, &[])),
        (Heard::Nothing, Message::Sent { totals: totals(1, 3), streams: 1, complete: true }),
        (Heard::Committed, report()),
    ]
}

#[derive(Clone, Copy)]
enum Heard {
    Nothing,
    Job,
    ConnectBack,
    UseTunnel,
    Ready,
    Committed,
}

impl Heard {
    fn wait(self, far: &mut Far) -> Said {
        if let Self::Nothing = self {
            return Ok(());
        }
        let is_it = move |message: &Message| {
            matches!(
                (self, message),
                (Self::Job, Message::Job(_))
                    | (Self::ConnectBack, Message::ConnectBack { .. })
                    | (Self::UseTunnel, Message::UseTunnel)
                    | (Self::Ready, Message::Ready { .. })
                    | (Self::Committed, Message::Committed(_))
            )
        };
        far.hear_until(is_it).map(drop)
    }
}

/// Sends the first `count` messages, then calls `then`.
pub fn up_to(
    count: usize,
    then: impl FnOnce(&mut Far) -> Said + Send,
) -> impl FnOnce(&mut Far) -> Said + Send {
    move |far| {
        far.ready()?;
        for (heard, message) in steps().into_iter().take(count) {
            heard.wait(far)?;
            far.say(&message)?;
        }
        then(far)
    }
}

#[test]
fn one_that_closes_between_any_two_messages_is_exit_5() {
    for count in 0..steps().len() {
        let ground = Ground::new();
        let run = ground.run(&["far:x", "."], up_to(count, |_| Ok(())));
        run.exits(5).says(&["linerate: "]);
        let landed = ground.landed();
        let whole = fs::read(ground.inside().join("x")).is_ok_and(|contents| contents == b"abc");
        assert!(landed.is_empty() || (whole && landed.len() == 1), "after {count}: {landed:?}");
    }
    let ground = Ground::new();
    ground.run(&["far:x", "."], up_to(steps().len(), |_| Ok(()))).exits(0);
}

#[test]
fn one_that_closes_inside_any_message_is_exit_5() {
    for count in 0..steps().len() {
        let ground = Ground::new();
        let half = up_to(count, move |far| {
            let (heard, message) = steps().remove(count);
            heard.wait(far)?;
            let mut bytes = Vec::new();
            linerate_wire::control::write(&mut bytes, &message)?;
            far.raw(&bytes[..bytes.len() / 2 + 1])
        });
        ground.run(&["far:x", "."], half).exits(5);
    }
}

#[test]
fn garbage_in_the_place_of_any_message_is_exit_5() {
    for count in 0..steps().len() {
        for garbage in [&[0xff; 64][..], &[4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], &[0; 64]] {
            let ground = Ground::new();
            let bytes = garbage.to_vec();
            let behave = up_to(count, move |far| {
                far.raw(&bytes)?;
                far.hear_all()
            });
            ground.run(&["far:x", "."], behave).exits(5).says(&["linerate: "]);
        }
    }
}

#[test]
fn a_message_longer_than_any_is_refused_without_taking_memory() {
    for length in [MAX_MESSAGE as u32 + 1, u32::MAX] {
        for count in [0, 1, 5] {
            let ground = Ground::new();
            let behave = up_to(count, move |far| {
                far.raw(&length.to_le_bytes())?;
                far.hear_all()
            });
            ground.run(&["far:x", "."], behave).exits(5).says(&["more than is allowed"]);
        }
    }
}

#[test]
fn a_message_out_of_turn_is_refused_at_any_place() {
    let last = steps().len() - 1;
    for count in 0..last {
        for wrong in [
            Message::Ready { offers: false, window: 23 },
            Message::Committed(totals(1, 3)),
            Message::AskCpu,
            hello(PROTOCOL),
        ] {
            if count == 0 && matches!(wrong, Message::Hello(_)) {
                continue;
            }
            let ground = Ground::new();
            let reported = format!("{wrong:?} after {count}");
            let behave = up_to(count, move |far| {
                far.say(&wrong)?;
                far.hear_all()
            });
            let run = ground.run(&["far:x", "."], behave);
            assert_eq!(run.code, Some(5), "{reported}: {run}");
        }
    }
}

#[test]
fn another_version_is_exit_7() {
    for protocol in [0, PROTOCOL + 1, u32::MAX] {
        for args in [&["far:x", "."][..], &["../outside/file", "far:x"], &["-n", "far:x", "."]] {
            let ground = Ground::new();
            let run = ground.run(args, move |far| {
                far.ready()?;
                far.say(&hello(protocol))?;
                far.hear_all()
            });
            run.exits(7).says(&["6.6.6", "install the same version on both"]);
        }
    }
}

#[test]
fn what_it_says_of_itself_cannot_reach_the_terminal() {
    let evil = "\x1b]0;owned\x07\x1b[2J\r\u{202e}";
    let ground = Ground::new();
    let run = ground.run(&["far:x", "."], move |far| {
        far.greet()?;
        let listening =
            Listening { candidates: Vec::new(), further: Vec::new(), client: None, error: Some(evil.into()) };
        far.say(&Message::Listening(listening))?;
        far.hear_until(|message| matches!(message, Message::ConnectBack { .. }))?;
        far.say(&Message::ConnectedBack { error: Some(evil.into()) })?;
        far.say(&Message::Abort { reason: evil.into(), kind: AbortKind::Failed })?;
        far.hear_all()
    });
    run.exits(1).says(&["\\u{1b}]0;owned"]);
    for line in [evil.to_owned(), format!("linerate-agent failed {evil}"), "x".repeat(100_000)] {
        let ground = Ground::new();
        let run = ground.run(&["far:x", "."], move |far| far.raw(format!("{line}\n").as_bytes()));
        run.exits(5);
    }
}

#[test]
fn an_abort_of_any_kind_has_its_exit_code() {
    let kinds = [
        (AbortKind::Failed, 1),
        (AbortKind::Arguments, 2),
        (AbortKind::Interrupted, 130),
        (AbortKind::Lost, 5),
        (AbortKind::Busy, 1),
    ];
    for (kind, code) in kinds {
        for count in 1..steps().len() {
            let ground = Ground::new();
            let behave = up_to(count, move |far| {
                far.say(&Message::Abort { reason: "because".into(), kind })?;
                far.hear_all()
            });
            let run = ground.run(&["far:x", "."], behave).exits(code);
            assert!(kind == AbortKind::Interrupted || run.err.contains("because"), "{run}");
        }
    }
}

#[test]
fn one_that_says_nothing_more_can_be_interrupted_at_any_place() {
    for count in 0..steps().len() {
        let ground = Ground::new();
        let mut talk = ground.start(&["far:x", "."], up_to(count, Far::hear_all));
        // Under way, and waiting.
        std::thread::sleep(Duration::from_millis(700));
        assert!(!talk.client().has_ended(), "after {count}: {}", talk.end_within(AT_ONCE));
        talk.interrupt();
        ground.assert_untouched();
        let landed: Vec<PathBuf> = ground.landed().into_iter().filter(|path| *path != *"x").collect();
        assert!(landed.is_empty(), "after {count}: {landed:?}");
    }
}

#[test]
fn a_login_that_hangs_can_be_interrupted() {
    for args in [&["far:x", "."][..], &["../outside/file", "far:x"], &["-n", "far:x", "."]] {
        let ground = Ground::new();
        let talk = ground.start(args, Far::hear_all);
        std::thread::sleep(Duration::from_millis(500));
        talk.interrupt();
        // Half a line.
        let ground = Ground::new();
        let talk = ground.start(args, |far| {
            far.raw(b"linerate-ag")?;
            far.hear_all()
        });
        std::thread::sleep(Duration::from_millis(500));
        talk.interrupt();
    }
}

#[test]
fn one_that_takes_the_binary_and_nothing_else_can_be_interrupted() {
    // It stops reading in the middle of the binary.
    let ground = Ground::new();
    let talk = ground.start(&["far:x", "."], |far| {
        far.raw(format!("{} Linux {}\n", "linerate-agent wanted", std::env::consts::ARCH).as_bytes())?;
        std::thread::sleep(Duration::from_secs(6));
        Ok(())
    });
    std::thread::sleep(Duration::from_millis(800));
    talk.interrupt();
}
