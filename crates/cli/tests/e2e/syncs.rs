//! Tests of `linerate sync`: the result must be equal to rsync's, and only differences may be sent.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use linerate_testing::{has, skip};

use crate::bed::{Case, args, case, case_alone};
use crate::json::{summary_of, u64_at};
use crate::tree::{assert_alike, make_mixed, nodes, noise, set_time, write};

/// The changes that rsync would still make. If rsync isn't installed, prints the reason and returns `None`.
#[track_caller]
fn left_to_rsync(from: &Path, to: &Path, options: &[&str]) -> Option<String> {
    let (mut from, mut to) = (from.as_os_str().to_owned(), to.as_os_str().to_owned());
    from.push("/");
    to.push("/");
    let run = Command::new("rsync")
        .args(["-aHAXn", "--checksum", "-i", "--modify-window=-1"])
        .args(options)
        .arg(from)
        .arg(to)
        .output();
    let Ok(run) = run else {
        skip("rsync", "rsync, which tells what differs, isn't installed");
        return None;
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    Some(String::from_utf8_lossy(&run.stdout).into_owned())
}

#[track_caller]
pub fn assert_rsync_finds_nothing(from: &Path, to: &Path, options: &[&str]) {
    if let Some(left) = left_to_rsync(from, to, options) {
        assert_eq!(left, "", "rsync would still do this");
    }
}

/// A pseudo-random number below `below`, different for each call.
fn draw(state: &mut u64, below: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % below
}

/// The paths of all entries below a directory, sorted.
pub fn paths(top: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = crate::tree::names(top).into_iter().map(|path| top.join(path)).collect();
    found.sort();
    found
}

fn remove(path: &Path) {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

/// Makes `times` random changes below `top`, which `seed` determines.
fn edit(top: &Path, seed: u64, times: usize) {
    let mut state = seed;
    for number in 0..times {
        let all = paths(top);
        let Some(path) = all.get(draw(&mut state, all.len().max(1))) else { return };
        let meta = path.symlink_metadata().unwrap();
        match draw(&mut state, 9) {
            0 if meta.is_file() => {
                fs::write(path, noise(seed + number as u64, meta.len() as usize / 2 + 7)).unwrap()
            }
            1 if meta.is_file() => set_time(path, Duration::new(1_500_000_000 + number as u64, 123_456_789)),
            2 if !meta.is_symlink() => {
                fs::set_permissions(path, PermissionsExt::from_mode(0o700 | draw(&mut state, 0o100) as u32))
                    .unwrap();
            }
            3 => remove(path),
            4 if meta.is_file() => {
                remove(path);
                write(path.join("now a directory/with a file"), noise(number as u64, 99));
            }
            5 => {
                remove(path);
                symlink("now a link", path).unwrap();
            }
            6 => {
                remove(path);
                write(path.clone(), "now a file");
            }
            7 => fs::rename(path, path.with_file_name(format!("renamed {number}"))).unwrap(),
            _ if meta.is_dir() => write(path.join(format!("new {number}")), noise(number as u64, 40_000)),
            _ => {}
        }
    }
}

/// Makes a file for each of the ways in which a file can be sent.
pub fn make_tree(top: &Path) {
    make_mixed(top);
    for number in 0..40 {
        write(top.join(format!("many/{}/file {number}", number % 7)), noise(number, 100 * number as usize));
    }
}

#[test]
fn a_tree_follows_its_original_through_random_edits() {
    for seed in 1..=4 {
        let Some(case) = case() else { return };
        let (here, there) = (case.near.join("tree"), case.far.join("copy"));
        make_tree(&here);
        case.sync(args!["tree", case.b("copy")]).exits(0);
        assert_rsync_finds_nothing(&here, &there, &["--delete"]);
        for round in 0..4 {
            edit(&here, seed * 100 + round, 12);
            edit(&there, seed * 100 + 50 + round, 5);
            if round % 2 == 0 {
                let (from, to) = (args!["tree"], args![case.b("copy")]);
                follow(&case, (&here, from), (&there, to));
            } else {
                let (from, to) = (args![case.b("copy")], args!["tree"]);
                follow(&case, (&there, from), (&here, to));
            }
        }
    }
}

/// Makes one tree equal to another, and compares with rsync's result. A dry run must report the same changes.
fn follow(case: &Case, (from, source): (&Path, Vec<OsString>), (to, target): (&Path, Vec<OsString>)) {
    let run = |options: &[&str]| {
        let options: Vec<OsString> = options.iter().map(Into::into).collect();
        case.sync([options, source.clone(), target.clone()].concat()).exits(0).out
    };
    let rsyncs = left_to_rsync(from, to, &["--delete", "--no-checksum"]);
    let before = nodes(to);
    let dry = run(&["--delete", "--dry-run"]);
    assert_eq!(nodes(to), before, "a dry run changes nothing");
    let real = run(&["--delete", "--itemize-changes"]);
    assert_eq!(dry, real, "a dry run tells what happens");
    if let Some(rsyncs) = rsyncs {
        assert_eq!(sorted(&real), sorted(&rsyncs));
    }
    assert_rsync_finds_nothing(from, to, &["--delete"]);
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| line.strip_prefix('<').map_or(line.into(), |rest| format!(">{rest}")))
        .collect();
    lines.sort();
    lines
}

#[test]
fn several_sources_keep_their_names_as_with_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    for (path, text) in [("mail/in/1", "1"), ("mail/spam/2", "2"), ("photos/3", "3")] {
        write(case.near.join(path), text);
    }
    // Times of files made within one moment would be alike or not by chance.
    for name in ["mail", "photos"] {
        set_time(&case.near.join(name), Duration::from_secs(1_500_000_000));
    }
    let options = ["--delete", "--exclude", "/mail/spam", "--itemize-changes"];
    let before = |top: &Path| {
        write(top.join("photos/old"), "gone");
        write(top.join("mail/spam/kept"), "kept");
        write(top.join("beside"), "kept");
    };
    let sources = args!["mail/", "photos"];
    for far in [false, true] {
        let (ours, theirs) =
            (if far { &case.far } else { &case.near }.join("ours"), case.near.join("theirs"));
        for top in [&ours, &theirs] {
            let _ = fs::remove_dir_all(top);
            before(top);
        }
        let destination = if far { case.b("ours") } else { "ours".into() };
        let words = || [options.map(OsString::from).to_vec(), sources.clone()].concat();
        let run = case.sync([words(), args![destination]].concat()).exits(0);
        let theirs_out = {
            let mut rsync = args!["rsync", "-aHAX"];
            rsync.extend(words().into_iter().map(|word| if word == "mail/" { "mail".into() } else { word }));
            case.start_with(rsync, args!["theirs"]).end().exits(0).out
        };
        assert_eq!(sorted(&run.out), sorted(&theirs_out), "{far}");
        assert_alike(&theirs, &ours);
        // The next one finds nothing to do.
        let words = [words(), args![if far { case.b("ours") } else { "ours".into() }]].concat();
        assert_eq!(case.sync(words).exits(0).out, "");
    }
    let listed = args!["--files-from", "-", "mail", "photos", "ours"];
    case.sync(listed).exits(2).says(&["--files-from", "several"]);
}

