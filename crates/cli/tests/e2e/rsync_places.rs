//! Tests of rsync's options about temporary and partial files, compared with rsync: where a file is until it
//! is complete, where a part of it is kept, and when it gets its name.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use linerate_testing::has;
use rustix::process::Signal;

use crate::bed::{Case, args, case};
use crate::mounts::Mounted;
use crate::rsync_lines::{assert_alike, make_changed, make_source, over_ssh, shape, words};
use crate::support::{PATIENCE, Running, within};
use crate::tree::{names, noise, set_time, temporaries, write};

pub fn assert_same(source: &Path, destination: &Path) {
    assert_eq!(shape(source), shape(destination));
}

/// Command lines for a destination in which earlier runs have left partial files.
const LINES: [&str; 16] = [
    "-ai --partial-dir=.part src/ DST/",
    "-ai --no-whole-file --partial-dir=.part src/ DST/",
    "-ai --delete --partial-dir=.part src/ DST/",
    "-ai --partial-dir=deep/part src/ DST/",
    "-ai --partial-dir=. src/ DST/",
    "-ai --partial-dir= src/ DST/",
    "-ain --partial-dir=.part src/ DST/",
    "-ai --delay-updates src/ DST/",
    "-ai --delay-updates --delete src/ DST/",
    "-aH --delay-updates src/ DST/",
    "-aib --delay-updates src/ DST/",
    "-aib --backup-dir=.old --delay-updates src/ DST/",
    "-ai --delay-updates --no-delay-updates src/ DST/",
    "-ai --delay-updates --partial-dir=.part src/ DST/",
    "-ain --delay-updates src/ DST/",
    "-ri --inplace --delay-updates src/ DST/",
];

fn make_parts(top: &Path) {
    make_changed(top);
    for directory in [".part", "sub/.part", ".~tmp~", "sub/.~tmp~", "sub/deep/part"] {
        write(top.join(directory).join("a"), "h");
        write(top.join(directory).join("large"), noise(1, 200_000));
    }
    // Of nothing that comes, and no directory at all.
    write(top.join("other/.part/none"), "stays");
    write(top.join("gone/.part/f"), "stays or goes");
}

#[test]
fn parts_that_lie_there_are_used_up_as_rsync_uses_them() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    for line in LINES {
        assert_alike(&case, line, |_| ());
        assert_alike(&case, line, make_changed);
        assert_alike(&case, line, make_parts);
    }
}

#[test]
fn a_directory_that_is_named_whole_stays() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    let waiting = case.near.join("waiting");
    for line in ["-ai --delay-updates --partial-dir=WAIT src/ DST/", "-ai --partial-dir=WAIT src/ DST/"] {
        for make in [|_: &Path| (), |top: &Path| write(top.parent().unwrap().join("waiting/large"), "part")] {
            let line = line.replace("WAIT", &waiting.display().to_string());
            assert_alike(&case, &line, make);
            assert!(!waiting.join("large").exists(), "{line}");
            let _ = fs::remove_dir_all(&waiting);
        }
    }
    // On another file system, from which no rename leads: rsync fails there.
    fs::create_dir(&waiting).unwrap();
    let Some(_mounted) = Mounted::memory(&waiting, "64m") else { return };
    let top = case.near.join("across");
    make_changed(&top);
    let line = format!("-aH --delay-updates --partial-dir={} --delete src/ across/", waiting.display());
    case.start_with(args![case.bed.program(), "rsync"], words(&line, "")).end().exits(0);
    assert_same(&case.near.join("src"), &top);
    assert_eq!(fs::read_dir(&waiting).unwrap().count(), 0);
}

