//! Tests that directories are created and get their metadata even if some entries can't be copied.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::{Fleet, done};
use crate::bed::{args, case};
use crate::tree::write;

#[test]
fn one_entry_that_cannot_be_copied_leaves_all_directories_as_they_should_be() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_tree();
    // A link can't replace this directory.
    write(fleet.copy.join("link/in the way"), "x");
    fleet.plan(args!["--shards", "1"]).exits(0);
    fleet.run(args!["--shard", "0"]).exits(3).says(&["link: a directory that isn't empty is in the way"]);
    assert!(fleet.copy.join("empty/below").is_dir());
    assert_eq!(fs::metadata(fleet.copy.join("d3")).unwrap().permissions().mode() & 0o7777, 0o750);
    assert_eq!(fs::metadata(fleet.copy.join("d1")).unwrap().mtime(), 1_500_000_000);
    assert_eq!(fleet.states(), [("failed".to_owned(), 1), ("failed".to_owned(), 1)]);
    let status = fleet.start(&["status", "plan"], args![]).end().exits(3);
    assert!(
        status
            .out
            .contains("the directories: the directories' modes and times are set, and will be set again"),
        "{status}"
    );
    fs::remove_dir_all(fleet.copy.join("link")).unwrap();
    fleet.run(args![]).exits(0);
    fleet.assert_done();
    assert_eq!(fleet.states(), [done(2), done(2)]);
}

#[test]
fn a_shard_that_fails_as_a_whole_is_named_since_the_directories_wait_for_it() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_tree();
    fleet.plan(args!["--shards", "2"]).exits(0);
    write(case.near.join("plan/round-1/00001.list"), "d1/f1\0");
    fleet.run(args![]).exits(1).says(&[
        "shard 1 isn't done yet: empty directories are created, and modes and times of directories set",
    ]);
    assert!(!fleet.copy.join("empty").exists());
    assert_eq!(fleet.states()[2], ("waiting".to_owned(), 0));
}

#[test]
fn a_directory_above_files_of_several_shards_is_compared_once() {
    let Some(case) = case() else { return };
    let fleet = Fleet::new(&case).with_tree();
    for number in 0..20 {
        write(fleet.source.join(format!("together/f{number}")), "x");
    }
    fleet.plan(args!["--shards", "4"]).exits(0);
    fleet.run(args![]).exits(0);
    fs::set_permissions(fleet.copy.join("together"), fs::Permissions::from_mode(0o711)).unwrap();
    let ssh = args!["-F", case.bed.lab.ssh_config()];
    let compared = fleet.start(&["verify", "plan"], ssh).end().exits(3).says(&["1 differ"]);
    assert_eq!(compared.out, "the directories: .d...p..... together/\n");
}
