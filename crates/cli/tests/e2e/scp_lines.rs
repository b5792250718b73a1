//! Tests with scp command lines, given to scp and to `linerate scp`: the trees and the exit codes must be
//! equal.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use linerate_testing::has;
use rustix::fs::{CWD, FileType, Mode};

use crate::archive::everything;
use crate::bed::{Case, args, case};
use crate::support::Run;
use crate::tree::{noise, temporaries, write};

/// Command lines with sources on this host. TO is a separate directory for each program, on this host or at
/// the far end.
const FROM_HERE: [&str; 43] = [
    "src/a TO/new",
    "src/a TO/dir",
    "src/a TO/dir/",
    "src/a TO/dir/new",
    "-p src/a TO/dir",
    "-p src/run TO/dir/new",
    "-q src/a TO/dir",
    "src/a src/run TO/dir",
    "src/a src/sub/b TO/dir/",
    "src/a other/a TO/dir",
    "-r src TO/new",
    "-r src TO/dir",
    "-r src/ TO/new",
    "-r src/ TO/dir",
    "-r src/. TO/dir",
    "-r src/sub/.. TO/new",
    "-rp src TO/new",
    "-pr src TO/dir",
    "-r src other TO/dir",
    "-r src src/a TO/dir",
    "src TO/new",
    "src/a src TO/dir",
    "src/a TO/no/such/new",
    "-r src TO/no/such/new",
    "nothere TO/new",
    "src/a nothere src/run TO/dir",
    "nothere src/a TO/dir",
    "src/a src/run TO/file",
    "-r src TO/file",
    "-T src/a TO/dir",
    "-s src/a TO/dir",
    "-3 src/a TO/dir",
    "-R src/a TO/dir",
    "-l 800000 src/sub/large TO/new",
    "-- src/a TO/dir",
    "-rq -C src/sub TO/dir",
    "-O -r links TO/new",
    "-O -rp links src TO/dir",
    "-O src/a nothere src/run TO/dir",
    "-O nothere nothere TO/dir",
    "-O -s src/a nothere src/run TO/dir",
    "-O -r src TO/new/",
    "-O -r src/ TO/dir/",
];

/// Command lines with far sources: FAR is the directory of the sources, TO a separate directory for each
/// program.
const FROM_THERE: [&str; 37] = [
    "FAR/src/a TO/new",
    "FAR/src/a TO/dir",
    "FAR/src/a TO/dir/",
    "-p FAR/src/a TO/dir",
    "-p FAR/src/run TO/new",
    "FAR/src/a FAR/src/run TO/dir",
    "FAR/src/a FAR/other/a TO/dir",
    "FAR/src/a src/run TO/dir",
    "FAR/src/?* TO/dir",
    "FAR/src/[ar]* TO/dir",
    "-r FAR/s* TO/dir",
    "-r FAR/src TO/new",
    "-r FAR/src TO/dir",
    "-r FAR/src/ TO/new",
    "-r FAR/src/. TO/dir",
    "-r FAR/src/sub/.. TO/new",
    "-rp FAR/src TO/new",
    "-rp FAR/src FAR/other TO/dir",
    "FAR/src TO/new",
    "FAR/src/a FAR/src TO/dir",
    "FAR/src/a TO/no/such/new",
    "FAR/nothere TO/new",
    "FAR/nothere* TO/new",
    "FAR/src/a FAR/nothere FAR/src/run TO/dir",
    "FAR/src/a FAR/src/run TO/file",
    "FAR/src/a FAR/src/run TO/nodir",
    "-r FAR/src TO/file",
    "-l 800000 FAR/src/sub/large TO/new",
    "-X buffer=65536 -X nrequests=9 FAR/src/a TO/new",
    "-O -r FAR/links TO/new",
    "-O -rp FAR/links FAR/src TO/dir",
    "FAR/src/a TO/new/",
    "-rp FAR/src/ TO/new/",
    "-r FAR/src/a TO/new/",
    "-r FAR/src TO/new/",
    "-O -r FAR/src/ TO/dir/",
    "-B -A -4 -o Compression=no FAR/src/a TO/new",
];

/// Command lines with unreachable places, or with nothing to copy.
const WRONG: [&str; 14] = [
    "",
    "src/a",
    "-y src/a x",
    "-r",
    "-l 0 src/a x",
    "-l x src/a x",
    "-P 0 src/a b:x",
    "-P 99999999 src/a b:x",
    "-X nonsense src/a b:x",
    "src/a scp://b:0/x",
    "scp://@b/a x",
    "src/a nowhere.invalid:x",
    "nowhere.invalid:x there",
    "src/a src/run nodir",
];

