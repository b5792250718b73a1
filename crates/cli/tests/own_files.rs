//! Tests of files that a command itself writes (`--log-file`, `--metrics`, `--manifest`, `--out`,
//! `--snapshot`, `--page`). Errors that can be found beforehand are reported before any data is moved, and
//! the run neither deletes nor replaces its own files.

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use linerate_testing::{has, is_root};
use support::{Running, directory, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_linerate");
const NOBODY: u32 = 65534;

/// Makes a source with one file, and a destination that lacks this file.
fn make_trees(here: &Path) {
    for name in ["src", "dst"] {
        fs::create_dir(here.join(name)).unwrap();
    }
    fs::write(here.join("src/file"), "new").unwrap();
    fs::write(here.join("dst/extra"), "old").unwrap();
}

/// The names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_that_can_not_be_written_at_the_end_is_refused_before_anything_is_moved() {
    let here = directory("linerate-own-");
    make_trees(here.path());
    let long = "x".repeat(256);
    for place in ["missing/t.prom", "new.prom/", "src/file/t.prom", "/proc/t.prom", "dst", &long] {
        for option in ["--metrics", "--manifest", "--log-file"] {
            let refused = run(here.path(), &["sync", option, place, "src/", "dst/"]).exits(2);
            refused.says(&["linerate: ", place]);
            run(here.path(), &["cp", option, place, "src/file", "dst/"]).exits(2);
        }
        run(here.path(), &["sync", "--manifest", place, "src/", "nowhere.invalid:dst/"]).exits(2);
        for words in [
            &["verify", "--metrics", place, "src", "dst"][..],
            &["fleet", "verify", "--metrics", place, "src"],
            &["fleet", "run", "--metrics", place, "src"],
            &["doctor", "--metrics", place],
            &["measure", "--metrics", place, "--", "touch", "dst/made"],
        ] {
            run(here.path(), words).exits(2).says(&["--metrics", place]);
        }
        run(here.path(), &["measure", "--out", place, "--", "touch", "dst/made"]).exits(1).says(&[place]);
    }
    assert_eq!(
        (names(here.path()), names(&here.path().join("dst"))),
        (vec!["dst".into(), "src".into()], vec!["extra".into()])
    );
}

#[test]
fn a_file_whose_name_is_empty_is_refused_with_its_option() {
    let here = directory("linerate-own-");
    make_trees(here.path());
    for words in [
        &["sync", "--log-file", "", "src/", "dst/"][..],
        &["cp", "--metrics", "", "src/file", "dst/"],
        &["sync", "--manifest=", "src/", "dst/"],
        &["verify", "--log-file", "", "src", "dst"],
        &["verify", "--metrics=", "src", "dst"],
        &["fleet", "plan", "--into", "", "--shards", "1", "src", "dst"],
        &["fleet", "run", "--log-file", "", "src"],
        &["fleet", "report", "--page", "", "src"],
        &["facts", "--snapshot", ""],
        &["doctor", "--metrics", ""],
        &["measure", "--out", "", "--", "touch", "dst/made"],
        &["bench", "--out", "", "--dry-run"],
        &["man", "--out", ""],
    ] {
        let option = words.iter().find(|word| word.starts_with("--")).unwrap().trim_end_matches('=');
        let reported = format!("'{option} <");
        run(here.path(), words)
            .exits(2)
            .says(&[&reported, "it is empty, perhaps because a variable isn't set"]);
    }
    assert_eq!((names(here.path()).len(), names(&here.path().join("dst"))), (2, vec!["extra".into()]));
}

#[test]
fn a_recording_of_another_host_has_its_place_checked_too() {
    let here = directory("linerate-own-");
    fs::create_dir(here.path().join("rec.me@far")).unwrap();
    let words = ["measure", "--host", "me@far", "--rsh", "false", "--out", "rec", "--", "touch", "made"];
    run(here.path(), &words).exits(1).says(&["rec.me@far"]);
    assert_eq!(names(here.path()), ["rec.me@far"]);
}

