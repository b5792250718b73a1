//! Tests of resuming an interrupted transfer: changed files, a full disk, a cut link, journals that aren't
//! trusted, and cleaning.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::bed::{Case, NOBODY, args, case, case_with_own_link};
use crate::json::{events, summary_of, u64_at};
use crate::killed::{Midway, Way, goes_on, set_link};
use crate::support::{PATIENCE, Running, within};
use crate::tree::{assert_alike, assert_real_names_are_whole, names, noise, temporaries, write};

/// A push whose client is killed after a part has arrived.
fn cut_off(case: &Case) -> (std::path::PathBuf, std::path::PathBuf) {
    let midway = Midway::begin(case, Way::Push);
    // Until a chunk of the large file is written down, with the file's temporary name.
    let lists_partial = |path: std::path::PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(10).any(|part| part == b".linerate.")
    };
    assert!(within(PATIENCE, || journal(&case.far).is_some_and(lists_partial)));
    midway.running.signal(Signal::KILL);
    let (_, source, destination) = midway.end();
    (source, destination)
}

/// The path of the journal in `directory`, if there is one.
pub fn journal(directory: &Path) -> Option<std::path::PathBuf> {
    let names = fs::read_dir(directory).ok()?.flatten();
    names.map(|entry| entry.path()).find(|path| path.to_string_lossy().contains(".linerate.journal."))
}

fn again(case: &Case) -> Vec<OsString> {
    args!["-r", "tree", case.b("to")]
}

#[test]
fn files_that_changed_at_the_source_are_sent_whole() {
    let Some(case) = case() else { return };
    let (source, destination) = cut_off(&case);
    write(source.join("chunked"), noise(9, 40 << 20));
    for path in names(&source) {
        if source.join(&path).is_file() && path != "chunked" {
            write(source.join(&path), noise(77, 5001));
        }
    }
    case.cp(again(&case)).exits(0);
    assert_alike(&source, &destination);
    assert_eq!(temporaries(&case.far), Vec::<OsString>::new());
}

/// Size and modification time are restored after the change, as a program could do, so they don't show that
/// the file changed.
#[test]
fn a_larger_file_that_was_done_and_changed_in_secret_is_sent_again() {
    let Some(case) = case() else { return };
    let (source, destination) = cut_off(&case);
    let temporary = temporaries(&destination);
    let is_done = |path: &OsString| path.to_string_lossy().starts_with("large") && !temporary.contains(path);
    let done: Vec<_> = names(&destination).into_iter().filter(is_done).collect();
    assert!(!done.is_empty(), "none of those that have names is larger");
    for path in &done {
        let path = source.join(path);
        let modified = path.metadata().unwrap().modified().unwrap();
        write(path.clone(), noise(4711, path.metadata().unwrap().len() as usize));
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    }
    case.cp(again(&case)).exits(0);
    assert_alike(&source, &destination);
}

#[test]
fn a_file_that_was_changed_at_the_destination_is_sent_again() {
    let Some(case) = case() else { return };
    let (source, destination) = cut_off(&case);
    let there: Vec<_> =
        names(&destination).into_iter().filter(|path| destination.join(path).is_file()).collect();
    let temporary = temporaries(&destination);
    for (number, path) in there.iter().filter(|path| !temporary.contains(path)).enumerate() {
        let (path, length) =
            (destination.join(path), fs::metadata(destination.join(path)).expect("there").len());
        match number % 3 {
            // Other contents of the same length; another file of the same length; none.
            0 => fs::write(&path, vec![b'x'; length as usize]).expect("writable"),
            1 => {
                fs::write(destination.join("other"), vec![b'y'; length as usize]).expect("writable");
                fs::rename(destination.join("other"), &path).expect("writable");
            }
            _ => fs::remove_file(&path).expect("writable"),
        }
    }
    case.cp(again(&case)).exits(0);
    assert_alike(&source, &destination);
}

#[test]
fn little_is_sent_again() {
    let Some(case) = case() else { return };
    let (source, destination) = cut_off(&case);
    let mut list = args!["--json"];
    list.extend(again(&case));
    let run = case.cp(list).exits(0);
    let summary: serde_json::Value =
        serde_json::from_str(run.out.lines().last().expect("a summary")).expect("JSON");
    let (sent, all) = (&summary["sender"]["stages"]["bytes"], &summary["bytes"]);
    let (sent, all) = (sent.as_u64().expect("a number"), all.as_u64().expect("a number"));
    assert!(sent < all - (4 << 20), "{sent} of {all} bytes were sent again");
    assert_alike(&source, &destination);
}

