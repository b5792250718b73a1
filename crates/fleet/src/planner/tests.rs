use super::*;
use crate::attempt::AttemptState;
use crate::claim::{ClaimPatience, Claimed, claim};
use linerate_wire::control::Keep;
use std::collections::BTreeSet;
use std::time::Duration;

fn request(shards: u32) -> PlanRequest {
    PlanRequest {
        source: "/source".into(),
        destination: "/copy".into(),
        hosts: vec!["h".into()],
        keep: Keep::NOTHING,
        verify: false,
        manifest: false,
        divides: true,
        shards: ShardCount::Fixed(shards),
    }
}

fn stamp(size: u64, inode: u64, ctime: i64) -> EntryStamp {
    EntryStamp { size, mtime: (1, 0), ctime: (ctime, 0), inode }
}

fn names(plan: &PlanDirectory, part: FleetPart) -> Vec<String> {
    let list = String::from_utf8(plan.list(part).unwrap()).unwrap();
    list.split_terminator('\0').map(str::to_owned).collect()
}

fn end(plan: &PlanDirectory, part: FleetPart, state: AttemptState) {
    let patience = ClaimPatience { lease: Duration::from_secs(1), waits: false };
    match claim(&plan.runs(), part, patience, |_| String::new(), || true).unwrap() {
        Claimed::Ours(mut claim) => {
            claim.attempt.state = state;
            claim.write().unwrap();
        }
        other => panic!("{other:?}"),
    }
}

/// Makes a plan for a hundred files of 1 to 100 bytes in `d`, a file with two hard links, and, if `with_link` is set, a
/// symbolic link. The file with the number `changed` has another ctime than the others.
fn make(directory: &Path, shards: u32, changed: Option<u64>, with_link: bool) -> PlanDirectory {
    let mut maker = PlanMaker::begin(directory, request(shards)).unwrap();
    let mut take =
        |path: &str, kind, stamp, linked| maker.take(path.as_bytes(), kind, stamp, linked).unwrap();
    take("", EntryKind::Directory, stamp(0, 1, 1), false);
    take("d", EntryKind::Directory, stamp(0, 2, 1), false);
    take("one", EntryKind::File, stamp(1000, 3, 1), true);
    for number in 1..=100 {
        let ctime = if changed == Some(number) { 2 } else { 1 };
        take(&format!("d/{number}"), EntryKind::File, stamp(number, 100 + number, ctime), false);
    }
    take("other", EntryKind::File, stamp(1000, 3, 1), true);
    if with_link {
        take("link", EntryKind::Link, stamp(5, 4, 1), false);
    }
    maker.finish().unwrap()
}

#[test]
fn every_name_is_in_one_shard_and_names_of_one_file_are_together() {
    let directory = tempfile::tempdir().unwrap();
    let plan = make(directory.path(), 4, None, true);
    let shards: Vec<_> = (0..4).map(|shard| names(&plan, FleetPart::Shard(shard))).collect();
    let all: Vec<_> = shards.iter().flatten().cloned().collect();
    assert_eq!(all.len(), 103);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 103);
    let together = shards.iter().filter(|names| names.iter().any(|name| name == "one"));
    assert!(together.into_iter().all(|names| names.iter().any(|name| name == "other")));
    assert_eq!(names(&plan, FleetPart::Directories), [".", "d"]);
    let FoundSums { files, directories, bytes, .. } = plan.plan.found;
    assert_eq!((files, directories, bytes), (103, 2, 5050 + 1000 + 5));
    let planned: Vec<_> = plan.plan.shards.iter().map(|shard| shard.files).collect();
    assert_eq!(planned, shards.iter().map(|names| names.len() as u64).collect::<Vec<_>>());
    assert_eq!(plan.plan.burden(), Burden { bytes: 6050, files: 103 });
    assert_eq!(PlanDirectory::open(directory.path()).unwrap().plan, plan.plan);
}

