//! Tests of `cp`, `sync` and `verify` within one host, without a login.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use linerate_testing::has;
use rustix::process::Signal;

use crate::archive::{assert_same, make_everything};
use crate::bed::{Case, args, case, case_with_attributes};
use crate::json::{summary_of, u64_at};
use crate::mounts::Mounted;
use crate::support::{PATIENCE, Run, within};
use crate::tree::{assert_alike, assert_nothing_half_written, assert_real_names_are_whole, make_mixed};
use crate::tree::{noise, set_time, shape, temporaries, write};

/// Runs `linerate` in the near directory.
#[track_caller]
fn run(case: &Case, words: &[&str]) -> Run {
    case.start_with(args![case.bed.program()], words.iter().map(Into::into).collect()).end()
}

/// The changes that rsync would still make in `to`, with all metadata compared.
fn left_to_rsync(case: &Case, from: &str, to: &str) -> String {
    let options = ["-aHAXSn", "--numeric-ids", "--itemize-changes", "--checksum", "--delete"];
    let run = Command::new("rsync").args(options).args([from, to]).current_dir(&case.near).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn an_archive_keeps_everything() {
    let Some(case) = case_with_attributes() else { return };
    make_everything(&case.near.join("tree"), 300);
    run(&case, &["cp", "-a", "tree", "copy"]).exits(0);
    assert_same(&case.near.join("tree"), &case.near.join("copy"));
    run(&case, &["cp", "-a", "--verify", "--streams", "3", "tree", "proven"]).exits(0);
    assert_same(&case.near.join("tree"), &case.near.join("proven"));
    run(&case, &["sync", "tree", "synced"]).exits(0);
    run(&case, &["verify", "-a", "tree", "copy"]).exits(0);
    assert_eq!(temporaries(&case.near), Vec::<std::ffi::OsString>::new());
    if has("rsync") {
        for copy in ["copy/", "proven/", "synced/"] {
            assert_eq!(left_to_rsync(&case, "tree/", copy), "", "{copy}");
        }
    }
}

#[test]
fn a_mirror_follows_its_original_with_the_lines_of_rsync() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    write(case.near.join("tree/large"), noise(1, 20 << 20));
    run(&case, &["sync", "tree", "copy"]).exits(0);
    let large = fs::File::options().write(true).open(case.near.join("tree/large")).unwrap();
    large.write_all_at(b"other", 5 << 20).unwrap();
    set_time(&case.near.join("tree/large"), Duration::from_secs(1_700_000_000));
    write(case.near.join("tree/a/new"), "new");
    write(case.near.join("copy/a/extra"), "extra");
    let lines = |text: String| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let rsyncs = has("rsync").then(|| left_to_rsync(&case, "tree/", "copy/"));
    let synced = run(&case, &["sync", "-c", "--delete", "--itemize-changes", "tree", "copy"]).exits(0);
    if let Some(rsyncs) = rsyncs {
        assert_eq!(lines(synced.out), lines(rsyncs));
    }
    assert_alike(&case.near.join("tree"), &case.near.join("copy"));
    let again = run(&case, &["sync", "--delete", "--itemize-changes", "tree", "copy"]).exits(0);
    assert_eq!(again.out, "");
}

