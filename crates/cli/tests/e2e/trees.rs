//! Tests of the contents of trees: names, links, modes, times, many files, and a very large file.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::Duration;

use linerate_testing::skip;
use rustix::fs::{Mode, OFlags};

use crate::bed::{Case, NOBODY, args, case, case_alone};
use crate::json::{summary_of, u64_at};
use crate::tree::{What, assert_alike, make_mixed, nodes, noise, set_time, shape, write};

/// The greatest amount of memory that either end may use, in bytes.
const MEMORY: u64 = 200_000_000;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Sends `near/tree` and copies it back with these options; both copies must be equal to it.
#[track_caller]
fn there_and_back(case: &Case, options: &[&str]) {
    let with = |arguments: Vec<_>| {
        args!["-r"].into_iter().chain(options.iter().map(Into::into)).chain(arguments).collect()
    };
    case.cp(with(args!["tree", case.b("tree")])).exits(0);
    assert_alike(&case.near.join("tree"), &case.far.join("tree"));
    case.cp(with(args![case.b("tree"), "back"])).exits(0);
    assert_alike(&case.near.join("tree"), &case.near.join("back"));
}

#[test]
fn a_little_of_everything_arrives() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    there_and_back(&case, &[]);
}

#[test]
fn nothing_at_all_arrives_too() {
    let Some(case) = case() else { return };
    fs::create_dir(case.near.join("tree")).unwrap();
    there_and_back(&case, &[]);
    fs::create_dir_all(case.near.join("tree/only/empty/directories")).unwrap();
    fs::create_dir_all(case.near.join("tree/only/two")).unwrap();
    case.cp(args!["-r", "tree/.", case.b("merged/")]).exits(0);
    assert_alike(&case.near.join("tree"), &case.far.join("merged"));
    write(case.near.join("empty"), "");
    case.cp(args!["empty", case.b("")]).exits(0);
    assert_eq!(case.far.join("empty").metadata().unwrap().len(), 0);
}

#[test]
fn any_name_that_the_kernel_takes_arrives() {
    let Some(case) = case() else { return };
    let longest = [b'x'; 255];
    let names: [&[u8]; 13] = [
        b"new\nline",
        b"a space",
        b" ",
        b"-rf",
        b"--",
        b"not \xff\xfe unicode \xe9",
        b"\x01\x1b[31m",
        b"back\\slash",
        "\u{202e}gr\u{fc}n \u{1f980}".as_bytes(),
        b"*?[a]",
        b"~",
        b"...",
        &longest,
    ];
    for (number, name) in names.into_iter().enumerate() {
        let name = OsStr::from_bytes(name);
        write(case.near.join("tree").join(name), name.as_bytes());
        write(case.near.join("tree/directories").join(name).join(name), noise(1, 70_000));
        symlink(name, case.near.join(format!("tree/link {number}"))).unwrap();
    }
    there_and_back(&case, &[]);
}

