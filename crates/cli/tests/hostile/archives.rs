//! Tests of a far end that sends metadata and kinds of entries of archives, requested or not.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use linerate_testing::{is_root, skip};
use linerate_wire::control::Totals;
use linerate_wire::entry::{AclEntry, AclTag, Entry, Extra, Kind, MAX_XATTRS, Owner};
use linerate_wire::frame::FrameKind::{self, Batch, Chunk, Data, Hole};

use crate::far::{Ground, chunk, encode, entry, file, folder, forge, path, record, source, totals};
use crate::support::Run;

/// Pulls a directory `x` that the far end sends in these frames.
fn pull(options: &[&str], frames: Vec<(FrameKind, Vec<u8>)>, totals: Totals) -> (Run, Ground) {
    let ground = Ground::new();
    let arguments = [options, &["far:x", "."]].concat();
    let run = ground.run(&arguments, move |far| {
        far.announce(&[source("x", true)])?;
        frames.iter().try_for_each(|(kind, payload)| far.frame(*kind, payload))?;
        far.finish(totals)
    });
    (run, ground)
}

fn batch(entries: &[Entry]) -> Vec<(FrameKind, Vec<u8>)> {
    let records: Vec<u8> = [folder("")].iter().chain(entries).flat_map(|entry| record(entry, b"")).collect();
    vec![(Batch, records)]
}

fn with(extra: Extra) -> Entry {
    Entry { extra: Some(Box::new(extra)), ..file("a", 0) }
}

fn another_name(at: &str, source: u32, first: &str) -> Entry {
    entry(at, Kind::HardLink { source, path: path(first) })
}

fn xattrs(names: &[&[u8]]) -> Extra {
    Extra { xattrs: names.iter().map(|name| (name.to_vec(), b"v".to_vec())).collect(), ..Extra::default() }
}

/// Checks that the transfer is refused, and that only the directory itself was created.
#[track_caller]
fn assert_refused(options: &[&str], frames: Vec<(FrameKind, Vec<u8>)>, why: &str) {
    let (run, ground) = pull(options, frames, Totals { directories: 1, ..totals(1, 0) });
    assert!(matches!(run.code, Some(1 | 5)), "{why}: {run}");
    assert!(run.err.contains("breaks the protocol") || run.err.contains("damaged"), "{why}: {run}");
    assert!(ground.landed().iter().all(|path| path.as_os_str() == "x"), "{why}: {:?}", ground.landed());
}

#[test]
fn what_was_not_asked_for_is_refused() {
    let device = Kind::Device { block: true, major: 8, minor: 0 };
    let acl = vec![AclEntry { tag: AclTag::Other, permissions: 7 }];
    for (options, entry) in [
        (["-rp"], entry("a", device.clone())),
        (["-rp"], entry("a", Kind::Fifo)),
        (["-rp"], entry("a", Kind::Socket)),
        (["-rp"], another_name("a", 0, "b")),
        (["-rp"], with(Extra { owner: Some(Owner::default()), ..Extra::default() })),
        (["-rp"], with(xattrs(&[b"user.a"]))),
        (["-rp"], with(Extra { acl: acl.clone(), ..Extra::default() })),
        (["-rp"], with(Extra { default_acl: acl, ..Extra::default() })),
        (["-rp"], with(Extra { linked: true, ..Extra::default() })),
    ] {
        assert_refused(&options, batch(std::slice::from_ref(&entry)), &format!("{entry:?}"));
    }
    assert_refused(&["-a", "--no-devices"], batch(&[entry("a", device)]), "a device that was taken off");
    let hole = vec![(Chunk, chunk(file("a", 8192), 0, 8192, 1)), (Hole, 8192u64.to_le_bytes().to_vec())];
    assert_refused(&["-rp"], [batch(&[]), hole].concat(), "a hole");
}

