//! Tests of requests at a wrong time, for too much, or for entries that weren't offered.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use linerate_wire::control::{
    AbortKind, Digested, Job, Keep, MAX_OFFERS, Message, Options, Sampling, Totals, Want,
};
use linerate_wire::entry::Kind;
use linerate_wire::filter::ListedPath;
use rustix::fs::{CWD, FileType, Mode};

use crate::agent::{Served, options};
use crate::far::{
    DEADLINE, Far, Ground, Said, encode, folder, forge, is_sources, on_the_wire, path, source, totals,
};
use crate::support::Run;

/// The contents of the offered file.
const SECRET: &[u8] = b"nobody who has it all needs to see this";

/// Syncs a directory with one file to a receiver that behaves like this after both were offered.
fn push(options: &[&str], behave: impl FnOnce(&mut Far) -> Said + Send + 'static) -> Run {
    let ground = Ground::new();
    fs::create_dir(ground.inside().join("tree")).unwrap();
    fs::write(ground.inside().join("tree/x"), SECRET).unwrap();
    let has_digests = options.contains(&"--verify");
    let behave = move |far: &mut Far| {
        far.connect()?;
        far.hear_until(is_sources)?;
        if has_digests {
            far.say(&Message::Within(false))?;
        }
        far.say(&Message::Ready { offers: true, window: 23 })?;
        far.hear_until(|message| matches!(message, Message::Offer(offered) if offered.len() == 2))?;
        behave(far)
    };
    let args = [options, &["tree", "far:to"]].concat();
    let run = ground.start_as("sync", &args, behave).end_within(DEADLINE);
    ground.assert_untouched();
    run
}

#[test]
fn digests_that_cannot_be_had_are_refused() {
    let refused: [(&[&str], Vec<Want>); 6] = [
        // Nobody said that there are digests.
        (&[], vec![Want::Nothing, Want::Digest]),
        (&["--checksum"], vec![Want::Nothing, Want::Digest]),
        // A directory has none.
        (&["--verify"], vec![Want::Digest, Want::Nothing]),
        // Of files that were not offered.
        (&["--verify"], vec![Want::Nothing, Want::Digest, Want::Digest]),
        (&["--verify"], vec![Want::Digest; MAX_OFFERS + 1]),
        (&["--verify"], vec![Want::Digest; 500_000]),
    ];
    for (options, wants) in refused {
        let reported = format!("{options:?}, {} wants", wants.len());
        let run = push(options, move |far| {
            far.say(&Message::Wanted(wants))?;
            far.hear_all()
        });
        assert_eq!(run.code, Some(5), "{reported}: {run}");
        assert!(run.err.contains("breaks the protocol"), "{reported}: {run}");
    }
}

/// Requests the digest of a file `times` times, and returns the result of the run.
fn wanted_as_digests(times: usize) -> Run {
    push(&["--verify"], move |far| {
        for _ in 0..times {
            far.say(&Message::Wanted(vec![Want::Nothing, Want::Digest]))?;
        }
        let mut bytes = Vec::new();
        loop {
            match far.hear()? {
                Message::Tunnel(piece) => bytes.extend(piece),
                Message::Sent { .. } => break,
                Message::Abort { .. } => return far.hear_all(),
                _ => {}
            }
        }
        let count = |part: &[u8]| bytes.windows(part.len()).filter(|window| *window == part).count();
        assert_eq!((count(blake3::hash(SECRET).as_bytes()), count(&SECRET[..8])), (1, 0));
        far.say(&Message::Committed(Totals { directories: 1, ..totals(1, SECRET.len() as u64) }))?;
        far.report()
    })
}

#[test]
fn of_what_is_wanted_as_a_digest_nothing_else_travels_and_that_once() {
    wanted_as_digests(1).exits(0);
    // An answer too many finds nobody, or ends it.
    let run = wanted_as_digests(2);
    assert!(matches!(run.code, Some(0 | 5)), "{run}");
}

