//! Tests of rsync's options about a whole run, compared with rsync: lists, the log, and the time limit.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use linerate_testing::has;

use crate::bed::{Case, args, case};
use crate::rsync_lines::{assert_alike, lines, make_changed, make_source, over_ssh, words};

/// Command lines with `--list-only`, with `-d`, and with both; FROM is the source, at either end.
const LISTS: [&str; 25] = [
    "FROM/",
    "FROM",
    "-r FROM",
    "-rl FROM/",
    "-av FROM/",
    "-v FROM/",
    "-vn FROM",
    "-q FROM/",
    "-d FROM/",
    "-rhh FROM/",
    "-rhhh FROM/",
    "-r --no-h FROM/",
    "-ai FROM/",
    "-r --out-format=%n FROM/",
    "--list-only FROM/a FROM/l there",
    "-a --list-only FROM/ there",
    "-a FROM/a",
    "-aH FROM/sub",
    "-r --exclude=sub --exclude=*z FROM/",
    "-r --include=*/ --include=b --exclude=* FROM/",
    "-rL FROM/",
    "-r --list-only --files-from=list FROM/ there",
    "--list-only -R FROM/sub/b there",
    "-r FROM/nothere",
    "-aF FROM/",
];

fn make_listed(top: &Path) {
    make_source(top);
    crate::tree::write(top.join(".rsync-filter"), "- zz\n");
    for (path, mode) in [("sub/large", 0o4711), ("other/zz", 0o2644), ("other", 0o1770), ("a", 0o7000)] {
        fs::set_permissions(top.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
}

#[test]
fn a_list_is_the_list_that_rsync_writes() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_listed(&case.near.join("src"));
    fs::create_dir(case.far.join("deep")).unwrap();
    make_listed(&case.far.join("deep/src"));
    crate::tree::write(case.near.join("list"), "sub\nother/zz\n");
    let far = case.far.join("deep/src").display().to_string();
    for line in LISTS {
        let ours = case
            .start_with(args![case.bed.program(), "rsync"], words(&line.replace("FROM", "src"), ""))
            .end();
        let theirs = case.start_with(args!["rsync"], words(&line.replace("FROM", "src"), "")).end();
        assert_eq!((ours.code, lines(&ours.out)), (theirs.code, lines(&theirs.out)), "{line}: {ours}");
        if line.contains("-R") {
            continue;
        }
        let ours = over_ssh(&case, &line.replace("FROM", "FAR/deep/src"));
        let theirs = case.start_with(args!["rsync"], words(&line.replace("FROM", &far), "")).end();
        let theirs_out =
            theirs.out.replace("building file", "receiving file").replace("sending incr", "receiving incr");
        assert_eq!((ours.code, lines(&ours.out)), (theirs.code, lines(&theirs_out)), "{line}: {ours}");
        assert!(!case.near.join("there").exists(), "{line}");
    }
    let ours = over_ssh(&case, "-r FAR/deep/*").exits(0);
    assert!(ours.out.contains(" src/sub/b\n"), "{ours}");
}

/// Command lines with `-d` and without `-r`.
const SHALLOW: [&str; 6] = [
    "-di src/ DST/",
    "-dlti src DST/",
    "-dptgoDi src/ DST/",
    "-di src/a src/sub src/other DST/",
    "-dvlt --exclude=a src/ DST/",
    "-dR src/sub DST/",
];

#[test]
fn directories_come_without_what_is_in_them() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    for line in SHALLOW {
        assert_alike(&case, line, |_| ());
        assert_alike(&case, line, make_changed);
    }
    over_ssh(&case, "-dlt src/ FAR/to/").exits(0);
    assert!(case.far.join("to/sub").is_dir() && !case.far.join("to/sub/b").exists());
    over_ssh(&case, "-d FAR/to back").exits(0);
    assert_eq!(fs::read_dir(case.near.join("back/to")).unwrap().count(), 0);
}

