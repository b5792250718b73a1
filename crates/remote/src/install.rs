//! Copies a binary to a host that lacks it, through the same ssh login that then runs the binary.
//!
//! The far shell runs a single command line. The command line starts a copy of one of this client's binaries from the
//! account's cache directory, or else an installed linerate of the same version. If the host has neither, the command
//! line reads from standard input the hash of the client's smallest binary, and then this binary, perhaps compressed;
//! it checks the hash, keeps the binary and runs it. Unless the user gives a command that calls the agent, the command
//! line contains no path or name that a user chose, and nothing that a POSIX shell, csh or fish interprets differently
//! inside single quotes.

use crate::agent_command::AgentCommand;
use crate::binary::{Binaries, Binary, FarPart};
use linerate_wire::identity::IDENTITY;
use std::ffi::OsString;

/// The text that the command line prints when it waits for the binary. After this text come the host's system and
/// machine, and then the programs for decompressing that the host has: `zstd`, `gzip`.
pub const WANTED: &str = "linerate-agent wanted";
/// The text that the command line prints if no agent could be started.
pub const FAILED: &str = "linerate-agent failed";

/// Removes binaries that were not used for 30 days, and files that interrupted installations left at least a day ago. A
/// running process keeps its removed binary until it ends. This part of the command line runs after an installation,
/// and its failure is ignored.
const TIDY: &str = "find \"$d\" -type f -name \"agent-*\" -mtime +30 -atime +30 -exec rm -f {} + 2>/dev/null; \
                    find \"$d\" -type f -name \".new.*\" -mtime +0 -exec rm -f {} + 2>/dev/null";

/// Sets the variable `$d` to the cache directory. A relative path in `$XDG_CACHE_HOME` is ignored, as the XDG Base
/// Directory Specification requires.
const CACHE: &str =
    "case $XDG_CACHE_HOME in /*) d=$XDG_CACHE_HOME;; *) d=$HOME/.cache;; esac; d=$d/linerate;";

/// Sets the variable `$i` to the number of the far account's user, if possible without starting a process.
const USER: &str = "i=; while read -r k z i p; do case $k in Uid:) break;; esac; done 2>/dev/null </proc/self/status; \
    [ \"$i\" ] || i=$(id -u);";

/// Defines the shell function `own`, which succeeds if the cache directory `$d` belongs to this user and nobody else
/// may write to it, by the mode and owner that `ls` prints. Binaries are kept and run only in such a directory. A link
/// is refused, because in a shared directory another user could make the link lead to any directory of this user.
/// `own FILE` also sets `$n` to the length of this file in the directory, from the output of the same `ls`, because
/// another process would delay each start.
const OWN_DIRECTORY: &str = "own() { set -- $(LC_ALL=C TIME_STYLE=locale ls -ldn \"$d\" \"$@\" 2>/dev/null); \
    case \"$1 $3\" in drwx?-??-?*\" $i\") shift $(($#/2)); n=$5; return 0;; esac; return 1; };";

/// Sets `$d`, the cache directory, and runs `action` for each of the client's binaries that may be in this directory:
/// `$b` is the binary's [`Binary::id`], `$s` its length and `$a` its path. Afterwards, these variables describe the
/// last binary, which is the binary to copy.
fn each_copy(binaries: &Binaries, part: FarPart, action: &str) -> String {
    let names = |machine: &str| {
        let fit = binaries.for_machine(machine.as_bytes(), part);
        fit.iter().map(|Binary { id, .. }| &**id).collect::<Vec<_>>().join(" ")
    };
    let own = names(&binaries.own.machine);
    let mut line = format!("{CACHE} c=\"{own}\"; ");
    let others = binaries.other_machines();
    if !others.is_empty() {
        line.push_str("case $(uname -sm) in ");
        for other in others {
            line.push_str(&format!("\"{other}\") c=\"{}\";; ", names(other)));
        }
        line.push_str("esac; ");
    }
    line + USER
        + " "
        + OWN_DIRECTORY
        + &format!(" for b in $c; do a=$d/agent-$b s=${{b##*-}}; {action}; done; ")
}

/// Creates the directory `$d`, and in it the file `$t` with an empty line, and runs this file. On a file system that is
/// mounted noexec, the kernel refuses to run the file. If a step fails, `$m` is the reason.
const PROBE: &str = "m=$(mkdir -p \"$d\" 2>&1) && \
    { own || { m=\"it must be yours and writable by nobody else\"; false; }; } && \
    m=$({ echo >\"$t\" && chmod 700 \"$t\"; } 2>&1) && \
    { \"$t\" </dev/null 2>/dev/null || { m=\"no program may be run there, as on a file system that is mounted noexec\"; false; }; } && \
    rm -f \"$t\"";