#[test]
fn a_directory_of_parts_that_files_come_to_keeps_them() {
    let Some(case) = case() else { return };
    let src = case.near.join("src");
    make_source(&src);
    write(src.join("sub/a"), "another of the name");
    write(src.join("sub/deeper/b"), "b");
    write(src.join("sub/deeper/a"), "a third");
    let top = case.near.join("to");
    for below in ["", "/sub", "/sub/deeper"] {
        for option in ["-a", "-a --no-whole-file", "-a --delay-updates"] {
            let _ = fs::remove_dir_all(&top);
            fs::create_dir_all(case.near.join(format!("to{below}"))).unwrap();
            write(top.join("mine"), "stays");
            let directory = format!("{}{below}", top.display());
            // Again, and with files that have changed.
            for more in ["-v", "-v", "-I"] {
                let line = format!("{option} {more} --partial-dir={directory} src/ to/");
                case.start_with(args![case.bed.program(), "rsync"], words(&line, "")).end().exits(0);
                assert_eq!(fs::read(top.join("mine")).unwrap(), b"stays");
                for name in names(&src).into_iter().filter(|name| src.join(name).is_file()) {
                    let [from, to] = [&src, &top].map(|top| fs::read(top.join(&name)).ok());
                    assert!(from == to, "{line}: {}", name.display());
                }
            }
        }
    }
}

#[test]
fn more_files_wait_than_may_be_open() {
    let Some(case) = case() else { return };
    (0..3000).for_each(|number| write(case.near.join(format!("src/{number}/f")), "x"));
    let waiting = case.near.join("to/waiting");
    fs::create_dir_all(&waiting).unwrap();
    let few = args!["sh", "-c", "ulimit -n 2048; exec \"$0\" \"$@\"", case.bed.program(), "rsync"];
    let line = format!("-a --delay-updates --partial-dir={} src/ to/", waiting.display());
    case.start_with(few, words(&line, "")).end().exits(0);
    assert_eq!(fs::read(case.near.join("to/2999/f")).unwrap(), b"x");
    assert!(temporaries(&case.near.join("to")).is_empty());
}

/// Command lines with a directory for temporary files.
const ELSEWHERE: [&str; 6] = [
    "-ai -TSCRATCH src/ DST/",
    "-aH --temp-dir=SCRATCH --delete src/ DST/",
    "-ai --temp-dir=SCRATCH --delay-updates src/ DST/",
    "-aib --temp-dir=SCRATCH src/ DST/",
    "-ai -T SCRATCH/nowhere src/ DST/",
    "-ain -T SCRATCH/a src/ DST/",
];

#[test]
fn files_under_way_lie_in_a_directory_of_their_own() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    write(case.near.join("src/sub/larger"), noise(2, 20 << 20));
    let scratch = case.near.join("scratch");
    fs::create_dir(&scratch).unwrap();
    let check = || {
        for line in ELSEWHERE {
            let line = &line.replace("SCRATCH", &scratch.display().to_string());
            assert_alike(&case, line, |_| ());
            assert_alike(&case, line, make_changed);
            assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "{line}");
        }
    };
    check();
    {
        let Some(_mounted) = Mounted::memory(&scratch, "64m") else { return };
        check();
    }
    fs::create_dir(case.far.join("scratch")).unwrap();
    let far = case.far.join("scratch").display().to_string();
    over_ssh(&case, &format!("-aH -T {far} src/ FAR/to/")).exits(0);
    assert_same(&case.near.join("src"), &case.far.join("to"));
    let changed = fs::metadata(case.far.join("scratch")).unwrap().mtime();
    assert!(changed > 0 && fs::read_dir(case.far.join("scratch")).unwrap().count() == 0);
    over_ssh(&case, "-aH -T ../scratch FAR/to/ back/").exits(0);
    assert_same(&case.near.join("src"), &case.near.join("back"));
    over_ssh(&case, "-a -T /nowhere src/ FAR/other/")
        .exits(1)
        .says(&["The temp-dir does not exist: /nowhere"]);
}

/// Makes a file that is sent in one part, and a file that is sent in several.
fn make_large(top: &Path) {
    write(top.join("deep/er/one"), noise(1, 12 << 20));
    write(top.join("deep/er/several"), noise(2, 40 << 20));
}

