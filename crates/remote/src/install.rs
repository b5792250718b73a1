//! Copies this binary to a host that lacks it, through the same ssh login that will use it.
//!
//! The far shell runs one line. It starts the copy of exactly this binary in the private cache directory, or
//! else an installed linerate of the same version. If there is neither, it reads the binary's hash and the
//! binary, perhaps compressed, from its standard input, checks the hash and keeps the binary. The line holds
//! no path or name that a user chose, and nothing that a POSIX shell, csh or fish reads differently inside
//! single quotes.

use crate::command::AgentCommand;
use aws_lc_rs::digest::{Context, SHA256};
use object::read::{Object, ReadCache};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};

/// Printed by the line when it waits for the binary; the system and machine follow, and [`UNPACKS`] if that host can
/// decompress it.
pub const WANTED: &str = "linerate-agent wanted";
/// The program that decompresses the binary at the far end.
pub const UNPACKS: &str = "zstd";
/// Printed by the line when no agent could be started.
pub const FAILED: &str = "linerate-agent failed";

/// Compresses to 41 % in 0.1 s; at level 9 it would be 37 % in 0.5 s, which a link of 1 Gbit/s doesn't give back.
const LEVEL: i32 = 3;

/// The running program's file, even after its name was given to another file.
const OWN: &str = "/proc/self/exe";

/// This program's own binary.
pub struct Binary {
    /// Its length in bytes.
    pub size: u64,
    /// Identifies the binary: the linker's build ID in hexadecimal, or its SHA-256 if there is none, and its
    /// length, which strip(1) changes. Hashing all of it takes longer than copying a small file.
    pub id: String,
}

impl Binary {
    /// Reads the running program.
    ///
    /// # Errors
    /// If the kernel doesn't show it.
    pub fn own() -> io::Result<Self> {
        Self::of(File::open(OWN)?)
    }

    /// Reads a program's file.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn of(file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let content = match build_id(&file) {
            Some(id) => hexadecimal(&id),
            None => {
                (&file).rewind()?;
                sha256(file.take(size))?
            }
        };
        Ok(Self { size, id: format!("{content}-{size}") })
    }

    /// Writes the running program's hash to `far`, and then the program; compressed, with that length behind the hash, if
    /// the far end `unpacks` it.
    ///
    /// # Errors
    /// If reading or writing fails.
    pub fn bring(&self, far: &mut impl Write, unpacks: bool) -> io::Result<()> {
        let contents = || File::open(OWN).map(|file| file.take(self.size));
        let hash = sha256(contents()?)?;
        if unpacks {
            let packed = zstd::encode_all(contents()?, LEVEL)?;
            writeln!(far, "{hash} {}", packed.len())?;
            far.write_all(&packed)?;
        } else {
            writeln!(far, "{hash}")?;
            io::copy(&mut contents()?, far)?;
        }
        far.flush()
    }
}

/// The build ID in an ELF file's notes.
fn build_id(file: &File) -> Option<Vec<u8>> {
    let cache = ReadCache::new(file);
    let object = object::File::parse(&cache).ok()?;
    object.build_id().ok()?.filter(|id| !id.is_empty()).map(<[u8]>::to_vec)
}