#[test]
fn a_source_is_not_copied_onto_or_into_itself() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    write(case.near.join("file"), "contents");
    fs::hard_link(case.near.join("file"), case.near.join("name too")).unwrap();
    for name in ["mounted", "part", "around", "around/tree at", "part of", "part of/it"] {
        fs::create_dir(case.near.join(name)).unwrap();
    }
    symlink("tree/a", case.near.join("link")).unwrap();
    symlink(".", case.near.join("here")).unwrap();
    let before = shape(&case.near);
    let mounted =
        [("tree", "mounted"), ("tree/a", "part"), ("tree", "around/tree at"), ("tree/a", "part of/it")]
            .map(|(from, to)| Mounted::bound(&case.near.join(from), &case.near.join(to)));
    for (words, said) in [
        (&["cp", "file", "file"][..], "file is the same as file"),
        (&["cp", "file", "./"], "file is the same as ./file"),
        (&["cp", "file", "name too"], "file is the same as name too"),
        (&["cp", "-r", "tree", "."], "tree is the same as ./tree"),
        (&["cp", "-r", "tree", "tree"], "tree can't be copied into itself: tree/tree"),
        (&["cp", "-r", "tree", "tree/a/new"], "tree can't be copied into itself: tree/a/new"),
        (&["cp", "-r", ".", "tree/a"], ". can't be copied into itself: tree/a"),
        (&["cp", "-r", "tree", "mounted/a/new"], "tree can't be copied into itself: mounted/a/new"),
        (&["sync", "tree", "tree/../tree"], "tree is the same as tree/../tree"),
        (&["sync", "tree", "tree/copy"], "tree can't be copied into itself: tree/copy"),
        (&["sync", "--delete", "tree/a", "tree"], "tree/a is in a directory that --delete would clear: tree"),
        (&["sync", "--delete", "link", "tree"], "link is in a directory that --delete would clear: tree"),
        (
            &["sync", "--delete", "link/", "here/tree"],
            "is in a directory that --delete would clear: here/tree",
        ),
        (
            &["rsync", "-a", "--delete", "link/", "tree/"],
            "is in a directory that --delete would clear: tree/",
        ),
        (&["sync", "--delete", "part", "tree"], "part is in a directory that --delete would clear: tree"),
        (&["sync", "tree", "link"], "tree can't be copied into itself: link"),
        (&["cp", "-r", "tree", "part"], "tree can't be copied into itself: part/tree"),
        (&["sync", "tree", "part"], "tree can't be copied into itself: part"),
        (&["rsync", "-a", "tree/", "link"], "can't be copied into itself: link"),
        (&["rsync", "-a", "--delete", "--exclude=/a/x", "tree/", "./link/."], "can't be copied into itself"),
        (&["rsync", "-a", "tree/", "part/"], "can't be copied into itself: part/"),
        (&["sync", "--exclude", "/b", "tree", "tree/a/new"], "tree can't be copied into itself: tree/a/new"),
        (&["sync", "--delete", "tree", "around"], "tree or a part of it is also mounted at "),
        (&["sync", "--delete", "tree", "part of"], "tree or a part of it is also mounted at "),
        (
            &["sync", "-b", "--backup-dir", "../tree", "tree", "around"],
            "tree is also the directory of --backup-dir",
        ),
        (
            &["rsync", "-a", "--partial-dir", "../mounted", "tree/", "around/"],
            "is also the directory of --partial-dir",
        ),
        (&["cp", "file", "b:/x", "there"], "file is on this host and other sources are on another"),
    ] {
        let code = if words[0] == "rsync" { 3 } else { 2 };
        run(&case, words).exits(code).says(&[said]);
    }
    drop(mounted);
    assert_eq!(shape(&case.near), before);
    run(&case, &["cp", "-r", "tree", "tree two"]).exits(0);
    assert_alike(&case.near.join("tree"), &case.near.join("tree two"));
}

