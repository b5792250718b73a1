//! rsync's own suite.

use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Suite;
use super::debian::Source;
use super::judge::CaseEnd;
use super::listing::Listing;

/// The suite's own helper programs, which it needs before it starts.
const HELPERS: &[&str] = &[
    "tls",
    "getgroups",
    "getfsdev",
    "trimslash",
    "t_unsafe",
    "t_chmod_secure",
    "t_secure_relpath",
    "wildtest",
];

/// Options of configure. Debian's source lacks the libraries that Debian has as packages, and the helper
/// programs don't need compression.
const CONFIGURED: &[&str] = &[
    "--disable-md2man",
    "--disable-xxhash",
    "--disable-zstd",
    "--disable-lz4",
    "--disable-openssl",
    "--with-included-popt=no",
    "--with-included-zlib=no",
    "CFLAGS=-O0",
];

/// The time limits, in seconds: the first for a case, the second for a case that depends on a race.
const CASE_SECONDS: &str = "60";
const RACE_SECONDS: &str = "2";

/// The greatest number of lines of a failing case's output that are shown.
const SHOWN_LINES: usize = 12;

pub struct RsyncSuite {
    source: PathBuf,
    build: PathBuf,
}

impl RsyncSuite {
    /// Builds the helper programs once, and installs `program` as `rsync`.
    ///
    /// # Errors
    /// If a compiler or a library is missing.
    pub fn build(source: &Source, program: &Path) -> anyhow::Result<Self> {
        let build = source.directory.with_file_name("build");
        let suite = Self { source: source.directory.clone(), build };
        if !HELPERS.iter().all(|helper| suite.build.join(helper).is_file()) {
            suite.make()?;
        }
        for name in ["rsync", "linerate"] {
            let link = suite.build.join(name);
            let _ = fs::remove_file(&link);
            symlink(program, &link).with_context(|| format!("linking {}", link.display()))?;
        }
        Ok(suite)
    }

    fn make(&self) -> anyhow::Result<()> {
        fs::create_dir_all(&self.build).context("making a directory for the helpers")?;
        // configure writes a file in the directory of each library that the source may contain.
        for library in ["zlib", "popt"] {
            let directory = self.source.join(library);
            fs::create_dir_all(&directory).context("making a library's directory")?;
            let template = directory.join("dummy.in");
            if !template.exists() {
                fs::write(&template, "").context("writing a library's template")?;
            }
        }
        self.quietly(Command::new(self.source.join("configure")).args(CONFIGURED), "configure.log")?;
        self.quietly(Command::new("make").arg("-j2").args(HELPERS), "make.log")
    }

    /// Runs `command`, with its output written to a file.
    fn quietly(&self, command: &mut Command, log: &str) -> anyhow::Result<()> {
        let log = self.build.join(log);
        let file = fs::File::create(&log).context("making a log")?;
        let errors = file.try_clone().context("sharing a log")?;
        let status =
            command.current_dir(&self.build).stdin(Stdio::null()).stdout(file).stderr(errors).status();
        let status = status.with_context(|| format!("running {}", crate::show(command)))?;
        if !status.success() {
            bail!(
                "building the helpers of rsync's suite failed: see {}; it needs gcc, make, libpopt-dev, zlib1g-dev and \
                 libacl1-dev",
                log.display()
            );
        }
        Ok(())
    }
}

impl Suite for RsyncSuite {
    fn unlisted(&self, listing: &Listing) -> anyhow::Result<Vec<String>> {
        let files = fs::read_dir(self.source.join("testsuite")).context("looking for the suite's cases")?;
        let names = files
            .flatten()
            .filter_map(|file| Some(file.file_name().to_str()?.strip_suffix("_test.py")?.to_owned()));
        let mut unlisted: Vec<_> = names.filter(|name| listing.standing(name).is_none()).collect();
        unlisted.sort();
        Ok(unlisted)
    }

    fn run(&self, cases: &[String]) -> anyhow::Result<BTreeMap<String, CaseEnd>> {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("python3");
        command.arg("-B").arg(self.source.join("runtests.py"));
        command.args(["-j", "2", "--timeout", CASE_SECONDS, "--race-timeout", RACE_SECONDS]);
        command.arg("--tooldir").arg(&self.build).arg("--srcdir").arg(&self.source);
        command.arg("--rsync-bin").arg(self.build.join("rsync")).args(cases);
        // The far end finds the program by PATH, as in a user's login.
        command.env("PATH", format!("{}:{path}", self.build.display())).current_dir(&self.build);
        let mut child = command.stdout(Stdio::piped()).spawn().context("running the suite's driver")?;
        let output = child.stdout.take().context("the driver's output")?;
        let ends = read_ends(BufReader::new(output), cases);
        child.wait().context("waiting for the driver")?;
        if ends.is_empty() {
            bail!("rsync's suite ran no case");
        }
        Ok(ends)
    }
}

/// Reads the driver's output: for each case, its own output and then its result.
fn read_ends(output: impl BufRead, cases: &[String]) -> BTreeMap<String, CaseEnd> {
    let mut ends = BTreeMap::new();
    let mut printed: Vec<String> = Vec::new();
    for line in output.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        let Some((case, end)) = end_of(&line).filter(|(case, _)| cases.contains(case)) else {
            printed.push(line);
            continue;
        };
        if end != CaseEnd::Passed {
            println!("{line}");
        }
        if end == CaseEnd::Failed {
            let shown = printed.len().saturating_sub(SHOWN_LINES);
            printed[shown..].iter().for_each(|line| println!("    {line}"));
        }
        printed.clear();
        ends.insert(case, end);
    }
    ends
}

fn end_of(line: &str) -> Option<(String, CaseEnd)> {
    let (word, rest) = line.split_once(' ')?;
    let end = match word {
        "PASS" => CaseEnd::Passed,
        "FAIL" | "ERROR" | "XFAIL" => CaseEnd::Failed,
        "SKIP" => CaseEnd::Skipped,
        _ => return None,
    };
    Some((rest.split_whitespace().next()?.to_owned(), end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_ends_by_its_line() {
        let output = "PASS    links\n----- log\nPASS other\nFAIL    backup\nSKIP    acls (no acls)\n";
        let cases = ["links", "backup", "acls"].map(str::to_owned);
        let ends = read_ends(output.as_bytes(), &cases);
        assert_eq!(
            ends.values().copied().collect::<Vec<_>>(),
            [CaseEnd::Skipped, CaseEnd::Failed, CaseEnd::Passed]
        );
    }
}