pub fn begin(case: &Case, line: &str) -> Running {
    let file = case.aside("bin").join("marked");
    let ssh = format!("ssh -F {}", case.bed.lab.ssh_config().display());
    fs::write(&file, format!("SSH='{ssh}'\n{}\n", case.marked())).unwrap();
    let shell = format!("sh {}", file.display());
    let far = case.b("").into_string().unwrap();
    let line = line.replace("FAR", far.trim_end_matches('/'));
    case.start_with(args![case.bed.program(), "rsync", "-e", shell], words(&line, ""))
}

/// Both directions over ssh: the source, the destination, and the paths of the command line.
pub fn ways(case: &Case) -> [(PathBuf, PathBuf, &'static str); 2] {
    let pushed = (case.near.join("tree"), case.far.join("to"), "tree/ FAR/to/");
    [pushed, (case.far.join("tree"), case.near.join("to"), "FAR/tree/ to/")]
}

/// Whether data has arrived below `top`, in a file with or without a name.
fn has_begun(case: &Case, top: &Path) -> bool {
    let used = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.blocks() * 512);
    let named: u64 = names(top).iter().map(|name| used(&top.join(name))).sum();
    named > 8 << 20 && !case.far_processes().is_empty()
}

#[test]
fn what_has_come_is_kept_and_used() {
    for (name, signal) in [("part", Signal::TERM), ("part", Signal::INT), ("part", Signal::KILL)] {
        let Some(case) = case() else { return };
        for (source, destination, paths) in ways(&case) {
            make_large(&source);
            let line = format!("-a --no-whole-file --partial-dir=.{name} {paths}");
            let running = begin(&case, &format!("--bwlimit=6m {line}"));
            assert!(within(PATIENCE, || has_begun(&case, &destination)), "{}", running.end());
            running.signal(signal);
            running.end();
            assert!(within(PATIENCE, || case.far_processes().is_empty()));
            let kept = destination.join("deep/er/.part");
            if signal != Signal::KILL || paths.starts_with("tree") {
                let files: Vec<_> = ["one", "several"]
                    .map(|name| kept.join(name))
                    .into_iter()
                    .filter(|file| file.exists())
                    .collect();
                assert!(!files.is_empty(), "{signal:?} {paths}");
                for file in files {
                    let (part, whole) = (
                        fs::read(&file).unwrap(),
                        fs::read(source.join("deep/er").join(file.file_name().unwrap())).unwrap(),
                    );
                    assert!(
                        !part.is_empty() && whole.starts_with(&part),
                        "{signal:?} {paths} {}",
                        file.display()
                    );
                }
                assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o700);
            }
            let again = over_ssh(&case, &format!("--stats {line}")).exits(0);
            assert_same(&source, &destination);
            assert!(!kept.exists() && temporaries(&destination).is_empty(), "{again}");
            fs::remove_dir_all(&source).unwrap();
        }
    }
}

/// The number of literal bytes that a run over ssh with `--stats` sent.
fn literal(case: &Case, line: &str) -> u64 {
    let run = over_ssh(case, &format!("--stats {line}")).exits(0);
    let literal = run.out.lines().find_map(|line| line.strip_prefix("Literal data: ")).expect("it is stated");
    literal.trim_end_matches(" bytes").replace(',', "").parse().unwrap()
}

fn cut_off(case: &Case, line: &str, is_begun: impl Fn() -> bool) -> String {
    let running = begin(case, &format!("--bwlimit=6m {line}"));
    assert!(within(PATIENCE, is_begun), "{}", running.end());
    std::thread::sleep(Duration::from_secs(3));
    running.signal(Signal::TERM);
    let said = running.end().err;
    assert!(within(PATIENCE, || case.far_processes().is_empty()));
    said
}

