//! Tests of `linerate agent` with a hostile client.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use linerate_wire::PROTOCOL;
use linerate_wire::control::{AskedSources, DetachedJob, Job, JobId, Keep, Message, Options, Partner};
use linerate_wire::entry::Entry;
use linerate_wire::frame::FrameKind::{Batch, Chunk, Data, End};

use crate::far::{
    DEADLINE, Far, Ground, Said, chunk, encode, file, folder, forge, hello, is_sources, link, on_the_wire,
    record, source, totals,
};
use crate::support::within;

/// An agent, and the client's end of its connection.
pub struct Served {
    agent: Child,
    /// The client's end of the connection.
    pub near: Far,
}

impl Served {
    /// Starts an agent.
    pub fn start(ground: &Ground) -> Self {
        Self::start_with(ground, &[], None)
    }

    /// Starts an agent with these options, whose client has logged in from this address.
    pub fn start_with(ground: &Ground, options: &[&str], client: Option<&str>) -> Self {
        let mut command = ground.linerate(&[&["agent"], options].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match client {
            Some(client) => command.env("SSH_CONNECTION", format!("{client} 40000 127.0.0.1 22")),
            None => command.env_remove("SSH_CONNECTION"),
        };
        let mut agent = command.spawn().unwrap();
        let (input, mut output) = (agent.stdin.take().unwrap(), agent.stdout.take().unwrap());
        let mut line = Vec::new();
        while !line.ends_with(b"ready\n") {
            let mut byte = [0];
            std::io::Read::read_exact(&mut output, &mut byte).unwrap();
            line.push(byte[0]);
        }
        Self { agent, near: Far::new(output, input) }
    }

    /// Sends a job, and reads until the agent reports its addresses.
    pub fn ask(&mut self, job: Job) -> Said {
        self.near.say(&hello(PROTOCOL))?;
        self.near.say(&Message::Job(job))
    }

    /// The agent's process ID.
    pub fn pid(&self) -> u32 {
        self.agent.id()
    }

    /// Acts as a sender, up to the agent's message that it has a destination.
    fn announce(&mut self) -> Said {
        self.ask(Job::Receive { destination: b".".to_vec(), options: options() })?;
        self.near.say(&Message::UseTunnel)?;
        self.near.say(&Message::Sources(vec![source("tree", true)]))?;
        self.near.hear_until(|message| matches!(message, Message::Ready { .. })).map(drop)
    }

    /// Closes the agent's input. The agent must end soon, without a panic. Returns its exit code.
    #[track_caller]
    pub fn end(mut self) -> Option<i32> {
        let (mut from, to) = self.near.into_parts();
        drop(to);
        // What it still says must not block it.
        let drain = std::thread::spawn(move || std::io::copy(&mut from, &mut std::io::sink()));
        let ended = within(DEADLINE, || !matches!(self.agent.try_wait(), Ok(None)));
        if !ended {
            let _ = self.agent.kill();
        }
        let output = self.agent.wait_with_output().unwrap();
        let _ = drain.join();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(ended, "it doesn't end; it said: {said}");
        assert!(!said.contains("panicked"), "{said}");
        output.status.code()
    }
}

/// Usual options of a transfer.
pub fn options() -> Options {
    Options { recursive: true, keep: Keep::SCP, streams: Some(1), ..Options::default() }
}

#[test]
fn garbage_and_silence_end_it() {
    for bytes in [&b""[..], &[0xff; 1000], &[0; 1000], b"GET / HTTP/1.0\r\n\r\n", &[255, 255, 255, 127]] {
        let ground = Ground::new();
        let mut served = Served::start(&ground);
        // It may have hung up already.
        let _ = served.near.raw(bytes);
        assert_eq!(served.end(), Some(5));
        ground.assert_untouched();
    }
}

#[test]
fn another_version_is_reported() {
    let ground = Ground::new();
    let mut served = Served::start(&ground);
    served.near.say(&hello(PROTOCOL + 1)).unwrap();
    assert_eq!(served.end(), Some(7));
}

#[test]
fn another_agent_as_the_other_end_is_named_in_its_turn_and_for_data_alone() {
    let options = || Options { timeout: Some(5), ..options() };
    let receive = || Message::Job(Job::Receive { destination: b".".to_vec(), options: options() });
    let partner = |asked| Message::Partner(Partner { public_key: vec![1; 44], cookie: [0; 16], asked });
    let asked = || Some(AskedSources { sources: vec![b"tree".to_vec()], delivered: false });
    for said in [
        vec![Message::Between, Message::Job(Job::Observe)],
        vec![Message::Between, Message::Job(Job::Clean { destination: b".".to_vec(), remove: true })],
        vec![Message::Between, Message::Between, receive()],
        vec![receive(), partner(asked())],
        vec![receive(), Message::Between],
        vec![Message::Between, partner(asked()), receive()],
        // It isn't told what was asked for.
        vec![Message::Between, receive(), partner(None)],
        vec![Message::Between, receive(), partner(asked()), partner(asked())],
    ] {
        let ground = Ground::new();
        let mut served = Served::start(&ground);
        served.near.say(&hello(PROTOCOL)).unwrap();
        for message in &said {
            // It may have hung up already.
            let _ = served.near.say(message);
        }
        let begun = Instant::now();
        // Its end, with a word on it or without.
        let _ = served.near.hear_all();
        assert!(begun.elapsed() < Duration::from_secs(4), "{said:?}: it has only got tired of waiting");
        assert_eq!(served.end(), Some(5), "{said:?}");
        ground.assert_untouched();
    }
}

#[test]
fn one_that_is_to_go_on_alone_does_so_with_another_agent_or_not_at_all() {
    let options = || Options { timeout: Some(5), ..options() };
    let receive = || Message::Job(Job::Receive { destination: b".".to_vec(), options: options() });
    let detached = || {
        let (from, to) = ("a".into(), "b".into());
        Message::Detached(DetachedJob { id: JobId([1; 4]), from, to })
    };
    let asked = || Some(AskedSources { sources: vec![b"tree".to_vec()], delivered: false });
    let partner = |asked| Message::Partner(Partner { public_key: vec![1; 44], cookie: [0; 16], asked });
    let background = || vec![Message::Job(Job::Background), hello(PROTOCOL)];
    for (alone, said) in [
        // This process ends with its login.
        (false, vec![detached(), receive()]),
        (true, vec![receive()]),
        (true, vec![Message::Job(Job::Observe)]),
        (true, vec![Message::Job(Job::Background)]),
        (true, vec![detached(), Message::Job(Job::Observe)]),
        (true, vec![detached(), Message::Job(Job::Clean { destination: b".".to_vec(), remove: true })]),
        (true, vec![detached(), detached(), receive()]),
        (true, vec![Message::Between, receive(), partner(asked())]),
        (true, vec![detached(), receive(), partner(None)]),
        (true, vec![detached(), receive(), partner(asked()), Message::UseTunnel]),
        (true, vec![detached(), receive(), partner(asked()), Message::UnderWay]),
        (true, vec![detached(), receive(), partner(asked()), Message::Sources(vec![source("tree", true)])]),
    ] {
        let ground = Ground::new();
        let mut served = Served::start(&ground);
        served.near.say(&hello(PROTOCOL)).unwrap();
        let before = if alone { background() } else { Vec::new() };
        for message in before.iter().chain(&said) {
            // It may have hung up already.
            let _ = served.near.say(message);
        }
        let begun = Instant::now();
        // Its end, with a word on it or without.
        let _ = served.near.hear_all();
        assert!(begun.elapsed() < Duration::from_secs(4), "{said:?}: it has only got tired of waiting");
        assert!(matches!(served.end(), Some(0 | 1 | 2 | 5)), "{said:?}");
        let left = || crate::support::processes_with(&ground.mark()).is_empty();
        assert!(within(Duration::from_secs(4), left), "{said:?}: somebody is left");
        ground.assert_untouched();
    }
}

#[test]
fn nothing_lands_outside_its_destination() {
    let ground = Ground::new();
    let mut served = Served::start(&ground);
    served.announce().unwrap();
    let target = ground.out_of_bounds().display().to_string();
    let near = &mut served.near;
    near.frame(Batch, &[record(&folder(""), b""), record(&link("link", &target), b"")].concat()).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    near.frame(Batch, &record(&file("link/evil", 4), b"evil")).unwrap();
    near.frame(Chunk, &chunk(file("link/evil", 4), 0, 4, 1)).unwrap();
    near.frame(Data, b"evil").unwrap();
    near.frame(Batch, &record(&Entry { mode: 0o6777, ..file("file", 1) }, b"x")).unwrap();
    near.frame(End, &[]).unwrap();
    near.say(&Message::Sent { totals: totals(1, 1), streams: 1, complete: true }).unwrap();
    near.hear_until(|message| matches!(message, Message::Committed(landed) if landed.files == 1)).unwrap();
    assert_eq!(served.end(), Some(0));
    ground.assert_untouched();
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(ground.inside().join("tree/file")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o7777, 0o777);
}

#[test]
fn paths_that_leave_the_destination_end_it() {
    for forged in ["../evil", "/tmp/ev", "..", "a\0b"] {
        let ground = Ground::new();
        let mut served = Served::start(&ground);
        served.announce().unwrap();
        let honest = "Z".repeat(forged.len());
        let bytes = forge(record(&file(&honest, 1), b"y"), honest.as_bytes(), forged.as_bytes());
        served.near.frame(Batch, &bytes).unwrap();
        served.near.hear_until(|message| matches!(message, Message::Abort { .. })).unwrap();
        assert_eq!(served.end(), Some(1));
        assert_eq!(ground.landed(), Vec::<PathBuf>::new());
        let mut served = Served::start(&ground);
        served.ask(Job::Receive { destination: b".".to_vec(), options: options() }).unwrap();
        let sources = encode(&Message::Sources(vec![source(&honest, false)]));
        served.near.raw(&on_the_wire(&forge(sources, honest.as_bytes(), forged.as_bytes()))).unwrap();
        assert_eq!(served.end(), Some(5));
        assert_eq!(ground.landed(), Vec::<PathBuf>::new());
        ground.assert_untouched();
    }
}

#[test]
fn too_many_sources_are_refused() {
    let ground = Ground::new();
    let mut served = Served::start(&ground);
    served.ask(Job::Receive { destination: b".".to_vec(), options: options() }).unwrap();
    served.near.say(&Message::Sources(vec![source("x", false); 65_537])).unwrap();
    served.near.hear_until(|message| matches!(message, Message::Abort { .. })).unwrap();
    assert_eq!(served.end(), Some(5));
}

#[test]
fn a_client_that_goes_away_in_the_middle_leaves_nothing() {
    let ground = Ground::new();
    let mut served = Served::start(&ground);
    served.announce().unwrap();
    served.near.frame(Chunk, &chunk(file("large", 100), 0, 100, 1)).unwrap();
    served.near.frame(Data, b"half").unwrap();
    // The file may have no name yet, but the agent has it open.
    let open = format!("/proc/{}/fd", served.agent.id());
    let is_open = |to: PathBuf| to.starts_with(ground.inside().join("tree")) && !to.is_dir();
    let links =
        || fs::read_dir(&open).unwrap().flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    assert!(
        within(DEADLINE, || links().any(is_open)),
        "it began the file: {:?}",
        links().collect::<Vec<_>>()
    );
    assert_eq!(served.end(), Some(5));
    assert!(ground.landed().iter().all(|path| *path == *"tree"), "{:?}", ground.landed());
}

#[test]
fn odd_options_do_no_harm() {
    let odd = [
        Options { rate_limit: Some(0), ..options() },
        Options { rate_limit: Some(u64::MAX), ..options() },
        Options { streams: Some(0), ..options() },
        Options { streams: Some(u32::MAX), ..options() },
        Options { ports: Some((9, 1)), ..options() },
        Options { ports: Some((u16::MAX, u16::MAX)), ..options() },
        Options { ports: Some((0, u16::MAX)), ..options() },
    ];
    for options in odd {
        let ground = Ground::new();
        fs::write(ground.inside().join("x"), "contents").unwrap();
        let mut served = Served::start(&ground);
        served.ask(Job::Send { sources: vec![b"x".to_vec()], options: options.clone() }).unwrap();
        served.near.say(&Message::UseTunnel).unwrap();
        served.near.hear_until(is_sources).unwrap();
        served.near.say(&Message::Ready { offers: false, window: 23 }).unwrap();
        let sent = served.near.hear_until(|message| matches!(message, Message::Sent { .. })).unwrap();
        assert!(matches!(sent, Message::Sent { streams: 1, .. }), "{options:?}: {sent:?}");
        served.near.say(&Message::Committed(totals(1, 8))).unwrap();
        assert_eq!(served.end(), Some(0), "{options:?}");
    }
}

#[test]
fn jobs_that_cannot_be_done_are_reported() {
    for (job, code) in [
        (Job::Send { sources: Vec::new(), options: options() }, 2),
        (Job::Send { sources: vec![b"missing".to_vec()], options: options() }, 2),
        (Job::Send { sources: vec![b"\0".to_vec(), Vec::new()], options: options() }, 2),
        (Job::Send { sources: vec![b"~no-such-user/x[".to_vec(), b"[".to_vec()], options: options() }, 2),
        (Job::List { sources: Vec::new(), options: options() }, 2),
        (Job::Receive { destination: b"missing/missing/".to_vec(), options: options() }, 2),
        (Job::Receive { destination: b"a\0b".to_vec(), options: options() }, 2),
    ] {
        let ground = Ground::new();
        let reported = format!("{job:?}");
        let mut served = Served::start(&ground);
        served.ask(job).unwrap();
        let _ = served.near.say(&Message::UseTunnel);
        let _ = served.near.say(&Message::Sources(vec![source("tree", true)]));
        let aborted = served.near.hear_until(|message| matches!(message, Message::Abort { .. }));
        assert!(aborted.is_ok(), "{reported}: {aborted:?}");
        assert_eq!(served.end(), Some(code), "{reported}");
        assert_eq!(ground.landed(), Vec::<PathBuf>::new());
    }
}

#[test]
fn one_that_asks_again_and_again_is_served_or_refused() {
    let ground = Ground::new();
    let mut served = Served::start(&ground);
    served.ask(Job::Receive { destination: b".".to_vec(), options: options() }).unwrap();
    // It may hang up at any time.
    let _ = (0..10_000).try_for_each(|_| served.near.say(&Message::UseTunnel));
    let threads = fs::read_dir(format!("/proc/{}/task", served.agent.id())).map_or(0, Iterator::count);
    assert!(threads < 100, "{threads} threads");
    served.end();
}
