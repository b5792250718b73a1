//! Helpers for the tests of all crates: some report that a test can't run on this machine, others write
//! programs that a test runs. No program depends on this crate.
//!
//! Each requirement has a name: that of a program (such as `rsync`), or another name (such as `root`, `tun` or
//! `xattrs`). If a requirement isn't met, the test prints `skipped: ...` and passes. With `LINERATE_TEST_ALL=1` it
//! fails instead, unless `LINERATE_TEST_WITHOUT` lists the name: `LINERATE_TEST_ALL=1 LINERATE_TEST_WITHOUT=ifb,b3sum
//! cargo test`.

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Directories with programs that may be missing in an ordinary user's `PATH`.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Reports that the calling test ends here, because this machine lacks `need`. `why` is the text of the report.
///
/// # Panics
/// With `LINERATE_TEST_ALL=1` in the environment, unless `need` is one of the comma-separated names in
/// `LINERATE_TEST_WITHOUT`.
#[track_caller]
pub fn skip(need: &str, why: impl Display) {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let passes = may_skip(need, &variable("LINERATE_TEST_ALL"), &variable("LINERATE_TEST_WITHOUT"));
    assert!(
        passes,
        "LINERATE_TEST_ALL=1 and a test can't run: {why} (LINERATE_TEST_WITHOUT={need} lets it pass)"
    );
    // This bypasses the test harness, which hides the output of `eprintln!` if the test passes.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

fn may_skip(need: &str, all: &str, without: &str) -> bool {
    all != "1" || without.split(',').any(|name| name.trim() == need)
}

/// True if this process is root; otherwise the test is [skipped](skip).
#[track_caller]
pub fn is_root(why: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip("root", why);
    }
    root
}

/// True if `program` is installed; otherwise the test is [skipped](skip).
#[track_caller]
pub fn has(program: &str) -> bool {
    program_path(program).is_some()
}

/// True if all of these programs are installed; otherwise the test is [skipped](skip) for the first missing program.
#[track_caller]
pub fn has_all(programs: &[&str]) -> bool {
    programs.iter().all(|program| has(program))
}

/// The path of a program in `PATH` or in a directory for root's programs; if it isn't installed, the test is
/// [skipped](skip).
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

/// True if this machine has the tunnel device, which labs need for delay; otherwise the test is [skipped](skip).
#[track_caller]
pub fn has_tun() -> bool {
    let there = Path::new("/dev/net/tun").exists();
    if !there {
        skip("tun", "this machine has no /dev/net/tun");
    }
    there
}

/// Writes an executable script. A separate process writes the script: otherwise a child process that another
/// test starts meanwhile could inherit the descriptor, and the kernel refuses to run a file that is open for
/// writing.
///
/// # Panics
/// If the script can't be written.
#[track_caller]
pub fn write_script(path: &Path, text: &str) {
    let mut writing = Command::new("sh")
        .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("every Linux has sh");
    let written = writing.stdin.take().expect("it is piped").write_all(text.as_bytes());
    let ended = writing.wait().expect("our child");
    assert!(written.is_ok() && ended.success(), "writing {}", path.display());
}

/// Copies a program so that it can be run, with the same precaution as in [`write_script`].
///
/// # Panics
/// If the program can't be copied.
#[track_caller]
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status().expect("every Linux has cp");
    assert!(copied.success(), "copying {} to {}", from.display(), to.display());
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