#[test]
fn fifty_levels_arrive_and_so_does_a_path_longer_than_the_kernel_takes_at_once() {
    let Some(case) = case() else { return };
    let deep: String = (0..50).map(|level| format!("level-{level}/")).collect();
    write(case.near.join("tree").join(&deep).join("bottom"), "deep");
    there_and_back(&case, &[]);
    // 30 names of 200 bytes: more than PATH_MAX, reachable only step by step.
    let name = "n".repeat(200);
    fs::create_dir(case.near.join("deeper")).unwrap();
    let mut at = File::open(case.near.join("deeper")).unwrap();
    for _ in 0..30 {
        rustix::fs::mkdirat(&at, &name, Mode::RWXU).unwrap();
        at = step(&at, &name);
    }
    let bottom = rustix::fs::openat(&at, "bottom", OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
    File::from(bottom).write_all(b"deeper").unwrap();
    case.cp(args!["-r", "deeper", case.b("")]).exits(0);
    let mut at = File::open(case.far.join("deeper")).unwrap();
    for _ in 0..30 {
        at = step(&at, &name);
    }
    let bottom = rustix::fs::openat(&at, "bottom", OFlags::RDONLY, Mode::empty()).unwrap();
    assert_eq!(std::io::read_to_string(File::from(bottom)).unwrap(), "deeper");
}

fn step(at: &File, name: &str) -> File {
    rustix::fs::openat(at, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap().into()
}

#[test]
fn links_stay_links() {
    let Some(case) = case() else { return };
    let outside = case.aside("outside");
    write(outside.join("secret"), "not to be copied");
    write(case.near.join("tree/file"), "x");
    for (target, name) in [("file", "good"), ("nowhere", "dangling"), (".", "self"), ("loop", "loop")] {
        symlink(target, case.near.join("tree").join(name)).unwrap();
    }
    symlink(&outside, case.near.join("tree/out")).unwrap();
    symlink("t".repeat(4000), case.near.join("tree/long")).unwrap();
    there_and_back(&case, &["-p"]);
    assert_eq!(shape(&case.far)[OsStr::new("tree/out")], What::Link(outside));
}

#[test]
fn modes_and_times_are_kept_with_p() {
    let Some(case) = case() else { return };
    let tree = case.near.join("tree");
    make_mixed(&tree);
    let modes = [
        ("empty", 0o400),
        ("one", 0o777),
        ("small", 0o640),
        ("large", 0o111),
        ("a/b/c", 0o500),
        ("a", 0o711),
    ];
    for (path, mode) in modes {
        set_mode(&tree.join(path), mode);
    }
    let times = [("one", 1, 999_999_999), ("large", 1_000_000_000, 1), ("small", 4_000_000_000, 123_456_789)];
    for (path, seconds, nanoseconds) in times.into_iter().chain([("a/b/c", 77, 7), ("a", 5, 5), ("", 9, 9)]) {
        set_time(&tree.join(path), Duration::new(seconds, nanoseconds));
    }
    case.cp(args!["-rp", "tree", case.b("tree")]).exits(0);
    case.cp(args!["-rp", case.b("tree"), "back"]).exits(0);
    for (landed, where_) in [(case.far.join("tree"), "push"), (case.near.join("back"), "pull")] {
        let (expected, found) = (nodes(&tree), nodes(&landed));
        for (path, node) in expected {
            assert_eq!(found.get(&path), Some(&node), "{where_}: {path:?}");
        }
    }
}

#[test]
fn without_p_modes_follow_the_umask_and_times_are_new() {
    let Some(case) = case() else { return };
    let tree = case.near.join("tree");
    make_mixed(&tree);
    for (path, mode) in [("one", 0o777), ("small", 0o666), ("large", 0o600), ("a", 0o777)] {
        set_mode(&tree.join(path), mode);
        set_time(&tree.join(path), Duration::new(1, 1));
    }
    case.cp_by("umask 077; exec $SSH \"$1\" \"umask 027; $2\"", args!["-r", "tree", case.b("tree")]).exits(0);
    let found = nodes(&case.far.join("tree"));
    let mode = |path: &str| found[OsStr::new(path)].1;
    assert_eq!([mode("one"), mode("small"), mode("large"), mode("a")], [0o750, 0o640, 0o600, 0o750]);
    assert!(found.values().all(|(.., (seconds, _))| *seconds > 1_000_000_000), "times are new");
}

#[test]
fn bits_that_give_rights_stay_behind() {
    let Some(case) = case() else { return };
    write(case.near.join("program"), "x");
    set_mode(&case.near.join("program"), 0o6755);
    case.cp(args!["-p", "program", case.b("")]).exits(0);
    assert_eq!(case.far.join("program").metadata().unwrap().mode() & 0o7777, 0o755);
}

fn make_read_only(tree: &Path) {
    make_mixed(tree);
    for path in ["a/b/c", "a/b", "a", "empty directory", "small", ""] {
        set_mode(&tree.join(path), if path == "small" { 0o444 } else { 0o555 });
    }
}

#[test]
fn read_only_directories_are_filled_by_root() {
    let Some(case) = case() else { return };
    make_read_only(&case.near.join("tree"));
    there_and_back(&case, &["-p"]);
    there_and_back_again(&case);
    assert_eq!(case.far.join("tree/a/b").metadata().unwrap().mode() & 0o777, 0o555);
}

/// Copies a tree to the existing copies, in both directions.
#[track_caller]
fn there_and_back_again(case: &Case) {
    case.cp(args!["-rp", "tree/.", case.b("tree")]).exits(0);
    assert_alike(&case.near.join("tree"), &case.far.join("tree"));
}

#[test]
fn read_only_directories_are_filled_by_an_ordinary_user() {
    let Some(case) = case() else { return };
    make_read_only(&case.far.join("tree"));
    case.cp_as_nobody(args!["-r", case.b("tree"), "plain"]).exits(0);
    case.cp_as_nobody(args!["-rp", case.b("tree"), "kept"]).exits(0);
    for name in ["plain", "kept"] {
        assert_alike(&case.far.join("tree"), &case.near.join(name));
        let meta = case.near.join(name).join("a/b").metadata().unwrap();
        assert_eq!((meta.mode() & 0o777, meta.uid()), (0o555, NOBODY), "{name}");
    }
}

#[test]
fn read_only_directories_that_are_there_are_filled_again_by_an_ordinary_user() {
    let Some(case) = case() else { return };
    make_read_only(&case.far.join("tree"));
    for options in ["-r", "-rp"] {
        let again = || args![options, case.b("tree/."), format!("x{options}")];
        case.cp_as_nobody(again()).exits(0);
        case.cp_as_nobody(again()).exits(0);
        let landed = case.near.join(format!("x{options}"));
        assert_alike(&case.far.join("tree"), &landed);
        assert_eq!(landed.join("a/b").metadata().unwrap().mode() & 0o777, 0o555, "{options}");
    }
}

#[test]
fn what_is_no_file_directory_or_link_is_reported_and_left_out() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    let fifo = case.near.join("tree/fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(case.near.join("tree/socket")).unwrap();
    case.cp(args!["-r", "tree", case.b("tree")]).exits(3).says(&[
        "tree/fifo",
        "fifo",
        "tree/socket",
        "socket",
    ]);
    fs::remove_file(fifo).unwrap();
    fs::remove_file(case.near.join("tree/socket")).unwrap();
    assert_alike(&case.near.join("tree"), &case.far.join("tree"));
}

#[test]
fn hard_links_arrive_as_files() {
    let Some(case) = case() else { return };
    write(case.near.join("tree/one"), "x");
    fs::hard_link(case.near.join("tree/one"), case.near.join("tree/two")).unwrap();
    there_and_back(&case, &[]);
}

/// This test is slow.
#[test]
fn timed_a_hundred_thousand_files_arrive_in_little_memory() {
    let Some(case) = case_alone() else { return };
    for directory in 0..100 {
        let path = case.near.join(format!("tree/{directory}"));
        fs::create_dir_all(&path).unwrap();
        for file in 0..1000 {
            fs::write(path.join(file.to_string()), [b'x'].repeat(file % 7)).unwrap();
        }
    }
    let run = case.cp(args!["-r", "--json", "tree", case.b("tree")]).exits(0);
    assert!(run.time < Duration::from_secs(20), "{:?}", run.time);
    assert_memory(&run.out, "push");
    let pulled = case.cp(args!["-r", "--json", case.b("tree"), "back"]).exits(0);
    assert_memory(&pulled.out, "pull");
    assert_eq!(u64_at(&summary_of(&pulled.out), "/files"), 100_000);
    assert_alike(&case.near.join("tree"), &case.near.join("back"));
}

#[test]
fn timed_a_file_larger_than_four_gib_arrives_in_little_memory() {
    const SIZE: u64 = (4 << 30) + (5 << 20) + 3;
    let Some(case) = case_alone() else { return };
    let space = rustix::fs::statvfs(&case.far).unwrap();
    let memory = fs::read_to_string("/proc/meminfo").unwrap();
    let available = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap();
    let available: u64 = available.trim().trim_end_matches(" kB").parse().unwrap();
    if space.f_bavail * space.f_frsize < 6 << 30 || available < 6 << 20 {
        let place = case.far.display();
        let why = format_args!("a file of 4 GiB needs 6 GiB of free memory, and of space in {place}");
        return skip("memory", why);
    }
    let source = case.near.join("huge");
    let file = File::create(&source).unwrap();
    file.set_len(SIZE).unwrap();
    // Marks on both sides of the 32-bit border, and at the ends.
    let marks = [0, (2 << 30) - 4, (4u64 << 30) - 4, (4 << 30) + 4, SIZE - 8];
    for mark in marks {
        std::os::unix::fs::FileExt::write_all_at(&file, &mark.to_le_bytes(), mark).unwrap();
    }
    let run = case.cp(args!["--json", "huge", case.b("huge")]).exits(0);
    assert_memory(&run.out, "push");
    assert_eq!(u64_at(&summary_of(&run.out), "/bytes"), SIZE);
    let landed = File::open(case.far.join("huge")).unwrap();
    assert_eq!(landed.metadata().unwrap().len(), SIZE);
    for mark in marks {
        let mut found = [0; 8];
        std::os::unix::fs::FileExt::read_exact_at(&landed, &mut found, mark).unwrap();
        assert_eq!(found, mark.to_le_bytes());
    }
    let same = std::process::Command::new("cmp").arg(&source).arg(case.far.join("huge")).status().unwrap();
    assert!(same.success());
}

#[track_caller]
fn assert_memory(events: &str, which: &str) {
    let summary = summary_of(events);
    for end in ["/sender", "/receiver"] {
        let used = u64_at(&summary, &format!("{end}/peak_rss_bytes"));
        assert!(used < MEMORY, "{which}: {end} used {used} bytes");
        assert!(used > 1_000_000, "{which}: {end} tells nothing");
    }
}

#[test]
fn files_of_another_user_become_the_receivers() {
    let Some(case) = case() else { return };
    write(case.near.join("tree/theirs"), "x");
    chown(case.near.join("tree/theirs"), Some(NOBODY), Some(NOBODY)).unwrap();
    case.cp(args!["-rp", "tree", case.b("tree")]).exits(0);
    assert_eq!(case.far.join("tree/theirs").metadata().unwrap().uid(), 0);
}
