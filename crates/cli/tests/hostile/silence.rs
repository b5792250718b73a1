//! Tests of a far end that becomes silent at any stage: with `--timeout 5`, the client must give up some
//! seconds later, and its message must name the missing data.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use linerate_wire::PROTOCOL;
use linerate_wire::control::{Job, Message, Options, Progress};
use linerate_wire::frame::FrameKind;

use crate::agent::Served;
use crate::breaking::up_to;
use crate::far::{Far, Ground, Said, file, hello, nowhere, record, source, totals};

/// The time within which a client with `--timeout 5` must end: some eight seconds, and additional time for
/// concurrent tests.
const BOUND: Duration = Duration::from_secs(13);
/// The time limit on a machine that runs many tests at the same time.
const PATIENCE: Duration = Duration::from_secs(20);

type Behave = Box<dyn FnOnce(&mut Far) -> Said + Send>;

/// A far end that becomes silent at some stage, the client's arguments, and the client's expected message.
struct Case {
    args: &'static [&'static str],
    behave: Behave,
    says: &'static str,
}

const PULL: &[&str] = &["--timeout", "5", "far:x", "."];
const PUSH: &[&str] = &["--timeout", "5", "x", "far:"];

fn pull(says: &'static str, behave: impl FnOnce(&mut Far) -> Said + Send + 'static) -> Case {
    Case { args: PULL, behave: Box::new(behave), says }
}

fn push(says: &'static str, behave: impl FnOnce(&mut Far) -> Said + Send + 'static) -> Case {
    Case { args: PUSH, behave: Box::new(behave), says }
}