#[test]
fn metadata_that_is_out_of_bounds_is_refused() {
    let long = Extra { xattrs: vec![(b"user.a".to_vec(), vec![0; MAX_XATTRS])], ..Extra::default() };
    let many = AclEntry { tag: AclTag::User(1, String::new()), permissions: 7 };
    let cases = [
        ("two of one name", xattrs(&[b"user.a", b"user.a"])),
        ("no name", xattrs(&[b""])),
        ("a name with a zero byte", xattrs(&[b"user.a\0b"])),
        ("an ACL as an attribute", xattrs(&[b"system.posix_acl_access"])),
        ("too large", long),
        ("an endless ACL", Extra { acl: vec![many; 10_000], ..Extra::default() }),
    ];
    for (why, extra) in cases {
        assert_refused(&["-a"], batch(&[with(extra)]), why);
    }
}

/// Attributes that change how the host interprets a file, or where an overlay leads, aren't copied; existing
/// ones are kept.
#[test]
fn what_is_one_hosts_own_is_not_set_on_another() {
    if !is_root("only root can set such attributes") {
        return;
    }
    let own: [&[u8]; 3] = [b"trusted.overlay.redirect", b"security.ima", b"security.SMACK64"];
    let names = [&own[..], &[b"trusted.kept"]].concat();
    let ground = Ground::new();
    let top = ground.inside().join("x");
    fs::create_dir(&top).unwrap();
    let get = |path: &str, name: &[u8]| rustix::fs::getxattr(top.join(path), name, &mut [0; 9][..]).ok();
    let flags = rustix::fs::XattrFlags::empty();
    if rustix::fs::setxattr(&top, "trusted.overlay.opaque", b"y", flags).is_err() {
        return skip("xattrs", format_args!("{} has no such attributes", top.display()));
    }
    let batch = batch(&[with(xattrs(&names))]);
    let run = ground.run(&["-a", "far:x", "."], move |far| {
        far.announce(&[source("x", true)])?;
        batch.iter().try_for_each(|(kind, payload)| far.frame(*kind, payload))?;
        far.finish(Totals { directories: 1, ..totals(1, 0) })
    });
    run.exits(0);
    assert_eq!(own.map(|name| get("a", name)), [None; 3]);
    assert_eq!((get("a", b"trusted.kept"), get("", b"trusted.overlay.opaque")), (Some(1), Some(1)));
}

#[test]
fn names_of_files_stay_paths_below_the_destination() {
    for forged in ["../../outside/file", "/etc/passwd", "a/../b", "x\0y"] {
        let honest = "Z".repeat(forged.len());
        let payload = record(&another_name("a", 0, &honest), b"");
        let forged = forge(payload, honest.as_bytes(), forged.as_bytes());
        assert_refused(&["-a"], vec![(Batch, forged)], "a name that leads out");
    }
    assert_refused(&["-a"], batch(&[another_name("a", 7, "b")]), "a source that doesn't exist");
}

#[test]
fn a_further_name_of_what_did_not_land_is_no_name_of_anything() {
    let frames =
        batch(&[another_name("a", 0, "mine"), another_name("b", 0, "nowhere"), another_name("c", 0, "")]);
    let ground = Ground::new();
    fs::create_dir(ground.inside().join("x")).unwrap();
    fs::write(ground.inside().join("x/mine"), "the user's own").unwrap();
    let run = ground.run(&["-a", "far:x", "."], move |far| {
        far.announce(&[source("x", true)])?;
        frames.iter().try_for_each(|(kind, payload)| far.frame(*kind, payload))?;
        far.finish(Totals { directories: 1, ..totals(3, 0) })
    });
    run.exits(3).says(&[
        "x/a: is a hard link to",
        "x/b: is a hard link to",
        "x/c: is a hard link to",
        "this transfer did not copy",
    ]);
    assert_eq!(ground.inside().join("x/mine").metadata().unwrap().nlink(), 1);
    assert_eq!(ground.landed(), [PathBuf::from("x"), PathBuf::from("x/mine")]);
}

