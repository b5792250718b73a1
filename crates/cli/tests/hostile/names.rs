//! Tests of a far end that sends entries that weren't requested, or with paths outside of their directory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use linerate_wire::control::{Message, Source};
use linerate_wire::entry::{Entry, Timestamp};
use linerate_wire::frame::FrameKind;

use crate::far::{
    Ground, chunk, encode, file, folder, forge, link, on_the_wire, path, record, source, totals,
};

/// The longest time until received files get their final names.
const COMMITTED: Duration = Duration::from_millis(1500);

#[test]
fn what_is_asked_for_lands() {
    let ground = Ground::new();
    let run = ground.run(&["far:x", "."], |far| {
        far.announce(&[source("x", false)])?;
        far.frame(FrameKind::Batch, &record(&file("", 5), b"hello"))?;
        far.finish(totals(1, 5))
    });
    run.exits(0);
    assert_eq!(fs::read_to_string(ground.inside().join("x")).unwrap(), "hello");
}

#[test]
fn a_name_that_was_not_asked_for_is_refused() {
    for (asked, name) in [
        ("far:x", ".bashrc"),
        ("far:x", "y"),
        ("far:x", ""),
        ("far:dir/*.gz", "x.txt"),
        ("far:dir/*", ".profile"),
        ("far:.", ".ssh"),
        ("far:dir/x", "dir"),
    ] {
        let ground = Ground::new();
        let run = ground.run(&["-r", asked, "."], move |far| {
            far.connect()?;
            far.say(&Message::Sources(vec![source(name, false)]))?;
            far.hear_all()
        });
        run.exits(5).says(&["which this command didn't request"]);
        assert!(ground.landed().is_empty(), "{:?}", ground.landed());
    }
}

#[test]
fn an_argument_that_does_not_exist_names_nothing() {
    for argument in [1, u32::MAX] {
        let ground = Ground::new();
        let run = ground.run(&["far:x", "."], move |far| {
            far.connect()?;
            far.say(&Message::Sources(vec![Source { argument, ..source("x", false) }]))?;
            far.hear_all()
        });
        run.exits(5).says(&["which this command didn't request"]);
    }
}

#[test]
fn a_path_as_a_name_is_no_message() {
    for forged in ["../evil", "/tmp/ev", "..", "a/../../", "a//b", "x/", "a\0b"] {
        let ground = Ground::new();
        let run = ground.run(&["-r", "far:*", "."], move |far| {
            far.connect()?;
            let honest = "Z".repeat(forged.len());
            let sources = encode(&Message::Sources(vec![source(&honest, false)]));
            far.raw(&on_the_wire(&forge(sources, honest.as_bytes(), forged.as_bytes())))?;
            far.hear_all()
        });
        run.exits(5).says(&["can't be decoded"]);
        assert!(ground.landed().is_empty(), "{forged}");
    }
}

#[test]
fn two_sources_of_one_name_do_not_land_on_each_other() {
    let ground = Ground::new();
    let run = ground.run(&["far:*", "."], |far| {
        far.connect()?;
        far.say(&Message::Sources(vec![source("x", false), source("x", false)]))?;
        far.hear_all()
    });
    run.exits(2).says(&["both named"]);
}