/// The test is like a backup of a whole system to a disk that is mounted in it; with -x, both ends are on one
/// file system.
#[test]
fn a_source_is_copied_into_a_part_of_itself_that_the_scan_leaves_out() {
    let Some(case) = case() else { return };
    let at = |path: &str| case.near.join(path);
    write(at("s/a"), "a");
    write(at("s/home/user"), "user");
    fs::create_dir_all(at("s/mnt")).unwrap();
    let Some(_disk) = Mounted::memory(&at("s/mnt"), "8m") else { return };
    for (number, options) in [
        &["rsync", "-a", "--exclude=/mnt", "s/"][..],
        &["rsync", "-a", "--exclude=/mnt/*", "s/"],
        &["rsync", "-a", "--exclude=/s/mnt", "s"],
        &["rsync", "-ax", "--delete", "s/"],
        &["sync", "--delete", "--exclude", "/mnt", "s"],
    ]
    .iter()
    .enumerate()
    {
        let to = format!("s/mnt/{number}/");
        run(&case, &[*options, &[to.as_str()]].concat()).exits(0);
        let top =
            if options.last() == Some(&"s") && options[0] == "rsync" { at(&to).join("s") } else { at(&to) };
        assert_eq!(fs::read(top.join("home/user")).unwrap(), b"user", "{options:?}");
        assert!(!top.join("mnt/0").exists(), "{options:?}");
    }
    fs::create_dir_all(at("d/home")).unwrap();
    fs::create_dir_all(at("d/old/other")).unwrap();
    let mounts = ["d/home", "d/old/other"].map(|path| Mounted::memory(&at(path), "8m"));
    write(at("d/home/theirs"), "theirs");
    write(at("d/old/other/theirs"), "theirs");
    write(at("d/old/file"), "old");
    run(&case, &["rsync", "-ax", "--delete", "s/home/", "d/home/"]).exits(0);
    assert!(!at("d/home/theirs").exists() && at("d/home/user").exists(), "it is the destination itself");
    write(at("d/home/theirs"), "theirs");
    run(&case, &["rsync", "-ax", "--delete", "--exclude=/home/user", "s/", "d/"]);
    for kept in ["d/home/theirs", "d/home/user", "d/old/other/theirs"] {
        assert!(at(kept).exists(), "{kept} is on another file system");
    }
    assert!(!at("d/old/file").exists() && at("d/a").exists());
    drop(mounts);
}

/// The same file may be at both ends through a mount or a link; removing it from the source would remove it
/// from both.
#[test]
fn a_file_that_is_the_source_and_the_destination_is_not_removed() {
    let Some(case) = case() else { return };
    let at = |path: &str| case.near.join(path);
    let remake = || {
        for name in ["src", "dst"] {
            let _ = fs::remove_dir_all(at(name));
        }
        write(at("src/own"), "own");
        write(at("src/sub/both"), "both");
        write(at("src/alone"), "alone");
        write(at("dst/alone"), "");
        fs::create_dir(at("dst/sub")).unwrap();
    };
    for options in [&["sync"][..], &["rsync", "-a"], &["rsync", "-aI", "--inplace"], &["sync", "--checksum"]]
    {
        remake();
        let mounts = [("src/sub", "dst/sub"), ("src/alone", "dst/alone")]
            .map(|(from, to)| Mounted::bound(&at(from), &at(to)));
        let code = if options[0] == "rsync" { 23 } else { 3 };
        for _ in 0..2 {
            let ran = run(&case, &[options, &["--remove-source-files", "src/", "dst/"]].concat()).exits(code);
            ran.says(&["sub/both: source and destination are the same file, which has only one name, so the source isn't removed"]);
            assert_eq!(fs::read(at("src/sub/both")).unwrap(), b"both");
            assert_eq!(fs::read(at("src/alone")).unwrap(), b"alone");
        }
        assert!(!at("src/own").exists() && at("dst/own").exists());
        drop(mounts);
    }
    // The far host has this host's files.
    remake();
    let same = format!("b:{}", at("src").display());
    case.sync(args!["--remove-source-files", "src", &same])
        .exits(3)
        .says(&["source and destination are the same file"]);
    case.sync(args!["--remove-source-files", &same, &same])
        .exits(3)
        .says(&["source and destination are the same file"]);
    assert_eq!(fs::read(at("src/sub/both")).unwrap(), b"both");
    fs::rename(at("src/sub"), at("kept")).unwrap();
    fs::remove_dir(at("dst/sub")).unwrap();
    fs::rename(at("kept"), at("dst/sub")).unwrap();
    symlink("../dst/sub", at("src/sub")).unwrap();
    for followed in ["-ak", "-aL"] {
        run(&case, &["rsync", followed, "--remove-source-files", "src/", "dst/"]).exits(23);
        assert_eq!(fs::read(at("dst/sub/both")).unwrap(), b"both");
    }
}