/// Command lines whose logs are compared; without `-v`, because the bytes on the wire differ between
/// programs.
const LOGGED: [&str; 9] = [
    "-a src/ DST/",
    "-ai --delete src/ DST/",
    "-a -q --delete src/ DST/",
    "-an --delete src/ DST/",
    "-a --delete --log-file-format=%o_%n%L src/ DST/",
    "-a --log-file-format=%i|%o|%n%% src/ DST/",
    "-a --delete --log-file-format= src/ DST/",
    "-rt src/ nothere DST/",
    "-t src src/a DST/",
];

/// The log without times, process numbers, and positions in rsync's source.
fn logged(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let plain = |line: &str| {
        let (stamp, text) = line.split_at(line.find("] ").expect("a number of a process") + 2);
        let (time, number) = stamp.split_once(" [").expect("a time");
        assert_eq!(time.len(), "2026/11/24 21:57:59".len(), "{line}");
        assert!(number.trim_end_matches("] ").parse::<u32>().is_ok(), "{line}");
        // Deletions come at another time, by whatever name.
        text.split(" at main.c(").next().unwrap_or(text).replace("del. ", "deleting ")
    };
    let is_own = |line: &String| line.starts_with("rsync: ") || line.starts_with("linerate: ");
    let text: Vec<String> = text.lines().map(plain).filter(|line| !is_own(line)).collect();
    lines(&text.join("\n"))
}

fn log_of(case: &Case, program: &[&str], line: &str, to: &str) -> (Option<i32>, Vec<String>) {
    let (top, log) = (case.near.join(to), case.near.join(format!("{to}.log")));
    let _ = fs::remove_dir_all(&top);
    let _ = fs::remove_file(&log);
    make_changed(&top);
    let program = program.iter().map(Into::into).collect();
    let run = case.start_with(program, words(&format!("--log-file={to}.log {line}"), to)).end();
    (run.code, logged(&log))
}

#[test]
fn a_log_has_the_lines_that_it_has_with_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    let program = case.bed.program();
    for line in LOGGED {
        let ours = log_of(&case, &[program.to_str().unwrap(), "rsync"], line, "ours");
        assert_eq!(ours, log_of(&case, &["rsync"], line, "theirs"), "{line}");
        assert!(ours.1[0].contains("building file list"), "{ours:?}");
    }
}

#[test]
fn a_log_grows_and_a_pull_receives() {
    let Some(case) = case() else { return };
    make_source(&case.near.join("src"));
    over_ssh(&case, "-a --log-file=log src/ FAR/to/").exits(0);
    over_ssh(&case, "-a --log-file=log --log-file-format=%o_%n FAR/to/ back").exits(0);
    let log = logged(&case.near.join("log"));
    assert_eq!(log.iter().filter(|line| line.contains("file list")).count(), 2, "{log:?}");
    assert!(log.contains(&"receiving file list".into()) && log.contains(&"recv a".into()), "{log:?}");
    assert!(log.contains(&"<f+++++++++ a".into()), "{log:?}");
    let run = over_ssh(&case, "-a --log-file=no/such/log src/ FAR/to/").exits(0);
    run.says(&[
        "failed to open log-file no/such/log: No such file or directory (2)",
        "Ignoring \"log file\" setting.",
    ]);
}

#[test]
fn another_users_link_is_no_place_for_a_log() {
    let Some(case) = case() else { return };
    make_source(&case.near.join("src"));
    fs::write(case.near.join("precious"), "").unwrap();
    let link = case.near.join("log");
    symlink("precious", &link).unwrap();
    over_ssh(&case, "-a --log-file=log src/ ours").exits(0);
    assert!(!fs::read(case.near.join("precious")).unwrap().is_empty(), "one's own link is followed");
    std::os::unix::fs::lchown(&link, Some(65534), Some(65534)).unwrap();
    fs::write(case.near.join("precious"), "").unwrap();
    over_ssh(&case, "-a --log-file=log src/ ours").exits(0).says(&["failed to open log-file log: "]);
    assert!(fs::read(case.near.join("precious")).unwrap().is_empty());
}