/// The SHA-256 of the input, in hexadecimal.
///
/// # Errors
/// If it can't be read.
pub fn sha256(mut contents: impl Read) -> io::Result<String> {
    let (mut context, mut buffer) = (Context::new(&SHA256), vec![0; 256 << 10]);
    loop {
        match contents.read(&mut buffer) {
            Ok(0) => return Ok(hexadecimal(context.finish().as_ref())),
            Ok(got) => context.update(&buffer[..got]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The output of `linerate agent --id`: equal at both ends if they understand each other.
pub fn identity() -> String {
    format!("linerate {} protocol {}", env!("CARGO_PKG_VERSION"), linerate_wire::PROTOCOL)
}

/// Removes binaries unused for 30 days, and leftovers of installations that were interrupted a day ago or
/// more. A running binary keeps its data until it ends. It runs after an installation, and may fail without
/// harm.
const TIDY: &str = "find \"$d\" -type f -name \"agent-*\" -mtime +30 -atime +30 -exec rm -f {} + 2>/dev/null; \
                    find \"$d\" -type f -name \".new.*\" -mtime +0 -exec rm -f {} + 2>/dev/null";

/// `own` is true if the cache directory `$d` is this user's and nobody else may write to it, by the mode and
/// owner that `ls` prints. Nothing is run or kept in another directory. A link never counts: in a shared
/// directory, another user could point it at any directory of this one.
const OWN_DIRECTORY: &str = "own() { set -- $(ls -ldn \"$d\" 2>/dev/null); \
    case \"$1 $3\" in drwx?-??-?*\" $(id -u)\") return 0;; esac; return 1; };";

/// The line for the far shell; without `install` it never asks for the binary.
pub fn bootstrap(binary: &Binary, install: bool) -> String {
    bootstrap_by(binary, install, &AgentCommand::default())
}

/// The same, where the agent is called by a command of the user's, whose single quotes are closed for the far shell.
pub fn bootstrap_by(binary: &Binary, install: bool, command: &AgentCommand) -> String {
    if let Some(path) = command.path() {
        return format!("sh -c '{}'", command.call(path));
    }
    let (copied, installed) = (command.call("\"$a\""), command.call("linerate"));
    let Binary { size, id: build } = binary;
    let start = format!(
        "d=${{XDG_CACHE_HOME:-$HOME/.cache}}/linerate; a=$d/agent-{build}; \
         {OWN_DIRECTORY} \
         if own && [ -x \"$a\" ] && [ $(wc -c <\"$a\") -eq {size} ]; then {copied}; fi; \
         if [ \"$(linerate agent --id 2>/dev/null)\" = \"{id}\" ]; then {installed}; fi; ",
        id = identity(),
    );
    let bring = format!(
        "echo; echo \"{WANTED} $(uname -sm)$({UNPACKS} --version >/dev/null 2>&1 && echo \" {UNPACKS}\")\"; \
         u=$(umask); umask 077; t=$d/.new.$$; mkdir -p \"$d\" && own && read -r h z && \
         {{ if [ \"$z\" ]; then head -c \"$z\" | {UNPACKS} -dc | head -c {size}; else head -c {size}; fi; }} >\"$t\" && \
         case $(sha256sum <\"$t\") in \"$h \"*) chmod 700 \"$t\" && {{ sync \"$t\" 2>/dev/null; mv -f \"$t\" \"$a\"; }} && {{ {tidy}; umask \"$u\"; {copied}; }};; esac; \
         rm -f \"$t\"; echo; echo \"{FAILED}: cannot install it in $d, which must be yours and writable by nobody else\"; exit 126",
        tidy = TIDY,
    );
    let without = format!(
        "echo; echo \"{FAILED}: no linerate of this version is there: install it, or leave out --no-install\"; \
         exit 127"
    );
    format!("sh -c '{start}{}'", if install { bring } else { without })
}

/// The line that prints the path of the binary that [`bootstrap`]'s line starts.
pub fn find(binary: &Binary) -> String {
    format!(
        "d=${{XDG_CACHE_HOME:-$HOME/.cache}}/linerate; a=$d/agent-{id}; {OWN_DIRECTORY} \
         if own && [ -x \"$a\" ]; then echo \"$a\"; else command -v linerate; fi",
        id = binary.id,
    )
}

/// The words that run this binary with `argv` on a host where [`bootstrap`]'s line has started it, from the
/// same path.
pub fn again(binary: &Binary, argv: &[OsString]) -> Vec<OsString> {
    again_by(binary, argv, &AgentCommand::default())
}

/// The same, where the program is called by a command of the user's.
pub fn again_by(binary: &Binary, argv: &[OsString], command: &AgentCommand) -> Vec<OsString> {
    let brought = format!(
        "d=${{XDG_CACHE_HOME:-$HOME/.cache}}/linerate; a=$d/agent-{id}; {OWN_DIRECTORY} \
         if own && [ -x \"$a\" ]; then {copied}; fi; {installed}",
        id = binary.id,
        copied = command.call_with_words("\"$a\""),
        installed = command.call_with_words("linerate"),
    );
    let script = command.path().map_or(brought, |path| command.call_with_words(path));
    let shell = ["sh".into(), "-c".into(), script.into(), "linerate".into()];
    shell.into_iter().chain(argv.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::FileTimes;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use std::time::{Duration, SystemTime};

    /// The binary that is brought, and its description.
    fn script(body: &str) -> (Vec<u8>, Binary) {
        let bytes = format!("#!/bin/sh\n{body}\n").into_bytes();
        let (hash, size) = (sha256(&bytes[..]).unwrap(), bytes.len() as u64);
        ([format!("{hash}\n").into_bytes(), bytes].concat(), Binary { size, id: "5eed".into() })
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
        // The first line is empty where the shell speaks.
        while said.trim().is_empty() {
            assert!(out.read_line(&mut said).unwrap() > 0, "the shell said nothing");
        }
        let mut stdin = shell.stdin.take().unwrap();
        if said.contains(WANTED) {
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
        let (bytes, binary) = script("echo started $1");
        let first = run(home.path(), &bootstrap(&binary, true), &bytes);
        assert!(first.contains(WANTED) && first.ends_with("started agent\n"), "{first}");
        assert_eq!(run(home.path(), &bootstrap(&binary, true), &[]), "started agent\n");
        assert_eq!(run(home.path(), &bootstrap(&binary, false), &[]), "started agent\n");
    }

    #[test]
    fn it_is_brought_compressed_where_the_far_end_can_decompress() {
        if Command::new(UNPACKS).arg("--version").stdout(Stdio::null()).status().is_err() {
            return linerate_testing::skip("zstd", "there is no zstd");
        }
        let home = tempfile::tempdir().unwrap();
        let (_, binary) = script("echo started $1");
        let hash = sha256(&b"#!/bin/sh\necho started $1\n"[..]).unwrap();
        let packed = zstd::encode_all(&b"#!/bin/sh\necho started $1\n"[..], LEVEL).unwrap();
        let bytes = [format!("{hash} {}\n", packed.len()).into_bytes(), packed].concat();
        let first = run(home.path(), &bootstrap(&binary, true), &bytes);
        assert!(first.contains(UNPACKS) && first.ends_with("started agent\n"), "{first}");
        assert_eq!(run(home.path(), &bootstrap(&binary, false), &[]), "started agent\n");
    }

    #[test]
    fn what_was_brought_runs_again_with_any_words() {
        let home = tempfile::tempdir().unwrap();
        let (bytes, binary) = script("printf \"%s|\" \"$@\"");
        run(home.path(), &bootstrap(&binary, true), &bytes);
        let words = again(&binary, &["doctor".into(), "it's \"b\"".into()]);
        let again = |home: &std::path::Path| {
            let mut command = Command::new(&words[0]);
            command
                .args(&words[1..])
                .env("HOME", home)
                .env_remove("XDG_CACHE_HOME")
                .env("PATH", "/usr/bin:/bin");
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        assert_eq!(again(home.path()), "doctor|it's \"b\"|");
        // In a directory that others may write to, it isn't run.
        let cache = home.path().join(".cache/linerate");
        std::fs::set_permissions(&cache, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert_eq!(again(home.path()), "");
    }

    #[test]
    fn what_is_old_goes_when_a_new_one_comes() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join(".cache/linerate");
        std::fs::create_dir_all(&cache).unwrap();
        let days = |days: u64| SystemTime::now() - Duration::from_secs(days * 86_400 + 3600);
        for (name, modified, used) in [
            ("agent-unused", 40, 31),
            ("agent-used", 40, 2),
            ("agent-new", 3, 3),
            (".new.1", 2, 2),
            (".new.2", 0, 0),
            ("another", 400, 400),
        ] {
            let times = FileTimes::new().set_modified(days(modified)).set_accessed(days(used));
            File::create(cache.join(name)).unwrap().set_times(times).unwrap();
        }
        let (bytes, binary) = script("echo started $1");
        assert!(run(home.path(), &bootstrap(&binary, true), &bytes).ends_with("started agent\n"));
        let mut left: Vec<_> = std::fs::read_dir(cache)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let kept = [".new.2", "agent-5eed", "agent-new", "agent-used", "another"];
        assert_eq!(left, kept);
    }

    #[test]
    fn the_documentation_has_the_same_line() {
        let binary = Binary { size: 7, id: "BUILD".into() };
        let documented = include_str!("../../../docs/protocol.md");
        for install in [true, false] {
            let line = bootstrap(&binary, install)
                .replace("-eq 7 ]", "-eq SIZE ]")
                .replace("head -c 7;", "head -c SIZE;");
            let line = line.replace(&format!("linerate {} ", env!("CARGO_PKG_VERSION")), "linerate VERSION ");
            assert!(documented.contains(&line), "docs/protocol.md lacks {line}");
        }
    }

    /// An ELF file whose notes have another type.
    fn without_notes(mut bytes: Vec<u8>) -> Vec<u8> {
        // The owner's name behind its length, the description's length, and the type.
        let gnu_build_id = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
        let at = bytes.windows(gnu_build_id.len()).position(|window| window == gnu_build_id);
        bytes[at.expect("the linker writes one") + 8] = 99;
        bytes
    }

    #[test]
    fn a_binary_is_known_by_its_build_or_by_its_contents() {
        let own = Binary::own().unwrap();
        assert_eq!(own.size, std::fs::metadata(OWN).unwrap().len());
        let ends = format!("-{}", own.size);
        let build = own.id.strip_suffix(&ends).unwrap();
        let written = build_id(&File::open(OWN).unwrap()).expect("the linker writes one");
        assert_eq!(build, hexadecimal(&written));
        // A file of the right form without an ID, of which reading the form leaves nothing to read.
        let own_bytes = std::fs::read(OWN).unwrap();
        let mut without = tempfile::tempfile().unwrap();
        without.write_all(&without_notes(own_bytes)).unwrap();
        assert_eq!(build_id(&without), None);
        let hashed = Binary::of(without.try_clone().unwrap()).unwrap();
        without.rewind().unwrap();
        assert_eq!(hashed.id, format!("{}-{}", sha256(without).unwrap(), hashed.size));
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(&b""[..]).unwrap(), empty);
    }

    #[test]
    fn a_damaged_binary_is_not_run() {
        let home = tempfile::tempdir().unwrap();
        let (bytes, binary) = script("echo started");
        for at in [3, 64 + 12] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            let said = run(home.path(), &bootstrap(&binary, true), &damaged);
            assert!(said.contains(FAILED) && !said.contains("started"), "{said}");
            let left = std::fs::read_dir(home.path().join(".cache/linerate")).unwrap().count();
            assert_eq!(left, 0, "nothing is left behind");
        }
    }

    #[test]
    fn a_cache_that_others_may_change_is_neither_run_nor_filled() {
        use std::os::unix::fs::{PermissionsExt, chown, symlink};
        let (bytes, binary) = script("echo started $1");
        let is_root = rustix::process::geteuid().is_root();
        for (mode, owner, link) in
            [(0o770, 0, false), (0o707, 0, true), (0o755, 65534, false), (0o755, 0, true), (0o755, 0, false)]
        {
            let home = tempfile::tempdir().unwrap();
            assert!(run(home.path(), &bootstrap(&binary, true), &bytes).ends_with("started agent\n"));
            let cache = home.path().join(".cache/linerate");
            std::fs::set_permissions(&cache, PermissionsExt::from_mode(mode)).unwrap();
            if owner > 0 && is_root {
                chown(&cache, Some(owner), None).unwrap();
            }
            if link {
                std::fs::rename(&cache, home.path().join("elsewhere")).unwrap();
                symlink("../elsewhere", &cache).unwrap();
            }
            // A link is nobody's to rely on, also this user's own.
            let refused = mode & 0o022 != 0 || owner > 0 || link;
            if owner > 0 && !is_root {
                linerate_testing::skip("root", "giving a directory to another user needs root");
                continue;
            }
            let said = run(home.path(), &bootstrap(&binary, false), &[]);
            assert_eq!(said.contains("started"), !refused, "{mode:o} {owner}: {said}");
            let mut shell = Command::new("sh");
            shell.args(["-c", &find(&binary)]).env("HOME", home.path()).env_remove("XDG_CACHE_HOME");
            let found = String::from_utf8(shell.output().unwrap().stdout).unwrap();
            assert_eq!(found.contains("agent-5eed"), !refused, "{mode:o} {owner}: {found}");
            let said = run(home.path(), &bootstrap(&binary, true), &bytes);
            assert_eq!(said.contains("writable by nobody else"), refused, "{mode:o} {owner}: {said}");
        }
    }

    #[test]
    fn without_permission_nothing_is_brought() {
        let home = tempfile::tempdir().unwrap();
        let said = run(home.path(), &bootstrap(&script("echo started").1, false), &[]);
        assert!(said.contains(FAILED), "{said}");
        assert!(!home.path().join(".cache").exists());
    }

    #[test]
    fn the_line_means_the_same_to_other_shells() {
        let line = bootstrap(&script("").1, true);
        assert!(!line.contains(['\n', '!', '\\']), "{line}");
        assert_eq!(line.matches('\'').count(), 2);
    }
}
