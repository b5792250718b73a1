//! Tests of combinations of sources and destinations for which users run a parallel scp, with `linerate scp`
//! in both directions over ssh. Each row has the initial files, the command line, and the expected files.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::bed::{Case, case};
use crate::support::{Run, Running, within};
use crate::tree::{noise, temporaries, write};

/// A command line, its initial files and its expected result.
struct Shape {
    line: &'static str,
    /// The files at the sources' end, with their lengths.
    sources: &'static [(&'static str, usize)],
    /// The initial entries at the destination's end; a name that ends in a slash is a directory.
    before: &'static [(&'static str, usize)],
    /// Each expected copy, and the source to which it must be equal.
    after: &'static [(&'static str, &'static str)],
    code: i32,
}

const LARGE: usize = 20 << 20;
const TREE: &[(&str, usize)] =
    &[("tree/t1", 64), ("tree/t2", 4096), ("tree/d1/t3", 64), ("tree/d1/d2/t4", 128)];

const fn whole(
    line: &'static str,
    sources: &'static [(&'static str, usize)],
    before: &'static [(&'static str, usize)],
    after: &'static [(&'static str, &'static str)],
) -> Shape {
    Shape { line, sources, before, after, code: 0 }
}

const fn refused(
    line: &'static str,
    sources: &'static [(&'static str, usize)],
    before: &'static [(&'static str, usize)],
    code: i32,
) -> Shape {
    Shape { line, sources, before, after: &[], code }
}

/// FROM is the directory of the sources, TO the destination; one of them is on the far host.
const SHAPES: [Shape; 16] = [
    whole("FROM/src TO/dst", &[("src", 64)], &[], &[("dst", "src")]),
    whole("FROM/src TO/dst", &[("src", 4096)], &[], &[("dst", "src")]),
    whole("FROM/src TO/dst", &[("src", LARGE)], &[], &[("dst", "src")]),
    whole("FROM/src TO/dst", &[("src", 0)], &[], &[("dst", "src")]),
    whole("FROM/src TO/dst", &[("src", 128)], &[("dst", 128)], &[("dst", "src")]),
    whole("FROM/src TO/dst", &[("src", 1 << 20)], &[("dst", 2 << 20)], &[("dst", "src")]),
    whole("FROM/src TO/", &[("src", 1024)], &[], &[("src", "src")]),
    whole("FROM/src TO/dst/", &[("src", 1024)], &[("dst/", 0)], &[("dst/src", "src")]),
    whole("-q FROM/src TO/dst", &[("src", 1024)], &[], &[("dst", "src")]),
    whole(
        "FROM/s1 FROM/s2 TO/dst",
        &[("s1", 1 << 20), ("s2", 1 << 20)],
        &[("dst/", 0)],
        &[("dst/s1", "s1"), ("dst/s2", "s2")],
    ),
    whole(
        "-r FROM/tree TO/dst",
        TREE,
        &[],
        &[
            ("dst/t1", "tree/t1"),
            ("dst/t2", "tree/t2"),
            ("dst/d1/t3", "tree/d1/t3"),
            ("dst/d1/d2/t4", "tree/d1/d2/t4"),
        ],
    ),
    whole(
        "-r FROM/tree TO/dst",
        TREE,
        &[("dst/", 0)],
        &[("dst/tree/t1", "tree/t1"), ("dst/tree/d1/d2/t4", "tree/d1/d2/t4")],
    ),
    whole(
        "-r FROM/tree FROM/s1 TO/dst",
        &[("tree/t1", 64), ("s1", 9)],
        &[("dst/", 0)],
        &[("dst/tree/t1", "tree/t1"), ("dst/s1", "s1")],
    ),
    whole(
        "FROM/s* TO/dst",
        &[("s1", 1 << 20), ("s2", 1 << 20), ("s3", 1 << 20)],
        &[("dst/", 0)],
        &[("dst/s1", "s1"), ("dst/s2", "s2"), ("dst/s3", "s3")],
    ),
    whole(
        "-r FROM/s* TO/dst",
        &[("s1/f", 1 << 20), ("s2/g", 70)],
        &[("dst/", 0)],
        &[("dst/s1/f", "s1/f"), ("dst/s2/g", "s2/g")],
    ),
    whole("FROM/s1 TO/a/b/dst", &[("s1", 5)], &[("a/b/", 0)], &[("a/b/dst", "s1")]),
];

/// Command lines that are refused if the sources are far, as by scp: nothing shows that `dst` should be a
/// directory, which other programs would make.
const FETCHED: [Shape; 8] = [
    refused("FROM/s1 FROM/s2 TO/dst", &[("s1", 9), ("s2", 9)], &[], 1),
    refused("FROM/s* TO/dst", &[("s1", 9), ("s2", 9)], &[], 1),
    refused("FROM/s1 FROM/s2 TO/dst", &[("s1", 9), ("s2", 9)], &[("dst", 3)], 1),
    refused("FROM/src TO/dst/src", &[("src", 128)], &[("dst", 3)], 1),
    refused("FROM/src TO/no/such/dst", &[("src", 128)], &[], 1),
    refused("FROM/tree TO/dst", TREE, &[], 1),
    refused("-r FROM/tree TO/dst", TREE, &[("dst", 3)], 1),
    refused("-o Port=1 FROM/src TO/dst", &[("src", 128)], &[], 255),
];

