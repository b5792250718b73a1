//! OpenSSH's own tests of scp.

use anyhow::{Context, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use super::Suite;
use super::debian::Source;
use super::judge::CaseEnd;
use super::listing::Listing;

/// The test scripts; each has many cases.
const SCRIPTS: &[&str] = &["scp.sh", "scp-uri.sh", "scp3.sh"];

/// A script that takes the place of ssh (option `-S`). The suite's own script of this kind runs scp at the far end, but
/// linerate passes a command line for a shell. The suite's scripts that simulate bad servers are used unchanged.
const WRAPPER: &str = r#"#!/bin/sh
[ -z "$SCPTESTMODE" ] || exec "$BAD_SERVERS" "$@"
for last; do :; done
exec sh -c "$last"
"#;

/// The parts of the suite's driver that the scripts need; the driver itself would first build ssh and its
/// server. A case ends when the next case begins.
const DRIVER: &str = r#"
exec 2>&1
SCRIPT=$1
SRC=$(dirname "$SCRIPT") DATA=$OBJ/data COPY=$OBJ/copy PORT=4242 USER=$(id -un) SUDO=
cat "$(command -v sh)" "$(command -v sh)" >"$DATA"
rm -rf "$COPY"
echo "Host *" >"$OBJ/ssh_config"
maybe_add_scp_path_to_sshd() { :; }
egrep() { grep -E "$@"; }
verbose() { unset SCPTESTMODE; echo "CASE $*"; }
fail() { echo "FAIL $*"; }
cd "$OBJ"
. "$SCRIPT"
"#;

/// The time limit for a script, in seconds.
const SCRIPT_SECONDS: &str = "240";

/// The greatest number of lines of a failing case's output that are shown.
const SHOWN_LINES: usize = 6;

pub struct ScpSuite {
    build: PathBuf,
    /// The cases that were run, whether or not they are listed.
    met: Mutex<BTreeSet<String>>,
}

impl ScpSuite {
    /// Installs `program` as `scp`, a shell script in the place of ssh, and another script as the server that `-D`
    /// names.
    ///
    /// # Errors
    /// If the source has no such scripts, or files can't be written.
    pub fn build(source: &Source, program: &Path) -> anyhow::Result<Self> {
        let build = source.directory.with_file_name("build");
        let regress = source.directory.join("regress");
        for directory in ["bin", "regress", "objects"] {
            fs::create_dir_all(build.join(directory)).context("making a directory for the suite")?;
        }
        for name in ["scp", "linerate"] {
            let link = build.join("bin").join(name);
            let _ = fs::remove_file(&link);
            symlink(program, &link).with_context(|| format!("linking {}", link.display()))?;
        }
        for script in SCRIPTS {
            let text = fs::read_to_string(regress.join(script));
            let text = text.with_context(|| format!("reading the suite's {script}"))?;
            let text = text.replace("-D ${SFTPSERVER}", "-S ${OBJ}/scp-ssh-wrapper.scp");
            fs::write(build.join("regress").join(script), text).context("writing a script")?;
        }
        let bad = fs::read(regress.join("scp-ssh-wrapper.sh")).context("reading the suite's bad servers")?;
        let wrapper = build.join("regress/scp-ssh-wrapper.sh");
        for (path, bytes) in [(build.join("bad-servers"), bad.as_slice()), (wrapper, WRAPPER.as_bytes())] {
            fs::write(&path, bytes).context("writing what stands for ssh")?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).context("making it a program")?;
        }
        fs::write(build.join("driver"), DRIVER).context("writing the driver")?;
        Ok(Self { build, met: Mutex::default() })
    }

    fn run_script(&self, script: &str) -> anyhow::Result<String> {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("timeout");
        command.args([SCRIPT_SECONDS, "sh"]).arg(self.build.join("driver"));
        command.arg(self.build.join("regress").join(script));
        command.env("PATH", format!("{}:{path}", self.build.join("bin").display()));
        command.env("OBJ", self.build.join("objects")).env("BAD_SERVERS", self.build.join("bad-servers"));
        command.env("SCP", self.build.join("bin/scp"));
        command.env("SSH", self.build.join("regress/scp-ssh-wrapper.sh")).stdin(Stdio::null());
        let output = command.output().with_context(|| format!("running {script}"))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Suite for ScpSuite {
    fn unlisted(&self, listing: &Listing) -> anyhow::Result<Vec<String>> {
        let Ok(met) = self.met.lock() else { bail!("a script was not read to its end") };
        Ok(met.iter().filter(|case| listing.standing(case).is_none()).cloned().collect())
    }

    fn run(&self, cases: &[String]) -> anyhow::Result<BTreeMap<String, CaseEnd>> {
        let mut ends = BTreeMap::new();
        for script in SCRIPTS {
            let text = self.run_script(script)?;
            for (case, end, printed) in ends_of(&text) {
                if let Ok(mut met) = self.met.lock() {
                    met.insert(case.clone());
                }
                if cases.contains(&case) && end == CaseEnd::Failed {
                    println!("FAIL    {case}");
                    printed.iter().take(SHOWN_LINES).for_each(|line| println!("    {line}"));
                }
                ends.insert(case, end);
            }
        }
        ends.retain(|case, _| cases.contains(case));
        if ends.is_empty() {
            bail!("OpenSSH's tests of scp ran no case");
        }
        Ok(ends)
    }
}

/// The cases in the output, each with its result and its output.
fn ends_of(text: &str) -> Vec<(String, CaseEnd, Vec<String>)> {
    let mut ends: Vec<(String, CaseEnd, Vec<String>)> = Vec::new();
    for line in text.lines() {
        if let Some(case) = line.strip_prefix("CASE ") {
            ends.push((case.to_owned(), CaseEnd::Passed, Vec::new()));
        } else if let Some((_, end, printed)) = ends.last_mut() {
            if line.starts_with("FAIL ") {
                *end = CaseEnd::Failed;
            }
            printed.push(line.to_owned());
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_ends_where_the_next_begins() {
        let ends =
            ends_of("noise\nCASE scp: a\nls\nCASE scp: b\nFAIL copy failed\nFAIL corrupted\nCASE scp: c\n");
        let ends: Vec<_> = ends.into_iter().map(|(case, end, printed)| (case, end, printed.len())).collect();
        let wanted =
            [("scp: a", CaseEnd::Passed, 1), ("scp: b", CaseEnd::Failed, 2), ("scp: c", CaseEnd::Passed, 0)];
        assert_eq!(ends, wanted.map(|(case, end, lines)| (case.to_owned(), end, lines)));
    }
}