#[test]
fn a_run_ends_by_the_clock_and_goes_on_later() {
    let Some(case) = case() else { return };
    let source = case.near.join("src");
    crate::tree::write(source.join("file"), crate::tree::noise(3, 4_000_000));
    let soon = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    let soon = soon.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().cast_signed();
    let minute = linerate_sys::local_time::LocalTime::of(soon).unwrap().minute;
    let line = format!("-a --log-file=log --bwlimit=30 --stop-at=:{minute:02} src/ FAR/to/");
    let run = over_ssh(&case, &line).exits(30);
    run.says(&["stopping at requested limit"]);
    assert!(!case.far.join("to/file").exists());
    let log = logged(&case.near.join("log"));
    assert_eq!(log.last().unwrap(), "rsync error: timeout in data send/receive (code 30)");
    over_ssh(&case, "-a --stop-after=10 src/ FAR/to/").exits(0);
    assert_eq!(fs::read(case.far.join("to/file")).unwrap(), fs::read(source.join("file")).unwrap());
    for (line, said) in [
        ("-a --stop-at=2001-1-1 src/ FAR/x/", "is not in the future"),
        ("-a --stop-after=0 src/ FAR/x/", "not a number of minutes"),
    ] {
        over_ssh(&case, line).exits(1).says(&[said]);
    }
}

#[test]
fn the_agent_is_called_by_a_line_of_the_users() {
    let Some(case) = case() else { return };
    make_source(&case.near.join("src"));
    let script = case.aside("bin").join("as");
    linerate_testing::write_script(&script, "#!/bin/sh\necho \"$0 $1\" >called\nexec \"$@\"\n");
    let aside = script.parent().unwrap().display().to_string();
    let calls = |option: &str| {
        let _ = fs::remove_file(script.with_file_name("called"));
        over_ssh(&case, &format!("-a {option} src/ FAR/to/")).exits(0);
        fs::read_to_string(script.with_file_name("called")).unwrap_or_default()
    };
    let called = calls(&format!("--rsync-path=cd_{aside}_&&_./as_rsync"));
    assert!(called.starts_with("./as /") && called.contains("/agent-"), "{called}");
    assert_eq!(calls("--rsync-path=/usr/local/bin/rsync"), "");
    let program = case.bed.program().display().to_string();
    let called = calls(&format!("--rsync-path=cd_{aside};_env_'X=a_b'_./as_{program}"));
    assert_eq!(called, format!("./as {program}\n"));
    over_ssh(&case, "-a --rsync-path=false_&&_rsync src/ FAR/to/").exits(12);
    let run = over_ssh(&case, "-a --rsync-path=wrapper src/ FAR/to/").exits(1);
    run.says(&["the last word must be rsync or linerate"]);
    let line = format!("cd {aside} && ./as linerate");
    let _ = fs::remove_file(script.with_file_name("called"));
    case.sync(args!["--agent-command", line, "src", case.b("to")]).exits(0);
    assert!(script.with_file_name("called").exists());
}

