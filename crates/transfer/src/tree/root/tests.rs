use super::*;
use std::fs;
use std::os::unix::fs::symlink;

fn path(text: &str) -> RelPath {
    RelPath::new(text.as_bytes()).unwrap()
}

#[test]
fn links_are_not_followed_by_either_way() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "x").unwrap();
    let inside = tempfile::tempdir().unwrap();
    symlink(outside.path(), inside.path().join("link")).unwrap();
    symlink(outside.path().join("secret"), inside.path().join("file")).unwrap();
    fs::create_dir(inside.path().join("real")).unwrap();
    fs::write(inside.path().join("real/x"), "y").unwrap();
    let root = Root::open(inside.path()).unwrap();
    for refused in ["link/secret", "link", "file"] {
        assert!(root.open_at(&path(refused), OFlags::RDONLY).is_err(), "{refused}");
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW;
        assert!(walk(root.top().as_fd(), &path(refused), flags).is_err(), "{refused} by a walk");
    }
    assert!(root.top().open_file("file".as_ref()).is_err());
    assert!(root.open_at(&path("real/x"), OFlags::RDONLY).is_ok());
    assert!(walk(root.top().as_fd(), &path("real/x"), OFlags::RDONLY).is_ok());
    let root = root.following_links().unwrap();
    assert!(root.open_at(&path("link/secret"), OFlags::RDONLY).is_ok());
    assert!(root.directory(&path("link")).unwrap().open_file("secret".as_ref()).is_ok());
    assert!(root.top().open_file("file".as_ref()).is_ok());
}

#[test]
fn directories_are_made_as_needed() {
    let inside = tempfile::tempdir().unwrap();
    let root = Root::open(inside.path()).unwrap();
    root.directory_or_make(&path("a/b/c"), Mode::RWXU).unwrap();
    assert!(inside.path().join("a/b/c").is_dir());
    fs::write(inside.path().join("a/f"), "").unwrap();
    assert_eq!(root.directory_or_make(&path("a/f/x"), Mode::RWXU).unwrap_err(), Errno::NOTDIR);
}