#[test]
fn a_further_name_through_a_link_is_refused() {
    let ground = Ground::new();
    let outside = ground.out_of_bounds().display().to_string();
    let link = crate::far::link("link", &outside);
    let linked = Entry { path: path("link/file"), ..with(Extra { linked: true, ..Extra::default() }) };
    let frames =
        batch(&[link, linked, another_name("b", 0, "link/file"), another_name("link/c", 0, "link/file")]);
    let run = ground.run(&["-a", "far:x", "."], move |far| {
        far.announce(&[source("x", true)])?;
        frames.iter().try_for_each(|(kind, payload)| far.frame(*kind, payload))?;
        far.finish(Totals { directories: 1, symlinks: 1, ..totals(3, 0) })
    });
    assert_ne!(run.code, Some(0), "{run}");
    ground.assert_untouched();
}

#[test]
fn honest_further_names_and_holes_land() {
    let first = with(Extra { linked: true, ..Extra::default() });
    let hole = [
        (Chunk, chunk(file("hole", 12_288), 0, 12_288, 1)),
        (Hole, 4096u64.to_le_bytes().to_vec()),
        (Data, vec![b'd'; 4096]),
        (Hole, 4096u64.to_le_bytes().to_vec()),
    ];
    // The further name may overtake the first one.
    let frames = [batch(&[another_name("b/c", 0, "a"), first]), hole.to_vec()].concat();
    let (run, ground) = pull(&["-a"], frames, Totals { directories: 1, ..totals(3, 12_288) });
    run.exits(0);
    let number = |name: &str| ground.inside().join(name).metadata().unwrap().ino();
    assert_eq!(number("x/a"), number("x/b/c"));
    let contents = fs::read(ground.inside().join("x/hole")).unwrap();
    assert_eq!(contents, [vec![0; 4096], vec![b'd'; 4096], vec![0; 4096]].concat());
}

#[test]
fn holes_that_are_none_are_refused() {
    let begin = || (Chunk, chunk(file("a", 8192), 0, 8192, 1));
    let hole = |length: u64| (Hole, length.to_le_bytes().to_vec());
    for (why, frames) in [
        ("of nothing", vec![begin(), hole(0)]),
        ("longer than its chunk", vec![begin(), hole(8193)]),
        ("without end", vec![begin(), hole(u64::MAX)]),
        ("behind data", vec![begin(), (Data, vec![1; 4096]), hole(8192)]),
        ("without a chunk", vec![hole(1)]),
        ("cut", vec![begin(), (Hole, vec![1; 7])]),
    ] {
        assert_refused(&["-a"], frames, why);
    }
}

#[test]
fn a_kept_setuid_bit_needs_the_word_archive() {
    let program = Entry { mode: 0o6755, ..file("a", 0) };
    for (option, mode) in [("-rp", 0o755), ("-r", 0o755), ("-a", 0o6755)] {
        let (run, ground) =
            pull(&[option], batch(std::slice::from_ref(&program)), Totals { directories: 1, ..totals(1, 0) });
        run.exits(0);
        let bits = ground.inside().join("x/a").metadata().unwrap().mode() & 0o7777;
        assert_eq!(bits & 0o7700, mode & 0o7700, "{option}");
    }
    // Without the owner whose rights it would give, it isn't kept.
    let owner = Owner { uid: u32::MAX, gid: u32::MAX, ..Owner::default() };
    let extra = Extra { owner: Some(owner), ..Extra::default() };
    let program = Entry { extra: Some(Box::new(extra)), ..program };
    let (run, ground) = pull(&["-a"], batch(&[program]), Totals { directories: 1, ..totals(1, 0) });
    assert!(matches!(run.code, Some(0 | 3)), "{run}");
    assert_eq!(ground.inside().join("x/a").metadata().unwrap().mode() & 0o6000, 0, "{run}");
}

#[test]
fn entries_that_end_early_are_refused() {
    let whole = encode(&with(xattrs(&[b"user.a"])));
    for length in [whole.len() - 1, whole.len() - 5] {
        let payload = [&(length as u32).to_le_bytes()[..], &[0; 4], &whole[..length]].concat();
        assert_refused(&["-a"], vec![(Batch, payload)], "a cut entry");
    }
}
