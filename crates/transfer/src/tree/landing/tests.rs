use super::*;
use crate::tree::bounds::Bounds;
use crate::tree::bounds::tests::while_exchanging;
use linerate_testing::skip;
use linerate_wire::entry::Timestamp;
use std::fs;
use std::os::unix::fs::{lchown, symlink};
use std::path::PathBuf;

fn source(name: &str, directory: bool) -> Source {
    Source { argument: 0, name: RelPath::new(name.as_bytes()).unwrap(), directory }
}

/// A user who is neither root nor the user who runs the tests.
const STRANGER: u32 = 5005;

fn named(directory: &Path, written: &str) -> Named {
    let written = format!("{}/{written}", directory.display());
    Bounds::here().name(written.as_bytes()).unwrap()
}

fn find(directory: &Path, written: &str, sources: &[Source]) -> Result<Landing, TransferError> {
    Landing::find(&named(directory, written), sources)
}

fn mirror(directory: &Path, written: &str, sources: &[Source]) -> Result<Landing, TransferError> {
    Landing::mirror(&named(directory, written), sources)
}

fn entry(source: u32, path: &str) -> Entry {
    let (path, time) = (RelPath::new(path.as_bytes()).unwrap(), Timestamp::default());
    Entry { source, path, kind: Kind::File { size: 0 }, mode: 0o644, mtime: time, atime: time, extra: None }
}

fn place(landing: &Landing, path: &str) -> PathBuf {
    landing.root.shown(&landing.place(&entry(0, path)).unwrap())
}

#[test]
fn an_existing_directory_takes_sources_by_name() {
    let top = tempfile::tempdir().unwrap();
    let landing = find(top.path(), "", &[source("tree", true)]).unwrap();
    assert!(place(&landing, "x/y").ends_with("tree/x/y"));
}

#[test]
fn a_missing_name_becomes_the_source() {
    let top = tempfile::tempdir().unwrap();
    let landing = find(top.path(), "new", &[source("tree", true)]).unwrap();
    assert_eq!(place(&landing, "x"), top.path().join("new/x"));
    assert!(find(top.path(), "no/new", &[source("tree", true)]).is_err(), "the parent must exist");
}

#[test]
fn a_slash_makes_the_directory() {
    let top = tempfile::tempdir().unwrap();
    let landing = find(top.path(), "new/", &[source("a", false), source("b", false)]).unwrap();
    assert_eq!(place(&landing, ""), top.path().join("new/").join("a"));
    assert!(top.path().join("new").is_dir());
}

#[test]
fn what_cannot_land_is_refused() {
    let top = tempfile::tempdir().unwrap();
    fs::write(top.path().join("file"), "").unwrap();
    assert!(find(top.path(), "file", &[source("tree", true)]).is_err());
    assert!(find(top.path(), "file", &[source("a", false), source("b", false)]).is_err());
    assert!(find(top.path(), "missing", &[source("a", false), source("b", false)]).is_err());
    assert!(find(top.path(), "", &[source("a", false), source("a", false)]).is_err(), "same names");
    assert!(find(top.path(), "file/", &[source("a", false)]).is_err());
}

#[test]
fn a_file_brings_nothing_below_it() {
    let top = tempfile::tempdir().unwrap();
    let landing = find(top.path(), "", &[source("x", false)]).unwrap();
    assert!(landing.place(&entry(0, "")).is_some());
    assert!(landing.place(&entry(0, "y")).is_none());
    assert!(landing.place(&Entry { kind: Kind::Directory, ..entry(0, "") }).is_none());
}

/// Creates a link that belongs to another user; `None` if this process may not create one.
fn strange_link(target: &Path, link: &Path) -> Option<()> {
    symlink(target, link).unwrap();
    lchown(link, Some(STRANGER), Some(STRANGER)).ok()
}

#[test]
fn a_link_is_replaced_by_a_file_wherever_it_leads() {
    let top = tempfile::tempdir().unwrap();
    fs::create_dir(top.path().join("sub")).unwrap();
    fs::write(top.path().join("sub/victim"), "").unwrap();
    for (link, target) in [
        ("file", "sub/victim"),
        ("nowhere", "missing/x"),
        ("loop", "loop"),
        ("chain", "file"),
        ("odd", "file/x"),
    ] {
        symlink(target, top.path().join(link)).unwrap();
        for landing in [find, mirror] {
            let landing = landing(top.path(), link, &[source("x", false)]).unwrap();
            assert_eq!(place(&landing, ""), top.path().join(link), "{link}");
            assert!(landing.root.top().stat("sub".as_ref()).is_ok(), "{link}: beside the link");
            let refused = landing_of_a_tree(top.path(), link);
            assert!(refused.contains("leads to no directory"), "{link}: {refused}");
        }
    }
    assert!(find(top.path(), "nowhere/", &[source("x", false)]).is_err());
    assert!(!top.path().join("missing").exists());
}

