//! Tests of links to directories at the destination, with rsync's `-K`.

use std::fs;
use std::os::unix::fs::{lchown, symlink};
use std::path::Path;

use linerate_testing::has;

use crate::bed::{args, case};
use crate::rsync_lines::{assert_alike, make_source, over_ssh, words};
use crate::tree::write;

/// Command lines for a destination with links to directories.
const DIRLINKS: [&str; 6] = [
    "-aiKO src/ DST/",
    "-riK src/sub DST",
    "-aiKO src/sub src/other DST/",
    "-aiKOR src/./sub/b DST/",
    "-aiKn src/ DST/",
    "-aiKO --delete --exclude=/keep src/ DST/",
];

/// Makes a tree with links; the source has their targets too.
fn make_linked(top: &Path) {
    fs::create_dir_all(top.join("keep/in")).unwrap();
    write(top.join("keep/old"), "old");
    write(top.join("keep/b"), "older\n");
    symlink("keep", top.join("sub")).unwrap();
    symlink("nowhere", top.join("other")).unwrap();
    symlink("keep/in", top.join("a")).unwrap();
    lchown(top.join("sub"), Some(4242), Some(4242)).unwrap();
}

#[test]
fn links_to_directories_stand_for_them_below_the_destination_alone() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    write(case.near.join("src/keep/in/mine"), "mine");
    DIRLINKS.iter().for_each(|line| assert_alike(&case, line, make_linked));
    assert!(case.near.join("ours/sub").is_symlink() && case.near.join("ours/keep/large").exists());
    // A link that leads out is neither followed nor replaced.
    fs::create_dir(case.near.join("out")).unwrap();
    for (target, program) in [("../out", "linerate"), ("../out", "rsync")] {
        let top = case.near.join(format!("led-{program}"));
        fs::create_dir(&top).unwrap();
        symlink(target, top.join("sub")).unwrap();
        let line = words(&format!("-aK src/ led-{program}/"), "");
        let own = args![case.bed.program(), "rsync"];
        case.start_with(if program == "rsync" { args!["rsync"] } else { own }, line).end().exits(23);
        assert!(top.join("sub").is_symlink() && fs::read_dir(case.near.join("out")).unwrap().count() == 0);
    }
    over_ssh(&case, "-aK src/ FAR/to/").exits(0);
    fs::rename(case.far.join("to/sub"), case.far.join("to/keep/elsewhere")).unwrap();
    symlink("keep/elsewhere", case.far.join("to/sub")).unwrap();
    write(case.near.join("src/sub/b"), "newer");
    assert_eq!(over_ssh(&case, "-rltDiKO src/ FAR/to/").exits(0).out, "<f.st...... sub/b\n");
    assert_eq!(fs::read(case.far.join("to/keep/elsewhere/b")).unwrap(), b"newer");
}

#[test]
fn what_a_kept_link_leads_to_is_not_deleted() {
    let Some(case) = case() else { return };
    make_source(&case.near.join("src"));
    make_linked(&case.near.join("ours"));
    let run = case
        .start_with(args![case.bed.program(), "rsync"], words("-aK --delete src/ ours/", ""))
        .end()
        .exits(23);
    run.says(&["not deleted: a link that --keep-dirlinks keeps leads to it"]);
    assert_eq!(fs::read(case.near.join("ours/keep/b")).unwrap(), b"yo\n");
    write(case.near.join("src/keep/own"), "own");
    write(case.near.join("ours/keep/extra"), "extra");
    let again = case.start_with(args![case.bed.program(), "rsync"], words("-aK --delete src/ ours/", ""));
    again.end().exits(23).says(&["keep: nothing in this directory is deleted"]);
    assert!(["own", "b", "extra"].iter().all(|name| case.near.join("ours/keep").join(name).exists()));
}