/// The far host has this host's files, although the names don't show this.
#[test]
fn a_source_below_a_far_destination_stays() {
    let Some(case) = case() else { return };
    let at = |path: &str| case.near.join(path);
    let far = |path: &str| format!("b:{}", at(path).display());
    let remake = || {
        let _ = fs::remove_dir_all(at("q"));
        write(at("q/other/of"), "extra");
        write(at("q/in/d/f"), "f");
        write(at("q/in/d/large"), noise(1, 2 << 20));
    };
    for (from, what) in [(far("q/in/d/"), "far"), (at("q/in/d/").display().to_string(), "near")] {
        for _ in 0..2 {
            remake();
            let line = args!["--delete", "--max-size", "1M", &from, far("q")];
            case.sync(line).exits(25).says(&["in/d: not deleted: it is the source itself"]);
            assert!(at("q/f").exists() && !at("q/other").exists(), "{what}");
            assert_eq!(fs::metadata(at("q/in/d/large")).unwrap().len(), 2 << 20, "{what}");
        }
        // What arrives has the source's place.
        remake();
        write(at("q/in/d/in/new"), "new");
        write(at("q/in/d/in/d"), "in the way");
        case.sync(args!["--delete", "--max-size", "1M", &from, far("q")])
            .exits(3)
            .says(&["in/d: ", "the source itself is in the way at the destination"]);
        assert!(at("q/in/d/large").exists() && at("q/in/new").exists(), "{what}");
        remake();
        write(at("q/in/d/in/d/new"), "new");
        for _ in 0..2 {
            case.sync(args!["--delete", "--max-size", "1M", &from, far("q")])
                .exits(25)
                .says(&["in/d: nothing in this directory is deleted: it is the source itself"]);
        }
        assert!(at("q/in/d/large").exists(), "{what}");
    }
}

#[test]
fn a_killed_copy_is_gone_on_from() {
    let Some(case) = case() else { return };
    let tree = case.near.join("tree");
    write(tree.join("chunked"), noise(1, 64 << 20));
    (0..12).for_each(|number| write(tree.join(format!("small/{number}")), noise(number, 5000)));
    let copy = case.near.join("copy");
    let half = |size: u64| case.near.read_dir().unwrap().flatten().any(|entry| is_held(&entry.path(), size));
    for (signal, bytes) in [(Signal::KILL, 24 << 20), (Signal::INT, 40 << 20)] {
        let words = ["cp", "-r", "--bwlimit", "8m", "tree", "copy"];
        let running = case.start_with(args![case.bed.program()], words.iter().map(Into::into).collect());
        assert!(within(PATIENCE, || half(bytes)), "it never got under way");
        running.signal(signal);
        let ended = running.end_within(PATIENCE);
        let expected = if signal == Signal::KILL { (Some(9), None) } else { (None, Some(130)) };
        assert_eq!((ended.signal, ended.code), expected, "{ended}");
        assert_real_names_are_whole(&tree, &copy);
    }
    let went_on = run(&case, &["cp", "-r", "--json", "tree", "copy"]).exits(0);
    assert!(u64_at(&summary_of(&went_on.out), "/sender/stages/bytes") < 64 << 20, "nothing was kept");
    assert_alike(&tree, &copy);
    assert_eq!(temporaries(&case.near), Vec::<std::ffi::OsString>::new(), "left behind");
}

/// Whether a directory contains a file with allocated blocks.
fn is_held(directory: &Path, bytes: u64) -> bool {
    let files = directory.read_dir().into_iter().flatten().flatten();
    files
        .filter_map(|file| file.metadata().ok())
        .any(|file| directory.ends_with("copy") && file.is_file() && file.blocks() * 512 >= bytes)
}

#[test]
fn a_full_destination_ends_it_with_nothing_half_there() {
    let Some(case) = case() else { return };
    let (tree, full) = (case.near.join("tree"), case.near.join("full"));
    (0..8).for_each(|number| write(tree.join(format!("{number}")), noise(number, 3 << 20)));
    fs::create_dir(&full).unwrap();
    let Some(mounted) = Mounted::memory(&full, "10m") else { return };
    run(&case, &["cp", "-r", "tree", "full/"]).exits(1).says(&["No space left on device"]);
    assert_real_names_are_whole(&tree, &full.join("tree"));
    rustix::mount::mount_remount(&full, rustix::mount::MountFlags::empty(), "size=100m").unwrap();
    run(&case, &["cp", "-r", "tree", "full/"]).exits(0);
    assert_alike(&tree, &full.join("tree"));
    assert_nothing_half_written(&tree, &full.join("tree"));
    drop(mounted);
}

