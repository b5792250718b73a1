//! Tests of files that changed although their size and modification time didn't: the plan finds them by other
//! properties, and the tasks compare their contents.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use serde_json::Value;

use super::Fleet;
use crate::bed::{args, case};
use crate::tree::{noise, write};

/// Writes other bytes of the same number, and restores the modification time.
fn change_alike(path: &Path, bytes: &[u8], at: u64) {
    let time = fs::metadata(path).unwrap().modified().unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
    file.set_modified(time).unwrap();
}

#[test]
fn other_contents_and_separate_files_arrive_although_size_and_time_are_the_same() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_tree();
    write(fleet.source.join("large"), noise(3, 5 << 20));
    fleet.plan(args!["--shards", "3"]).exits(0);
    fleet.run(args![]).exits(0);
    change_alike(&fleet.source.join("d5/f5"), b"CCCC", 7);
    change_alike(&fleet.source.join("large"), b"CCCC", 3 << 20);
    let (one, other) = (fleet.source.join("d1/f1"), fleet.source.join("d2/other"));
    fs::remove_file(&other).unwrap();
    fs::copy(&one, &other).unwrap();
    let time = fs::metadata(&one).unwrap().modified().unwrap();
    fs::File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
    let planned = fleet.plan(args!["--shards", "2", "--json"]).exits(0);
    let planned: Value = serde_json::from_str(&planned.out).unwrap();
    assert_eq!(planned["files"], 4, "{planned}");
    fleet.run(args![]).exits(0);
    fleet.assert_done();
    let links = |name: &str| fs::metadata(fleet.copy.join(name)).unwrap().nlink();
    assert_eq!((links("d1/f1"), links("d2/other")), (1, 1));
    // The same contents under one name again.
    fs::remove_file(&other).unwrap();
    fs::hard_link(&one, &other).unwrap();
    fleet.plan(args!["--shards", "2"]).exits(0);
    fleet.run(args![]).exits(0);
    fleet.assert_done();
    assert_eq!((links("d1/f1"), links("d2/other")), (2, 2));
}

#[test]
fn a_divided_file_with_other_contents_arrives_although_size_and_time_are_the_same() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_large_file();
    fleet.divide(2);
    fleet.run(args![]).exits(0);
    fleet.assert_done();
    change_alike(&fleet.source.join("d/large"), b"changed", 60 << 20);
    let older = fs::read(fleet.large()).unwrap();
    fleet.divide(2);
    fleet.shard(0).exits(0);
    // Without its pieces the older file is not taken for the changed one.
    fleet.clean();
    fleet.shard(1).exits(3).says(&[
        "d/large: 32 pieces of this divided file are missing at the destination: plan the copy again",
    ]);
    assert!(fs::read(fleet.large()).unwrap() == older);
    fleet.divide(2);
    fleet.run(args![]).exits(0);
    fleet.clean();
    fleet.assert_done();
}