/// Reads the hash, and then writes the binary to `$t`.
const TAKE: &str = "read -r h z p && m=$({ { if [ \"$z\" ]; then head -c \"$z\" | \"$p\" -dc | head -c $s; else head -c $s; fi; } >\"$t\"; } 2>&1) && \
    m=\"what arrived is damaged, or sha256sum is missing\"";

/// The advice to the user if a host can't keep a binary.
const WAYS_OUT: &str = "install linerate there, or let XDG_CACHE_HOME of that account name a directory in which it may write and run programs";

/// The command line for the far shell. Without `install`, the command line never requests a binary.
pub fn bootstrap(binaries: &Binaries, part: FarPart, install: bool) -> String {
    bootstrap_by(binaries, part, install, &AgentCommand::default(), CopyTrust::AsFound)
}

/// How far the command line trusts a binary that was copied to the host before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyTrust {
    /// The binary is run if it has the expected length.
    AsFound,
    /// The binary is removed unless it runs and prints this program's version; this test costs another process.
    /// `linerate-agent` prints the version in its usage message.
    Tried,
}

impl CopyTrust {
    /// The part of the command line that tests a binary and removes it if it can't be run; empty if binaries are
    /// trusted.
    fn removal(self) -> String {
        let tried = format!(
            "if [ -x \"$a\" ] && own \"$a\"; then case $(\"$a\" agent --id 2>&1 </dev/null) in *\"{IDENTITY}\"*) ;; *) rm -f \"$a\";; esac; fi; "
        );
        if self == Self::Tried { tried } else { String::new() }
    }
}

/// The command line of [`bootstrap`], but with the user's command that calls the agent, and with this trust in binaries
/// that were copied before. Single quotes in the user's command are escaped, so that `sh` gets this command as the user
/// wrote it.
pub fn bootstrap_by(
    binaries: &Binaries,
    part: FarPart,
    install: bool,
    command: &AgentCommand,
    trust: CopyTrust,
) -> String {
    let beginning = command.beginning();
    if let Some(path) = command.path() {
        return format!("sh -c '{beginning}{}'", command.call(path));
    }
    let (copied, installed) = (command.call("\"$a\""), command.call("linerate"));
    // The user's settings may make ls print lengths in other units. Then wc determines the length.
    let if_whole = format!(
        "{}if [ -x \"$a\" ] && own \"$a\" && {{ [ \"$n\" = $s ] || [ $(wc -c <\"$a\") -eq $s ]; }}; then {copied}; fi",
        trust.removal()
    );
    let start = format!(
        "{copies}if [ \"$(linerate agent --id 2>/dev/null)\" = \"{id}\" ]; then {installed}; fi; ",
        copies = each_copy(binaries, part, &if_whole),
        id = IDENTITY,
    );
    let without = format!(
        "echo; echo \"{FAILED}: no linerate of this version is there: install it, or leave out --no-install\"; \
         exit 127"
    );
    format!("sh -c '{beginning}{start}{}'", if install { bring(&copied) } else { without })
}

/// The part of the command line that requests the binary, keeps it, and runs it by the shell command `copied`.
fn bring(copied: &str) -> String {
    format!(
        "u=$(umask); umask 077; t=$d/.new.$$; {PROBE} && \
         echo && echo {WANTED} $(uname -sm) $(for p in zstd gzip; do command -v $p >/dev/null && echo $p; done) && {TAKE} && \
         case $(sha256sum <\"$t\") in \"$h \"*) chmod 700 \"$t\" && {{ sync \"$t\" 2>/dev/null; m=$(mv -f \"$t\" \"$a\" 2>&1); }} && {{ {TIDY}; umask \"$u\"; {copied}; }};; esac; \
         rm -f \"$t\"; echo; echo \"{FAILED}: cannot install it in $d:\" $m\"; {WAYS_OUT}\"; exit 126"
    )
}

/// The command line that prints the path of the program that [`bootstrap`]'s command line would start.
pub fn find(binaries: &Binaries) -> String {
    let print = "if [ -x \"$a\" ] && own; then echo \"$a\"; exit; fi";
    each_copy(binaries, FarPart::Program, print) + "command -v linerate"
}

