//! Tests of a far end that sends without end.

use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use linerate_wire::control::{self, Listening, Message, Problem, ProblemKind, Progress};
use linerate_wire::frame::FrameKind::{Batch, End};
use linerate_wire::stages::{Stages, Usage};

use crate::far::{Far, Ground, Said, Talk, file, is_sources, link, record, source, totals};

const LONG: Duration = Duration::from_secs(5);
/// The greatest amount of memory that either end may use, in bytes.
const MOST_MEMORY: u64 = 200 << 20;

/// The value of a line in /proc/PID/status.
fn status(pid: i32, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Lets the far end send for a while: the client's memory and threads must stay limited, and it must be
/// interruptible.
#[track_caller]
fn endure(mut talk: Talk, words: &[&str]) {
    let pid = talk.client().pid();
    let begun = Instant::now();
    while begun.elapsed() < LONG && !talk.client().has_ended() {
        let (memory, threads) = (status(pid, "VmRSS:") << 10, status(pid, "Threads:"));
        assert!(memory < MOST_MEMORY, "{memory} bytes");
        assert!(threads < 100, "{threads} threads");
        std::thread::sleep(Duration::from_millis(50));
    }
    if talk.client().has_ended() {
        // To refuse is as good, and so is to be done.
        let run = talk.end_within(LONG);
        assert!(matches!(run.code, Some(0 | 1 | 5)), "{run}");
        return;
    }
    let run = talk.interrupt();
    run.says(words);
}

fn forever(far: &mut Far, message: &Message) -> Said {
    let mut bytes = Vec::new();
    control::write(&mut bytes, message)?;
    let many = bytes.repeat(1 + (64 << 10) / bytes.len());
    loop {
        far.raw(&many)?;
    }
}

fn problem() -> Message {
    let message = "\x1b[2J\x1b]0;owned\x07 not there".to_owned();
    Message::Problem(Problem { path: b"\x1b[31m\rx".to_vec(), message, kind: ProblemKind::Failed })
}

#[test]
fn endless_problems_before_the_sources() {
    let ground = Ground::new();
    let talk = ground.start(&["far:x", "."], |far| {
        far.connect()?;
        forever(far, &problem())
    });
    endure(talk, &["\\u{1b}[31m\\rx: \\u{1b}[2J"]);
}

#[test]
fn endless_problems_in_a_transfer() {
    let ground = Ground::new();
    let talk = ground.start(&["far:x", "."], |far| {
        far.announce(&[source("x", false)])?;
        forever(far, &problem())
    });
    endure(talk, &["\\u{1b}[31m\\rx: \\u{1b}[2J"]);
}

#[test]
fn endless_problems_before_the_report() {
    let ground = Ground::new();
    let talk = ground.start(&["far:x", "."], |far| {
        far.announce(&[source("x", false)])?;
        far.frame(Batch, &record(&file("", 1), b"x"))?;
        far.frame(End, &[])?;
        far.say(&Message::Sent { totals: totals(1, 1), streams: 1, complete: true })?;
        far.hear_until(|message| matches!(message, Message::Committed(_)))?;
        forever(far, &problem())
    });
    endure(talk, &["\\u{1b}[31m\\rx: \\u{1b}[2J"]);
}

#[test]
fn files_of_which_nothing_is_wanted_without_end() {
    let ground = Ground::with_a_large_file();
    let talk = ground.start(&["x", "far:to"], |far| {
        far.connect()?;
        far.hear_until(is_sources)?;
        far.say(&Message::Ready { offers: false, window: 23 })?;
        far.hear_until(|message| matches!(message, Message::Tunnel(_)))?;
        forever(far, &Message::Skip { file: 0 })
    });
    endure(talk, &[]);
}

#[test]
fn endless_progress() {
    let ground = Ground::new();
    let talk = ground.start(&["far:x", "."], |far| {
        far.announce(&[source("x", false)])?;
        forever(far, &Message::Progress(Progress::default()))
    });
    talk.end_within(crate::support::PATIENCE).exits(5).says(&["too many progress messages"]);
}

#[test]
fn empty_frames_without_end_are_refused_at_the_first() {
    use linerate_wire::frame::FrameKind::{Chunk, Data};
    for kind in [Batch, Chunk, Data] {
        let ground = Ground::new();
        let run = ground.run(&["far:x", "."], move |far| {
            far.announce(&[source("x", false)])?;
            forever(far, &crate::far::frame(kind, &[]))
        });
        run.exits(1).says(&["claims 0 bytes"]);
    }
}

/// The far end sends every other byte of a file, each as a separate part, so that the parts can't be joined.
#[test]
fn parts_that_leave_gaps_without_end_are_refused() {
    let ground = Ground::new();
    let run = ground.run(&["far:x", "."], |far| {
        far.announce(&[source("x", false)])?;
        for part in 0_u64.. {
            let part = crate::far::chunk(file("", 1 << 40), part * 2, 1, u32::MAX);
            far.frame(linerate_wire::frame::FrameKind::Chunk, &part)?;
            far.frame(linerate_wire::frame::FrameKind::Data, b"x")?;
        }
        Ok(())
    });
    run.exits(1).says(&["breaks the protocol", "parts of a file"]);
    assert!(ground.landed().is_empty(), "{:?}", ground.landed());
}

#[test]
fn an_endless_list() {
    let ground = Ground::new();
    let talk = ground.start(&["-n", "-r", "-q", "far:x", "."], |far| {
        far.greet()?;
        forever(far, &Message::Listed { path: b"x/\x1b[2J".to_vec(), entry: file("y", 1), size: 1 })
    });
    endure(talk, &[]);
}

#[test]
fn an_endless_data_stream_that_nobody_asked_for() {
    let ground = Ground::new();
    let talk = ground.start(&["far:x", "."], |far| {
        far.greet()?;
        forever(far, &Message::Tunnel(vec![0; control::MAX_TUNNEL]))
    });
    endure(talk, &[]);
}

#[test]
fn endless_large_frames() {
    let ground = Ground::new();
    let talk = ground.start(&["-r", "far:tree", "."], |far| {
        far.announce(&[source("tree", true)])?;
        loop {
            // Each is as large as a frame may be, and the same files again and again.
            let batch = record(&link("link", &"x".repeat(4000)), b"").repeat(900);
            let frame = crate::far::frame(Batch, &batch);
            let Message::Tunnel(bytes) = frame else { return Ok(()) };
            for piece in bytes.chunks(control::MAX_TUNNEL) {
                far.say(&Message::Tunnel(piece.to_vec()))?;
            }
        }
    });
    endure(talk, &[]);
}

#[test]
fn files_without_end_that_are_never_finished() {
    let ground = Ground::new();
    let talk = ground.start(&["-r", "far:tree", "."], |far| {
        far.announce(&[source("tree", true)])?;
        for number in 0_u64.. {
            let chunk = linerate_wire::entry::Chunk {
                entry: file(&format!("{number}"), 2),
                file: number,
                offset: 0,
                length: 1,
                parts: 2,
                origin: Default::default(),
            };
            far.frame(linerate_wire::frame::FrameKind::Chunk, &crate::far::encode(&chunk))?;
            far.frame(linerate_wire::frame::FrameKind::Data, b"x")?;
        }
        Ok(())
    });
    endure(talk, &[]);
    assert!(ground.landed().iter().all(|path| path.is_dir() || *path == *"tree"), "temporaries stay");
}

#[test]
fn addresses_without_end_are_not_all_tried() {
    for words in [&["far:x", "."][..], &["--interfaces=all", "far:x", "."]] {
        let ground = Ground::new();
        let talk = ground.start(words, |far| {
            far.greet()?;
            // Addresses of a network that is nowhere: each may take seconds.
            let nowhere = |number: u32| [240, 0, 0, number as u8];
            far.say(&Message::Listening(Listening {
                candidates: (0..25_000).map(|number| (nowhere(number), 1).into()).collect(),
                further: (0..25_000).map(|number| nowhere(number).into()).collect(),
                client: None,
                error: None,
            }))?;
            far.hear_all()
        });
        endure(talk, &[]);
    }
}

#[test]
fn numbers_beyond_all_measure_do_no_harm() {
    let huge = Stages {
        workers: u64::MAX,
        lifetime: u64::MAX,
        queue: u64::MAX,
        read: u64::MAX,
        cipher: u64::MAX,
        socket: u64::MAX,
        write: u64::MAX,
        limit: u64::MAX,
        held: u64::MAX,
        bytes: u64::MAX,
        compress: u64::MAX,
        wire: u64::MAX,
        packed: u64::MAX,
        entries: u64::MAX,
        tcp_busy: u64::MAX,
        tcp_rwnd_limited: u64::MAX,
        tcp_sndbuf_limited: u64::MAX,
        tcp_retransmits: u64::MAX,
        tcp_segments: u64::MAX,
        tcp_looks: u64::MAX,
        tcp_rtt: u64::MAX,
        tcp_min_rtt: u64::MAX,
        tcp_delivery_rate: u64::MAX,
        tcp_segment_size: u64::MAX,
        tcp_send_buffer: u64::MAX,
        tcp_in_flight: u64::MAX,
        tcp_send_buffer_full: u64::MAX,
        span: u64::MAX,
        clocked: u64::MAX,
        cpu: u64::MAX,
        waited: u64::MAX,
        host_busy: u64::MAX,
        host_time: u64::MAX,
        quota: u64::MAX,
        quota_period: u64::MAX,
        quota_stops: u64::MAX,
        quota_stopped: u64::MAX,
        link: u64::MAX,
    };
    let sums = control::Totals {
        files: u64::MAX,
        directories: u64::MAX,
        symlinks: u64::MAX,
        bytes: u64::MAX,
        specials: u64::MAX,
    };
    for (seconds, options) in [(f64::NAN, "-v"), (f64::INFINITY, "--json"), (-1.0, "-v")] {
        let ground = Ground::new();
        let run = ground.run(&[options, "far:x", "."], move |far| {
            far.announce(&[source("x", false)])?;
            far.frame(Batch, &record(&file("", 1), b"x"))?;
            far.say(&Message::Progress(Progress { stages: huge, found: sums, scanned: true, landed: sums }))?;
            // Long enough for the display to show it.
            std::thread::sleep(Duration::from_millis(1200));
            far.frame(End, &[])?;
            far.say(&Message::Sent { totals: totals(1, 1), streams: 1, complete: true })?;
            far.hear_until(|message| matches!(message, Message::Committed(_)))?;
            let usage = Usage { cpu_seconds: seconds, peak_rss_bytes: u64::MAX, processors: 0 };
            far.say(&Message::Report { stages: huge, usage })
        });
        run.exits(0);
    }
    let ground = Ground::new();
    let run = ground.run(&["far:x", "."], move |far| {
        far.announce(&[source("x", false)])?;
        far.frame(Batch, &record(&file("", 1), b"x"))?;
        far.finish(sums)
    });
    run.exits(1);
}

/// A real agent's messages are relayed, mixed with many requests for more streams.
#[test]
fn more_streams_than_anybody_needs() {
    let ground = Ground::new();
    for number in 0..40 {
        fs::write(ground.inside().join(format!("{number}")), vec![number; 100_000]).unwrap();
    }
    fs::create_dir(ground.inside().join("to")).unwrap();
    let mut agent = ground.linerate(&["agent"]);
    agent.stdin(Stdio::piped()).stdout(Stdio::piped()).env_remove("SSH_CONNECTION");
    let mut agent = agent.spawn().unwrap();
    let (mut input, mut output) = (agent.stdin.take().unwrap(), agent.stdout.take().unwrap());
    let sources: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    let mut args = vec!["--bwlimit", "1m"];
    args.extend(sources.iter().map(String::as_str));
    args.push("far:to/");
    let talk = ground.start(&args, move |far| {
        let mut first = [0; 64];
        let mut line = Vec::new();
        while !line.ends_with(b"ready\n") {
            output.read_exact(&mut first[..1])?;
            line.push(first[0]);
        }
        far.raw(&line)?;
        let pipes = std::mem::replace(far, Far::new(std::io::empty(), std::io::sink()));
        let (mut from, to) = pipes.into_parts();
        let client_to_agent = std::thread::spawn(move || std::io::copy(&mut from, &mut input));
        let mut far = Far::new(output, to);
        loop {
            let message = far.hear()?;
            let transfer = matches!(message, Message::Ready { .. } | Message::Progress(_));
            far.say(&message)?;
            for _ in 0..if transfer { 500 } else { 0 } {
                far.say(&Message::MoreStreams(u32::MAX))?;
            }
            if client_to_agent.is_finished() {
                return Ok(());
            }
        }
    });
    endure(talk, &[]);
    let _ = agent.wait();
    ground.assert_untouched();
}