#[test]
fn nothing_is_deleted_where_the_source_could_not_be_read_whole() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    make_tree(&here);
    case.sync(args!["tree", case.b("copy")]).exits(0);
    fs::remove_file(here.join("small")).unwrap();
    // A rule that is none makes the directory unreadable, to root too.
    write(here.join("a/.rules"), "nonsense here");
    let run = case.sync(args!["--delete", "-f", ": .rules", "tree", case.b("copy")]).exits(3);
    assert!(run.err.contains("nothing is deleted"), "{}", run.err);
    assert!(there.join("small").exists() && there.join("a/b/c/deep").exists());
    write(here.join("z"), "a file");
    write(there.join("z/in its way"), "x");
    let run = case.sync(args!["--delete", "-f", ": .rules", "tree", case.b("copy")]).exits(3);
    assert!(run.err.contains("nothing more is deleted") && there.join("small").exists(), "{}", run.err);
    fs::remove_file(here.join("a/.rules")).unwrap();
    case.sync(args!["--delete", "-f", ": .rules", "tree", case.b("copy")]).exits(0);
    assert_rsync_finds_nothing(&here, &there, &["--delete"]);
}

#[test]
fn what_is_in_a_files_way_is_protected_by_the_rules_of_its_directories_and_stays_as_it_was() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    let mode = |path: &str| there.join(path).metadata().unwrap().permissions().mode() & 0o7777;
    for top in [&here, &there] {
        write(top.join("a/.rules"), "P *.keep");
    }
    for name in ["a/x", "a/y", "z"] {
        write(here.join(name), "a file");
    }
    write(there.join("a/x/one.keep"), "kept");
    write(there.join("a/y/deep/more"), "goes");
    write(there.join("z/.rules"), "P *.own");
    write(there.join("z/two.own"), "kept too");
    for name in ["a/x", "z"] {
        fs::set_permissions(there.join(name), PermissionsExt::from_mode(0o555)).unwrap();
    }
    let sync = |more: &[&str]| {
        let options: Vec<OsString> = more.iter().map(OsString::from).collect();
        case.sync([options, args!["-f", ": .rules", "tree", case.b("copy")]].concat()).exits(3)
    };
    sync(&[]);
    assert!(there.join("a/y/deep/more").exists() && there.join("z/.rules").exists());
    assert_eq!((mode("a/x"), mode("z")), (0o555, 0o555));
    sync(&["--delete"]).says(&["a/x: a directory that isn't empty", "z: a directory that isn't empty"]);
    assert!(there.join("a/x/one.keep").exists() && there.join("z/two.own").exists());
    assert!(there.join("a/y").is_file());
    assert_eq!((mode("a/x"), mode("z")), (0o555, 0o555));
}