/// Sends `bytes`, one per second.
fn drip(far: &mut Far, bytes: &[u8]) -> Said {
    for byte in bytes {
        far.raw(&[*byte])?;
        thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

/// Neither sends nor receives.
fn be_deaf(_: &mut Far) -> Said {
    thread::sleep(PATIENCE);
    Ok(())
}

fn login() -> Vec<Case> {
    let wanted = format!("linerate-agent wanted Linux {}\n", std::env::consts::ARCH);
    vec![
        pull("internal-sftp", |far| far.hear_all()),
        push("internal-sftp", |far| far.hear_all()),
        Case {
            args: &["-n", "--timeout", "5", "far:x", "."],
            behave: Box::new(be_deaf),
            says: "internal-sftp",
        },
        pull("internal-sftp", |far| drip(far, b"linerate-agent ready")),
        pull("the far shell printed: Welcome", |far| {
            far.raw(b"Welcome\n")?;
            far.hear_all()
        }),
        pull("copying the binary", move |far| {
            far.raw(wanted.as_bytes())?;
            be_deaf(far)
        }),
    ]
}

fn opening() -> Vec<Case> {
    let job = |message: &Message| matches!(message, Message::Job(_));
    vec![
        pull("its first message", up_to(0, Far::hear_all)),
        pull("its first message", |far| {
            far.ready()?;
            drip(far, &[200, 0, 0, 0, 0, 4, 5, 6, 7, 8, 9, 10])
        }),
        pull("its data port", up_to(1, Far::hear_all)),
        push("its data port", up_to(1, be_deaf)),
        pull("whether it can connect to this host", up_to(2, Far::hear_all)),
        pull("the list of its sources", up_to(3, Far::hear_all)),
        push("its confirmation that the destination takes every source", up_to(3, Far::hear_all)),
        pull("more of the transfer", up_to(4, Far::hear_all)),
        pull("more of the transfer", up_to(4, |far| drip(far, &[200, 0, 0, 0, 7, 1, 1, 1, 1, 1, 1, 1]))),
        Case {
            args: &["-n", "--timeout", "5", "far:x", "."],
            behave: Box::new(move |far| {
                far.ready()?;
                far.say(&hello(PROTOCOL))?;
                far.hear_until(job)?;
                far.hear_all()
            }),
            says: "the next entry of its list",
        },
    ]
}

fn course() -> Vec<Case> {
    vec![
        pull("more of the transfer", up_to(5, Far::hear_all)),
        pull("more of the transfer", up_to(6, Far::hear_all)),
        pull("its report after the transfer", up_to(7, Far::hear_all)),
        Case {
            args: &["--timeout", "5", "../outside/file", "far:"],
            ..push("its confirmation that everything is in place", |far| {
                far.connect()?;
                far.hear_until(|message| matches!(message, Message::Sources(_)))?;
                far.say(&Message::Ready { offers: false, window: 23 })?;
                far.hear_all()
            })
        },
        // It takes nothing of what is sent, which is more than a pipe holds.
        push("", |far| {
            far.connect()?;
            far.hear_until(|message| matches!(message, Message::Sources(_)))?;
            far.say(&Message::Ready { offers: false, window: 23 })?;
            be_deaf(far)
        }),
    ]
}

#[test]
fn one_that_is_silent_is_given_up_at_any_stage() {
    for cases in [login(), opening(), course()] {
        thread::scope(|scope| {
            for case in cases {
                scope.spawn(|| assert_given_up(case));
            }
        });
    }
}

#[track_caller]
fn assert_given_up(case: Case) {
    let ground = Ground::with_a_large_file();
    let talk = ground.start(case.args, case.behave);
    let run = talk.end_within(PATIENCE).exits(5).says(&["for 5 s", case.says]);
    assert!(run.time < BOUND, "{run}");
    ground.assert_untouched();
}

#[test]
fn without_a_limit_it_is_waited_for() {
    let waits = |behave: Behave| {
        let ground = Ground::new();
        let mut talk = ground.start(&["--timeout", "0", "far:x", "."], behave);
        thread::sleep(Duration::from_secs(7));
        assert!(!talk.client().has_ended());
        talk.interrupt();
    };
    thread::scope(|scope| {
        for count in [0, 1, 3] {
            scope.spawn(move || waits(Box::new(up_to(count, Far::hear_all))));
        }
        scope.spawn(|| waits(Box::new(Far::hear_all)));
    });
}

/// Commands without the option `--timeout` must give up after the default time of cp.
#[test]
fn commands_without_the_option_give_up_too() {
    let commands: [(&str, &[&str]); 3] =
        [("verify", &["far:x", "."]), ("clean", &["far:x"]), ("stream", &["far"])];
    thread::scope(|scope| {
        for (command, args) in commands {
            scope.spawn(move || {
                let ground = Ground::new();
                let talk = ground.start_as(command, args, up_to(1, Far::hear_all));
                talk.end_within(Duration::from_secs(45))
                    .exits(5)
                    .says(&["the far end sent nothing for 30 s,"]);
            });
        }
    });
}

/// At every stage the far end sends only that it is alive, for longer than it may be silent.
#[test]
fn one_that_is_slow_and_says_so_is_waited_for() {
    let ground = Ground::new();
    let run = ground.run(&["--timeout", "2", "far:x", "."], |far| {
        let work = |far: &mut Far| {
            (0..4).try_for_each(|_| {
                thread::sleep(Duration::from_millis(900));
                far.say(&Message::Progress(Progress::default()))
            })
        };
        far.greet()?;
        work(far)?;
        far.say(&nowhere())?;
        far.hear_until(|message| matches!(message, Message::ConnectBack { .. }))?;
        far.say(&Message::ConnectedBack { error: Some("no way back".into()) })?;
        far.hear_until(|message| matches!(message, Message::UseTunnel))?;
        work(far)?;
        far.say(&Message::Sources(vec![source("x", false)]))?;
        far.hear_until(|message| matches!(message, Message::Ready { .. }))?;
        work(far)?;
        far.frame(FrameKind::Batch, &record(&file("", 3), b"abc"))?;
        far.finish(totals(1, 3))
    });
    run.exits(0);
    assert_eq!(fs::read(ground.inside().join("x")).unwrap(), b"abc");
}

/// From its job on, an agent reports once a second that it is alive, even before there are data connections.
/// An agent that only answers questions sends no such reports.
#[test]
fn an_agent_says_once_a_second_that_it_is_there() {
    let destination = || b".".to_vec();
    let heard = |job: Job| {
        let ground = Ground::new();
        let mut served = Served::start(&ground);
        served.ask(job).unwrap();
        let (mut from, to) =
            std::mem::replace(&mut served.near, Far::new(io::empty(), io::sink())).into_parts();
        let said = Arc::new(AtomicU32::new(0));
        let counted = said.clone();
        let hearing = thread::spawn(move || {
            while let Ok(message) = linerate_wire::control::read(&mut from) {
                counted.fetch_add(u32::from(matches!(message, Message::Progress(_))), Ordering::Relaxed);
            }
        });
        thread::sleep(Duration::from_millis(4500));
        let said = said.load(Ordering::Relaxed);
        drop(to);
        served.end();
        hearing.join().unwrap();
        said
    };
    let options = || Options { timeout: Some(30), ..Options::default() };
    assert!(heard(Job::Receive { destination: destination(), options: options() }) >= 3);
    assert!(
        heard(Job::Send { sources: vec![destination()], options: Options { recursive: true, ..options() } })
            >= 3
    );
    assert_eq!(heard(Job::Observe), 0);
}