#[test]
fn missing_sources_paths_and_lists_are_those_of_the_far_end_too() {
    let Some(case) = case() else { return };
    make_source(&case.near.join("src"));
    over_ssh(&case, "-a --mkpath --ignore-missing-args src/ missing FAR/to/a/b").exits(0);
    assert_eq!(fs::read(case.far.join("to/a/b/a")).unwrap(), b"hi\n");
    over_ssh(&case, "-a --mkpath src/a FAR/up/to/here").exits(0);
    assert!(case.far.join("up/to/here").is_file());
    over_ssh(&case, "-an --mkpath src/a FAR/never/made/").exits(0);
    assert!(!case.far.join("never").exists());
    over_ssh(&case, "-a src/a FAR/never/made/").exits(11);
    over_ssh(&case, "-a src/a FAR/never/made").exits(3);
    over_ssh(&case, "-a --ignore-missing-args FAR/nothere FAR/up/to/here FAR/up/x* back/").exits(0);
    assert!(case.near.join("back/here").is_file());
    over_ssh(&case, "-a --ignore-missing-args FAR/nothere back/").exits(0);
    // As with rsync, a missing directory isn't ignored.
    over_ssh(&case, "-a --ignore-missing-args FAR/nowhere/x* FAR/up/to/here back/").exits(23);
    over_ssh(&case, "-a FAR/nothere back/").exits(23);
    crate::tree::write(case.far.join("list"), "sub/b\nnothere\n");
    let list = case.far.join("list").display().to_string();
    over_ssh(&case, &format!("-a --files-from=:{list} --ignore-missing-args src/ FAR/some/")).exits(0);
    assert_eq!(fs::read_dir(case.far.join("some")).unwrap().count(), 1);
    over_ssh(&case, &format!("-a --files-from=b:{list} FAR/to/a/b/ some/")).exits(23);
    assert_eq!(crate::tree::names(&case.near.join("some")).len(), 2);
    let run = over_ssh(&case, &format!("-a --files-from=c:{list} FAR/to/a/b/ other/")).exits(1);
    run.says(&["the list must be on the host of the sources"]);
    over_ssh(&case, "-a --files-from=:no/such/list FAR/to/a/b/ other/")
        .exits(1)
        .says(&["copying the list of files"]);
}

#[test]
fn sync_and_cp_have_options_of_rsyncs_under_their_names() {
    let Some(case) = case() else { return };
    make_source(&case.near.join("src"));
    case.sync(args!["src", case.b("day1")]).exits(0);
    crate::tree::write(case.near.join("src/sub/b"), "newer\n");
    case.sync(args!["--link-dest", "../day1", "src", case.b("day2")]).exits(0);
    let inode = |path: &str| std::os::unix::fs::MetadataExt::ino(&fs::metadata(case.far.join(path)).unwrap());
    assert_eq!(inode("day1/core"), inode("day2/core"));
    assert_ne!(inode("day1/sub/b"), inode("day2/sub/b"));
    fs::remove_file(case.near.join("src/core")).unwrap();
    case.sync(args!["--delete", "-b", "--suffix", ".old", "src", case.b("day1")]).exits(0);
    assert_eq!(fs::read(case.far.join("day1/sub/b.old")).unwrap(), b"yo\n");
    assert!(case.far.join("day1/core.old").exists());
    case.sync(args!["--delete", "-b", "--suffix", ".old", "src", case.b("day1")]).exits(0);
    assert!(case.far.join("day1/core.old").exists(), "backups are spared");
    case.sync(args!["--chmod", "D700,F600", "--remove-source-files", "src", case.b("moved")]).exits(0);
    assert_eq!(fs::metadata(case.far.join("moved/a")).unwrap().permissions().mode() & 0o7777, 0o600);
    assert!(!case.near.join("src/a").exists() && case.near.join("src/sub").exists());
    make_source(&case.near.join("more"));
    case.cp(args!["-a", "--exclude", "zz", "--exclude", "/a", "more", case.b("copied")]).exits(0);
    let copied = |path: &str| case.far.join("copied").join(path).exists();
    assert!(copied("sub/b") && copied("other") && !copied("other/zz") && !copied("a"));
    let listed = case.cp(args!["-an", "--include", "*/", "--exclude", "*", case.b("copied"), "x"]).exits(0);
    assert!(listed.out.contains("copied/sub") && !listed.out.contains("copied/sub/b"), "{listed}");
    case.sync(args!["--chmod", "u+q", "src", "x"])
        .exits(2)
        .says(&["--chmod u+q: 'u+q' isn't a change of modes"]);
}