fn landing_of_a_tree(top: &Path, written: &str) -> String {
    let errors = [find, mirror].map(|landing| landing(top, written, &[source("tree", true)]).err());
    errors.map(|error| error.expect("no place for a tree").to_string()).concat()
}

#[test]
fn a_link_to_a_directory_is_followed_where_nobody_else_can_turn_it() {
    let top = tempfile::tempdir().unwrap();
    fs::create_dir_all(top.path().join("real/sub")).unwrap();
    symlink("real", top.path().join("own")).unwrap();
    symlink("own", top.path().join("chain")).unwrap();
    symlink(top.path().join("chain/sub"), top.path().join("far")).unwrap();
    for (written, lands) in [("own", "real"), ("chain", "real"), ("chain/", "real"), ("far", "real/sub")] {
        let landing = find(top.path(), written, &[source("x", false)]).unwrap();
        let real = rustix::fs::stat(top.path().join(lands)).unwrap();
        assert_eq!(rustix::fs::fstat(landing.root.top()).unwrap().st_ino, real.st_ino, "{written}");
    }
    assert!(find(top.path(), "own/new", &[source("x", false)]).is_ok(), "on the way");
    assert!(
        Landing::as_new(&named(top.path(), "own"), &[source("tree", true)], false).is_none(),
        "a link was not made by an earlier run"
    );
}

#[test]
fn a_stranger_s_link_is_not_followed_and_named() {
    let top = tempfile::tempdir().unwrap();
    fs::create_dir(top.path().join("real")).unwrap();
    fs::write(top.path().join("victim"), "").unwrap();
    let at = |name: &str| top.path().join(name);
    if strange_link("real".as_ref(), &at("trap")).is_none() {
        return skip("root", "only root gives links to others");
    }
    symlink("trap", at("own")).unwrap();
    strange_link("own".as_ref(), &at("first")).unwrap();
    for written in ["trap", "trap/", "trap/.", "trap/x", "trap/..", "own", "own/x", "first/x"] {
        for landing in [find, mirror] {
            let error = landing(top.path(), written, &[source("x", false)]).err().expect(written).to_string();
            assert!(error.contains("belongs to user") && error.contains("5005"), "{written}: {error}");
            let link = if written.starts_with("first") { "first" } else { "trap" };
            assert!(error.contains(&format!("/{link} belongs")), "{written}: {error}");
            assert!(error.contains("chown -h"), "{written}: {error}");
        }
    }
    // A link that doesn't lead to a directory isn't followed; the file replaces it.
    for target in ["victim", "missing"] {
        strange_link(target.as_ref(), &at(&format!("to-{target}"))).unwrap();
        let landing = find(top.path(), &format!("to-{target}"), &[source("x", false)]).unwrap();
        assert_eq!(place(&landing, ""), at(&format!("to-{target}")));
    }
}

#[test]
fn what_was_reached_is_held_though_its_name_goes_to_another() {
    let top = tempfile::tempdir().unwrap();
    let at = |name: &str| top.path().join(name);
    fs::create_dir(at("real")).unwrap();
    fs::create_dir(at("other")).unwrap();
    let landing = find(top.path(), "real", &[source("x", false)]).unwrap();
    let single = find(top.path(), "real/new", &[source("x", false)]).unwrap();
    fs::rename(at("real"), at("moved")).unwrap();
    symlink("other", at("real")).unwrap();
    for landing in [landing, single] {
        let parent = landing.root.directory_or_make(&RelPath::root(), Mode::RWXU).unwrap();
        let mode = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
        rustix::fs::openat(&*parent, "landed", mode, Mode::RUSR).unwrap();
    }
    assert!(at("moved/landed").exists() && !at("other/landed").exists());
}

#[test]
fn a_turning_link_leads_where_it_was_checked() {
    let top = tempfile::tempdir().unwrap();
    let at = |name: &str| top.path().join(name);
    for directory in ["mine", "theirs"] {
        fs::create_dir(at(directory)).unwrap();
    }
    symlink("mine", at("own")).unwrap();
    if strange_link("theirs".as_ref(), &at("strange")).is_none() {
        return skip("root", "only root gives links to others");
    }
    let theirs = rustix::fs::stat(at("theirs")).unwrap().st_ino;
    let reached = while_exchanging(&at("own"), &at("strange"), || {
        let landing = find(top.path(), "own", &[source("x", true)]).ok();
        landing.map(|landing| rustix::fs::fstat(landing.root.top()).unwrap().st_ino)
    });
    assert!(reached.iter().any(Option::is_some) && reached.iter().any(Option::is_none), "it turned");
    assert!(!reached.contains(&Some(theirs)), "a stranger's link was followed");
}

#[test]
fn dots_merge_into_the_destination() {
    let top = tempfile::tempdir().unwrap();
    let landing = find(top.path(), "", &[source("", true)]).unwrap();
    assert_eq!(place(&landing, "x"), top.path().join("").join("x"));
    assert!(landing.place(&entry(7, "")).is_none());
}