#[test]
fn a_file_that_comes_whole_goes_on_too() {
    let Some(case) = case() else { return };
    for (source, destination, paths) in ways(&case) {
        write(source.join("several"), noise(2, 60 << 20));
        let line = format!("-a -W --partial-dir=.part {paths}");
        cut_off(&case, &line, || has_begun(&case, &destination));
        assert!(literal(&case, &line) < 55 << 20, "{paths}");
        assert_same(&source, &destination);
        assert!(temporaries(&destination).is_empty() && !destination.join(".part").exists());
        fs::remove_dir_all(&source).unwrap();
    }
}

#[test]
fn what_lies_on_another_file_system_is_kept_too() {
    let Some(case) = case() else { return };
    let scratch = case.near.join("scratch");
    fs::create_dir(&scratch).unwrap();
    let Some(_mounted) = Mounted::memory(&scratch, "128m") else { return };
    let (source, destination) = (case.far.join("tree"), case.near.join("to"));
    write(source.join("several"), noise(2, 60 << 20));
    let taken = || {
        rustix::fs::statvfs(&scratch)
            .is_ok_and(|stat| (stat.f_blocks - stat.f_bfree) * stat.f_frsize > 8 << 20)
    };
    let line = format!("-a -T {} FAR/tree/ to/", scratch.display());
    let said = cut_off(&case, &line, taken);
    assert!(said.contains("start from the beginning") && !said.contains("to resume"), "{said}");
    let line = format!("--partial-dir=.part --no-whole-file {line}");
    let said = cut_off(&case, &line, taken);
    let part = fs::read(destination.join(".part/several")).expect(&said);
    assert!(part.len() > 4 << 20 && noise(2, 60 << 20).starts_with(&part));
    assert!(fs::read_dir(&scratch).unwrap().count() == 0);
    assert!(literal(&case, &line) < 57 << 20);
    assert_same(&source, &destination);
    assert!(!destination.join(".part").exists());
}

#[test]
fn all_get_their_names_at_the_end() {
    for signal in [None, Some(Signal::TERM), Some(Signal::KILL)] {
        let Some(case) = case() else { return };
        for (source, destination, paths) in ways(&case) {
            make_large(&source);
            (0..40).for_each(|number| write(source.join(format!("small/{number}")), noise(number, 3000)));
            write(destination.join("small/7"), "older");
            set_time(&destination.join("small/7"), Duration::from_secs(1));
            let line = format!("-a --delay-updates {paths}");
            let running = begin(&case, &format!("--bwlimit=6m {line}"));
            let staged = destination.join("small/.~tmp~");
            assert!(
                within(PATIENCE, || staged.join("39").exists() && has_begun(&case, &destination)),
                "{}",
                running.end()
            );
            assert_eq!(fs::read(destination.join("small/7")).unwrap(), b"older");
            assert_eq!(fs::read_dir(destination.join("small")).unwrap().count(), 2);
            assert!(!destination.join("deep/er/one").exists());
            let Some(signal) = signal else {
                running.end().exits(0);
                assert_same(&source, &destination);
                fs::remove_dir_all(&source).unwrap();
                continue;
            };
            running.signal(signal);
            running.end();
            assert!(within(PATIENCE, || case.far_processes().is_empty()));
            assert!(
                staged.join("39").exists() && !destination.join("small/39").exists(),
                "{signal:?} {paths}"
            );
            over_ssh(&case, &line).exits(0);
            assert_same(&source, &destination);
            fs::remove_dir_all(&source).unwrap();
        }
    }
}

#[test]
fn the_environment_names_a_directory_for_parts() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    for (option, is_used) in
        [("-P", true), ("--partial", true), ("--partial --no-partial", false), ("-a", false)]
    {
        for program in [args![case.bed.program(), "rsync"], args!["rsync"]] {
            let top = case.near.join("to");
            let _ = fs::remove_dir_all(&top);
            write(top.join(".kept/a"), "part");
            let own = args!["env", "RSYNC_PARTIAL_DIR=.kept"].into_iter().chain(program).collect();
            case.start_with(own, words(&format!("-a {option} src/ to/"), "")).end().exits(0);
            assert_eq!(!top.join(".kept").exists(), is_used, "{option}");
        }
    }
}

