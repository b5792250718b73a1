//! Tests of entries that `linerate sync` leaves out because of their kind.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use linerate_testing::{has, skip};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::bed::{args, case};
use crate::json::{summary_of, u64_at};
use crate::tree::{assert_alike, write};

#[test]
fn what_is_left_out_for_its_kind_is_no_unread_source_and_keeps_its_name() {
    if !has("rsync") {
        return skip("rsync", "rsync isn't installed");
    }
    let Some(case) = case() else { return };
    let here = case.near.join("tree");
    write(here.join("sub/file"), "x");
    symlink("/etc/passwd", here.join("sub/abs")).unwrap();
    let fill = |copy: &Path| {
        for name in ["extra", "sub/extra", "sub/abs", "sub/fifo"] {
            write(copy.join(name), "there");
        }
    };
    let fifo = here.join("sub/fifo");
    for with_fifo in [false, true] {
        if with_fifo {
            mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        }
        let ours = ["ours", "far"]
            .map(|name| if name == "far" { case.far.join(name) } else { case.near.join(name) });
        let theirs = case.near.join("theirs");
        for copy in ours.iter().chain([&theirs]) {
            fill(copy);
        }
        let mut rsync = Command::new("rsync");
        let rsync = rsync.args(["-rlpt", "--delete", "--safe-links"]).args([here.join(""), theirs.join("")]);
        assert!(rsync.output().expect("rsync runs").status.success());
        assert_eq!(theirs.join("sub/fifo").exists(), with_fifo);
        for (place, copy) in [(OsString::from("ours"), &ours[0]), (case.b("far"), &ours[1])] {
            let words = args!["--json", "--delete", "--safe-links", "--no-specials", "tree", &place];
            let run = case.sync(words).exits(if with_fifo { 3 } else { 0 });
            assert_alike(&theirs, copy);
            let summary = summary_of(&run.out);
            assert_eq!((u64_at(&summary, "/symlinks"), u64_at(&summary, "/specials")), (0, 0), "{run}");
            assert_eq!(fs::read(copy.join("sub/abs")).unwrap(), b"there");
            let again = case.sync(args![
                "--delete",
                "--itemize-changes",
                "--safe-links",
                "--no-specials",
                "tree",
                &place
            ]);
            assert_eq!(again.out, "", "nothing is left to do");
        }
    }
    // The other way.
    write(case.near.join("ours/extra"), "x");
    case.sync(args!["--delete", "--safe-links", case.b("far"), "ours"]).exits(0);
    assert!(!case.near.join("ours/extra").exists());
}