/// Makes a tree with files, directories, and links to both within the tree.
fn make_source(top: &Path) {
    write(top.join("src/a"), "hi\n");
    write(top.join("src/run"), "#!/bin/sh\n");
    write(top.join("src/sub/b"), "yo\n");
    write(top.join("src/sub/large"), noise(1, 300_000));
    write(top.join("src/sub/deep/empty"), "");
    write(top.join("other/a"), "another\n");
    symlink("a", top.join("src/to a")).unwrap();
    // Of links to directories the SFTP of old versions makes an error, unlike their -O and the SFTP of new ones.
    write(top.join("links/deep/x"), "x");
    symlink("../src/sub", top.join("links/to sub")).unwrap();
    symlink("deep", top.join("links/to deep")).unwrap();
    fs::set_permissions(top.join("src/run"), PermissionsExt::from_mode(0o750)).unwrap();
    fs::set_permissions(top.join("src/sub"), PermissionsExt::from_mode(0o711)).unwrap();
    let paths = crate::tree::names(top);
    let paths = paths.iter().rev().map(|path| top.join(path));
    paths.for_each(|path| crate::archive::set_time(&path, 1_500_000_000, 0));
}

/// Makes the initial contents of a destination.
fn prepare(top: &Path) {
    let _ = fs::remove_dir_all(top);
    fs::create_dir_all(top.join("dir")).unwrap();
    write(top.join("file"), "in the way");
}

/// The words of a line, with `TO` and `FAR` replaced.
fn words(line: &str, to: &str, far: &str) -> Vec<OsString> {
    let line = line.replace("TO", to).replace("FAR", far);
    line.split_whitespace().map(Into::into).collect()
}

/// A description of a tree without recent times and without the modes of directories that existed before.
fn shape(top: &Path) -> Vec<String> {
    let found = everything(top).into_iter().filter(|(path, _)| !path.as_os_str().is_empty());
    found.map(|(path, found)| format!("{path:?} {:?}", found.without_recent_time())).collect()
}

/// A link to the program with the name scp.
fn our_scp(case: &Case) -> PathBuf {
    let link = case.aside("bin").join("scp");
    let _ = symlink(case.bed.program(), &link);
    link
}

fn run(case: &Case, program: impl Into<OsString>, words: Vec<OsString>) -> Run {
    let program = vec![program.into(), "-F".into(), case.bed.lab.ssh_config().into()];
    case.start_with(program, words).end()
}

/// Runs both programs, each with a separate directory below `top`, which the line names as `shown`; returns
/// the differences.
fn differences(case: &Case, line: &str, top: &Path, shown: &str, far: &str) -> Option<String> {
    let [ours, theirs] =
        [("ours", our_scp(case).into_os_string()), ("theirs", "scp".into())].map(|(name, program)| {
            prepare(&top.join(name));
            let run = run(case, program, words(line, &format!("{shown}{name}"), far));
            (run.code, shape(&top.join(name)), run)
        });
    let left = temporaries(top);
    let is_same = (ours.0, &ours.1) == (theirs.0, &theirs.1) && left.is_empty();
    let only = |one: &[String], other: &[String]| -> Vec<_> {
        one.iter()
            .filter(|line| !other.contains(line))
            .map(|line| line.chars().take(250).collect::<String>())
            .collect()
    };
    (!is_same).then(|| {
        let (more, less) = (only(&ours.1, &theirs.1), only(&theirs.1, &ours.1));
        format!("{line}: {}{}\nours alone: {more:#?}\nscp alone: {less:#?}\nleft: {left:?}", ours.2, theirs.2)
    })
}

fn assert_none(found: Vec<String>) {
    assert!(found.is_empty(), "{} lines differ:\n{}", found.len(), found.join("\n"));
}

#[test]
fn lines_that_send_do_what_they_do_with_scp() {
    let Some(case) = case().filter(|_| has("scp")) else { return };
    make_source(&case.near);
    let shown = case.b("").into_string().unwrap();
    let found = FROM_HERE.iter().filter_map(|line| differences(&case, line, &case.far, &shown, ""));
    assert_none(found.collect());
}

#[test]
fn lines_that_fetch_do_what_they_do_with_scp() {
    let Some(case) = case().filter(|_| has("scp")) else { return };
    make_source(&case.near);
    make_source(&case.far);
    let far = case.b("").into_string().unwrap();
    let far = far.trim_end_matches('/');
    let found = FROM_THERE.iter().filter_map(|line| differences(&case, line, &case.near, "", far));
    assert_none(found.collect());
}

