//! Tests of the words in rsync's output, compared with rsync: `-vv`, `-ii`, `--info`, and the escapes of
//! formats.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use linerate_testing::has;

use crate::bed::{args, case};
use crate::rsync_lines::{assert_alike, make_changed, make_source, over_ssh};
use crate::tree::write;

/// Command lines for a destination that exists and differs.
const CHANGED: [&str; 13] = [
    "-aii src/ DST/",
    "-aivv src/ DST/",
    "-aiivvn --delete src/ DST/",
    "-ai --update --info=skip src/ DST/",
    "-ai --existing --info=skip src/ DST/",
    "-ai --ignore-existing --info=skip1,name0 src/ DST/",
    "-ai --max-size=2 --info=skip src/ DST/",
    "-ai --min-size=4 --info=SKIP src/ DST/",
    "-a --info=name2 src/ DST/",
    "-av --info=name0 src/ DST/",
    "-av --info=flist0,stats0 src/ DST/",
    "-av --info=none src/ DST/",
    "-a --info=nonreg0 --no-D src/ DST/",
];

/// Formats of output lines.
const FORMATS: [&str; 8] = [
    "%i|%n|%L",
    "%f|%n%L|%o",
    "%'l|%-30n|%30n|%-10i|%010U|%G|%B|%M",
    "100%%,%%i,%x,%h,%m,%a,%",
    "%-12L|%'',|%-3%|",
    "%000000000000000000000000000000n",
    "%P%u%U",
    "%",
];

#[test]
fn what_is_as_it_was_has_the_lines_that_rsync_gives_it() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    CHANGED.iter().for_each(|line| assert_alike(&case, line, make_changed));
    for other in ["--link-dest=../src", "--compare-dest=../src", "--copy-dest=../src"] {
        assert_alike(&case, &format!("-aii {other} src/ DST/"), |_| ());
    }
}

#[test]
fn the_escapes_of_formats_are_rsync_s() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    write(case.near.join("files"), "a\nsub/b\nl\n");
    for format in FORMATS {
        // Sizes of directories are their file system's.
        if format.contains('l') {
            let line =
                format!("-lptgoD --no-implied-dirs --files-from=files --out-format={format} src/ DST/");
            assert_alike(&case, &line, make_changed);
            continue;
        }
        for way in ["src/ DST/", "src/sub/ DST/sub/", "-R src/./sub DST/", "src/a src/sub DST/"] {
            assert_alike(&case, &format!("-rltpgoD --out-format={format} {way}"), make_changed);
        }
    }
}

#[test]
fn sums_of_files_are_those_of_the_choice() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    for choice in
        ["--info=name1", "--cc=md5", "--cc=md5,xxh64 -c", "--cc=sha1 -c -ii", "--cc=none", "-n", "-nc"]
    {
        let format = "-rltpgoD --out-format=%i|%C|%n";
        for paths in ["src/ DST/", "src/sub DST", "src/a DST/renamed", "-R src/./sub DST/"] {
            assert_alike(&case, &format!("{format} {choice} {paths}"), make_changed);
        }
    }
    let sum = |line: &str| {
        let run = over_ssh(&case, &format!("-a --cc=md5 --out-format=%C:%n {line}")).exits(0);
        run.out.lines().find_map(|line| line.strip_suffix(":sub/b").map(str::to_owned))
    };
    // That of "yo" and the end of its line.
    let both = [sum("src/ FAR/to/"), sum("FAR/to/ back/")];
    assert_eq!(both, [(); 2].map(|()| Some("f6255bb01c648fe967714d52a89e8e9c".to_owned())));
}

fn make_odd(top: &Path) {
    let names: [&[u8]; 6] =
        [b"bell\x07", b"es\x1bc", b"\xff", b"like\\#123", "\u{e9}".as_bytes(), b"tab\tback\\"];
    names.iter().for_each(|name| write(top.join(OsStr::from_bytes(name)), "x"));
}

#[test]
fn odd_names_are_escaped_as_rsync_escapes_them() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_odd(&case.near.join("src"));
    for line in
        ["-av src/ DST/", "-ai src DST/", "-ai -b --info=backup src/ DST/", "-av8 src/ DST/", "-r8 src/"]
    {
        assert_alike(&case, line, |_| ());
    }
    let program = case.bed.program();
    let logged = |program: Vec<std::ffi::OsString>, to: &str| {
        let run = case.start_with(program, args!["-r", "--log-file", format!("{to}.log"), "src/", to]);
        run.end().exits(0);
        let text =
            String::from_utf8_lossy(&fs::read(case.near.join(format!("{to}.log"))).unwrap()).into_owned();
        let brought = text.lines().filter_map(|line| line.split_once(">f+++++++++ "));
        brought.map(|(_, name)| name.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(logged(args![program, "rsync"], "ours"), logged(args!["rsync"], "theirs"));
}

#[test]
fn what_is_as_it_was_is_reported_over_ssh_too() {
    let Some(case) = case() else { return };
    make_source(&case.near.join("src"));
    over_ssh(&case, "-a src/ FAR/to/").exits(0);
    let again = over_ssh(&case, "-aii src/ FAR/to/").exits(0);
    assert!(again.out.contains(".d          ./\n") && again.out.contains(".f          sub/b\n"), "{again}");
    let back = over_ssh(&case, "-a FAR/to/ back/").exits(0);
    assert_eq!(back.out, "");
    let pulled = over_ssh(&case, "-rtvv --out-format=%o:%n:%l:%B FAR/to/ back/").exits(0);
    assert!(pulled.out.contains("sub/b is uptodate\n"), "{pulled}");
    write(case.far.join("to/sub/b"), "longer");
    let pulled = over_ssh(&case, "-rtp --out-format=%o:%n:%l:%B FAR/to/ back/").exits(0);
    assert!(pulled.out.contains("recv:sub/b:6:rw-r--r--\n"), "{pulled}");
}
