//! Tests of compression: the copied tree is the same, fewer bytes are sent on a slow link, and data that
//! can't be compressed is sent as it is.

use std::fs;
use std::path::Path;

use crate::bed::{Case, args, case, case_with_link};
use crate::json::{summary_of, u64_at};
use crate::support::Run;
use crate::tree::{assert_alike, make_mixed, noise, write};

/// Makes small and large text files, and returns their number of bytes.
fn make_text(top: &Path) -> u64 {
    let line = |seed: usize| {
        format!("fn number_{seed}(count: usize) -> usize {{ count + {} }} // {seed:x}\n", seed * 7)
    };
    let text =
        |seed: usize, lines: usize| (0..lines).map(|number| line(seed * 31 + number)).collect::<String>();
    let mut bytes = 0;
    for seed in 0..300 {
        let text = text(seed, 100 + seed);
        bytes += text.len() as u64;
        write(top.join(format!("d{}/f{seed}.rs", seed % 7)), text);
    }
    for seed in [5, 6] {
        let text = text(seed, 150_000);
        bytes += text.len() as u64;
        write(top.join(format!("large{seed}")), text);
    }
    bytes
}

#[track_caller]
fn wire_and_packed(run: &Run) -> (u64, u64) {
    let summary = summary_of(&run.out);
    let packed = u64_at(&summary, "/sender/stages/packed");
    assert_eq!(packed, u64_at(&summary, "/receiver/stages/packed"), "{summary}");
    (u64_at(&summary, "/wire_bytes"), packed)
}

#[track_caller]
fn there_and_back(case: &Case, options: &[&str]) -> [Run; 2] {
    let with = |more: [std::ffi::OsString; 2]| {
        let first = ["-r", "--json"].into_iter().chain(options.iter().copied());
        first.map(std::ffi::OsString::from).chain(more).collect()
    };
    let pushed = case.cp(with(["tree".into(), case.b("to")])).exits(0);
    assert_alike(&case.near.join("tree"), &case.far.join("to"));
    let pulled = case.cp(with([case.b("to"), "back".into()])).exits(0);
    assert_alike(&case.near.join("tree"), &case.near.join("back"));
    [pushed, pulled]
}

#[test]
fn a_level_compresses_everything_both_ways() {
    for options in [
        &["--compress=3"][..],
        &["--compress=9", "--no-encrypt"],
        &["--compress=1", "--verify", "--streams=4"],
    ] {
        let Some(case) = case() else { return };
        let bytes = make_text(&case.near.join("tree"));
        make_mixed(&case.near.join("tree/mixed"));
        for run in there_and_back(&case, options) {
            let (wire, packed) = wire_and_packed(&run);
            assert!(packed >= bytes && wire < bytes / 3 + (10 << 20), "{options:?}: {wire} {packed} {bytes}");
        }
    }
}

#[test]
fn timed_a_slow_link_is_relieved_and_what_is_compressed_already_is_left_alone() {
    let Some(case) = case_with_link("100mbit") else { return };
    let bytes = make_text(&case.near.join("tree"));
    let [pushed, pulled] = there_and_back(&case, &[]);
    for run in [pushed, pulled] {
        let (wire, packed) = wire_and_packed(&run);
        assert!(wire < bytes / 2 && packed > bytes / 2, "{wire} {packed} {bytes}");
    }
    fs::remove_dir_all(case.far.join("to")).unwrap();
    let off = case.cp(args!["-r", "--json", "--compress=off", "tree", case.b("to")]).exits(0);
    let (wire, packed) = wire_and_packed(&off);
    assert!(wire > bytes && packed == 0, "{wire} {packed} {bytes}");
    write(case.near.join("noise"), noise(7, 8 << 20));
    let dull = case.cp(args!["--json", "noise", case.b("noise")]).exits(0);
    assert_eq!(wire_and_packed(&dull).1, 0, "{dull}");
    write(case.near.join("text.gz"), "the name says that it is compressed\n".repeat(200_000));
    let skipped = case.cp(args!["--json", "--compress=9", "text.gz", case.b("text.gz")]).exits(0);
    assert_eq!(wire_and_packed(&skipped).1, 0, "{skipped}");
}

/// Runs `linerate rsync` with these words.
fn rsync(case: &Case, words: Vec<std::ffi::OsString>) -> Run {
    let shell = format!("ssh -F {}", case.bed.lab.ssh_config().display());
    case.start_with(args![case.bed.program(), "rsync", "-e", shell], words).end()
}

#[test]
fn rsyncs_options_compress() {
    let Some(case) = case() else { return };
    let bytes = make_text(&case.near.join("tree"));
    let sent = |words: &[&str], to: &str| {
        let words =
            words.iter().map(std::ffi::OsString::from).chain(args!["--stats", "-r", "tree/", case.b(to)]);
        let run = rsync(&case, words.collect()).exits(0);
        let line = run.out.lines().find_map(|line| line.strip_prefix("Total bytes sent: ")).expect("--stats");
        line.replace(',', "").parse::<u64>().expect("a number")
    };
    for (number, words) in
        [&["-z"][..], &["--compress-level=9"], &["--zc=lz4"], &["-z", "--skip-compress=gz"]]
            .iter()
            .enumerate()
    {
        let wire = sent(words, &format!("z{number}"));
        assert!(wire < bytes / 2, "{words:?}: {wire} of {bytes}");
    }
    for (number, words) in [&["-z", "--no-compress"][..], &["--zc=none"]].iter().enumerate() {
        let wire = sent(words, &format!("plain{number}"));
        assert!(wire > bytes, "{words:?}: {wire} of {bytes}");
    }
    let unknown = rsync(&case, args!["--zc=brotli", "-r", "tree/", case.b("x")]);
    assert!(unknown.err.contains("unknown compress name: brotli"), "{unknown}");
}
