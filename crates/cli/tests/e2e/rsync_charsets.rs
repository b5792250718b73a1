//! Tests of `--iconv`, with rsync and with `linerate rsync`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use linerate_testing::has;

use crate::archive::everything;
use crate::bed::{args, case};
use crate::rsync_lines::{assert_alike_in, lines, over_ssh};
use crate::tree::write;

const LINES: [&str; 9] = [
    "-aiH --iconv=utf8,iso88591 src/ DST/",
    "-aiH --iconv=UTF-8,ISO-8859-1 --delete src/ DST/",
    "-ai --iconv=utf8,latin1 --exclude=grün src/ DST/",
    "-ai8 --iconv=utf8,latin1 --delete src/dé src/grün DST/",
    "-aiR --iconv=utf8,latin1 src/./dé DST/",
    "-ai --iconv=utf8,latin1 --no-iconv src/ DST/",
    "-ai --iconv=- src/ DST/",
    "-ai --iconv=nonsense,utf8 src/ DST/",
    "-aic --iconv=utf8,cp1252 --safe-links src/ DST/",
];

fn latin1(name: &str) -> PathBuf {
    let bytes: Vec<u8> = name.chars().map(|letter| u8::try_from(letter).unwrap()).collect();
    OsStr::from_bytes(&bytes).into()
}

fn make_source(top: &Path) {
    write(top.join("grün"), "green\n");
    write(top.join("plain"), "plain\n");
    write(top.join("dé/ñ"), "n");
    symlink("dé/ñ", top.join("link to é")).unwrap();
}

/// Makes a destination of an earlier run that has additional entries.
fn make_older(top: &Path) {
    write(top.join(latin1("grün")), "older");
    write(top.join(latin1("dé/alt é")), "goes");
    write(top.join("grün"), "no name of the source's");
}

/// Sorts lines, since rsync handles names in the file system's order if it converts them.
fn in_any_order(text: &str) -> Vec<String> {
    let mut lines = lines(text);
    lines.sort();
    lines
}

#[test]
fn names_are_converted_as_rsync_converts_them() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    for line in LINES {
        assert_alike_in(&case, line, |_| (), in_any_order);
        assert_alike_in(&case, line, make_older, in_any_order);
    }
    // What isn't the source's own is left out.
    write(case.near.join("src").join(OsStr::from_bytes(b"not utf8 \xff")), "x");
    for line in &LINES[..2] {
        assert_alike_in(&case, line, |_| (), in_any_order);
        assert_alike_in(&case, line, make_older, in_any_order);
    }
}

#[test]
fn what_the_destination_has_no_characters_for_is_named_and_the_rest_is_there() {
    let Some(case) = case() else { return };
    make_source(&case.near.join("src"));
    write(case.near.join("src/dé/日本"), "x");
    symlink("日本", case.near.join("src/to")).unwrap();
    write(case.near.join("src/日/in"), "x");
    make_older(&case.far.join("to"));
    let words = "src/dé/日本: cannot be converted";
    let pushed = over_ssh(&case, "-ai8 --delete --iconv=utf8,latin1 src/ FAR/to/").exits(23);
    pushed.says(&[
        &words.replace("src/", "src/./"),
        "src/./to: cannot be converted: the link's target",
        "src/./日: ",
    ]);
    let far = |name: &str| case.far.join("to").join(latin1(name));
    assert_eq!(fs::read(far("dé/ñ")).unwrap(), b"n");
    assert!(far("dé/alt é").exists(), "nothing is deleted where not all was sent");
    let named = over_ssh(&case, "-ai8 --iconv=utf8,latin1 src/日 FAR/to/").exits(3);
    named.says(&["the name of the source '日' can't be written in the destination's character set"]);
}

#[test]
fn names_are_converted_between_hosts_and_back() {
    let Some(case) = case() else { return };
    let source = case.near.join("src");
    make_source(&source);
    fs::hard_link(source.join("grün"), source.join("dé/grün too")).unwrap();
    let far = |name: &str| case.far.join("to").join(latin1(name));
    let pushed = over_ssh(&case, "-aiH8 --iconv=utf8,latin1 src/ FAR/to/").exits(0);
    assert!(pushed.out.contains("f+++++++++ grün\n"), "{pushed}");
    assert_eq!(fs::read(far("dé/ñ")).unwrap(), b"n");
    assert_eq!(fs::read_link(far("link to é")).unwrap(), latin1("dé/ñ"));
    assert_eq!(over_ssh(&case, "-aiH8 --iconv=utf8,latin1 src/ FAR/to/").exits(0).out, "");
    write(far("weg é"), "goes");
    let deleted = over_ssh(&case, "-aiH8 --delete --iconv=utf8,latin1 src/ FAR/to/").exits(0);
    assert!(deleted.out.contains("*deleting   weg é\n"), "{deleted}");
    let pulled = over_ssh(&case, "-aiH8 --iconv=utf8,latin1 FAR/to/ back/").exits(0);
    assert!(pulled.out.contains(">f+++++++++ grün\n"), "{pulled}");
    assert!(pulled.out.contains("link to é -> dé/ñ\n"), "{pulled}");
    assert_eq!(everything(&source), everything(&case.near.join("back")));
    let again = over_ssh(&case, "-aiH8 --delete --exclude=*.é --iconv=utf8,latin1 FAR/to/ back/").exits(0);
    assert_eq!(again.out, "");
    let uptodate = over_ssh(&case, "-a8vv --iconv=utf8,latin1 FAR/to/ back/").exits(0);
    assert!(uptodate.out.contains("grün is uptodate\n"), "{uptodate}");
    let summed = over_ssh(&case, "-aI8 --iconv=utf8,latin1 --out-format=%C_%n FAR/to/ back/").exits(0);
    let sum = summed.out.lines().find_map(|line| line.strip_suffix(" grün")).expect("its line");
    assert!(sum.len() == 32 && sum != " ".repeat(32), "{summed}");
    write(case.near.join("list"), "dé/ñ\n");
    over_ssh(&case, "-a --iconv=utf8,latin1 --files-from=list FAR/to/ listed/").exits(0);
    over_ssh(&case, "-a --iconv=utf8,latin1 --files-from=list src/ FAR/too/").exits(0);
    assert_eq!(fs::read(case.near.join("listed/dé/ñ")).unwrap(), b"n");
    assert_eq!(fs::read(case.far.join("too").join(latin1("dé/ñ"))).unwrap(), b"n");
    case.start_with(args![case.bed.program(), "rsync"], args!["-a", "--iconv=utf8,.", "src", "x"])
        .end()
        .exits(1)
        .says(&["--iconv=utf8,.", "name the character set"]);
}