fn scp(case: &Case) -> Vec<OsString> {
    let link = case.aside("bin").join("scp");
    let _ = symlink(case.bed.program(), &link);
    vec![link.into(), "-F".into(), case.bed.lab.ssh_config().into()]
}

fn start(case: &Case, line: &str) -> Running {
    case.start_with(scp(case), line.split_whitespace().map(Into::into).collect())
}

fn make(top: &Path, found: &[(&str, usize)], seed: u64) {
    let _ = fs::remove_dir_all(top);
    fs::create_dir_all(top).unwrap();
    for (number, (name, length)) in found.iter().enumerate() {
        match name.strip_suffix('/') {
            Some(name) => fs::create_dir_all(top.join(name)).unwrap(),
            None => write(top.join(name), noise(seed + number as u64, *length)),
        }
    }
}

/// The command line with real paths, the far path in ssh's notation. A shell expands the patterns of this
/// host.
fn placed(shape: &Shape, from: (&str, &Path), to: (&str, &Path)) -> String {
    let place = |(host, top): (&str, &Path)| format!("{host}{}", top.display());
    let far_pattern = !from.0.is_empty() || !shape.line.contains('*');
    let names = || shape.sources.iter().map(|(name, _)| name.split('/').next().unwrap());
    let expanded = names().map(|name| format!("FROM/{name}")).collect::<Vec<_>>().join(" ");
    let line = if far_pattern { shape.line.to_owned() } else { shape.line.replace("FROM/s*", &expanded) };
    line.replace("FROM", &place(from)).replace("TO", &place(to))
}

fn check(case: &Case, shape: &Shape, pulls: bool) {
    let (near, far) = (case.near.join("side"), case.far.join("side"));
    let host = case.b("").into_string().unwrap();
    let host = host.split(':').next().map(|host| format!("{host}:")).unwrap();
    let (from, to) = if pulls { ((&*host, &*far), ("", &*near)) } else { (("", &*near), (&*host, &*far)) };
    make(from.1, shape.sources, 1);
    make(to.1, shape.before, 99);
    let line = placed(shape, from, to);
    let run: Run = start(case, &line).end();
    assert_eq!(run.code, Some(shape.code), "{line}: {run}");
    for (copy, source) in shape.after {
        let [copy, source] = [to.1.join(copy), from.1.join(source)].map(|path| fs::read(path).ok());
        assert!(copy.is_some() && copy == source, "{line}: {run}");
    }
    if shape.after.is_empty() {
        let files = |found: &[(&str, usize)]| found.iter().filter(|(name, _)| !name.ends_with('/')).count();
        let there = crate::tree::names(to.1).into_iter().filter(|name| to.1.join(name).is_file()).count();
        assert_eq!(there, files(shape.before), "{line}: {run}");
        assert!(!run.err.is_empty(), "{line}");
    } else {
        assert_eq!(run.out, "", "{line}");
    }
    assert_eq!(temporaries(to.1), Vec::<OsString>::new(), "{line}");
}

#[test]
fn shapes_that_are_sent() {
    let Some(case) = case() else { return };
    SHAPES.iter().for_each(|shape| check(&case, shape, false));
}

#[test]
fn shapes_that_are_fetched() {
    let Some(case) = case() else { return };
    SHAPES.iter().chain(&FETCHED).for_each(|shape| check(&case, shape, true));
}

#[test]
fn a_read_only_file_comes_and_a_file_onto_itself_stays() {
    let Some(case) = case() else { return };
    let here = case.near.join("src");
    write(here.clone(), noise(3, LARGE));
    fs::set_permissions(&here, fs::Permissions::from_mode(0o444)).unwrap();
    let far = case.b("dst").into_string().unwrap();
    start(&case, &format!("src {far}")).end().exits(0);
    assert_eq!(fs::read(case.far.join("dst")).unwrap(), fs::read(&here).unwrap());
    // Both ends see the one file, by two names of one directory.
    let before = fs::read(case.far.join("dst")).unwrap();
    start(&case, &format!("{} {far}", case.far.join("dst").display())).end();
    assert_eq!(fs::read(case.far.join("dst")).unwrap(), before);
}

#[test]
fn an_interrupted_line_goes_on_when_it_is_given_again() {
    let Some(case) = case() else { return };
    for (signal, number) in [(Signal::INT, 1), (Signal::KILL, 2)] {
        let top = case.near.join(format!("many{number}"));
        (0..40).for_each(|file| write(top.join(format!("{file:03}")), noise(file, 1 << 20)));
        write(top.join("large"), noise(77, LARGE));
        let to = format!("copy{number}");
        let line = format!("-r {} {}", top.display(), case.b(&to).into_string().unwrap());
        // In kbit/s: the whole takes four seconds.
        let mut running = start(&case, &format!("-l 120000 {line}"));
        let far = case.far.join(&to);
        let begun = || fs::read_dir(&far).is_ok_and(|found| found.count() > 2);
        assert!(within(Duration::from_secs(20), begun), "nothing came");
        assert!(!running.has_ended());
        running.signal(signal);
        running.end();
        start(&case, &line).end().exits(0);
        // It goes on at the place of the first, or where scp puts a directory into one that is there.
        let inside = far.join(top.file_name().unwrap());
        let copy = if inside.is_dir() { inside } else { far };
        for name in crate::tree::names(&top) {
            assert_eq!(fs::read(copy.join(&name)).ok(), fs::read(top.join(&name)).ok(), "{name:?}");
        }
    }
}
