//! Tests of what other users of the receiving host can see while files are received, and of what is printed
//! on the terminal.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use linerate_wire::control::{
    AbortKind, Leftover, LeftoverKind, Listening, Message, Offered, Problem, ProblemKind, Source, Totals,
};
use linerate_wire::entry::{Entry, Kind, Timestamp};
use linerate_wire::frame::FrameKind::{Batch, Chunk, Data};

use rustix::process::Signal;

use crate::far::{DEADLINE, Far, Ground, Said, chunk, file, folder, record, source, totals};
use crate::support::{PATIENCE, within};

/// The longest time until received files get their final names.
const COMMITTED: Duration = Duration::from_millis(1500);

fn with(entry: Entry, mode: u32) -> Entry {
    Entry { mode, ..entry }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode()
        & 0o7777
}

#[test]
fn what_is_private_at_the_end_is_private_on_the_way() {
    for options in [&["-r", "-p"][..], &["-r"]] {
        let ground = Ground::new();
        let tree = ground.inside().join("tree");
        let run = ground.run(&[options, &["far:tree", "."]].concat(), {
            let tree = tree.clone();
            move |far| {
                far.announce(&[source("tree", true)])?;
                // Before the directories that they are in, as another stream may bring them.
                far.frame(Batch, &record(&with(file("early/x", 1), 0o644), b"x"))?;
                far.frame(Chunk, &chunk(with(file("early/large", 2), 0o600), 0, 1, 2))?;
                far.frame(Data, b"a")?;
                std::thread::sleep(COMMITTED);
                assert_eq!((mode(&tree), mode(&tree.join("early"))), (0o700, 0o700), "made early");
                let batch =
                    [record(&with(folder(""), 0o700), b""), record(&with(folder("early"), 0o750), b"")];
                far.frame(Batch, &batch.concat())?;
                std::thread::sleep(COMMITTED);
                assert_eq!(
                    (mode(&tree), mode(&tree.join("early"))),
                    (0o700, 0o750),
                    "when their entries came"
                );
                let names = fs::read_dir(tree.join("early"))?.flatten().map(|entry| entry.path());
                let temporary: Vec<_> = names.filter(|path| !path.ends_with("x")).collect();
                assert_eq!(
                    temporary.iter().map(|path| mode(path)).collect::<Vec<_>>(),
                    [0o600],
                    "{temporary:?}"
                );
                far.frame(Chunk, &chunk(with(file("early/large", 2), 0o600), 1, 1, 2))?;
                far.frame(Data, b"b")?;
                far.finish(Totals { directories: 2, ..totals(2, 3) })
            }
        });
        run.exits(0);
        let early = tree.join("early");
        let modes = [&tree, &early, &early.join("x"), &early.join("large")].map(|path| mode(path));
        assert_eq!(modes, [0o700, 0o750, 0o644, 0o600]);
    }
}

/// A text with control characters of both sets, characters that reverse or hide text, a newline, and invalid
/// UTF-8.
const NASTY: &str = "\x1b[2J\x1b]0;owned\x07\r\n\u{9b}31m\u{202e}txt\u{2066}\u{61c}\u{2028}\u{feff}\u{e0041}";

/// The far end sends this text in every place of the protocol that a client shows.
#[test]
fn nothing_that_it_says_reaches_the_terminal_as_it_is() {
    let says: [fn(&mut Far) -> Said; 6] = [
        |far| far.raw(format!("linerate-agent failed: {}\n", NASTY.replace('\n', " ")).as_bytes()),
        |far| far.raw(format!("{NASTY}\nlinerate-agent wanted {}\n", NASTY.replace('\n', " ")).as_bytes()),
        |far| {
            far.connect()?;
            far.say(&Message::Abort { reason: NASTY.into(), kind: AbortKind::Failed })
        },
        |far| {
            far.greet()?;
            far.say(&Message::Listening(Listening {
                candidates: vec![],
                further: vec![],
                client: None,
                error: Some(NASTY.into()),
            }))?;
            far.say(&Message::ConnectedBack { error: Some(NASTY.into()) })?;
            far.say(&Message::Abort { reason: NASTY.into(), kind: AbortKind::Arguments })
        },
        |far| {
            far.connect()?;
            let name = linerate_wire::path::RelPath::new(NASTY.as_bytes()).expect("it is a name");
            far.say(&Message::Sources(vec![Source { argument: 0, name, directory: false }]))?;
            far.hear_all()
        },
        |far| {
            far.announce(&[source("x", false)])?;
            let path = [NASTY.as_bytes(), b"\xff\xc2"].concat();
            far.say(&Message::Problem(Problem { path, message: NASTY.into(), kind: ProblemKind::NotKept }))?;
            far.say(&Message::Abort { reason: NASTY.into(), kind: AbortKind::Failed })
        },
    ];
    for say in says {
        for option in ["-v", "--json", "-q"] {
            let run = Ground::new().run(&[option, "far:x", "."], say);
            assert_ne!(run.code, Some(0), "{run}");
            assert_printable(&run.out);
            assert_printable(&run.err);
        }
    }
    for options in [&["-n"][..], &["-n", "--json"]] {
        let run = Ground::new().run(&[options, &["-r", "far:x", "."]].concat(), |far| {
            far.greet()?;
            far.say(&Message::Listed { path: NASTY.into(), entry: file("x", 1), size: 1 })?;
            far.report()
        });
        assert_printable(&run.out);
        assert!(run.out.contains("\\u{202e}") || run.out.contains("\\\\u{202e}"), "it was listed: {run}");
    }
}

