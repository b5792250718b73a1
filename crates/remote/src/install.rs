//! Brings this binary to a host that lacks it, through the same ssh login that will use it.
//!
//! The far shell gets one line. It runs the copy of exactly this binary in the private cache directory, or else an
//! installed linerate of the same version; where there is neither, it asks for the binary on its standard input,
//! checks its hash and keeps it. The line holds no path or name that a user chose, and nothing that a POSIX shell,
//! csh or fish reads differently inside single quotes.

use aws_lc_rs::digest::{SHA256, digest};
use std::fs;
use std::io;

/// Said by the line when it waits for the binary; the system and machine follow.
pub const WANTED: &str = "linerate-agent wanted";
/// Said by the line when nothing could be started.
pub const FAILED: &str = "linerate-agent failed";

/// This program's own binary.
pub struct Binary {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Their SHA-256 in hexadecimal.
    pub hash: String,
}

impl Binary {
    /// Reads the running program.
    ///
    /// # Errors
    /// Where the kernel doesn't show it.
    pub fn own() -> io::Result<Self> {
        let bytes = fs::read("/proc/self/exe")?;
        let hash = digest(&SHA256, &bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { bytes, hash })
    }
}

/// What an agent answers to `linerate agent --id`: equal at both ends where they understand each other.
pub fn identity() -> String {
    format!("linerate {} protocol {}", env!("CARGO_PKG_VERSION"), linerate_wire::PROTOCOL)
}

/// The line for the far shell; without `install` it never asks for the binary.
pub fn bootstrap(binary: &Binary, install: bool) -> String {
    let Binary { bytes, hash } = binary;
    let start = format!(
        "d=${{XDG_CACHE_HOME:-$HOME/.cache}}/linerate; a=$d/agent-{hash}; \
         if [ -x \"$a\" ]; then exec \"$a\" agent; fi; \
         if [ \"$(linerate agent --id 2>/dev/null)\" = \"{id}\" ]; then exec linerate agent; fi; ",
        id = identity(),
    );
    let bring = format!(
        "echo \"{WANTED} $(uname -sm)\"; umask 077; t=$d/.new.$$; \
         mkdir -p \"$d\" && head -c {size} >\"$t\" && \
         case $(sha256sum <\"$t\") in {hash}*) chmod 700 \"$t\" && mv -f \"$t\" \"$a\" && exec \"$a\" agent;; esac; \
         rm -f \"$t\"; echo \"{FAILED} to install it in $d\"; exit 126",
        size = bytes.len(),
    );
    let without = format!("echo \"{FAILED}: no linerate of this version is there\"; exit 127");
    format!("sh -c '{start}{}'", if install { bring } else { without })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::{Command, Stdio};

    fn script(body: &str) -> Binary {
        let bytes = format!("#!/bin/sh\n{body}\n").into_bytes();
        let hash = digest(&SHA256, &bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Binary { bytes, hash }
    }

    /// Runs the line by a shell with an empty home, feeds it `bytes` when it asks; returns what it printed.
    fn run(home: &std::path::Path, line: &str, bytes: &[u8]) -> String {
        let mut shell = Command::new("sh")
            .args(["-c", line])
            .env("HOME", home)
            .env_remove("XDG_CACHE_HOME")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut out = BufReader::new(shell.stdout.take().unwrap());
        out.read_line(&mut said).unwrap();
        let mut stdin = shell.stdin.take().unwrap();
        if said.starts_with(WANTED) {
            stdin.write_all(bytes).unwrap();
        }
        drop(stdin);
        out.read_to_string(&mut said).unwrap();
        shell.wait().unwrap();
        said
    }

    #[test]
    fn it_is_brought_once_and_found_afterwards() {
        let home = tempfile::tempdir().unwrap();
        let binary = script("echo started $1");
        let first = run(home.path(), &bootstrap(&binary, true), &binary.bytes);
        assert!(first.starts_with(WANTED) && first.ends_with("started agent\n"), "{first}");
        assert_eq!(run(home.path(), &bootstrap(&binary, true), &[]), "started agent\n");
        assert_eq!(run(home.path(), &bootstrap(&binary, false), &[]), "started agent\n");
    }

    #[test]
    fn a_damaged_binary_is_not_run() {
        let home = tempfile::tempdir().unwrap();
        let binary = script("echo started");
        let mut damaged = binary.bytes.clone();
        damaged[12] ^= 1;
        let said = run(home.path(), &bootstrap(&binary, true), &damaged);
        assert!(said.contains(FAILED) && !said.contains("started"), "{said}");
        let left = std::fs::read_dir(home.path().join(".cache/linerate")).unwrap().count();
        assert_eq!(left, 0, "nothing is left behind");
    }

    #[test]
    fn without_permission_nothing_is_brought() {
        let home = tempfile::tempdir().unwrap();
        let said = run(home.path(), &bootstrap(&script("echo started"), false), &[]);
        assert!(said.starts_with(FAILED), "{said}");
        assert!(!home.path().join(".cache").exists());
    }

    #[test]
    fn the_line_means_the_same_to_other_shells() {
        let line = bootstrap(&script(""), true);
        assert!(!line.contains(['\n', '!', '\\']), "{line}");
        assert_eq!(line.matches('\'').count(), 2);
    }
}
