use super::*;
use crate::tree::root::Root;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::AtomicBool;

#[test]
fn names_are_announced_before_the_first_one_is_there() {
    type Make = fn(&Root, &Names<'_>) -> Temporary;
    let makes: [Make; 3] = [
        |root, names| Temporary::named(root.top().clone(), names, Mode::RWXU).unwrap(),
        |root, names| Temporary::symlink(root.top().clone(), names, b"x").unwrap(),
        |root, names| Temporary::special(root.top().clone(), names, FileType::Fifo, Mode::RUSR, 0).unwrap(),
    ];
    for make in makes {
        let top = tempfile::tempdir().unwrap();
        let root = Root::open(top.path()).unwrap();
        let seen = std::sync::Mutex::new(Vec::new());
        let announce = || {
            seen.lock().unwrap().push(fs::read_dir(top.path()).unwrap().count());
            Ok(())
        };
        let names = Names::new(&[1], false).announced_by(&announce);
        let unnamed = Temporary::unnamed(root.top().clone(), &names, Mode::RWXU).unwrap();
        let (_one, _other) = (make(&root, &names), make(&root, &names));
        assert_eq!(*seen.lock().unwrap(), [0]);
        assert!(unnamed.name().is_empty());
    }
}

#[test]
fn where_names_cannot_be_announced_nothing_gets_one() {
    let top = tempfile::tempdir().unwrap();
    let root = Root::open(top.path()).unwrap();
    let is_full = AtomicBool::new(true);
    let announce = || if is_full.load(Ordering::Relaxed) { Err(Errno::NOSPC) } else { Ok(()) };
    let names = Names::new(&[1], false).announced_by(&announce);
    let make = || Temporary::symlink(root.top().clone(), &names, b"x");
    assert_eq!(make().unwrap_err(), Errno::NOSPC);
    assert_eq!(fs::read_dir(top.path()).unwrap().count(), 0);
    is_full.store(false, Ordering::Relaxed);
    assert!(make().is_ok(), "room came");
}

#[test]
fn only_what_was_made_is_held() {
    let top = tempfile::tempdir().unwrap();
    let root = Root::open(top.path()).unwrap();
    let names = Names::new(&[1], false);
    let fifo = || Temporary::special(root.top().clone(), &names, FileType::Fifo, Mode::RUSR, 0).unwrap();
    let honest = fifo();
    assert!(honest.hold().is_ok());
    fs::write(top.path().join("victim"), "x").unwrap();
    let swaps: [fn(&std::path::Path, &std::path::Path); 2] =
        [|victim, name| fs::hard_link(victim, name).unwrap(), |victim, name| symlink(victim, name).unwrap()];
    for swap in swaps {
        let made = fifo();
        let name = top.path().join(&made.name);
        fs::remove_file(&name).unwrap();
        swap(&top.path().join("victim"), &name);
        assert_eq!(made.hold().unwrap_err(), Errno::STALE);
    }
    let linked = fifo();
    fs::hard_link(top.path().join(&linked.name), top.path().join("another")).unwrap();
    assert_eq!(linked.hold().unwrap_err(), Errno::STALE, "somebody else holds a name of it");
}