#[test]
fn a_receiver_that_asks_for_an_agents_services_gets_none() {
    let sampling = || Sampling { interval_ms: 1, processes: vec![1], names: vec!["ssh".into()] };
    let digested = Digested { entry: folder(""), contents: None, attributes: None, file: None };
    for wrong in [
        Message::AskFacts(vec![b"/etc/shadow".to_vec()]),
        Message::StartSampling(sampling()),
        Message::TakeSamples { last: true },
        Message::Job(Job::Digests { path: b"/etc".to_vec(), keep: Keep::NOTHING }),
        Message::Job(Job::Send { sources: vec![b"/etc/passwd".to_vec()], options: options() }),
        Message::Select(vec![ListedPath { path: path("x"), contents: true, argument: 0 }]),
        Message::Answer(vec![0; 1000]),
        Message::Samples(vec![0; 1000]),
        Message::Digested(vec![digested]),
        Message::UseTunnel,
        Message::Within(true),
    ] {
        let reported = format!("{wrong:?}");
        let run = push(&[], move |far| {
            far.say(&wrong)?;
            far.hear_all()
        });
        assert_eq!(run.code, Some(5), "{reported}: {run}");
    }
}

#[test]
fn a_selection_reaches_nothing_but_what_is_below_its_source() {
    let select = |paths: Vec<ListedPath>| encode(&Message::Select(paths));
    let listed = |name: &str| ListedPath { path: path(name), contents: true, argument: 0 };
    let honest = "ZZZZZZZZ";
    let out = Job::Send { sources: vec![b"tree".to_vec()], options: Options { listed: true, ..options() } };
    for forged in ["../../xx", "/etc/xxx", "a/../../"] {
        let ground = Ground::new();
        fs::create_dir(ground.inside().join("tree")).unwrap();
        let mut served = Served::start(&ground);
        served.ask(out.clone()).unwrap();
        let _ = served.near.say(&Message::UseTunnel);
        let bytes = forge(select(vec![listed(honest)]), honest.as_bytes(), forged.as_bytes());
        served.near.raw(&on_the_wire(&bytes)).unwrap();
        assert_eq!(served.end(), Some(5), "{forged}");
    }
    // A link in the way is no way.
    let ground = Ground::new();
    fs::create_dir(ground.inside().join("tree")).unwrap();
    symlink(ground.out_of_bounds(), ground.inside().join("tree/link")).unwrap();
    let mut served = Served::start(&ground);
    served.ask(out).unwrap();
    served.near.say(&Message::UseTunnel).unwrap();
    for paths in [vec![listed("link/file"), listed("missing")], Vec::new()] {
        served.near.say(&Message::Select(paths)).unwrap();
    }
    served.near.hear_until(is_sources).unwrap();
    served.near.say(&Message::Ready { offers: false, window: 23 }).unwrap();
    let mut sent = Vec::new();
    loop {
        match served.near.hear().unwrap() {
            Message::Tunnel(piece) => sent.extend(piece),
            Message::Sent { .. } => break,
            _ => {}
        }
    }
    assert!(!sent.windows(4).any(|window| window == b"kept"), "what lies behind the link was sent");
    served.near.say(&Message::Abort { reason: String::new(), kind: AbortKind::Failed }).unwrap();
    served.end();
}

#[test]
fn odd_questions_about_a_host_are_answered_or_refused_and_the_next_one_is_answered() {
    let sampling = |interval_ms| Sampling {
        interval_ms,
        processes: (0..100_000).collect(),
        names: vec!["x".repeat(1000), "\0\x1b[2J".into(), String::new()],
    };
    let questions = [
        Message::AskFacts(vec![b"\0".to_vec(), b"../../..".to_vec(), vec![b'x'; 70_000], Vec::new()]),
        Message::AskFacts((0..10_000).map(|number| format!("/x{number}").into_bytes()).collect()),
        Message::TakeSamples { last: false },
        Message::TakeSamples { last: true },
        Message::StartSampling(sampling(0)),
        Message::StartSampling(sampling(u32::MAX)),
        Message::Ready { offers: true, window: 23 },
        Message::Offer(Vec::new()),
        Message::Select(Vec::new()),
    ];
    let ground = Ground::new();
    let mut served = Served::start(&ground);
    served.ask(Job::Observe).unwrap();
    for question in questions {
        let reported = format!("{question:?}").chars().take(60).collect::<String>();
        served.near.say(&question).unwrap();
        let answer = loop {
            match served.near.hear().unwrap() {
                Message::Hello(_) => {}
                other => break other,
            }
        };
        assert!(matches!(answer, Message::Answer(_) | Message::Abort { .. }), "{reported}: {answer:?}");
        served.near.say(&Message::AskCpu).unwrap();
        assert!(matches!(served.near.hear().unwrap(), Message::Answer(_)), "{reported}");
    }
    for _ in 0..200 {
        served.near.say(&Message::StartSampling(sampling(60_000))).unwrap();
        served.near.hear().unwrap();
    }
    let threads = fs::read_dir(format!("/proc/{}/task", served.pid())).map_or(0, Iterator::count);
    assert!(threads < 20, "{threads} threads");
    assert_eq!(served.end(), Some(0));
    ground.assert_untouched();
}