#[test]
fn no_more_is_deleted_than_the_user_allows() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    make_tree(&here);
    case.sync(args!["tree", case.b("copy")]).exits(0);
    fs::remove_dir_all(here.join("many")).unwrap();
    let before = paths(&there).len();
    let run = case
        .sync(args!["--delete", "--max-delete", "5", "--itemize-changes", "tree", case.b("copy")])
        .exits(25);
    assert_eq!(
        run.out.lines().filter(|line| line.starts_with("*deleting   many/")).count(),
        5,
        "{}",
        run.out
    );
    assert_eq!(before - paths(&there).len(), 5);
    assert!(run.err.contains("--max-delete allows no more"), "{}", run.err);
    case.sync(args!["--delete", "--max-delete", "1000", "tree", case.b("copy")]).exits(0);
    assert_rsync_finds_nothing(&here, &there, &["--delete"]);
}

#[test]
fn what_is_left_out_neither_travels_nor_goes() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    make_tree(&here);
    write(here.join("a/x.o"), "object");
    write(here.join("build/out"), "built");
    write(there.join("build/kept"), "kept");
    write(there.join("a/y.o"), "kept too");
    write(there.join("a/gone"), "goes");
    let rules = ["--exclude=*.o", "--exclude=/build/", "--delete"];
    let with = |more: &[&str], source: OsString, target: OsString| {
        let options = rules.iter().chain(more).map(OsString::from).collect();
        case.sync([options, args![source, target]].concat()).exits(0)
    };
    with(&[], "tree".into(), case.b("copy"));
    assert!(
        there.join("build/kept").exists() && there.join("a/y.o").exists() && !there.join("a/gone").exists()
    );
    assert!(!there.join("a/x.o").exists() && !there.join("build/out").exists());
    assert_rsync_finds_nothing(&here, &there, &rules);
    with(&[], case.b("copy"), "tree".into());
    assert!(here.join("a/x.o").exists() && !here.join("a/y.o").exists());
    with(&["--delete-excluded"], "tree".into(), case.b("copy"));
    assert!(!there.join("build").exists() && !there.join("a/y.o").exists());
}

/// The number of calls that write data to stable storage during a pull with these arguments. If it can't be
/// measured, prints a line and returns `None`.
fn puts_on_storage(case: &Case, words: Vec<OsString>) -> Option<usize> {
    let (calls, [name, words @ ..]) = (case.aside("calls").join("calls"), words.as_slice()) else {
        return None;
    };
    let mut strace = args!["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync,syncfs", "-o", &calls];
    linerate_testing::program_path("strace")?;
    strace.extend(args![case.bed.program(), name, "-F", case.bed.lab.ssh_config()]);
    case.start_with(strace, words.to_vec()).end().exits(0);
    let reported = fs::read_to_string(calls).unwrap();
    Some(reported.lines().filter(|line| line.contains("sync") && line.contains("= 0")).count())
}

