//! Tests of where a client's paths lead, if only one directory may be reached.

use rustix::fs::{CWD, RenameFlags};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::tree::pattern::expand;
use crate::tree::source_root::{Finding, SourceRoot};

/// A temporary directory with two directories: `in`, which may be reached, and `out`, which may not.
struct Yard(tempfile::TempDir);

impl Yard {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        for directory in ["in/sub/deep", "out/sub"] {
            fs::create_dir_all(top.path().join(directory)).unwrap();
        }
        for file in ["in/file", "in/sub/file", "out/file", "out/sub/file"] {
            fs::write(top.path().join(file), file).unwrap();
        }
        Self(top)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn bounds(&self) -> Bounds {
        Bounds::below(&self.path("in")).unwrap()
    }

    /// The inode number of the entry that is found for the source `written`, or the error.
    fn reached(&self, written: &str) -> Result<u64, String> {
        let named = self.bounds().name(written.as_bytes()).map_err(|error| error.to_string())?;
        let source = SourceRoot::find(&named, 0, Finding { recursive: true, ..Finding::default() })
            .map_err(|problem| problem.message)?;
        let stat = source.root.open_at(&source.top_path(), OFlags::PATH).and_then(rustix::fs::fstat);
        Ok(stat.unwrap().st_ino)
    }

    fn inode(&self, path: &str) -> u64 {
        rustix::fs::stat(self.path(path)).unwrap().st_ino
    }

    fn expanded(&self, pattern: &str) -> Vec<String> {
        let Ok(found) = expand(self.bounds().name(pattern.as_bytes()).unwrap()) else { return Vec::new() };
        found.into_iter().map(|named| String::from_utf8(named.written).unwrap()).collect()
    }
}

#[test]
fn however_a_path_begins_it_is_below() {
    let yard = Yard::new();
    for (written, there) in [
        ("file", "in/file"),
        ("/file", "in/file"),
        ("//file", "in/file"),
        ("~/file", "in/file"),
        ("~//file", "in/file"),
        ("/~/../file", ""),
        ("/", "in"),
        ("~", "in"),
        ("~/", "in"),
        (".", "in"),
        ("/.", "in"),
        ("./sub/./file", "in/sub/file"),
        ("/sub/", "in/sub"),
    ] {
        let expected = if there.is_empty() { None } else { Some(yard.inode(there)) };
        assert_eq!(yard.reached(written).ok(), expected, "{written}");
    }
    for missing in ["", "~root/file", "/etc/passwd", "file/", "file/x", "~~"] {
        assert!(yard.reached(missing).is_err(), "{missing}");
    }
    let long = "sub/".repeat(2000);
    assert!(yard.reached(&long).is_err());
}

#[test]
fn nothing_goes_up() {
    let yard = Yard::new();
    for written in
        ["..", "../out/file", "/..", "~/..", "sub/..", "sub/../file", "a/../../out", "..//", "./.."]
    {
        let error = yard.reached(written).unwrap_err();
        assert!(error.contains("goes up") && error.contains("authorized_keys"), "{written}: {error}");
    }
    // Two dots within a longer name have no special meaning.
    assert!(!yard.reached("..x").unwrap_err().contains("goes up"));
}

#[test]
fn links_lead_only_where_it_is_below() {
    let yard = Yard::new();
    let out = yard.path("out").display().to_string();
    let inside = yard.path("in").display().to_string();
    for (link, target, there) in [
        ("in/a", "sub", Some("in/sub")),
        ("in/b", "./sub/../file", Some("in/file")),
        ("in/sub/c", "../file", Some("in/file")),
        ("in/d", "a/deep/../c", Some("in/file")),
        ("in/e", "../out", None),
        ("in/f", "../in/file", None),
        ("in/g", &out, None),
        ("in/h", &inside, None),
        ("in/sub/i", "../../out/file", None),
        ("in/j", "e/file", None),
        ("in/k", "/proc/self/root/etc", None),
        ("in/l", "l", None),
        ("in/m", "sub/deep/../../../out/file", None),
    ] {
        symlink(target, yard.path(link)).unwrap();
        let written = link.strip_prefix("in/").unwrap();
        let reached = yard.reached(written);
        assert_eq!(
            reached.as_ref().ok(),
            there.map(|there| yard.inode(there)).as_ref(),
            "{link}: {reached:?}"
        );
        if there.is_none() && written != "l" {
            let error = reached.unwrap_err();
            assert!(
                error.contains("leads out of the allowed directory") && !error.contains(&out),
                "{link}: {error}"
            );
        }
    }
    for through in ["e/file", "e/sub", "e/sub/file", "g/file", "h/file"] {
        assert!(yard.reached(through).is_err(), "{through}");
    }
}

#[test]
fn patterns_find_only_what_is_below() {
    let yard = Yard::new();
    symlink("../out", yard.path("in/link")).unwrap();
    symlink("sub", yard.path("in/own")).unwrap();
    assert_eq!(yard.expanded("*"), ["file", "link", "own", "sub/"]);
    assert_eq!(yard.expanded("/s*/f*"), ["sub/file"]);
    assert_eq!(yard.expanded("~/o*/f*"), ["own/file"]);
    for nothing in
        ["link/*", "l*/*", "l*/sub/*", ".*/file", ".*", ".*/.*/out/*", "[.][.]/*", "?./*", "/etc/*"]
    {
        assert_eq!(yard.expanded(nothing), Vec::<String>::new(), "{nothing}");
    }
    assert!(yard.bounds().name(b"*/../../out/*").is_err());
}