#[test]
fn a_clean_removes_nothing_behind_a_link_and_nothing_that_is_not_its_own() {
    let ground = Ground::new();
    let (inside, outside) = (ground.inside(), ground.out_of_bounds());
    symlink(&outside, inside.join("link")).unwrap();
    let like_ours = [".linerate.", ".linerate.journal.x", ".linerate.0123456789abcdef.0/", ".linerate-mine"];
    for name in like_ours {
        match name.strip_suffix('/') {
            Some(directory) => fs::create_dir(inside.join(directory)).unwrap(),
            None => fs::write(inside.join(name), "mine").unwrap(),
        }
    }
    let before = ground.landed();
    for destination in [&b"."[..], b"link/..", b"./link/../."] {
        let mut served = Served::start(&ground);
        served.ask(Job::Clean { destination: destination.to_vec(), remove: true }).unwrap();
        let report = served.near.hear_until(|message| matches!(message, Message::Report { .. }));
        assert!(report.is_ok(), "{report:?}");
        assert_eq!(served.end(), Some(0));
        assert_eq!(ground.landed(), before);
    }
    ground.assert_untouched();
    for destination in [&b"missing"[..], b"a\0b", b".linerate.", &[b'x'; 70_000]] {
        let mut served = Served::start(&ground);
        served.ask(Job::Clean { destination: destination.to_vec(), remove: true }).unwrap();
        let aborted = served.near.hear_until(|message| matches!(message, Message::Report { .. }));
        assert!(aborted.is_err(), "{:?}", destination.escape_ascii().to_string());
        assert_eq!(served.end(), Some(2));
    }
    assert_eq!(ground.landed(), before);
}

#[test]
fn digests_of_a_tree_follow_no_link_and_wait_for_no_fifo() {
    let ground = Ground::new();
    let inside = ground.inside();
    symlink(ground.out_of_bounds(), inside.join("link")).unwrap();
    rustix::fs::mknodat(CWD, inside.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let keep = Keep { xattrs: true, acls: true, hard_links: true, owner: true, ..Keep::SCP };
    let mut served = Served::start(&ground);
    served.ask(Job::Digests { path: b".".to_vec(), keep }).unwrap();
    let reported = served.near.hear_until(|message| matches!(message, Message::Digested(_))).unwrap();
    let Message::Digested(reported) = reported else { unreachable!("it was asked for") };
    let names: Vec<PathBuf> = reported.iter().map(|found| found.entry.path.as_os_str().into()).collect();
    assert_eq!(names, ["", "fifo", "link"].map(PathBuf::from));
    assert!(matches!(reported[2].entry.kind, Kind::Symlink { .. }));
    assert_eq!(served.end(), Some(0));
    for path in [&b"missing"[..], b"a\0b", &[b'x'; 70_000]] {
        let mut served = Served::start(&ground);
        served.ask(Job::Digests { path: path.to_vec(), keep }).unwrap();
        assert!(served.near.hear_until(|message| matches!(message, Message::Report { .. })).is_err());
        assert_eq!(served.end(), Some(2));
    }
}

#[test]
fn what_is_dropped_is_dropped_whatever_its_options() {
    for options in [
        Options { verify: true, digests: true, resume: Some([7; 16]), ..options() },
        Options { streams: Some(u32::MAX), rate_limit: Some(0), ..options() },
        Options { timeout: Some(0), listed: true, clear: true, ..options() },
    ] {
        let ground = Ground::new();
        let mut served = Served::start(&ground);
        served.ask(Job::Discard { options }).unwrap();
        served.near.say(&Message::UseTunnel).unwrap();
        // Files have no place here: to refuse them is right, and so is to drop them.
        let _ = served.near.say(&Message::Sources(vec![source("tree", true)]));
        let _ = served.near.say(&Message::MoreStreams(u32::MAX));
        served.end();
        assert_eq!(ground.landed(), Vec::<PathBuf>::new());
        ground.assert_untouched();
    }
}