#[test]
fn a_second_plan_has_what_changed_what_failed_and_what_is_new() {
    let directory = tempfile::tempdir().unwrap();
    let first = make(directory.path(), 2, None, true);
    end(&first, FleetPart::Shard(0), AttemptState::Done);
    end(&first, FleetPart::Shard(1), AttemptState::Failed);
    let failed: BTreeSet<_> = names(&first, FleetPart::Shard(1)).into_iter().collect();
    let second = make(directory.path(), 3, Some(50), false);
    assert_eq!((second.plan.round, &second.plan.id), (2, &first.plan.id));
    let of = |plan: &PlanDirectory, shards| -> BTreeSet<String> {
        (0..shards).flat_map(|shard| names(plan, FleetPart::Shard(shard))).collect()
    };
    let mut expected = failed;
    expected.insert("d/50".to_owned());
    expected.remove("link");
    assert_eq!(of(&second, 3), expected);
    let gone = fs::read(second.round().join(GONE_FILE)).unwrap();
    assert_eq!((gone.as_slice(), second.plan.found.gone), (&b"link\0"[..], 1));
    second.plan.parts().for_each(|part| end(&second, part, AttemptState::Done));
    let third = make(directory.path(), 1, Some(50), true);
    assert_eq!(of(&third, 1), BTreeSet::from(["link".to_owned()]));
    assert_eq!(third.plan.found.in_place, 102);
}

#[test]
fn a_plan_is_made_as_a_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let mut maker = PlanMaker::begin(directory.path(), request(2)).unwrap();
    maker.take(b"a", EntryKind::File, stamp(1, 1, 1), false).unwrap();
    drop(maker);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    let plan = make(directory.path(), 2, None, true);
    let text = fs::read(directory.path().join("plan.json")).unwrap();
    drop(PlanMaker::begin(directory.path(), request(2)).unwrap());
    assert_eq!(fs::read(directory.path().join("plan.json")).unwrap(), text);
    let mut held: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    held.sort();
    assert_eq!(held, ["journal.key", "plan.json", "round-1"]);
    let others = PlanRequest { destination: "/elsewhere".into(), ..request(2) };
    let error = PlanMaker::begin(directory.path(), others).err().unwrap().to_string();
    assert!(error.contains("has a plan of /source to h:/copy"), "{error}");
    // The file is removed as if planning had been interrupted before its last step.
    fs::remove_file(plan.path.join("plan.json")).unwrap();
    assert_eq!(make(directory.path(), 2, None, true).plan.round, 2);
    let (one, other) =
        (PlanMaker::begin(directory.path(), request(2)), make(directory.path(), 2, None, true));
    assert_eq!(other.plan.round, 3);
    let error = one.unwrap().finish().unwrap_err().to_string();
    assert!(error.contains("another plan was made"), "{error}");
    fs::remove_file(plan.path.join("plan.json")).unwrap();
    fs::write(plan.path.join("foreign"), "").unwrap();
    assert!(PlanMaker::begin(directory.path(), request(2)).is_err(), "what is there isn't ours");
}

#[test]
fn a_plan_whose_tasks_are_at_work_is_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let plan = make(directory.path(), 2, None, true);
    end(&plan, FleetPart::Shard(0), AttemptState::Running);
    let error = PlanMaker::begin(directory.path(), request(2)).err().unwrap().to_string();
    assert!(error.contains("are running"), "{error}");
}

#[test]
fn shards_of_a_size_are_as_many_as_it_takes() {
    let directory = tempfile::tempdir().unwrap();
    let sized = PlanRequest { shards: ShardCount::OfSize(1000), ..request(1) };
    let mut maker = PlanMaker::begin(directory.path(), sized).unwrap();
    for number in 0..41 {
        maker.take(format!("{number}").as_bytes(), EntryKind::File, stamp(100, number, 1), false).unwrap();
    }
    assert_eq!(maker.finish().unwrap().plan.shards.len(), 5);
    let empty = tempfile::tempdir().unwrap();
    let plan = PlanMaker::begin(empty.path(), request(3)).unwrap().finish().unwrap();
    assert_eq!(plan.plan.shards.len(), 3);
    assert_eq!(plan.plan.evenness(), (1.0, 1.0));
}

