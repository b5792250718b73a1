//! Tests of growing files, with rsync's `--append`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use linerate_testing::has;
use rustix::process::Signal;

use crate::bed::case;
use crate::rsync_lines::{assert_alike, make_source, over_ssh};
use crate::rsync_places::{assert_same, begin, ways};
use crate::support::{PATIENCE, within};
use crate::tree::{noise, write};

/// Command lines for growing files.
const GROWING: [&str; 10] = [
    "-ai --append src/ DST/",
    "-a --append-verify src/ DST/",
    "-ri --append src/ DST/",
    "-ain --append src/ DST/",
    "-ai --append --delete src/ DST/",
    "-aib --append src/ DST/",
    "-ai --append --no-append src/ DST/",
    "-ai --append -W src/ DST/",
    "-ai --append --delay-updates src/ DST/",
    "-ai --append --partial-dir=x src/ DST/",
];

/// Makes shortened files, of which one has different contents and one is no regular file, and some that
/// aren't shorter.
fn make_shorter(top: &Path) {
    write(top.join("a"), "hi\nand more");
    write(top.join("sub/large"), noise(1, 100_001));
    write(top.join("sub/larger"), [b"other".to_vec(), noise(2, 6 << 20)[5..].to_vec()].concat());
    write(top.join("sub/b"), "Y");
    write(top.join("other/zz"), "d");
    write(top.join("core"), "");
    fs::set_permissions(top.join("sub/large"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(top.join("sub/larger"), fs::Permissions::from_mode(0o711)).unwrap();
}

#[test]
fn files_grow_as_with_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    write(case.near.join("src/sub/larger"), noise(2, 20 << 20));
    for line in GROWING {
        assert_alike(&case, line, |_| ());
        assert_alike(&case, line, make_shorter);
    }
    for (source, destination, paths) in
        [("src", case.far.join("to"), "src/ FAR/to/"), ("src", case.near.join("back"), "FAR/to/ back/")]
    {
        for option in ["--append-verify", "-S --append", "--append"] {
            let _ = fs::remove_dir_all(&destination);
            make_shorter(&destination);
            let before = fs::metadata(destination.join("sub/large")).unwrap().ino();
            over_ssh(&case, &format!("-a {option} {paths}")).exits(0);
            assert_eq!(fs::metadata(destination.join("sub/large")).unwrap().ino(), before);
            let [ours, theirs] = [case.near.join(source), destination.clone()]
                .map(|top| fs::read(top.join("sub/large")).unwrap());
            assert!(ours == theirs, "{option} {paths}");
            let [ours, theirs] = [case.near.join(source), destination.clone()]
                .map(|top| fs::read(top.join("sub/larger")).unwrap());
            assert_eq!(ours == theirs, option == "--append-verify", "{paths}");
            assert_eq!(fs::read(destination.join("a")).unwrap(), b"hi\nand more");
        }
        // From here on the far tree is as the near one.
        over_ssh(&case, &format!("-aI {paths}")).exits(0);
    }
}

#[test]
fn a_file_that_grew_a_little_grows_on() {
    for signal in [Signal::TERM, Signal::KILL] {
        let Some(case) = case() else { return };
        for (source, destination, paths) in ways(&case) {
            write(source.join("file"), noise(1, 40 << 20));
            write(destination.join("file"), noise(1, 1_000_001));
            let line = format!("-a --append {paths}");
            let running = begin(&case, &format!("--bwlimit=6m {line}"));
            let size = || fs::metadata(destination.join("file")).unwrap().len();
            assert!(within(PATIENCE, || size() > 4 << 20), "{}", running.end());
            running.signal(signal);
            running.end();
            assert!(within(PATIENCE, || case.far_processes().is_empty()));
            let (whole, part) =
                (fs::read(source.join("file")).unwrap(), fs::read(destination.join("file")).unwrap());
            assert!(part.len() < whole.len() && whole.starts_with(&part), "{signal:?} {paths}");
            let inode = fs::metadata(destination.join("file")).unwrap().ino();
            over_ssh(&case, &line).exits(0);
            assert_same(&source, &destination);
            assert_eq!(fs::metadata(destination.join("file")).unwrap().ino(), inode);
            fs::remove_dir_all(&source).unwrap();
        }
    }
}