#[test]
fn a_source_with_a_temporary_files_name_is_refused_whoever_asked_for_it() {
    let ground = Ground::new();
    let run = ground.run(&["far:.*", "."], |far| {
        far.connect()?;
        far.say(&Message::Sources(vec![source(
            ".linerate.journal.00112233445566778899aabbccddeeff",
            false,
        )]))?;
        far.hear_all()
    });
    run.exits(5).says(&["reserved for temporary files"]);
    assert_eq!(ground.landed(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn no_sources_and_too_many_are_refused() {
    for (count, code, why) in [(0, 1, "no sources"), (65_537, 5, "more elements than it may")] {
        let ground = Ground::new();
        let run = ground.run(&["far:*", "."], move |far| {
            far.connect()?;
            far.say(&Message::Sources(vec![source("x", false); count]))?;
            far.hear_all()
        });
        run.exits(code).says(&[why]);
    }
}

#[test]
fn a_tree_needs_r_also_from_the_far_end() {
    let ground = Ground::new();
    let run = ground.run(&["far:x", "."], |far| {
        far.announce(&[source("x", true)])?;
        far.frame(FrameKind::Batch, &[record(&folder(""), b""), record(&file("y", 1), b"y")].concat())?;
        far.finish(totals(1, 1))
    });
    assert_ne!(run.code, Some(0), "{run}");
    assert!(!ground.inside().join("x/y").exists());
}

#[test]
fn an_entry_of_no_source_is_refused() {
    for number in [1, u32::MAX] {
        let ground = Ground::new();
        let run = ground.run(&["far:x", "."], move |far| {
            far.announce(&[source("x", false)])?;
            far.frame(FrameKind::Batch, &record(&Entry { source: number, ..file("", 1) }, b"y"))?;
            far.finish(totals(1, 1))
        });
        run.exits(1).says(&["breaks the protocol", "doesn't belong to an announced source"]);
        assert!(ground.landed().is_empty(), "{:?}", ground.landed());
    }
}

#[test]
fn an_entry_outside_its_source_is_refused() {
    for forged in ["../evil", "/tmp/ev", "..", "a/../../b", "a\0b"] {
        for in_batch in [true, false] {
            let ground = Ground::new();
            let run = ground.run(&["-r", "far:tree", "."], move |far| {
                far.announce(&[source("tree", true)])?;
                let honest = "Z".repeat(forged.len());
                let (kind, bytes) = match in_batch {
                    true => (FrameKind::Batch, record(&file(&honest, 1), b"y")),
                    false => (FrameKind::Chunk, chunk(file(&honest, 1), 0, 1, 1)),
                };
                far.frame(kind, &forge(bytes, honest.as_bytes(), forged.as_bytes()))?;
                far.finish(totals(1, 1))
            });
            run.exits(1).says(&["breaks the protocol"]);
            assert!(ground.landed().is_empty(), "{:?}", ground.landed());
        }
    }
}

#[test]
fn nothing_is_written_through_a_link() {
    for target in ["../../outside", "/", "..", "."] {
        let ground = Ground::new();
        let absolute = ground.out_of_bounds().display().to_string();
        let target = if target == "/" { absolute } else { target.to_owned() };
        let run = ground.run(&["-r", "far:tree", "."], move |far| {
            far.announce(&[source("tree", true)])?;
            far.frame(
                FrameKind::Batch,
                &[record(&folder(""), b""), record(&link("link", &target), b"")].concat(),
            )?;
            // The link has its name now.
            std::thread::sleep(COMMITTED);
            far.frame(FrameKind::Batch, &record(&file("link/file", 4), b"evil"))?;
            far.frame(FrameKind::Batch, &record(&folder("link/evil"), b""))?;
            far.frame(FrameKind::Batch, &record(&link("link/evil-link", "x"), b""))?;
            far.frame(FrameKind::Chunk, &chunk(file("link/evil-chunk", 4), 0, 4, 1))?;
            far.frame(FrameKind::Data, b"evil")?;
            // Onto the link itself is allowed: it is replaced.
            far.frame(FrameKind::Batch, &record(&file("link", 4), b"file"))?;
            far.finish(totals(1, 4))
        });
        run.exits(3).says(&[
            "tree/link/file: ",
            "tree/link/evil: ",
            "tree/link/evil-link: ",
            "tree/link/evil-chunk: ",
        ]);
        assert_eq!(fs::read_to_string(ground.inside().join("tree/link")).unwrap(), "file");
        assert_eq!(ground.landed().len(), 2, "{:?}", ground.landed());
    }
}

#[test]
fn a_source_that_is_a_link_is_refused() {
    for (args, directory) in [(vec!["-r", "far:tree", "."], true), (vec!["far:tree", "tree"], false)] {
        let ground = Ground::new();
        let target = ground.out_of_bounds().display().to_string();
        let run = ground.run(&args, move |far| {
            far.announce(&[source("tree", directory)])?;
            far.frame(FrameKind::Batch, &record(&link("", &target), b""))?;
            far.finish(totals(1, 0))
        });
        run.exits(1).says(&["a symbolic link in place of the source"]);
        assert_eq!(ground.landed(), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
fn special_bits_stay_behind() {
    for options in [vec!["-r", "-p"], vec!["-r"]] {
        let ground = Ground::new();
        let run = ground.run(&[&options[..], &["far:tree", "."]].concat(), |far| {
            far.announce(&[source("tree", true)])?;
            let with = |entry: Entry, mode| Entry { mode, ..entry };
            let batch = [
                record(&with(folder(""), 0o7777), b""),
                record(&with(file("program", 1), 0o6755), b"x"),
                record(&with(file("odd", 1), u32::MAX), b"x"),
            ];
            far.frame(FrameKind::Batch, &batch.concat())?;
            far.frame(FrameKind::Chunk, &chunk(with(file("large", 1), 0o4777), 0, 1, 1))?;
            far.frame(FrameKind::Data, b"x")?;
            far.finish(linerate_wire::control::Totals { directories: 1, ..totals(3, 3) })
        });
        run.exits(0);
        for name in ["tree", "tree/program", "tree/odd", "tree/large"] {
            let mode = fs::metadata(ground.inside().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o7000, 0, "{name} has mode {mode:o}");
        }
    }
}

#[test]
fn impossible_times_do_no_harm() {
    let ground = Ground::new();
    let run = ground.run(&["-p", "far:x", "."], |far| {
        far.announce(&[source("x", false)])?;
        for (seconds, nanoseconds) in [(i64::MIN, u32::MAX), (i64::MAX, 1_000_000_000)] {
            let time = Timestamp { seconds, nanoseconds };
            far.frame(FrameKind::Batch, &record(&Entry { mtime: time, atime: time, ..file("", 1) }, b"y"))?;
        }
        far.finish(totals(1, 1))
    });
    assert!(run.code.is_some_and(|code| code < 8), "{run}");
}

#[test]
fn a_destination_is_not_replaced_by_a_special_name() {
    // The sources of `.` have no name of their own: a file can't become the destination itself.
    let ground = Ground::new();
    let run = ground.run(&["-r", "far:.", "."], |far| {
        far.announce(&[Source { argument: 0, name: path(""), directory: true }])?;
        far.frame(FrameKind::Batch, &[record(&file("", 1), b"y"), record(&link("", "x"), b"")].concat())?;
        far.finish(totals(1, 1))
    });
    assert_ne!(run.code, Some(0), "{run}");
    assert!(ground.inside().is_dir() && ground.landed().is_empty(), "{:?}", ground.landed());
}
