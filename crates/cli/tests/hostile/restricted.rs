//! Tests of a client that tries to leave the directory of `linerate agent --below DIR`.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linerate_wire::control::{
    AbortKind, Backup, Job, JobAttention, Keep, Message, Options, OtherTrees, OtherUse, Sampling, Sync,
};
use linerate_wire::filter::{DirMerge, MergeStyle, Rule, Rules};
use linerate_wire::frame::FrameKind::{Batch, End};

use crate::agent::{Served, options};
use crate::far::{Ground, file, folder, is_sources, link, record, source, totals};

const SECRET: &str = "what nobody who logs in here may see";

/// A directory with `tree/file` in the permitted part, and secrets beside that part.
fn yard() -> Ground {
    let ground = Ground::new();
    fs::create_dir(ground.inside().join("tree")).unwrap();
    fs::write(ground.inside().join("tree/file"), "for all").unwrap();
    ground
}

/// Jobs that name this path.
fn jobs(path: &str) -> Vec<Job> {
    let path = path.as_bytes().to_vec();
    let sync = |delete| Options { sync: Some(Sync { delete, ..Sync::default() }), ..options() };
    let sources = vec![path.clone()];
    vec![
        Job::Receive { destination: path.clone(), options: options() },
        Job::Receive { destination: path.clone(), options: sync(true) },
        Job::Receive { destination: path.clone(), options: Options { resume: Some([7; 16]), ..sync(false) } },
        Job::Send { sources: sources.clone(), options: options() },
        Job::List { sources, options: options() },
        Job::Digests { path: path.clone(), keep: Keep::SCP },
        Job::Clean { destination: path.clone(), remove: false },
        Job::Clean { destination: path, remove: true },
    ]
}

/// Sends a job to the agent, and returns all messages that it sends without further requests.
fn done(ground: &Ground, options: &[&str], job: Job) -> (Option<i32>, Vec<Message>) {
    let mut served = Served::start_with(ground, options, None);
    served.ask(job).unwrap();
    // It may be gone by then.
    let _ = served.near.say(&Message::UseTunnel);
    let _ = served.near.say(&Message::Sources(vec![source("tree", true)]));
    let mut said = Vec::new();
    while let Ok(message) = served.near.hear() {
        let is_last = matches!(
            message,
            Message::Abort { .. } | Message::Report { .. } | Message::Ready { .. } | Message::Sources(_)
        );
        said.push(message);
        if is_last {
            break;
        }
    }
    (served.end(), said)
}

fn abort(said: &[Message]) -> Option<(AbortKind, String)> {
    said.iter().find_map(|message| match message {
        Message::Abort { kind, reason } => Some((*kind, reason.clone())),
        _ => None,
    })
}

/// All messages as text, in which the test searches for secrets.
fn text(said: &[Message]) -> String {
    format!("{said:?}")
}

#[test]
fn no_job_takes_a_path_that_goes_up() {
    let ground = yard();
    let before = ground.landed();
    for path in ["..", "../outside", "/../outside/file", "~/../outside", "tree/../../outside", "tree/.."] {
        for job in jobs(path) {
            let reported = format!("{job:?}");
            let (code, said) = done(&ground, &["--below", "."], job);
            let (kind, reason) = abort(&said).expect(&reported);
            assert_eq!((code, kind), (Some(2), AbortKind::Arguments), "{reported}: {reason}");
            assert!(
                reason.contains("goes up by '..'") && reason.contains("authorized_keys"),
                "{reported}: {reason}"
            );
            assert_eq!(said.len(), 2, "nothing but Hello and Abort: {said:?}");
        }
    }
    assert_eq!(ground.landed(), before);
    ground.assert_untouched();
}

#[test]
fn no_job_reaches_through_a_link_or_by_the_host_s_own_names() {
    let ground = yard();
    fs::write(ground.inside().join("tree/.linerate.journal.0123456789abcdef0123456789abcdef"), "").unwrap();
    let outside = ground.out_of_bounds();
    symlink(&outside, ground.inside().join("abs")).unwrap();
    symlink("../outside", ground.inside().join("up")).unwrap();
    symlink("../outside/file", ground.inside().join("one")).unwrap();
    symlink("tree/../up", ground.inside().join("turn")).unwrap();
    let before = ground.landed();
    for path in
        ["abs", "up", "one", "turn", "abs/", "up/.", "/abs/file", "~/up/file", "up/missing", "turn/new/"]
    {
        for job in jobs(path) {
            let reported = format!("{job:?}");
            let (code, said) = done(&ground, &["--below", "."], job);
            assert_eq!(code, Some(2), "{reported}: {said:?}");
            assert!(text(&said).contains("leads out of the allowed directory"), "{reported}: {said:?}");
        }
    }
    let absolute = outside.join("file").display().to_string();
    for path in
        [&absolute[..], "/etc/passwd", "~root/x", "up*/*", "a*/f*", ".*/outside/*", "[.][.]/outside/*"]
    {
        for job in jobs(path).into_iter().skip(3) {
            let reported = format!("{job:?}");
            let (code, said) = done(&ground, &["--below", "."], job);
            assert_eq!(
                (code, abort(&said).map(|(kind, _)| kind)),
                (Some(2), Some(AbortKind::Arguments)),
                "{reported}"
            );
            assert!(!text(&said).contains("root:") && !text(&said).contains("kept"), "{reported}");
        }
    }
    assert_eq!(ground.landed(), before);
    ground.assert_untouched();
}