/// The words of a command that runs this program with the arguments `argv`, on a host on which [`bootstrap`]'s command
/// line has started this program, and from the path from which it was started.
pub fn again(binaries: &Binaries, argv: &[OsString]) -> Vec<OsString> {
    again_by(binaries, argv, &AgentCommand::default())
}

/// The words of [`again`], but with the user's command that calls the program.
pub fn again_by(binaries: &Binaries, argv: &[OsString], command: &AgentCommand) -> Vec<OsString> {
    let copied = command.call_with_words("\"$a\"");
    let start = format!("if [ -x \"$a\" ] && own; then {copied}; fi");
    let brought = each_copy(binaries, FarPart::Program, &start) + &command.call_with_words("linerate");
    let script = command.path().map_or(brought, |path| command.call_with_words(path));
    let shell = ["sh".into(), "-c".into(), script.into(), "linerate".into()];
    shell.into_iter().chain(argv.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::{Binary, sha256};
    use std::fs::{File, FileTimes};
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::{Command, Stdio};
    use std::time::{Duration, SystemTime};

    /// A description of a binary of `size` bytes for `machine`.
    fn described(machine: &str, id: &str, size: u64) -> Binary {
        let id = format!("{id}-{size}");
        Binary { machine: machine.into(), file: "/nowhere".into(), size, id, packed: None }
    }

    /// A script that is copied in place of a binary, and its description.
    fn script(body: &str) -> (Vec<u8>, Binaries) {
        let bytes = format!("#!/bin/sh\n{body}\n").into_bytes();
        let (hash, size) = (sha256(&bytes[..]).unwrap(), bytes.len() as u64);
        let own = described("Linux x", "5eed", size);
        ([format!("{hash}\n").into_bytes(), bytes].concat(), of_programs(own, Vec::new()))
    }

    fn of_programs(own: Binary, others: Vec<Binary>) -> Binaries {
        Binaries { own, others, agents: Vec::new(), unfit: Vec::new() }
    }

    /// Runs the command line in a shell with the home directory `home`, sends it `bytes` when it requests
    /// them, and returns its output.
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
        // The first line is empty if the shell prints something before.
        while said.trim().is_empty() {
            assert!(out.read_line(&mut said).unwrap() > 0, "the shell said nothing");
        }
        let mut stdin = shell.stdin.take().unwrap();
        if said.contains(WANTED) {
            // If the shell refuses the directory, it ends without reading, and the write fails.
            let _ = stdin.write_all(bytes);
        }
        drop(stdin);
        out.read_to_string(&mut said).unwrap();
        shell.wait().unwrap();
        said
    }

    #[test]
    fn it_is_brought_once_and_found_afterwards() {
        let home = tempfile::tempdir().unwrap();
        let (bytes, binaries) = script("echo started $1");
        let first = run(home.path(), &bootstrap(&binaries, FarPart::Agent, true), &bytes);
        assert!(first.contains(WANTED) && first.ends_with("started agent\n"), "{first}");
        assert_eq!(run(home.path(), &bootstrap(&binaries, FarPart::Agent, true), &[]), "started agent\n");
        assert_eq!(run(home.path(), &bootstrap(&binaries, FarPart::Agent, false), &[]), "started agent\n");
    }

    #[test]
    fn it_is_brought_compressed_where_the_far_end_can_decompress() {
        if Command::new("zstd").arg("--version").stdout(Stdio::null()).status().is_err() {
            return linerate_testing::skip("zstd", "there is no zstd");
        }
        let home = tempfile::tempdir().unwrap();
        let (_, binaries) = script("echo started $1");
        let hash = sha256(&b"#!/bin/sh\necho started $1\n"[..]).unwrap();
        let packed = zstd::encode_all(&b"#!/bin/sh\necho started $1\n"[..], 3).unwrap();
        let bytes = [format!("{hash} {} zstd\n", packed.len()).into_bytes(), packed].concat();
        let first = run(home.path(), &bootstrap(&binaries, FarPart::Agent, true), &bytes);
        assert!(first.contains("zstd") && first.ends_with("started agent\n"), "{first}");
        assert_eq!(run(home.path(), &bootstrap(&binaries, FarPart::Agent, false), &[]), "started agent\n");
    }

    #[test]
    fn a_host_of_another_kind_gets_the_binary_for_it() {
        let uname = Command::new("uname").arg("-sm").output().unwrap().stdout;
        let here = String::from_utf8(uname).unwrap().trim().to_owned();
        let home = tempfile::tempdir().unwrap();
        let (bytes, Binaries { own, .. }) = script("echo started $1");
        let (this, other) = (described(&here, "5eed", own.size), described("Linux other", "0ther", 7));
        let binaries = of_programs(described("Linux x", "wrong", 9), vec![other, this]);
        let first = run(home.path(), &bootstrap(&binaries, FarPart::Agent, true), &bytes);
        assert!(first.contains(&format!("{WANTED} {here}")) && first.ends_with("started agent\n"), "{first}");
        assert_eq!(run(home.path(), &bootstrap(&binaries, FarPart::Agent, false), &[]), "started agent\n");
        let mut shell = Command::new("sh");
        shell.args(["-c", &find(&binaries)]).env("HOME", home.path()).env_remove("XDG_CACHE_HOME");
        let found = String::from_utf8(shell.output().unwrap().stdout).unwrap();
        assert!(found.ends_with(&format!("agent-5eed-{}\n", own.size)), "{found}");
        let line = bootstrap(&binaries, FarPart::Agent, true);
        assert!(!line.contains(['\n', '!', '\\']) && line.matches('\'').count() == 2, "{line}");
    }

    #[test]
    fn neither_blanks_in_the_path_nor_settings_of_ls_hide_what_was_brought() {
        let top = tempfile::tempdir().unwrap();
        let home = top.path().join("a home  of * 7 9");
        std::fs::create_dir(&home).unwrap();
        let (bytes, binaries) = script("echo started $1");
        run(&home, &bootstrap(&binaries, FarPart::Agent, true), &bytes);
        let line = bootstrap(&binaries, FarPart::Agent, false);
        let settings =
            [("BLOCK_SIZE", "1M"), ("TIME_STYLE", "iso"), ("LC_ALL", "C.UTF-8"), ("POSIXLY_CORRECT", "1")];
        for (name, value) in settings {
            let mut shell = Command::new("sh");
            shell.args(["-c", &line]).env("HOME", &home).env_remove("XDG_CACHE_HOME").env(name, value);
            let said = String::from_utf8(shell.output().unwrap().stdout).unwrap();
            assert_eq!(said, "started agent\n", "{name}");
        }
    }

    #[test]
    fn what_was_brought_runs_again_with_any_words() {
        let home = tempfile::tempdir().unwrap();
        let (bytes, binaries) = script("printf \"%s|\" \"$@\"");
        run(home.path(), &bootstrap(&binaries, FarPart::Agent, true), &bytes);
        let words = again(&binaries, &["doctor".into(), "it's \"b\"".into()]);
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
        // A binary isn't run if other users may write to its directory.
        let cache = home.path().join(".cache/linerate");
        std::fs::set_permissions(&cache, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert_eq!(again(home.path()), "");
    }

    #[test]
    fn the_cache_is_where_an_absolute_path_says() {
        let home = tempfile::tempdir().unwrap();
        let (_, binaries) = script("");
        let directory = |cache: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("{CACHE} echo $d")]).current_dir(home.path());
            shell.env("HOME", "/home/me").env("XDG_CACHE_HOME", cache);
            String::from_utf8(shell.output().unwrap().stdout).unwrap()
        };
        assert!(bootstrap(&binaries, FarPart::Agent, true).contains(CACHE));
        assert_eq!(directory("/var/cache/me"), "/var/cache/me/linerate\n");
        for ignored in ["", "cache", "./cache", "~/cache"] {
            assert_eq!(directory(ignored), "/home/me/.cache/linerate\n", "{ignored}");
        }
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
        let (bytes, binaries) = script("echo started $1");
        assert!(
            run(home.path(), &bootstrap(&binaries, FarPart::Agent, true), &bytes)
                .ends_with("started agent\n")
        );
        let mut left: Vec<_> = std::fs::read_dir(cache)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let brought = format!("agent-{}", binaries.own.id);
        let kept = [".new.2", &*brought, "agent-new", "agent-used", "another"];
        assert_eq!(left, kept);
    }

    #[test]
    fn the_documentation_has_the_same_line() {
        let own = described("Linux x", "BUILD", 7);
        let binaries = of_programs(own, Vec::new());
        let documented = include_str!("../../../docs/protocol.md");
        for install in [true, false] {
            let line = bootstrap(&binaries, FarPart::Agent, install).replace("BUILD-7", "BUILD");
            let line = line.replace(&format!("linerate {} ", env!("CARGO_PKG_VERSION")), "linerate VERSION ");
            assert!(documented.contains(&line), "docs/protocol.md lacks {line}");
        }
        let removal = CopyTrust::Tried.removal();
        let removal =
            removal.replace(&format!("linerate {} ", env!("CARGO_PKG_VERSION")), "linerate VERSION ");
        assert!(documented.contains(removal.trim_end()), "docs/protocol.md lacks {removal}");
    }

    #[test]
    fn what_was_brought_and_can_not_be_run_any_more_is_brought_again() {
        let home = tempfile::tempdir().unwrap();
        let body = format!("case $2 in --id) echo usage {IDENTITY} >&2; exit 2;; *) echo started $1;; esac");
        let (bytes, binaries) = script(&body);
        let line = |trust| bootstrap_by(&binaries, FarPart::Agent, true, &AgentCommand::default(), trust);
        run(home.path(), &line(CopyTrust::AsFound), &bytes);
        // A binary that runs isn't removed.
        assert_eq!(run(home.path(), &line(CopyTrust::Tried), &[]), "started agent\n");
        let copy = home.path().join(format!(".cache/linerate/agent-{}", binaries.own.id));
        std::fs::write(copy, vec![0; bytes.len() - 65]).unwrap();
        let said = run(home.path(), &line(CopyTrust::Tried), &bytes);
        assert!(said.contains(WANTED) && said.ends_with("started agent\n"), "{said}");
        let tried = line(CopyTrust::Tried);
        assert!(!tried.contains(['\n', '!', '\\']) && tried.matches('\'').count() == 2, "{tried}");
    }

    #[test]
    fn a_damaged_binary_is_not_run() {
        let home = tempfile::tempdir().unwrap();
        let (bytes, binaries) = script("echo started");
        for at in [3, 64 + 12] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            let said = run(home.path(), &bootstrap(&binaries, FarPart::Agent, true), &damaged);
            assert!(said.contains(FAILED) && !said.contains("started"), "{said}");
            let left = std::fs::read_dir(home.path().join(".cache/linerate")).unwrap().count();
            assert_eq!(left, 0, "nothing is left behind");
        }
    }

    #[test]
    fn a_cache_that_others_may_change_is_neither_run_nor_filled() {
        use std::os::unix::fs::{PermissionsExt, chown, symlink};
        let (bytes, binaries) = script("echo started $1");
        let is_root = rustix::process::geteuid().is_root();
        for (mode, owner, link) in
            [(0o770, 0, false), (0o707, 0, true), (0o755, 65534, false), (0o755, 0, true), (0o755, 0, false)]
        {
            let home = tempfile::tempdir().unwrap();
            assert!(
                run(home.path(), &bootstrap(&binaries, FarPart::Agent, true), &bytes)
                    .ends_with("started agent\n")
            );
            let cache = home.path().join(".cache/linerate");
            std::fs::set_permissions(&cache, PermissionsExt::from_mode(mode)).unwrap();
            if owner > 0 && is_root {
                chown(&cache, Some(owner), None).unwrap();
            }
            if link {
                std::fs::rename(&cache, home.path().join("elsewhere")).unwrap();
                symlink("../elsewhere", &cache).unwrap();
            }
            // A link is refused even if it belongs to this user.
            let refused = mode & 0o022 != 0 || owner > 0 || link;
            if owner > 0 && !is_root {
                linerate_testing::skip("root", "giving a directory to another user needs root");
                continue;
            }
            let said = run(home.path(), &bootstrap(&binaries, FarPart::Agent, false), &[]);
            assert_eq!(said.contains("started"), !refused, "{mode:o} {owner}: {said}");
            let mut shell = Command::new("sh");
            shell.args(["-c", &find(&binaries)]).env("HOME", home.path()).env_remove("XDG_CACHE_HOME");
            let found = String::from_utf8(shell.output().unwrap().stdout).unwrap();
            assert_eq!(found.contains("agent-5eed"), !refused, "{mode:o} {owner}: {found}");
            let said = run(home.path(), &bootstrap(&binaries, FarPart::Agent, true), &bytes);
            assert_eq!(said.contains("writable by nobody else"), refused, "{mode:o} {owner}: {said}");
        }
    }

    #[test]
    fn without_permission_nothing_is_brought() {
        let home = tempfile::tempdir().unwrap();
        let said = run(home.path(), &bootstrap(&script("echo started").1, FarPart::Agent, false), &[]);
        assert!(said.contains(FAILED), "{said}");
        assert!(!home.path().join(".cache").exists());
    }

    #[test]
    fn the_line_means_the_same_to_other_shells() {
        let line = bootstrap(&script("").1, FarPart::Agent, true);
        assert!(!line.contains(['\n', '!', '\\']), "{line}");
        assert_eq!(line.matches('\'').count(), 2);
    }
}