#[test]
fn a_link_that_leads_out_is_no_destination() {
    let yard = Yard::new();
    let out = yard.path("out").display().to_string();
    for (link, target) in
        [("a", "../out"), ("b", &out), ("c", "../out/file"), ("d", "/missing"), ("e", "sub/../../out")]
    {
        symlink(target, yard.path("in").join(link)).unwrap();
        for written in [link.to_owned(), format!("{link}/"), format!("/{link}/x"), format!("~/{link}/.")] {
            let error =
                yard.bounds().name(written.as_bytes()).unwrap().destination().err().expect("no place");
            assert!(error.to_string().contains("leads out of the allowed directory"), "{written}: {error}");
        }
        assert!(yard.bounds().name(link.as_bytes()).unwrap().directory().is_err());
    }
    symlink("sub/missing", yard.path("in/f")).unwrap();
    let within = yard.bounds().name(b"f").unwrap().destination().unwrap();
    assert!(matches!(within.there, DestinationState::Link));
    let (root, name) = yard.bounds().name(b"/sub/new").unwrap().destination().unwrap().into_place().unwrap();
    assert_eq!(
        (name.to_str(), root.place().root),
        (Some("new"), b"/sub".to_vec()),
        "as it is seen from there"
    );
}

#[test]
fn merge_files_above_are_those_that_are_below() {
    let yard = Yard::new();
    fs::write(yard.path(".rules"), "- outside").unwrap();
    fs::write(yard.path("in/.rules"), "- inside").unwrap();
    symlink("../../.rules", yard.path("in/sub/.rules")).unwrap();
    let read = |path: &str| {
        let file = yard.bounds().open_file(path.as_bytes());
        file.map(|file| file.map(|file| io::read_to_string(file).unwrap()))
    };
    assert_eq!(read("/.rules").unwrap().as_deref(), Some("- inside"));
    assert_eq!(read("/missing/.rules").unwrap(), None);
    assert_eq!(read("/sub").unwrap(), None);
    assert!(read("/sub/.rules").unwrap_err().to_string().contains("leads out"));
    assert!(read("/../.rules").is_err());
}

#[test]
fn a_directory_that_is_moved_away_leads_no_higher() {
    let yard = Yard::new();
    let bounds = yard.bounds();
    let mut walk = PathWalk::begin(&bounds, b"", Follow::All).unwrap();
    assert!(walk.along(b"sub/deep").unwrap().is_none());
    fs::rename(yard.path("in/sub/deep"), yard.path("out/deep")).unwrap();
    assert!(walk.along(b"../file").unwrap().is_some(), "up is where it came from");
    assert_eq!(walk.copy().unwrap().real, Path::new("/sub"));
    walk.along(b"..").unwrap();
    assert!(matches!(walk.along(b".."), Err(Stop::Outside { .. })));
}

#[test]
fn a_name_that_turns_under_way_leads_in_or_nowhere() {
    let yard = Yard::new();
    let (turning, inside) = (yard.path("in/sub"), yard.inode("in/sub/file"));
    symlink("../out/sub", yard.path("in/other")).unwrap();
    let (mut reached, mut refused) = (Vec::new(), 0);
    let found = while_exchanging(&turning, &yard.path("in/other"), || {
        match yard.reached("sub/file") {
            Ok(inode) => reached.push(inode),
            Err(_) => refused += 1,
        }
        yard.expanded("s*b/f*")
    });
    assert!(reached.iter().all(|inode| *inode == inside), "it was led out");
    assert!(
        !reached.is_empty() && refused > 0,
        "{} reached, {refused} refused: it never turned",
        reached.len()
    );
    let odd: Vec<_> = found.iter().filter(|found| !found.is_empty() && *found != &["sub/file"]).collect();
    assert!(odd.is_empty(), "{odd:?}");
}

/// The results of 3,000 calls of `look`, while another thread keeps exchanging the two names.
pub(crate) fn while_exchanging<T>(one: &Path, other: &Path, mut look: impl FnMut() -> T) -> Vec<T> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
            }
        });
        let seen = (0..3000).map(|_| look()).collect();
        stop.store(true, Ordering::Relaxed);
        seen
    })
}

#[test]
fn without_bounds_it_is_as_the_system_has_it() {
    let yard = Yard::new();
    symlink(yard.path("out"), yard.path("in/link")).unwrap();
    symlink("link/sub/../file", yard.path("in/long")).unwrap();
    for path in
        ["in/link", "in/link/..", "in/link/sub/file", "in/long", "in/../in/./file", "in/sub/deep/../..", ""]
    {
        let written = yard.path(path);
        let (held, file) = Bounds::here().name(written.as_os_str().as_bytes()).unwrap().find().unwrap();
        let real = file.map_or_else(|| held.real.clone(), |name| held.real.join(name));
        assert_eq!(real, written.canonicalize().unwrap(), "{path}");
    }
    for wrong in ["in/file/", "in/file/.", "in/file/..", "in/missing", "in/missing/..", "in/sub/\0"] {
        let named = Bounds::here().name(yard.path(wrong).as_os_str().as_bytes()).unwrap();
        assert!(named.find().is_err() && yard.path(wrong).canonicalize().is_err(), "{wrong}");
    }
    let near = Bounds::here().name(b"src/../src").unwrap().find().unwrap().0.real;
    assert_eq!(near, Path::new("src").canonicalize().unwrap(), "relative to the working directory");
    assert_eq!(Bounds::here().name(b"~").unwrap().path(), b"~");
}