#[test]
fn a_link_that_the_client_has_brought_is_no_way_either() {
    let ground = yard();
    let outside = ground.out_of_bounds().display().to_string();
    let mut served = Served::start_with(&ground, &["--below", "."], None);
    served.ask(Job::Receive { destination: b"/".to_vec(), options: options() }).unwrap();
    let near = &mut served.near;
    near.say(&Message::UseTunnel).unwrap();
    near.say(&Message::Sources(vec![source("brought", true)])).unwrap();
    near.hear_until(|message| matches!(message, Message::Ready { .. })).unwrap();
    let entries =
        [record(&folder(""), b""), record(&link("out", &outside), b""), record(&link("root", "/"), b"")];
    near.frame(Batch, &entries.concat()).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    near.frame(Batch, &record(&file("out/evil", 4), b"evil")).unwrap();
    near.frame(End, &[]).unwrap();
    near.say(&Message::Sent { totals: totals(1, 4), streams: 1, complete: true }).unwrap();
    near.hear_until(|message| matches!(message, Message::Committed(_))).unwrap();
    served.end();
    assert!(ground.inside().join("brought/out").is_symlink());
    for path in ["brought/out", "brought/out/file", "brought/root/etc/passwd"] {
        for job in jobs(path) {
            let (code, said) = done(&ground, &["--below", "."], job);
            assert_eq!(code, Some(2), "{path}: {said:?}");
        }
    }
    ground.assert_untouched();
}

#[test]
fn rules_are_read_from_no_file_above() {
    let ground = yard();
    fs::write(ground.inside().parent().unwrap().join(".rules"), format!("{SECRET} is no rule\n")).unwrap();
    let all: &[u8] = b"/";
    let real = ground.inside().parent().unwrap().as_os_str().as_encoded_bytes().to_vec();
    for above in [all, b"..", b"../../..", b"../../../../../../..", &real] {
        let style = MergeStyle::default();
        let merge =
            DirMerge { name: b".rules".to_vec(), above: Some(above.to_vec()), inherited: true, style };
        let filter: Rules = Rules::new([Rule::Merge(merge)].into(), Default::default()).unwrap();
        let mut served = Served::start_with(&ground, &["--below", "."], None);
        let options = Options { filter, ..options() };
        served.ask(Job::Send { sources: vec![b"tree".to_vec()], options }).unwrap();
        served.near.say(&Message::UseTunnel).unwrap();
        served.near.hear_until(is_sources).unwrap();
        served.near.say(&Message::Ready { offers: false, window: 23 }).unwrap();
        let mut bytes = Vec::new();
        loop {
            match served.near.hear().unwrap() {
                Message::Tunnel(piece) => bytes.extend(piece),
                Message::Sent { complete, .. } => break assert!(complete),
                Message::Problem(problem) => panic!("{problem:?}"),
                _ => {}
            }
        }
        assert!(bytes.windows(7).any(|part| part == b"for all"), "it was left out by a rule of above");
        let _ = served.near.say(&Message::Abort { reason: String::new(), kind: AbortKind::Failed });
        served.end();
    }
}

#[test]
fn other_trees_and_backups_are_below_too() {
    let ground = yard();
    for written in ["..", "../..", "/..", "tree/../../x"] {
        let others = OtherTrees { directories: vec![written.into()], used: OtherUse::Link };
        let backup = Backup { directory: Some(written.into()), suffix: Vec::new() };
        for sync in [
            Sync { others: Some(others), ..Sync::default() },
            Sync { backup: Some(backup), ..Sync::default() },
        ] {
            let options = Options { sync: Some(sync), ..options() };
            let (code, said) =
                done(&ground, &["--below", "."], Job::Receive { destination: b"tree".to_vec(), options });
            let (kind, reason) = abort(&said).unwrap_or_else(|| panic!("{written}: {said:?}"));
            assert_eq!((code, kind), (Some(2), AbortKind::Arguments), "{written}: {reason}");
            assert!(reason.contains("goes up by '..'"), "{written}: {reason}");
        }
    }
    ground.assert_untouched();
}