#[test]
fn what_has_no_contents_is_put_on_stable_storage_too() {
    let Some(case) = case() else { return };
    fs::create_dir_all(case.far.join("tree/a/b")).unwrap();
    let Some(puts) = puts_on_storage(&case, args!["cp", "-r", case.b("tree"), "copy"]) else { return };
    assert!(case.near.join("copy/a/b").is_dir() && puts > 0, "directories");
    write(case.far.join("tree/file"), "x");
    case.sync(args![case.b("tree"), "copy"]).exits(0);
    fs::set_permissions(case.far.join("tree/file"), PermissionsExt::from_mode(0o640)).unwrap();
    let puts = puts_on_storage(&case, args!["sync", case.b("tree"), "copy"]);
    assert!(puts.is_some_and(|puts| puts > 0), "a mode");
    assert_eq!(case.near.join("copy/file").metadata().unwrap().mode() & 0o777, 0o640);
}

#[test]
fn of_a_file_with_more_names_than_the_original_only_the_one_changes() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    for name in ["a", "b", "c"] {
        write(here.join(name), "x");
        set_time(&here.join(name), Duration::new(1_500_000_000, 5));
    }
    fs::set_permissions(here.join("b"), PermissionsExt::from_mode(0o600)).unwrap();
    case.sync(args!["tree", case.b("copy")]).exits(0);
    for name in ["b", "c"] {
        fs::remove_file(there.join(name)).unwrap();
        fs::hard_link(there.join("a"), there.join(name)).unwrap();
    }
    case.sync(args!["tree", case.b("copy")]).exits(0);
    assert_rsync_finds_nothing(&here, &there, &[]);
    let mode = |name: &str| there.join(name).metadata().unwrap().mode() & 0o777;
    assert_eq!(["a", "b", "c"].map(mode), [0o644, 0o600, 0o644]);
}

#[test]
fn what_is_there_does_not_travel_again() {
    let Some(case) = case() else { return };
    make_tree(&case.near.join("tree"));
    case.sync(args!["tree", case.b("copy")]).exits(0);
    write(case.near.join("tree/one more"), noise(5, 1000));
    let second = case.sync(args!["--json", "tree", case.b("copy")]).exits(0);
    assert_eq!(u64_at(&summary_of(&second.out), "/sender/stages/bytes"), 1000);
}

#[test]
fn contents_are_compared_where_that_is_asked_for() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    make_tree(&here);
    case.sync(args!["tree", case.b("copy")]).exits(0);
    let time = Duration::new(1_600_000_000, 5);
    for (top, text) in [(&here, "one"), (&there, "two")] {
        write(top.join("alike outside"), text);
        set_time(&top.join("alike outside"), time);
    }
    case.sync(args!["tree", case.b("copy")]).exits(0);
    assert_eq!(
        fs::read(there.join("alike outside")).unwrap(),
        b"two",
        "size and time are all that is looked at"
    );
    case.sync(args!["--checksum", "tree", case.b("copy")]).exits(0);
    assert_rsync_finds_nothing(&here, &there, &[]);
}

#[test]
fn a_copy_is_left_alone_where_it_is_newer_or_there_at_all() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    for (top, text) in [(&here, "original"), (&there, "copy")] {
        for (name, here_time, there_time) in [("newer there", 5, 9), ("older there", 9, 5)] {
            write(top.join(name), text);
            let seconds = if top == &here { here_time } else { there_time };
            set_time(&top.join(name), Duration::from_secs(seconds));
        }
    }
    let reads = |name: &str| fs::read_to_string(there.join(name)).unwrap();
    case.sync(args!["--ignore-existing", "tree", case.b("copy")]).exits(0);
    assert_eq!((reads("newer there"), reads("older there")), ("copy".into(), "copy".into()));
    case.sync(args!["--update", "tree", case.b("copy")]).exits(0);
    assert_eq!((reads("newer there"), reads("older there")), ("copy".into(), "original".into()));
    case.sync(args!["tree", case.b("copy")]).exits(0);
    assert_rsync_finds_nothing(&here, &there, &[]);
}

