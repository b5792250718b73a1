//! Tests of what `linerate rsync` reports about entries, compared with rsync: each reported file was sent, a directory
//! that several sources have isn't reported again, and no directory is reported that isn't made or not deleted.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use linerate_testing::has;

use crate::archive::set_time;
use crate::bed::{args, case};
use crate::mounts::Mounted;
use crate::rsync_lines::{assert_alike, over_ssh, words};
use crate::support::Run;
use crate::tree::{noise, write};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Makes two sources whose directories have the same names and different metadata.
fn make_two(top: &Path) {
    for (name, mode, time) in [("a", 0o755, 1_600_000_000), ("c", 0o2750, 1_500_000_000)] {
        for path in [format!("{name}/f"), format!("{name}/sub/{name}"), format!("p{name}/x/sub/{name}")] {
            write(top.join(path), name);
        }
        for path in ["", "sub"].map(|path| top.join(name).join(path)) {
            set_mode(&path, mode);
            set_time(&path, time, 0);
        }
        for path in ["x/sub", "x"].map(|path| top.join(format!("p{name}")).join(path)) {
            set_mode(&path, mode);
            set_time(&path, time, 0);
        }
    }
}

#[test]
fn the_first_of_several_sources_gives_a_directory_its_metadata() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_two(&case.near);
    make_two(&case.far);
    for line in ["-ai a/ c/ DST", "-ai pa/x pc/x DST", "-ain a/ c/ DST", "-ri a/ c/ DST"] {
        assert_alike(&case, line, |_| ());
        let again = case.start_with(args![case.bed.program(), "rsync"], words(line, "ours")).end().exits(0);
        assert!(line.contains("-ain") || line.contains("-ri") || again.out.is_empty(), "{line}: {again}");
    }
    let metadata = |path: &Path| fs::metadata(path).map(|meta| (meta.mode() & 0o7777, meta.mtime())).unwrap();
    for (line, top) in [
        ("-ai a/ c/ FAR/to", case.far.join("to")),
        ("-ai FAR/a/ FAR/c/ back", case.near.join("back")),
        ("-ai pa/x pc/x FAR/tops", case.far.join("tops/x")),
    ] {
        over_ssh(&case, line).exits(0);
        assert_eq!(metadata(&top), (0o755, 1_600_000_000), "{line}");
        assert_eq!(metadata(&top.join("sub")), (0o755, 1_600_000_000), "{line}");
        assert_eq!(over_ssh(&case, line).exits(0).out, "", "{line}");
    }
}

#[test]
fn each_run_to_a_full_destination_brings_a_file_that_fits() {
    let Some(case) = case() else { return };
    for (number, size) in [(1, 400_000), (2, 40_000)] {
        for file in 0..10 {
            write(case.near.join(format!("src {number}/{file}")), noise(number * 100 + file, size));
        }
    }
    fs::create_dir(case.near.join("full")).unwrap();
    for (line, room, least) in [
        ("-ai src_1/ full/", "500k", 1),
        ("-ai src_2/ full/", "64k", 1),
        ("-ai src_2/ full/", "260k", 4),
        ("-ai --inplace src_2/ full/", "260k", 4),
    ] {
        let Some(_small) = Mounted::memory(&case.near.join("full"), room) else { return };
        let run = case.start_with(args![case.bed.program(), "rsync"], words(line, "")).end().exits(11);
        let found = |_: &Run| fs::read_dir(case.near.join("full")).unwrap().flatten();
        let whole = |run: &Run| {
            let is_whole = |name: &OsString| {
                let source = if line.contains("src_1") { "src 1" } else { "src 2" };
                fs::read(case.near.join(source).join(name)).ok()
                    == fs::read(case.near.join("full").join(name)).ok()
            };
            let names = found(run).map(|entry| entry.file_name());
            names.filter(|name| !name.as_encoded_bytes().starts_with(b".")).filter(is_whole).count()
        };
        assert!(whole(&run) >= least, "{line} {room}: {} of {least}; {run}", whole(&run));
        let again = case.start_with(args![case.bed.program(), "rsync"], words(line, "")).end().exits(11);
        assert!(whole(&again) >= whole(&run), "{line} {room}: {again}");
    }
}