#[test]
fn a_run_that_goes_on_counts_only_its_own_bytes() {
    for way in [Way::Push, Way::Pull] {
        let Some(case) = case() else { return };
        let midway = Midway::begin(&case, way);
        midway.running.signal(Signal::TERM);
        let (_, source, destination) = midway.end();
        let mut list = args!["--log-file", "log", "--metrics", "x.prom"];
        list.extend(if way == Way::Push { again(&case) } else { args!["-r", case.b("tree"), "to"] });
        let run = case.cp(list).exits(0);
        assert_alike(&source, &destination);
        let text = |name: &str| fs::read_to_string(case.near.join(name)).unwrap();
        let (log, metrics) = (text("log"), text("x.prom"));
        let after = |text: &str, name: &str| {
            let number = text.split_once(name).unwrap_or_else(|| panic!("{name}: {text}")).1;
            number
                .split([' ', '\n'])
                .next()
                .unwrap_or_default()
                .parse::<f64>()
                .unwrap_or_else(|_| panic!("{name}: {text}"))
        };
        let of = |name: &str| after(&metrics, &format!("linerate_transfer_{name}{{task=\"x\"}} "));
        let (moved, in_place) = (of("bytes"), of("in_place_bytes"));
        assert!(of("files") < 25.0 && moved < in_place && moved > 0.0, "{metrics}");
        // Frames add a little; a part that was torn off is sent again.
        let wire = of("wire_bytes");
        assert!(wire >= moved && wire < 1.1 * moved, "{way:?}: {wire} for {moved}");
        assert_eq!((after(&log, " bytes="), after(&log, " files=")), (moved, of("files")), "{log}");
        let rate = after(&log, " rate=");
        assert!((rate * of("payload_seconds") / 8.0 / moved - 1.0).abs() < 0.01, "{log}\n{metrics}");
        assert!(run.err.contains(&format!("{} files of 25, ", of("files"))), "{run}");
    }
}

