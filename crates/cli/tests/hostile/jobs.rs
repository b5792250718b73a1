//! Tests of a far end that sends false data about detached jobs, or about continuing without the client.

use linerate_wire::PROTOCOL;
use linerate_wire::control::{Listening, Message, Problem, ProblemKind};
use serde_json::{Value, json};

use crate::far::{DEADLINE, Far, Ground, Said, hello, nowhere};
use crate::support::Run;

/// Text that must not be printed on a terminal unchanged.
const NASTY: &str = "\x1b[2J\x1b]0;owned\x07\r\n\u{9b}31m\u{202e}txt\u{2066}\u{61c}\u{2028}\u{feff}\u{e0041}";

type Says = fn(&mut Far) -> Said;

fn job(state: &str) -> Value {
    json!({
        "schema": 1, "type": "job", "id": "0a0b0c0d", "role": "receives", "state": state, "host": NASTY, "from": NASTY,
        "to": NASTY, "sources": [NASTY, NASTY], "more_sources": u64::MAX, "destination": NASTY, "since": u64::MAX,
        "updated": 0, "ended": null, "seconds": -1.0, "bytes": u64::MAX, "files": u64::MAX, "found_bytes": 1,
        "found_files": 1, "scanned": true, "limiter": NASTY, "limiter_share": 1e300, "limiter_evidence": NASTY,
        "gbit_per_second": -1e300, "exit": 3, "message": NASTY, "last": NASTY,
        "process": { "pid": 1, "start": 1, "boot": NASTY },
    })
}

fn reported(record: &Value) -> Message {
    Message::JobRecord(record.to_string().into_bytes())
}

/// Runs `command far` with a far end that behaves like this once it has the job.
#[track_caller]
fn asked(command: &str, options: &[&str], says: impl FnOnce(&mut Far) -> Said + Send + 'static) -> Run {
    let ground = Ground::new();
    let talk = ground.start_as(command, &[options, &["far"]].concat(), |far| {
        far.greet()?;
        says(far)?;
        far.hear_all()
    });
    let run = talk.end_within(DEADLINE);
    ground.assert_untouched();
    for unfit in
        ['\x1b', '\x07', '\u{9b}', '\u{202e}', '\u{2066}', '\u{61c}', '\u{2028}', '\u{feff}', '\u{e0041}']
    {
        assert!(!run.out.contains(unfit) && !run.err.contains(unfit), "{unfit:?} was printed: {run}");
    }
    let begins = |line: &str| line.starts_with("\\u009b");
    assert!(!run.out.lines().chain(run.err.lines()).any(begins), "a line of its own: {run}");
    run
}

#[test]
fn nothing_of_a_record_or_an_event_reaches_the_terminal_as_it_is() {
    for options in [&[][..], &["--json"]] {
        for state in ["running", "finished", "failed", "died"] {
            let run = asked("status", options, move |far| {
                far.say(&reported(&job(state)))?;
                far.report()
            });
            run.exits(0);
            let run = asked("attach", options, move |far| {
                for kind in ["problem", "note", "change", "summary", "failed", NASTY] {
                    let event = json!({
                        "schema": 1, "type": kind, "path": NASTY, "message": NASTY, "kind": NASTY, "item": NASTY,
                        "failed": u64::MAX, "changed": 1, "exit": 0,
                    });
                    far.say(&Message::JobEvents(format!("{event}\n").into_bytes()))?;
                }
                far.say(&reported(&job("running")))?;
                far.say(&reported(&job(state)))?;
                far.report()
            });
            run.exits(if matches!(state, "finished" | "failed") { 3 } else { 1 });
        }
    }
}

#[test]
fn what_is_no_record_or_event_is_refused() {
    let all: [(&str, Says); 8] = [
        ("status", |far| far.say(&Message::JobRecord(b"{\"schema\":".to_vec()))),
        ("status", |far| far.say(&Message::JobRecord(b"[]".to_vec()))),
        ("status", |far| far.say(&Message::JobRecord(vec![b' '; 300_000]))),
        ("status", |far| far.say(&Message::JobEvents(b"{}\n".to_vec()))),
        ("status", |far| far.say(&Message::UnderWay)),
        ("attach", |far| far.say(&Message::JobEvents(b"\xff\xfe\n".to_vec()))),
        ("attach", |far| {
            // A line without an end.
            (0..20).try_for_each(|_| far.say(&Message::JobEvents(vec![b'x'; 200_000])))
        }),
        ("attach", Far::report),
    ];
    for (number, (command, says)) in all.into_iter().enumerate() {
        let run = asked(command, &[], says);
        assert!(matches!(run.code, Some(1 | 5)), "{number}: {run}");
    }
}

#[test]
fn records_without_end_are_given_up() {
    let run = asked("status", &[], |far| {
        loop {
            far.say(&reported(&job("running")))?;
        }
    });
    assert_eq!(run.code, Some(5), "{run}");
}

/// The first messages of an agent that continues without its client: two hellos, of the login's process and
/// of the remaining process.
fn opened(far: &mut Far) -> Said {
    far.ready()?;
    far.say(&hello(PROTOCOL))?;
    far.say(&hello(PROTOCOL))?;
    far.hear_until(|message| matches!(message, Message::Detached(_))).map(drop)
}

/// Both far ends do the same: the second login has the same shell.
#[test]
fn a_copy_that_is_to_go_on_alone_is_left_by_nobody_who_lies_about_that() {
    let all: [Says; 6] = [
        // Under way before it has met anybody.
        |far| far.say(&Message::UnderWay),
        |far| far.say(&nowhere()).and_then(|()| far.say(&Message::ConnectedBack { error: None })),
        |far| {
            let candidates = vec!["192.0.2.1:22".parse().expect("an address"); 5000];
            far.say(&Message::Listening(Listening {
                candidates,
                further: Vec::new(),
                client: None,
                error: None,
            }))
        },
        |far| {
            let (path, message) = (NASTY.as_bytes().to_vec(), NASTY.to_owned());
            far.say(&Message::Problem(Problem { path, message, kind: ProblemKind::Failed }))?;
            far.say(&reported(&job("running")))
        },
        |far| far.say(&Message::Committed(linerate_wire::control::Totals::default())),
        Far::report,
    ];
    for says in all {
        let ground = Ground::new();
        let talk = ground.start(&["--detach", "--timeout", "3", "far:tree", "far2:to"], move |far| {
            opened(far)?;
            says(far)?;
            far.hear_all()
        });
        let run = talk.end_within(DEADLINE);
        ground.assert_untouched();
        assert!(run.code.is_some_and(|code| code != 0), "{run}");
        assert!(!run.err.contains("continues between") && !run.err.contains('\x1b'), "{run}");
    }
}