#[test]
fn a_file_of_another_user_in_a_directory_that_all_may_write_is_refused_before_anything_is_moved() {
    if !is_root("only root makes files of other users") {
        return;
    }
    let here = directory("linerate-own-");
    make_trees(here.path());
    fs::set_permissions(here.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    for name in ["dst", "dst/extra"] {
        chown(here.path().join(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    fs::write(here.path().join("theirs"), "an earlier run").unwrap();
    let as_nobody = |option: &str| {
        let mut command = Command::new(PROGRAM);
        command.args(["sync", option, "theirs", "src/", "dst/"]).current_dir(here.path());
        command.uid(NOBODY).gid(NOBODY).env("HOME", "/");
        Running::start(command).end()
    };
    for option in ["--metrics", "--manifest"] {
        // The second run finds what the first one left.
        for _ in 0..2 {
            as_nobody(option).exits(2).says(&["theirs: Operation not permitted"]);
        }
    }
    assert_eq!(names(&here.path().join("dst")), ["extra"]);
    assert_eq!(
        (names(here.path()), fs::read(here.path().join("theirs")).unwrap()),
        (vec!["dst".into(), "src".into(), "theirs".into()], b"an earlier run".to_vec())
    );
}

#[test]
fn a_file_that_is_a_mount_point_is_refused_before_anything_is_moved() {
    if !is_root("only root mounts") || !has("unshare") || !has("mount") {
        return;
    }
    let here = directory("linerate-own-");
    make_trees(here.path());
    fs::write(here.path().join("t.prom"), "").unwrap();
    let script = "mount --bind t.prom t.prom || exit 77; exec \"$0\" sync --metrics t.prom src/ dst/";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, PROGRAM]).current_dir(here.path());
    let ended = Running::start(command).end();
    if ended.code == Some(77) {
        return linerate_testing::skip("mount", "files can't be mounted here");
    }
    ended.exits(2).says(&["t.prom", "it is a mount point"]);
    assert_eq!(names(&here.path().join("dst")), ["extra"]);
}

#[test]
fn two_options_never_name_the_same_file() {
    let here = directory("linerate-own-");
    make_trees(here.path());
    let earlier = "2026-11-26T04:40:50.965Z [6819] start: linerate 0.1.0 sync\n";
    fs::write(here.path().join("log"), earlier).unwrap();
    for (one, other) in [("--log-file", "--manifest"), ("--metrics", "--manifest")] {
        let words = ["sync", one, "log", other, "dst/../log", "src/", "dst/"];
        run(here.path(), &words).exits(2).says(&[one, "names the same file"]);
        fs::remove_file(here.path().join("log")).unwrap();
    }
    run(here.path(), &["measure", "--metrics", "f", "--out", "f", "--", "true"])
        .exits(2)
        .says(&["--metrics names the same file"]);
    assert_eq!(names(&here.path().join("dst")), ["extra"]);
    run(here.path(), &["sync", "--metrics", "/dev/null", "--manifest", "/dev/null", "src/", "dst/"]).exits(0);
}

#[test]
fn what_holds_no_metrics_and_is_no_manifest_is_never_replaced_by_them() {
    let here = directory("linerate-own-");
    make_trees(here.path());
    fs::write(here.path().join("user"), "the user's").unwrap();
    for words in [
        &["cp", "-q", "--metrics", "user", "src/file", "dst/"][..],
        &["sync", "-q", "--manifest", "user", "src/", "dst/"],
        &["cp", "-q", "--manifest", "src/file", "-r", "src/", "dst/"],
        &["cp", "-q", "--metrics", "user", "src/file", "nowhere.invalid:dst/"],
        &["verify", "-q", "--metrics", "src/file", "src", "dst"],
        &["sync", "-q", "--metrics", "dst/extra", "--delete", "src/", "dst/"],
        &["fleet", "verify", "--metrics", "user", "src"],
        &["fleet", "run", "--metrics", "user", "src"],
        &["doctor", "--metrics", "user"],
        &["measure", "--metrics", "user", "--", "touch", "dst/made"],
        &["measure", "--out", "user", "--", "touch", "dst/made"],
    ] {
        run(here.path(), words).exits(2).says(&["name another file (is the option's value missing?)"]);
    }
    let read = |name: &str| fs::read_to_string(here.path().join(name)).unwrap();
    assert_eq!(["user", "src/file", "dst/extra"].map(read), ["the user's", "new", "old"]);
    assert_eq!(
        (names(here.path()), names(&here.path().join("dst"))),
        (vec!["dst".into(), "src".into(), "user".into()], vec!["extra".into()])
    );
    // A run replaces files that an earlier run has written, and empty files, which a user may have created
    // for it.
    for name in ["t.prom", "t.b3", "rec"] {
        fs::write(here.path().join(name), "").unwrap();
    }
    for _ in 0..2 {
        run(here.path(), &["sync", "--metrics", "t.prom", "--manifest", "t.b3", "src/", "dst/"]).exits(0);
        run(here.path(), &["measure", "--out", "rec", "--", "true"]).exits(0);
        run(here.path(), &["sync", "--metrics", "src/t.prom", "--manifest", "src/t.b3", "src/", "dst/"]);
    }
    assert!(
        read("t.prom").contains("linerate_run_exit_code") && read("rec").starts_with("linerate recording")
    );
    assert!(
        read("src/t.prom").contains("linerate_run_exit_code") && read("src/t.b3").ends_with("  t.prom\n")
    );
}

#[test]
fn a_snapshot_and_a_page_replace_only_what_such_a_command_has_written() {
    let here = directory("linerate-own-");
    make_trees(here.path());
    let html = "<!DOCTYPE html>\n<title>The user's</title>\n";
    // The user's own compressed file.
    let compressed = zstd::encode_all(&b"the user's"[..], 0).unwrap();
    for (name, bytes) in [("user.html", html.as_bytes()), ("user.zst", &compressed), ("new", b"")] {
        fs::write(here.path().join(name), bytes).unwrap();
    }
    std::os::unix::fs::symlink("src", here.path().join("link")).unwrap();
    let refused = "name another file (is the option's value missing?)";
    for place in ["src/file", "link/file", "user.html", "user.zst"] {
        run(here.path(), &["facts", "--snapshot", place]).exits(2).says(&[
            place,
            "isn't a snapshot",
            refused,
        ]);
        let far = ["facts", "--rsh", "touch made;", "--snapshot", place, "far"];
        run(here.path(), &far).exits(2).says(&[refused]);
    }
    run(here.path(), &["facts", "--snapshot", "missing/file"]).exits(1).says(&["missing/file"]);
    run(here.path(), &["fleet", "plan", "--shards", "1", "--into", "plan", "src", "dst"]).exits(0);
    for place in ["src/file", "link/file", "user.html", "plan/plan.json"] {
        run(here.path(), &["fleet", "report", "plan", "--page", place]).exits(2).says(&[place, refused]);
    }
    let read = |name: &str| fs::read(here.path().join(name)).unwrap();
    assert_eq!(["src/file", "user.html", "user.zst"].map(read), [b"new", html.as_bytes(), &compressed]);
    for _ in 0..2 {
        for file in ["new", "kept", "kept.zst"] {
            run(here.path(), &["facts", "--snapshot", file]).exits(0);
        }
        run(here.path(), &["fleet", "report", "plan", "--page", "page.html"]).exits(0);
    }
}

#[test]
fn what_a_command_is_to_read_is_never_replaced_nor_a_log_whatever_it_holds() {
    let here = directory("linerate-own-");
    make_trees(here.path());
    run(here.path(), &["cp", "--metrics", "a.prom", "--manifest", "a.b3", "src/file", "dst/"]).exits(0);
    fs::write(here.path().join("src/empty"), "").unwrap();
    std::os::unix::fs::symlink("file", here.path().join("src/link")).unwrap();
    fs::remove_file(here.path().join("dst/file")).unwrap();
    let before = ["a.prom", "a.b3", "src/file"].map(|name| fs::read(here.path().join(name)).unwrap());
    for words in [
        &["cp", "--metrics", "a.prom", "a.prom", "dst/"][..],
        &["cp", "--manifest", "dst/../a.b3", "a.b3", "dst/"],
        &["verify", "--metrics", "a.prom", "a.b3", "./a.prom"],
        &["sync", "--metrics", "src/empty", "src/", "dst/"],
        &["sync", "--manifest", "src/link", "src/", "dst/"],
        &["cp", "--log-file", "src/file", "src/file", "dst/"],
        &["cp", "--log-file", "src/link", "src/file", "dst/"],
        &["verify", "--log-file", "src/file", "a.prom", "src/file"],
    ] {
        run(here.path(), words).exits(2).says(&["name another file (is the option's value missing?)"]);
    }
    run(here.path(), &["rsync", "--log-file=src/file", "src/file", "dst/"])
        .exits(1)
        .says(&["--log-file src/file: this file is a source or destination of the command"]);
    let after = ["a.prom", "a.b3", "src/file"].map(|name| fs::read(here.path().join(name)).unwrap());
    assert!(before == after && here.path().join("src/link").is_symlink());
    assert_eq!(
        (names(&here.path().join("dst")), names(&here.path().join("src")).len()),
        (vec!["extra".into()], 3)
    );
}

#[test]
fn a_log_grows_only_a_log() {
    let here = directory("linerate-own-");
    make_trees(here.path());
    let path = |name: &str| here.path().join(name);
    fs::hard_link(path("src/file"), path("linked")).unwrap();
    std::os::unix::fs::symlink("src", path("link")).unwrap();
    fs::write(path("rsync.log"), "2026/11/26 04:40:50 [6819] building file list\n").unwrap();
    run(here.path(), &["fleet", "plan", "--shards", "1", "--into", "plan", "src", "dst"]).exits(0);
    let plan = fs::read(path("plan/plan.json")).unwrap();
    let refused = "isn't a log of linerate, so nothing is appended to it: name another file";
    for log in ["src/file", "linked", "link/file", "dst/extra", "rsync.log", "plan/plan.json"] {
        for words in [
            &["cp", "-r", "src", "copy"][..],
            &["sync", "--delete", "src/", "dst/"],
            &["sync", "src/", "nowhere.invalid:dst/"],
            &["verify", "src", "dst"],
            &["fleet", "run", "--shard", "0", "plan"],
            &["fleet", "verify", "plan"],
        ] {
            run(here.path(), &[words, &["--log-file", log]].concat()).exits(2).says(&[log, refused]);
        }
    }
    assert_eq!(
        (fs::read(path("src/file")).unwrap(), fs::read(path("plan/plan.json")).unwrap()),
        (b"new".into(), plan)
    );
    assert_eq!(names(&path("dst")), ["extra"]);
    // rsync appends to any file, as its lines have no fixed form.
    run(here.path(), &["rsync", "-a", "--log-file=rsync.log", "src/", "dst/"]).exits(0);
    fs::write(path("log"), "").unwrap();
    for ended in 1..3 {
        run(here.path(), &["fleet", "run", "--shard", "0", "--log-file", "log", "plan"]).exits(0);
        assert_eq!(fs::read_to_string(path("log")).unwrap().matches(" end: exit_code=0").count(), ended);
    }
}

/// The options for the log, the metrics and the manifest, with files below the destination.
const OWN: [&str; 6] =
    ["--log-file", "dst/run.log", "--metrics", "dst/sub/run.prom", "--manifest", "dst/sub/run.b3"];

#[test]
fn a_mirror_keeps_the_log_the_metrics_and_the_manifest_of_its_own_run() {
    let here = directory("linerate-own-");
    make_trees(here.path());
    let dst = here.path().join("dst");
    fs::create_dir(dst.join("sub")).unwrap();
    fs::write(dst.join("sub/extra"), "old").unwrap();
    let sync = |more: &[&str]| run(here.path(), &[&["sync", "--delete"], more, &["src/", "dst/"]].concat());
    let dry = sync(&["-n", OWN[0], OWN[1]]).exits(0).says(&["delete 3 entries"]);
    assert!(!dry.out.contains("run.log"), "{dry}");
    // The directory of the metrics stays, though it is empty until the end.
    sync(&OWN).exits(0).says(&["2 entries deleted"]);
    // Again, now that all three are there; also where nothing may be deleted.
    sync(&[&OWN[..], &["--max-delete", "0"]].concat()).exits(0);
    assert_eq!(names(&dst), ["file", "run.log", "sub"]);
    assert_eq!(names(&dst.join("sub")), ["run.b3", "run.prom"]);
    let log = fs::read_to_string(dst.join("run.log")).unwrap();
    assert_eq!(log.matches("] start: ").count(), 3, "{log}");
    assert_eq!(log.matches(" end: exit_code=0").count(), 3, "{log}");
    assert!(fs::read_to_string(dst.join("sub/run.b3")).unwrap().ends_with("  file\n"));
    // A file can't take the directory's name.
    fs::write(here.path().join("src/sub"), "a file").unwrap();
    sync(&OWN).exits(3).says(&["for this command's own files is in the way"]);
    fs::remove_file(here.path().join("src/sub")).unwrap();
    // The files of another run are extra entries as any other file.
    sync(&[]).exits(0).says(&["4 entries deleted"]);
    assert_eq!(names(&dst), ["file"]);
}

#[test]
fn a_mirror_of_another_host_s_tree_keeps_them_too() {
    let here = directory("linerate-own-");
    make_trees(here.path());
    fs::write(here.path().join("src/run.prom"), "the source's").unwrap();
    linerate_testing::write_script(&here.path().join("rsh"), "#!/bin/sh\nshift\nexec sh -c \"$*\"\n");
    let (source, dst) = (format!("far:{}/src/", here.path().display()), here.path().join("dst"));
    let rsh = here.path().join("rsh").display().to_string();
    let far = ["--rsh", &rsh, "--agent-command", PROGRAM];
    let own = ["--log-file", "dst/run.log", "--metrics", "dst/run.prom"];
    for _ in 0..2 {
        run(here.path(), &[&["sync", "--delete"], &far[..], &own, &[&source, "dst/"]].concat())
            .exits(3)
            .says(&[
                "run.prom: isn't copied, because this command writes its own file of that name (--metrics)",
            ]);
        assert_eq!(names(&dst), ["file", "run.log", "run.prom"]);
    }
    assert!(fs::read_to_string(dst.join("run.prom")).unwrap().contains("linerate_run_exit_code"));
    assert_eq!(fs::read_to_string(dst.join("run.log")).unwrap().matches(" end: exit_code=3").count(), 2);
}

#[test]
fn a_log_that_a_link_leads_to_is_kept_with_its_link() {
    let here = directory("linerate-own-");
    make_trees(here.path());
    let dst = here.path().join("dst");
    fs::create_dir(dst.join("logs")).unwrap();
    std::os::unix::fs::symlink("logs/real", dst.join("link")).unwrap();
    for _ in 0..2 {
        run(here.path(), &["sync", "--delete", "--log-file", "dst/link", "src/", "dst/"]).exits(0);
        assert_eq!(names(&dst), ["file", "link", "logs"]);
    }
    assert_eq!(fs::read_to_string(dst.join("logs/real")).unwrap().matches(" end: ").count(), 2);
}

#[test]
fn rsyncs_words_keep_their_log_too() {
    let here = directory("linerate-own-");
    make_trees(here.path());
    let dst = here.path().join("dst");
    for (number, when) in ["--delete", "--delete-before", "--delete-excluded"].into_iter().enumerate() {
        run(here.path(), &["rsync", "-a", when, "--log-file=dst/r.log", "src/", "dst/"]).exits(0);
        assert_eq!(names(&dst), ["file", "r.log"]);
        let log = fs::read_to_string(dst.join("r.log")).unwrap();
        assert_eq!(log.matches("building file list").count(), number + 1, "{log}");
    }
}

#[test]
fn a_source_s_entry_of_the_same_name_is_reported_and_not_copied_over_them() {
    let here = directory("linerate-own-");
    make_trees(here.path());
    let (src, dst) = (here.path().join("src"), here.path().join("dst"));
    fs::write(src.join("run.log"), "the source's").unwrap();
    fs::create_dir(src.join("sub")).unwrap();
    fs::create_dir(dst.join("sub")).unwrap();
    fs::create_dir(src.join("sub/run.prom")).unwrap();
    fs::write(src.join("sub/run.b3"), vec![7; 20 << 20]).unwrap();
    let reported =
        ["run.log: isn't copied", "(--log-file)", "run.prom: isn't copied", "run.b3: isn't copied"];
    for words in [&["sync", "--delete"][..], &["sync"], &["cp", "-r"], &["sync", "--inplace"]] {
        let from = if words[0] == "cp" { "src/." } else { "src/" };
        run(here.path(), &[words, &OWN[..], &[from, "dst/"]].concat()).exits(3).says(&reported);
        assert!(fs::read_to_string(dst.join("run.log")).unwrap().contains(" end: exit_code=3"));
        assert!(fs::read_to_string(dst.join("sub/run.prom")).unwrap().contains("linerate_run_exit_code"));
        assert_eq!(fs::read_to_string(dst.join("sub/run.b3")).unwrap().lines().count(), 1);
    }
    let log = fs::read_to_string(dst.join("run.log")).unwrap();
    assert_eq!(log.matches("] start: ").count(), 4, "{log}");
}

#[test]
fn sources_are_removed_without_the_log_among_them() {
    let here = directory("linerate-own-");
    make_trees(here.path());
    let src = here.path().join("src");
    for (name, says) in
        [("file", "is this command's own file (--log-file), and is not removed"), ("more", "is not removed")]
    {
        fs::write(src.join(name), "new").unwrap();
        let words = ["sync", "--remove-source-files", "--log-file", "src/run.log", "src/", "dst/"];
        run(here.path(), &words).says(&[says]);
        assert_eq!(names(&src), ["run.log"]);
    }
    let log = fs::read_to_string(src.join("run.log")).unwrap();
    assert_eq!((log.matches("] start: ").count(), log.matches(" end: ").count()), (2, 2), "{log}");
}

#[test]
fn a_run_that_meets_the_limit_of_file_sizes_reports_it_in_its_metrics() {
    let here = directory("linerate-own-");
    make_trees(here.path());
    fs::write(here.path().join("src/large"), vec![b'x'; 1 << 20]).unwrap();
    // In units of 512 or 1,024 bytes.
    let script = "ulimit -f 128; exec \"$0\" sync --metrics t.prom src/ dst/";
    let mut command = Command::new("sh");
    command.args(["-c", script, PROGRAM]).current_dir(here.path());
    Running::start(command).end().exits(3).says(&["large", "File too large"]);
    assert_eq!(names(&here.path().join("dst")), ["extra", "file"]);
    let metrics = fs::read_to_string(here.path().join("t.prom")).unwrap();
    assert!(metrics.contains("linerate_run_exit_code{task=\"t\"} 3"), "{metrics}");
}