/// Makes versions of an archive file, and an unrelated file.
fn make_versions(top: &Path) {
    write(top.join("sub/archive-v1.tar"), [noise(3, 5 << 20), b"older".to_vec()].concat());
    write(top.join("sub/archive-old.tar"), noise(3, 2 << 20));
    write(top.join("sub/unrelated.dat"), "x".repeat(6 << 20));
}

#[test]
fn a_file_of_a_similar_name_saves_bytes() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    let src = case.near.join("src");
    write(src.join("sub/archive-v2.tar"), [noise(3, 5 << 20), b"and newer".to_vec()].concat());
    write(src.join("sub/none like it.x"), noise(4, 100));
    // The older trees are made in another second, or the directory would have this one's time in some runs.
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::open(src.join("sub")).and_then(|sub| sub.set_modified(old)).unwrap();
    for line in [
        "-a --fuzzy --no-whole-file --debug=FUZZY src/ DST/",
        "-aiy --delete src/ DST/",
        "-aiyy --delete-delay src/ DST/",
    ] {
        assert_alike(&case, line, |_| ());
        assert_alike(&case, line, make_versions);
    }
    write(src.join("sub/small-v2.txt"), "small files come whole");
    write(src.join("sub/middle-v2.zip"), [noise(7, 900_000), b"and newer".to_vec()].concat());
    write(src.join("sub/changed"), [b"inserted".to_vec(), noise(8, 33_000)].concat());
    for (destination, paths) in
        [(case.far.join("to"), "src/ FAR/to/"), (case.near.join("back"), "FAR/to/ back/")]
    {
        make_versions(&destination);
        write(destination.join("sub/small-v1.txt"), "small files");
        write(destination.join("sub/middle-v1.zip"), noise(7, 900_000));
        write(destination.join("sub/changed"), noise(8, 33_000));
        let run = over_ssh(&case, &format!("-a --no-W -y --debug=FUZZY --delete --stats {paths}")).exits(0);
        assert_same(&src, &destination);
        assert!(run.out.contains("for sub/archive-v2.tar: sub/archive-v1.tar"), "{run}");
        assert!(run.out.contains("for sub/middle-v2.zip: sub/middle-v1.zip"), "{run}");
        assert!(!run.out.contains("small-v1"), "no other is looked for: {run}");
        let literal =
            run.out.lines().find_map(|line| line.strip_prefix("Literal data: ")).expect("it is stated");
        let literal: u64 = literal.trim_end_matches(" bytes").replace(',', "").parse().unwrap();
        assert!(literal < 100 << 10, "{run}");
    }
}

#[test]
fn zeros_become_holes_also_where_room_was_taken() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    let zeros = [noise(1, 8192), vec![0; 2 << 20], noise(2, 8192)].concat();
    write(case.near.join("src/f"), &zeros);
    write(case.near.join("src/g"), [noise(3, 100), vec![0; 6 << 20]].concat());
    for line in ["-aiS src/ DST/", "-aiS --preallocate src/ DST/", "-ai --preallocate src/ DST/"] {
        assert_alike(&case, line, |_| ());
    }
    for (destination, paths) in
        [(case.far.join("to"), "src/ FAR/to/"), (case.near.join("back"), "FAR/to/ back/")]
    {
        for option in ["-S", "-S --preallocate", "-SI --inplace"] {
            over_ssh(&case, &format!("-a {option} {paths}")).exits(0);
            let stat = fs::metadata(destination.join("f")).unwrap();
            assert!(stat.blocks() * 512 < 1 << 20, "{option} {paths}: {}", stat.blocks());
            assert!(fs::read(destination.join("f")).unwrap() == zeros);
            if !option.contains("inplace") {
                fs::remove_file(destination.join("f")).unwrap();
            }
        }
    }
}