#[test]
fn further_names_of_what_is_left_alone_are_brought() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    let names = ["x", "y", "z"];
    // Whichever name the scan finds first, in one of the directories it is the one that is newer there.
    for newer in names {
        let (ours, theirs) = (here.join(newer), there.join(newer));
        write(ours.join("x"), "original");
        for name in ["y", "z"] {
            fs::hard_link(ours.join("x"), ours.join(name)).unwrap();
        }
        set_time(&ours.join("x"), Duration::from_secs(5));
        write(theirs.join(newer), "newer");
    }
    for option in ["--update", "--ignore-existing"] {
        case.sync(args![option, "tree", case.b("copy")]).exits(0);
        for newer in names {
            let reads = |name: &str| fs::read_to_string(there.join(newer).join(name)).unwrap();
            let others: Vec<&str> = names.into_iter().filter(|name| *name != newer).collect();
            assert_eq!(reads(newer), "newer");
            let inodes = others.iter().map(|name| {
                assert_eq!(reads(name), "original", "{newer}/{name}");
                fs::metadata(there.join(newer).join(name)).unwrap().ino()
            });
            let inodes: Vec<u64> = inodes.collect();
            assert_eq!(inodes[0], inodes[1], "names of one file stay names of one file");
        }
        // What is there already isn't the point of the second round.
        names.iter().for_each(|newer| {
            let others = names.iter().filter(|name| *name != newer);
            others.for_each(|name| fs::remove_file(there.join(newer).join(name)).unwrap());
        });
    }
}

#[test]
fn an_archive_is_kept_like_its_original() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    make_tree(&here);
    let name = |name: &str| here.join(name);
    fs::hard_link(name("small"), name("a/small too")).unwrap();
    let shell = |script: &str| {
        let done = Command::new("sh").args(["-ec", script]).current_dir(&here).status().unwrap();
        assert!(done.success(), "{script}");
    };
    shell("mkfifo pipe; mknod null c 1 3; truncate -s 3M holes; chown 1234:4321 one; chmod 4755 one");
    let sync = || {
        let run = case.sync(args!["--delete", "--itemize-changes", "tree", case.b("copy")]).exits(0);
        assert_rsync_finds_nothing(&here, &there, &["--delete"]);
        run.out
    };
    sync();
    assert_eq!(sync(), "", "nothing is left to do");
    shell(
        "chown 99:98 one large a; chmod 2711 a; ln small again; rm null; mknod null c 1 5; rm pipe; mknod pipe p",
    );
    let out = sync();
    assert!(out.contains(".f....og... large\n") && out.contains("cDc.t...... null\n"), "{out}");
    // Which name comes first is the file system's choice, and whether the others are new with it.
    assert!(out.lines().any(|line| line.starts_with("hf") && line.contains(" => ")), "{out}");
    assert_eq!(sync(), "", "nothing is left to do");
    shell("rm 'a/small too'; cp -a small 'a/small too'; touch -d @5 again");
    sync();
    assert_eq!(sync(), "", "nothing is left to do");
}

/// Prints a time that depends on the machine:
/// `cargo test --release -p linerate --test e2e -- --ignored --nocapture second_sync`.
#[test]
#[ignore = "measures, on a quiet machine: 100,000 files"]
fn timed_a_second_sync_of_100_000_unchanged_files_beside_rsyncs() {
    let Some(case) = case_alone() else { return };
    let here = case.near.join("tree");
    for number in 0..100_000 {
        write(here.join(format!("{:03}/file {number}", number % 500)), noise(number, 100));
    }
    case.sync(args!["tree", case.b("copy")]).exits(0);
    let shell = format!("ssh -F {}", case.bed.lab.ssh_config().display());
    let rsync = || {
        let words = args!["rsync", "-aHAX", "-e", &shell, "tree/"];
        case.start_with(words, args![case.b("copy/")]).end().exits(0).time.as_secs_f64()
    };
    let ours = || case.sync(args!["-q", "tree", case.b("copy")]).exits(0).time.as_secs_f64();
    let mut ratios: Vec<f64> = (0..7)
        .map(|_| {
            let (ours, theirs) = (ours(), rsync());
            println!("linerate sync {ours:.2} s, rsync -aHAX {theirs:.2} s");
            ours / theirs
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    println!("median of the ratios: {:.2}", ratios[3]);
    assert!(ratios[3] <= 0.7, "{ratios:?}");
}
