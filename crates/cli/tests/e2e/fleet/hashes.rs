//! Tests of a plan's manifest, and of comparing by hashes what the tasks have copied.

use std::ffi::OsString;
use std::fs;

use super::Fleet;
use crate::bed::{args, case};
use crate::tree::write;

#[test]
fn what_tasks_have_moved_is_compared_by_hashes_and_listed_with_them() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_tree();
    fleet.plan(args!["--shards", "3", "--manifest"]).exits(0);
    fleet.run(args![]).exits(0);
    write(fleet.source.join("d5/f5"), "changed");
    fs::remove_file(fleet.source.join("d6/f6")).unwrap();
    fleet.plan(args!["--shards", "2", "--manifest"]).exits(0);
    fleet.run(args![]).exits(0);
    fs::remove_file(fleet.copy.join("d6/f6")).unwrap();
    let manifest = fleet.start(&["manifest", "plan"], args![]).end().exits(0).out;
    let lines: Vec<&str> = manifest.lines().collect();
    assert_eq!(lines.len(), 61, "59 files, a second name, and a name with a newline: {manifest}");
    let changed = blake3::hash(b"changed").to_hex();
    assert!(lines.contains(&&*format!("{changed}  d5/f5")), "{manifest}");
    let newline = blake3::hash(b"x").to_hex();
    assert!(lines.contains(&&*format!("\\{newline}  new\\nline")), "{manifest}");
    let report = fleet.start(&["report", "plan"], args!["--page", "run.html"]).end().exits(0);
    let parts = ["receives", "limited by", "rates over time", "█"];
    assert!(parts.iter().all(|part| report.out.contains(part)), "{report}");
    let page = fs::read_to_string(case.near.join("run.html")).expect("it was written");
    assert!(page.contains("<svg") && page.contains("sends, "), "{page}");
    let compare = |options: Vec<OsString>| {
        let ssh = args!["-F", case.bed.lab.ssh_config()];
        fleet.start(&["verify", "plan"], [ssh, options].concat()).end()
    };
    // The removal has changed the time of the directory, which the plan keeps.
    let found = compare(args![]).exits(3).says(&["the same, 1 differ, 0 missing"]);
    assert_eq!(found.out, "the directories: .d..t...... d6/\n");
    let time = fs::metadata(fleet.source.join("d6")).unwrap().modified().unwrap();
    fs::File::open(fleet.copy.join("d6")).unwrap().set_modified(time).unwrap();
    compare(args![]).exits(0).says(&["the same, 0 differ"]);
    let damaged = fleet.copy.join("d5/f5");
    let meta = fs::metadata(&damaged).unwrap();
    fs::write(&damaged, "Changed").unwrap();
    fs::File::options().write(true).open(&damaged).unwrap().set_modified(meta.modified().unwrap()).unwrap();
    let found = compare(args![]).exits(3);
    assert!(found.out.contains("d5/f5") && found.err.contains("1 differ"), "{found}");
    assert_eq!(fs::read(&damaged).unwrap(), b"Changed", "nothing is changed");
}

#[test]
fn a_manifest_has_no_hash_of_a_file_that_a_round_without_one_brought() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_tree();
    let round = |options: Vec<OsString>| {
        fleet.plan([options, args!["--shards", "2"]].concat()).exits(0);
        fleet.run(args![]).exits(0);
    };
    round(args!["--manifest"]);
    let manifest = || fleet.start(&["manifest", "plan"], args![]).end();
    let all = manifest().exits(0).out;
    round(args![]);
    assert_eq!(manifest().exits(0).out, all, "a round without hashes that brought nothing changes none");
    write(fleet.source.join("d4/f4"), "round 2");
    round(args![]);
    write(fleet.source.join("d4/new"), "round 3");
    round(args!["--manifest"]);
    let run = manifest().exits(3).says(&["1 file has no hash"]);
    assert!(run.out.contains("  d4/new\n") && !run.out.contains("  d4/f4\n"), "{run}");
    write(fleet.source.join("d4/f4"), "round 4");
    round(args!["--manifest"]);
    let hash = blake3::hash(b"round 4").to_hex();
    assert!(manifest().exits(0).out.contains(&format!("{hash}  d4/f4\n")));
}