#[test]
fn journals_and_partial_files_of_another_user_are_not_believed() {
    let Some(case) = case() else { return };
    let (source, destination) = cut_off(&case);
    for left in temporaries(&case.far) {
        chown(case.far.join(left), Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    let planted = journal(&case.far).expect("it is there");
    let before = fs::read(&planted).expect("readable");
    // Without its journal the tree lands in what is there already, as scp's rules have it.
    case.cp(args!["-r", "tree/.", case.b("to")]).exits(0);
    assert_eq!(fs::read(&planted).expect("readable"), before, "it is left alone");
    for left in temporaries(&destination) {
        fs::remove_file(destination.join(left)).expect("our own");
    }
    assert_alike(&source, &destination);
}

#[test]
fn garbage_in_a_journal_costs_bytes_and_nothing_else() {
    let Some(case) = case() else { return };
    let (source, destination) = cut_off(&case);
    let path = journal(&case.far).expect("it is there");
    let mut bytes = fs::read(&path).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle..].iter_mut().for_each(|byte| *byte ^= 0x55);
    fs::write(&path, bytes).expect("our own");
    goes_on(&case, Way::Push, &source, &destination);
}

#[test]
fn a_full_disk_is_reported_and_gone_on_from_when_there_is_space() {
    let Some(case) = case() else { return };
    let small = case.aside("small");
    let mount =
        |words: &[&str]| Command::new(words[0]).args(&words[1..]).arg(&small).status().expect("it starts");
    // The far end of a lab is in the same mount namespace.
    assert!(mount(&["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs"]).success());
    let source = case.near.join("tree");
    write(source.join("chunked"), noise(1, 40 << 20));
    (0..8).for_each(|number| write(source.join(format!("{number}")), noise(number, 1 << 20)));
    write(small.join("in the way"), noise(5, 30 << 20));
    let command = || args!["--json", "-r", "tree", format!("b:{}/", small.display())];
    let run = case.cp(command()).exits(1).says(&["No space left", "run the same command again"]);
    assert_real_names_are_whole(&source, &small.join("tree"));
    assert!(!temporaries(&small).is_empty(), "nothing to go on from: {run}");
    fs::remove_file(small.join("in the way")).expect("our own");
    let rerun = case.cp(command());
    let (left, ok) = (temporaries(&small), rerun.code == Some(0));
    if ok {
        assert_alike(&source, &small.join("tree"));
    }
    assert!(mount(&["umount"]).success());
    let again = u64_at(&summary_of(&rerun.out), "/sender/stages/bytes");
    assert!(again < 40 << 20, "{again} bytes: nothing was kept of the large file");
    assert!(ok && left.is_empty(), "{left:?} {rerun}");
}

#[test]
fn a_cut_link_is_noticed_and_retried() {
    let Some(case) = case_with_own_link("10gbit") else { return };
    let source = case.near.join("tree");
    write(source.join("chunked"), noise(1, 40 << 20));
    (0..12).for_each(|number| write(source.join(format!("{number}")), noise(number, 2 << 20)));
    let list = args!["--bwlimit", "16m", "--retry", "20", "--timeout", "3", "-r", "tree", case.b("to")];
    let running: Running = case.start(list);
    assert!(within(PATIENCE, || names(&case.far.join("to")).len() > 3), "it never got under way");
    set_link(&case, "down");
    std::thread::sleep(Duration::from_secs(6));
    set_link(&case, "up");
    running.end().exits(0).says(&["sent nothing", "trying again"]);
    assert_alike(&source, &case.far.join("to"));
}

#[test]
fn what_is_left_is_listed_and_removed_and_what_is_under_way_is_not() {
    let Some(case) = case() else { return };
    let (_, destination) = cut_off(&case);
    let before = temporaries(&case.far);
    assert!(before.len() >= 2, "a journal and a partial file: {before:?}");
    let run = case.clean(args!["-n", case.b("")]);
    assert!(before.iter().all(|path| run.out.contains(&*path.to_string_lossy())), "{run}");
    for kind in ["journal  ", "partial-file  "] {
        assert!(run.out.lines().any(|line| line.starts_with(kind)), "{kind}: {run}");
    }
    assert_eq!(temporaries(&case.far), before, "it was a dry run");
    let listed = events(&case.clean(args!["-n", "--json", case.b("")]).exits(0).out);
    let journals = listed.iter().filter(|event| event["type"] == "leftover" && event["kind"] == "journal");
    assert_eq!(journals.count(), 1, "{listed:?}");
    let last = listed.last().unwrap();
    assert_eq!((&last["type"], &last["leftovers"]), (&"summary".into(), &before.len().into()), "{last}");
    assert_eq!(last["dry_run"], true, "{last}");
    assert!(case.clean(args!["-n", "-q", case.b("")]).exits(0).out.is_empty());
    case.clean(args![case.b("")]);
    assert_eq!(temporaries(&case.far), Vec::<OsString>::new());
    fs::remove_dir_all(&destination).expect("our own");

    let midway = Midway::begin(&case, Way::Push);
    assert!(within(PATIENCE, || !temporaries(&destination).is_empty()));
    let run = case.clean(args![case.b("")]);
    assert!(run.out.is_empty(), "{run}");
    drop(midway);
}

/// At one megabyte per second, no chunk of such a file is completed before the link breaks.
#[test]
fn a_slow_link_that_breaks_again_and_again_brings_a_file_to_its_end() {
    for (mebibytes, way) in [(12, Way::Push), (20, Way::Pull), (20, Way::Push)] {
        let Some(case) = case() else { return };
        case.bring_program();
        let (source, destination) = match way {
            Way::Push => (case.near.join("file"), case.far.join("to")),
            Way::Pull => (case.far.join("file"), case.near.join("to")),
        };
        write(source.clone(), noise(1, mebibytes << 20));
        let list = |more: Vec<OsString>| match way {
            Way::Push => [more, args!["file", case.b("to")]].concat(),
            Way::Pull => [more, args![case.b("file"), "to"]].concat(),
        };
        for _ in 0..2 {
            let running = case.start(list(args!["--bwlimit", "1m", "--streams", "1"]));
            std::thread::sleep(Duration::from_secs(6));
            running.signal(Signal::KILL);
            drop(running.end());
        }
        let run = case.cp(list(args!["--json"])).exits(0);
        let again = u64_at(&summary_of(&run.out), "/sender/stages/bytes");
        // Of at least eight seconds, beside logins; what came since the last look is lost each time.
        assert!(again <= (mebibytes as u64 - 4) << 20, "{again} bytes of {mebibytes} MiB, {way:?}");
        assert!(fs::read(&source).unwrap() == fs::read(&destination).unwrap(), "{way:?}");
        assert_eq!(temporaries(destination.parent().unwrap()), Vec::<OsString>::new());
    }
}

/// If files are written in place, progress is recorded in whole blocks; a new file that arrived slowly is
/// resumed from these.
#[test]
fn a_new_file_of_a_command_that_writes_into_files_is_gone_on_with() {
    let Some(case) = case() else { return };
    case.bring_program();
    write(case.near.join("file"), noise(1, 20 << 20));
    let line = |more: Vec<OsString>| [args!["--inplace"], more, args!["file", case.b("to")]].concat();
    let running = case.start_sync(line(args!["--bwlimit", "2m", "--streams", "1"]));
    std::thread::sleep(Duration::from_secs(5));
    running.signal(Signal::KILL);
    drop(running.end());
    let run = case.sync(line(args!["--json"])).exits(0);
    let again = u64_at(&summary_of(&run.out), "/sender/stages/bytes");
    assert!(again <= 17 << 20, "{again} bytes: {run}");
    assert!(fs::read(case.far.join("to")).unwrap() == noise(1, 20 << 20));
    assert_eq!(temporaries(&case.far), Vec::<OsString>::new());
}

/// A file whose progress was recorded while it arrived must be as complete at its end as any other file.
#[test]
fn a_file_that_comes_slowly_is_whole_at_its_end() {
    let Some(case) = case() else { return };
    write(case.near.join("file"), noise(1, 5 << 20));
    for (number, options) in [args!["--verify"], args!["-a"]].into_iter().enumerate() {
        let last = args!["--bwlimit", "1m", "--streams", "1", "file", case.b(format!("{number}"))];
        let running = case.start([options, last].concat());
        let is_listed = || journal(&case.far).is_some() && temporaries(&case.far).len() == 2;
        assert!(within(PATIENCE, is_listed), "its progress isn't written down: {}", running.end());
        running.end().exits(0);
        assert!(fs::read(case.far.join(format!("{number}"))).unwrap() == noise(1, 5 << 20));
        assert_eq!(temporaries(&case.far), Vec::<OsString>::new());
    }
}