#[test]
fn a_large_file_is_on_several_shards_and_in_place_once_all_are_done() {
    let directory = tempfile::tempdir().unwrap();
    let make = |ctime| {
        let mut maker = PlanMaker::begin(directory.path(), request(3)).unwrap();
        let mut take = |path: &str, kind, stamp| maker.take(path.as_bytes(), kind, stamp, false).unwrap();
        take("", EntryKind::Directory, stamp(0, 1, 1));
        take("large", EntryKind::File, stamp(300 << 20, 2, ctime));
        (0..30).for_each(|number| take(&format!("s{number:02}"), EntryKind::File, stamp(1, 3 + number, 1)));
        maker.finish().unwrap()
    };
    let plan = make(1);
    let of = |plan: &PlanDirectory, part| plan.divided(part).unwrap();
    let ranges: Vec<_> = (0..3).flat_map(|shard| of(&plan, FleetPart::Shard(shard))).collect();
    assert_eq!(ranges.iter().map(|file| file.first).collect::<Vec<_>>(), [0, 100, 200]);
    let all = of(&plan, FleetPart::Directories);
    assert!(ranges.iter().all(|file| file.is_consistent() && file.key == all[0].key), "{ranges:?}");
    assert_eq!((all[0].path.as_bytes(), all[0].count), (&b"large"[..], 0));
    let burden: Vec<_> = plan.plan.shards.iter().map(|shard| (shard.bytes, shard.files)).collect();
    assert!(burden.iter().all(|(bytes, _)| (100 << 20..(100 << 20) + 30).contains(bytes)), "{burden:?}");
    assert_eq!(plan.plan.burden(), Burden { bytes: (300 << 20) + 30, files: 31 });
    assert!((0..3).all(|shard| names(&plan, FleetPart::Shard(shard)).iter().all(|name| name != "large")));
    // One of three shards isn't completed, so the divided file is copied again, with a new key.
    (0..2).for_each(|shard| end(&plan, FleetPart::Shard(shard), AttemptState::Done));
    let second = make(1);
    assert_eq!(of(&second, FleetPart::Directories).len(), 1);
    assert_ne!(of(&second, FleetPart::Directories)[0].key, all[0].key);
    second.plan.parts().for_each(|part| end(&second, part, AttemptState::Done));
    assert_eq!(make(1).plan.divided.len(), 0);
    assert_eq!(make(2).plan.divided.len(), 1);
    let path = directory.path().join("round-4/divided.list");
    fs::write(path, "other\0").unwrap();
    assert!(PlanDirectory::open(directory.path()).unwrap().divided(FleetPart::Shard(0)).is_err());
}

#[test]
fn a_next_round_may_have_other_hosts_if_one_is_the_same_and_no_slash_matters() {
    let directory = tempfile::tempdir().unwrap();
    make(directory.path(), 2, None, true);
    let begin = |destination: &str, hosts: &[&str]| {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        let request = PlanRequest { destination: destination.into(), hosts, ..request(2) };
        PlanMaker::begin(directory.path(), request).map(drop).map_err(|error| error.to_string())
    };
    for hosts in [&["h"][..], &["h", "i"], &["i", "h"]] {
        assert_eq!(begin("/copy/", hosts), Ok(()), "{hosts:?}");
    }
    let refused = begin("/copy", &["i", "j"]).unwrap_err();
    assert!(refused.contains("to h:/copy, and this command names none of that plan's hosts"), "{refused}");
    assert!(begin("/copy", &[]).unwrap_err().contains("names none of that plan's hosts"));
    let refused = begin("/other", &["h"]).unwrap_err();
    assert!(refused.contains("to h:/copy; name another directory"), "{refused}");
}

#[test]
fn another_directory_with_none_of_the_names_is_not_the_source_of_the_next_round() {
    let (directory, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (source, aside) = (place.path().join("source"), place.path().join("aside"));
    let plan = |has_name| {
        let request = PlanRequest { source: source.to_str().unwrap().into(), ..request(1) };
        let mut maker = PlanMaker::begin(directory.path(), request).unwrap();
        maker.take(b"", EntryKind::Directory, stamp(0, 1, 1), false).unwrap();
        if has_name {
            maker.take(b"one", EntryKind::File, stamp(0, 9, 1), false).unwrap();
        }
        maker.finish().map(|made| made.plan.found.gone).map_err(|error| error.to_string())
    };
    fs::create_dir(&source).unwrap();
    fs::write(source.join("one"), "").unwrap();
    assert_eq!(plan(true), Ok(0));
    // The source is replaced as if its file system weren't mounted, and then by another directory.
    fs::rename(&source, &aside).unwrap();
    fs::create_dir(&source).unwrap();
    let refused = plan(false).unwrap_err();
    assert!(refused.contains("has none of the planned names: mount the planned directory"), "{refused}");
    fs::write(source.join("one"), "").unwrap();
    assert_eq!(plan(false), Ok(0), "the name is there, on another disk; a filter left it out");
    assert_eq!(plan(true), Ok(0));
    fs::remove_file(source.join("one")).unwrap();
    assert_eq!(plan(false), Ok(1), "the same directory was emptied");
}