#[test]
fn questions_about_the_host_get_no_answer() {
    let ground = yard();
    let sampling = Sampling { interval_ms: 20, processes: vec![1], names: Vec::new() };
    for question in [
        Message::AskFacts(vec![b"/etc/shadow".to_vec()]),
        Message::AskCpu,
        Message::StartSampling(sampling),
        Message::TakeSamples { last: true },
    ] {
        for job in [Job::Observe, Job::Discard { options: options() }] {
            let mut served = Served::start_with(&ground, &["--below", "."], None);
            served.ask(job).unwrap();
            let _ = served.near.say(&question);
            let answer = served.near.hear_until(|m| matches!(m, Message::Answer(_) | Message::Samples(_)));
            assert!(answer.is_err(), "{question:?} was answered");
            assert!(matches!(served.end(), Some(1 | 2 | 5)));
        }
    }
}

#[test]
fn no_process_is_left_behind_and_no_job_is_mentioned() {
    let ground = yard();
    let attention = JobAttention { id: String::new(), cancel: true };
    for job in [Job::Background, Job::Jobs { forget: true }, Job::Attach(attention)] {
        let mut served = Served::start_with(&ground, &["--below", "."], None);
        served.ask(job.clone()).unwrap();
        let answer = served.near.hear_until(|m| matches!(m, Message::Abort { .. }));
        assert!(answer.is_ok(), "{job:?}: {answer:?}");
        assert_eq!(served.end(), Some(2), "{job:?}");
    }
    ground.assert_untouched();
}

#[test]
fn what_an_option_takes_away_is_refused_before_anything_is_done() {
    let ground = yard();
    let before = ground.landed();
    for (options, refused) in [
        (&["--read-only"][..], &[0, 1, 2, 7][..]),
        (&["--write-only"], &[3, 4, 5, 6]),
        (&["--no-delete"], &[1, 7]),
        (&["--write-only", "--no-delete"], &[1, 3, 4, 5, 6, 7]),
    ] {
        for number in refused {
            let job = jobs("tree").swap_remove(*number);
            let reported = format!("{options:?} {job:?}");
            let (code, said) = done(&ground, &[&["--below", "."], options].concat(), job);
            let (kind, reason) = abort(&said).expect(&reported);
            assert_eq!((code, kind, said.len()), (Some(2), AbortKind::Arguments, 2), "{reported}: {reason}");
            assert!(options.iter().any(|option| reason.contains(option)), "{reported}: {reason}");
        }
    }
    assert_eq!(ground.landed(), before);
}

#[test]
fn it_connects_to_the_host_alone_that_its_client_came_from() {
    let ground = yard();
    let inner = ["127.0.0.1:0", "127.0.0.2:0"].map(|address| TcpListener::bind(address).unwrap());
    let [client, other] = inner.each_ref().map(|listener| listener.local_addr().unwrap());
    let called = [AtomicBool::new(false), AtomicBool::new(false)];
    let ask = |from: Option<&str>, candidates: Vec<SocketAddr>| {
        let mut served = Served::start_with(&ground, &["--below", "."], from);
        served.ask(Job::Discard { options: options() }).unwrap();
        served.near.say(&Message::ConnectBack { candidates }).unwrap();
        let answer = served.near.hear_until(|message| matches!(message, Message::ConnectedBack { .. }));
        let Ok(Message::ConnectedBack { error }) = answer else { panic!("{answer:?}") };
        served.end();
        error.expect("nobody speaks there")
    };
    let look = || {
        for (listener, called) in inner.iter().zip(&called) {
            listener.set_nonblocking(true).unwrap();
            called.store(listener.accept().is_ok(), Ordering::Relaxed);
        }
        called.each_ref().map(|called| called.load(Ordering::Relaxed))
    };
    for (from, candidates) in [
        (Some("127.0.0.1"), vec![other]),
        (Some("127.0.0.1"), vec![client, other]),
        (Some("127.0.0.3"), vec![client]),
        (Some("nonsense"), vec![client]),
        (None, vec![client]),
    ] {
        let error = ask(from, candidates);
        assert!(error.contains("isn't the address from which this login came"), "{error}");
        assert_eq!(look(), [false, false], "{from:?}");
    }
    // The client's own host is called.
    ask(Some("127.0.0.1"), vec![client]);
    assert_eq!(look(), [true, false]);
}

#[test]
fn a_directory_that_cannot_be_served_is_reported() {
    let ground = yard();
    for directory in ["missing", "tree/file"] {
        let (code, said) = done(&ground, &["--below", directory], jobs(".").swap_remove(0));
        let (kind, reason) = abort(&said).expect(directory);
        assert_eq!((code, kind), (Some(1), AbortKind::Failed), "{reason}");
        assert!(reason.contains("can't be opened") && reason.contains("authorized_keys"), "{reason}");
    }
    // What is served can lie anywhere.
    let mut served = Served::start_with(&ground, &["--below", "tree"], None);
    served.ask(Job::List { sources: vec![b"/".to_vec()], options: options() }).unwrap();
    let listed =
        |message: &Message| matches!(message, Message::Listed { path, .. } if path.ends_with(b"file"));
    assert!(served.near.hear_until(listed).is_ok());
    served.end();
}