#[test]
fn lines_within_a_host_do_what_they_do_with_scp() {
    let Some(case) = case().filter(|_| has("scp")) else { return };
    make_source(&case.near);
    rustix::fs::mknodat(CWD, case.near.join("src/fifo"), FileType::Fifo, Mode::from_raw_mode(0o640), 0)
        .unwrap();
    // scp's cp copies what it can of several sources into a directory that it has looked at.
    let found = FROM_HERE.iter().filter_map(|line| differences(&case, line, &case.near, "", ""));
    assert_none(found.collect());
}

#[test]
fn what_is_wrong_ends_as_with_scp() {
    let Some(case) = case().filter(|_| has("scp")) else { return };
    make_source(&case.near);
    let found = WRONG.iter().filter_map(|line| {
        let [ours, theirs] = [our_scp(&case).into_os_string(), "scp".into()]
            .map(|program| run(&case, program, words(line, "", "")));
        (ours.code != theirs.code || ours.err.is_empty()).then(|| format!("{line}: {ours}{theirs}"))
    });
    assert_none(found.collect());
}

#[test]
fn errors_are_lines_with_scps_reasons() {
    let Some(case) = case() else { return };
    make_source(&case.near);
    make_source(&case.far);
    let (far, there) = (case.far.display(), case.b(""));
    let there = there.to_str().unwrap();
    for (line, code, said) in [
        ("nothere TO/x", 255, "scp: stat local \"nothere\": No such file or directory\n".to_owned()),
        ("src TO/x", 1, "scp: src: not a regular file\n".to_owned()),
        ("src/a src/run nodir", 1, "scp: nodir: No such file or directory\n".to_owned()),
        ("src/a src/run other/a", 1, "scp: other/a: Not a directory\n".to_owned()),
        ("TOnothere x", 1, format!("scp: {far}//nothere: No such file or directory\n").replace("//", "/")),
        ("TOsrc x", 1, format!("scp: {far}/src: not a regular file\n")),
    ] {
        let ours = run(&case, our_scp(&case), words(line, there, "")).exits(code);
        assert!(ours.err.starts_with(&said) && ours.out.is_empty(), "{line}: {ours}");
    }
}

#[test]
fn a_uri_names_a_user_a_port_and_a_path() {
    let Some(case) = case() else { return };
    make_source(&case.near);
    let far = case.far.to_str().unwrap();
    let ours = |line: &str| run(&case, our_scp(&case), words(line, "", ""));
    ours(&format!("src/a scp://root@b/{far}/with%20blank")).exits(0);
    assert_eq!(fs::read(case.far.join("with blank")).unwrap(), b"hi\n");
    ours(&format!("scp://b/{far}/with+blank back")).exits(0);
    assert_eq!(fs::read(case.near.join("back")).unwrap(), b"hi\n");
    ours(&format!("src/a scp://b:1/{far}/x")).exits(255).says(&["port 1"]);
}

#[test]
fn what_linerate_scp_lacks_is_refused_by_its_name() {
    let Some(case) = case() else { return };
    make_source(&case.near);
    for (line, said) in [
        ("-D /usr/lib/sftp-server src/a b:x", "scp: -D is not supported by linerate scp: "),
        ("-t x", "scp: -t is not supported by linerate scp: "),
        ("-1 src/a x", "scp: -1 is not supported by linerate scp: "),
    ] {
        run(&case, our_scp(&case), words(line, "", "")).exits(1).says(&[said]);
        assert!(!case.near.join("x").exists(), "{line}");
    }
}

#[test]
fn links_in_a_tree_are_followed_and_one_that_goes_round_or_nowhere_is_an_error() {
    let Some(case) = case() else { return };
    make_source(&case.near);
    make_source(&case.far);
    write(case.aside("out").join("of/it"), "outside");
    for top in [&case.near, &case.far] {
        symlink(case.aside("out"), top.join("src/out")).unwrap();
        symlink("missing", top.join("src/nowhere")).unwrap();
        symlink("..", top.join("src/sub/round")).unwrap();
    }
    let (there, here) = (case.b("new"), case.b("src"));
    let messages = [
        "src/nowhere: is a symbolic link whose target doesn't exist",
        "src/sub/round: is a symbolic link to a directory above it",
    ];
    for (from, to, top) in [("src".into(), there, &case.far), (here, "new".into(), &case.near)] {
        run(&case, our_scp(&case), args!["-r", from, to]).exits(1).says(&messages);
        assert_eq!(fs::read(top.join("new/out/of/it")).unwrap(), b"outside");
        let copied = everything(&top.join("new"));
        assert!(copied.keys().all(|path| !top.join("new").join(path).is_symlink()));
        assert!(!top.join("new/nowhere").exists() && !top.join("new/sub/round/a").exists());
    }
}