#[test]
fn what_cannot_be_read_or_has_no_size_is_as_between_two_hosts() {
    let Some(case) = case() else { return };
    let tree = case.near.join("tree");
    write(tree.join("readable"), noise(1, 2 << 20));
    write(tree.join("unreadable"), noise(2, 2 << 20));
    fs::set_permissions(tree.join("unreadable"), PermissionsExt::from_mode(0o000)).unwrap();
    rustix::fs::chown(&case.near, Some(rustix::fs::Uid::from_raw(65534)), None).unwrap();
    // The user of `sudo -u` may have another one's home, and no right to look into it.
    let home = case.aside("home");
    fs::set_permissions(&home, PermissionsExt::from_mode(0o700)).unwrap();
    let mut words = args!["env", format!("HOME={}", home.display()), "setpriv"];
    words.extend(args!["--reuid=65534", "--regid=65534", "--clear-groups", case.bed.program()]);
    let partly = case.start_with(words, args!["cp", "-r", "tree", "copy"]).end();
    partly.exits(3).says(&["tree/unreadable", "Permission denied"]);
    assert_eq!(fs::read(case.near.join("copy/readable")).unwrap(), noise(1, 2 << 20));
    assert!(!case.near.join("copy/unreadable").exists());
    for path in ["/proc/version", "/proc/kallsyms"] {
        run(&case, &["cp", path, "made up"]).exits(0);
        assert!(fs::read(case.near.join("made up")).unwrap() == fs::read(path).unwrap(), "{path}");
    }
}

#[test]
fn a_file_system_in_user_space_is_a_source_and_a_destination() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    write(case.near.join("tree/large"), noise(1, 20 << 20));
    for name in ["below", "seen"] {
        fs::create_dir(case.near.join(name)).unwrap();
    }
    let Some(_mounted) = Mounted::in_user_space(&case.near.join("below"), &case.near.join("seen")) else {
        return;
    };
    run(&case, &["cp", "-rp", "tree", "seen/copy"]).exits(0);
    run(&case, &["cp", "-rp", "seen/copy", "back"]).exits(0);
    assert_alike(&case.near.join("tree"), &case.near.join("below/copy"));
    assert_alike(&case.near.join("tree"), &case.near.join("back"));
}

#[test]
fn two_trees_are_compared_and_a_list_says_what_would_be_copied() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    let listed = run(&case, &["cp", "-rn", "tree", "copy"]).exits(0);
    assert!(listed.out.contains("tree/small") && !case.near.join("copy").exists(), "{listed}");
    run(&case, &["cp", "-r", "--manifest", "sums", "tree", "copy"]).exits(0);
    let sums = fs::read_to_string(case.near.join("sums")).unwrap();
    assert!(
        sums.contains(&blake3::hash(&fs::read(case.near.join("tree/small")).unwrap()).to_string()),
        "{sums}"
    );
    write(case.near.join("copy/small"), "other");
    write(case.near.join("copy/extra"), "");
    fs::remove_file(case.near.join("copy/empty")).unwrap();
    let compared = run(&case, &["verify", "tree", "copy"]).exits(3);
    for line in ["differs  small", "extra    extra", "missing  empty"] {
        assert!(compared.out.contains(line), "{line}: {compared}");
    }
}

#[test]
fn the_last_line_and_the_summary_say_that_nothing_left_the_host() {
    let Some(case) = case() else { return };
    write(case.near.join("file"), noise(1, 5 << 20));
    let shown = run(&case, &["cp", "file", "copy"]).exits(0);
    shown.says(&["1 file, 5.24 MB in ", "within this host, ", "; CPU ", "; limited by "]);
    let reported = run(&case, &["cp", "--json", "file", "copy"]).exits(0);
    let summary = summary_of(&reported.out);
    assert!(summary["within_host"] == true && summary["encrypted"] == false, "{summary}");
}