#[test]
fn what_a_far_end_says_it_has_left_is_escaped() {
    for option in [&["-n"][..], &["-n", "--json"]] {
        let talk = Ground::new();
        let run = talk.start_as("clean", &[option, &["far:x"]].concat(), |far| {
            far.greet()?;
            let kind = LeftoverKind::Partial;
            far.say(&Message::Leftover(Leftover { path: NASTY.into(), size: u64::MAX, kind }))?;
            far.report()
        });
        let run = run.end_within(DEADLINE);
        assert_printable(&run.out);
        assert!(run.out.contains("partial-file") && run.code == Some(0), "{run}");
    }
}

#[track_caller]
fn assert_printable(text: &str) {
    let unfit = |c: char| {
        let is_mark = matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}');
        is_mark || matches!(c, '\u{feff}' | '\u{e0000}'..='\u{e007f}') || c.is_control() && c != '\n'
    };
    assert_eq!(text.find(unfit), None, "{}", text.escape_debug());
}

/// The shell prints without end before any agent starts, in many lines or in one.
#[test]
fn a_shell_that_never_comes_to_the_point_is_given_up() {
    for line in ["\n", "Welcome!\n", "no line at all"] {
        let run = Ground::new().run(&["far:x", "."], move |far| {
            loop {
                far.raw(line.repeat(4096).as_bytes())?;
            }
        });
        run.exits(5).says(&["no agent could be started"]);
    }
}

#[test]
fn a_shell_that_wants_the_binary_again_does_not_get_it() {
    let run = Ground::new().run(&["far:x", "."], |far| {
        far.raw(format!("linerate-agent wanted Linux {}\n", std::env::consts::ARCH).repeat(2).as_bytes())?;
        let (mut from, to) = std::mem::replace(far, Far::new(std::io::empty(), std::io::sink())).into_parts();
        std::io::copy(&mut from, &mut std::io::sink())?;
        drop(to);
        Ok(())
    });
    run.exits(5).says(&["no agent could be started"]);
}

/// A pull is killed while directories have temporary modes; its repetition must restore them.
#[test]
fn modes_for_the_time_being_are_gone_after_a_kill_and_a_rerun() {
    let ground = Ground::new();
    let tree = ground.inside().join("tree");
    let mode = |name: &str| tree.join(name).exists().then(|| mode(&tree.join(name)));
    let closed = Entry { mode: 0o555, ..folder("closed") };
    let begun = record(&closed, b"");
    let early = record(&file("early/too/x", 1), b"x");
    let args = ["-r", "far:tree", "."];
    let mut talk = ground.start(&args, move |far| {
        far.announce(&[source("tree", true)])?;
        far.frame(Batch, &begun)?;
        far.frame(Batch, &early)?;
        far.hear_all()
    });
    let is_there = || mode("early/too").is_some() && mode("closed").is_some();
    assert!(within(PATIENCE, is_there), "nothing has landed");
    talk.client().signal(Signal::KILL);
    talk.end_within(DEADLINE);
    assert_eq!([mode("early"), mode("early/too")], [Some(0o700); 2]);
    assert_eq!(mode("closed").map(|mode| mode & 0o200), Some(0o200));
    let entries = vec![folder(""), closed, folder("early"), folder("early/too"), file("early/too/x", 1)];
    let run = ground.run(&args, move |far| {
        far.announce(&[source("tree", true)])?;
        let ctime = Timestamp { seconds: 1, nanoseconds: 0 };
        let offer =
            |entry: &Entry| Offered { entry: entry.clone(), inode: 1, ctime, digest: None, whole: true };
        far.say(&Message::Offer(entries.iter().map(offer).collect()))?;
        far.hear_until(|message| matches!(message, Message::Wanted(_)))?;
        for entry in &entries {
            let contents: &[u8] = if entry.kind == Kind::Directory { b"" } else { b"x" };
            far.frame(Batch, &record(entry, contents))?;
        }
        far.finish(Totals { directories: 4, ..totals(1, 1) })
    });
    run.exits(0);
    fs::create_dir(tree.join("unmasked")).unwrap();
    let unmasked = mode("unmasked").unwrap();
    assert_eq!(["", "early", "early/too"].map(mode), [Some(0o755 & unmasked); 3]);
    assert_eq!(mode("closed"), Some(0o555 & unmasked));
}
