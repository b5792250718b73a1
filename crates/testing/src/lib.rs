//! How a test says that it can't run on this machine: one place for all crates. No program depends on this crate.
//!
//! Each reason has a name: that of a program (`rsync`), or `root`, `tun`, `xattrs` and the like. A test without what it
//! needs prints `skipped: ...` and passes. Under `LINERATE_TEST_ALL=1` it fails, unless `LINERATE_TEST_WITHOUT` has the
//! name: `LINERATE_TEST_ALL=1 LINERATE_TEST_WITHOUT=ifb,b3sum cargo test`.

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where programs are that an ordinary user's `PATH` may lack.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Says that the calling test ends here, since this machine lacks `need`.
///
/// # Panics
/// With `LINERATE_TEST_ALL=1` in the environment, unless `need` is one of the names in `LINERATE_TEST_WITHOUT`, which
/// commas separate.
#[track_caller]
pub fn skip(need: &str, why: impl Display) {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let passes = may_skip(need, &variable("LINERATE_TEST_ALL"), &variable("LINERATE_TEST_WITHOUT"));
    assert!(
        passes,
        "LINERATE_TEST_ALL=1 and a test can't run: {why} (LINERATE_TEST_WITHOUT={need} lets it pass)"
    );
    // Past the test harness, which keeps to itself what a test prints by `eprintln!` before it passes.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

fn may_skip(need: &str, all: &str, without: &str) -> bool {
    all != "1" || without.split(',').any(|name| name.trim() == need)
}

/// Whether this process is root; the test is [skipped](skip) where it isn't.
#[track_caller]
pub fn is_root(why: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip("root", why);
    }
    root
}

/// Whether a program is installed; the test is [skipped](skip) where it isn't.
#[track_caller]
pub fn has(program: &str) -> bool {
    program_path(program).is_some()
}

/// Whether all of these programs are installed; the test is [skipped](skip) for the first one that isn't.
#[track_caller]
pub fn has_all(programs: &[&str]) -> bool {
    programs.iter().all(|program| has(program))
}

/// Where a program is, on the `PATH` or in a directory for root's programs; the test is [skipped](skip) where it isn't
/// installed.
#[track_caller]
pub fn program_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).chain(SYSTEM_DIRECTORIES.map(PathBuf::from));
    let found = places.find_map(|directory| Some(directory.join(program)).filter(|file| file.is_file()));
    if found.is_none() {
        skip(program, format_args!("{program} isn't installed"));
    }
    found
}

/// Whether this machine has the tunnel device, of which the labs' delay is made; the test is [skipped](skip) where it
/// hasn't.
#[track_caller]
pub fn has_tun() -> bool {
    let there = Path::new("/dev/net/tun").exists();
    if !there {
        skip("tun", "this machine has no /dev/net/tun");
    }
    there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_may_be_skipped_unless_all_are_asked_for_and_its_need_is_not_named() {
        assert!(may_skip("tun", "", "") && may_skip("tun", "0", ""));
        assert!(!may_skip("tun", "1", "") && !may_skip("tun", "1", "tunnel,btrfs"));
        assert!(may_skip("tun", "1", "btrfs, tun"));
    }

    #[test]
    fn programs_are_found_where_they_are() {
        assert!(has("sh"));
        assert!(program_path("sh").is_some_and(|path| path.is_absolute()));
    }
}
