//! A new host gets the agent that is packed beside the program, else the whole program. The far host is this one,
//! with another home.

mod support;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use linerate_remote::packed;
use support::{Run, Running, directory};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_linerate");

/// An installation, a remote shell, and the home at its far end.
struct Installation {
    top: TempDir,
}

impl Installation {
    fn new() -> Self {
        let installation = Self { top: directory("linerate-brought-") };
        for directory in ["usr/bin", "usr/lib/linerate", "home"] {
            fs::create_dir_all(installation.path(directory)).unwrap();
        }
        let program = installation.path("usr/bin/linerate");
        fs::hard_link(PROGRAM, &program).or_else(|_| fs::copy(PROGRAM, &program).map(drop)).unwrap();
        let home = installation.path("home").display().to_string();
        // Nothing but the program's own directory may have a linerate.
        let shell = format!("shift\nHOME={home} XDG_CACHE_HOME= PATH=/usr/bin:/bin exec sh -c \"$*\"");
        installation.script("rsh", &shell);
        fs::write(installation.path("file"), "contents").unwrap();
        installation
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    fn script(&self, name: &str, text: &str) {
        fs::write(self.path(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Packs a script that stands for the agent; `note` makes it another one.
    fn pack_agent(&self, note: &str) -> PathBuf {
        self.script("agent", &format!("# {note}\nexec {PROGRAM} \"$@\""));
        let packed = self.path("usr/lib/linerate").join(format!(
            "{}{}{}",
            packed::NAME,
            std::env::consts::ARCH,
            packed::END
        ));
        packed::write(&self.path("agent"), &mut File::create(&packed).unwrap()).unwrap();
        packed
    }

    /// Copies a file there and looks at it.
    #[track_caller]
    fn copy(&self) -> Run {
        let to = self.path("copied");
        drop(fs::remove_file(&to));
        let run = self.run(&["cp", "file", &format!("far:{}", to.display())]).exits(0);
        assert_eq!(fs::read_to_string(to).unwrap(), "contents");
        run
    }

    #[track_caller]
    fn run(&self, words: &[&str]) -> Run {
        let mut command = Command::new(self.path("usr/bin/linerate"));
        command.arg(words[0]).arg("--rsh").arg(self.path("rsh")).args(&words[1..]);
        Running::start({
            command.current_dir(self.top.path());
            command
        })
        .end()
    }

    /// The lengths of what the far host keeps, and nothing but that is left there.
    fn kept(&self) -> Vec<u64> {
        let entries = fs::read_dir(self.path("home/.cache/linerate")).unwrap().map(Result::unwrap);
        let length = |entry: fs::DirEntry| {
            assert!(entry.file_name().to_string_lossy().starts_with("agent-"), "{entry:?}");
            entry.metadata().unwrap().len()
        };
        let mut lengths: Vec<_> = entries.map(length).collect();
        lengths.sort_unstable();
        lengths
    }
}

fn length(file: &Path) -> u64 {
    file.metadata().unwrap().len()
}

#[test]
fn a_new_host_gets_the_agent_once_and_the_next_version_again() {
    let installation = Installation::new();
    installation.pack_agent("the first");
    installation.copy().says(&["bringing its agent"]);
    assert_eq!(installation.kept(), [length(&installation.path("agent"))]);
    assert_eq!(installation.copy().err.matches("bringing").count(), 0);
    // Cut off, as by a full disk.
    let cache = installation.path("home/.cache/linerate");
    fs::write(fs::read_dir(cache).unwrap().next().unwrap().unwrap().path(), "").unwrap();
    installation.copy().says(&["bringing its agent"]);
    // An upgrade.
    installation.pack_agent("the second one");
    installation.copy().says(&["bringing its agent"]);
    assert_eq!(installation.kept().len(), 2);
}

#[test]
fn without_a_fitting_agent_all_of_the_program_is_brought_and_serves_later() {
    let installation = Installation::new();
    let packed = installation.pack_agent("other bytes");
    fs::write(&packed, "no gzip").unwrap();
    installation.copy().says(&["bringing it", "all of it", "no packed agent"]);
    assert_eq!(installation.kept(), [length(Path::new(PROGRAM))]);
    installation.pack_agent("as it should be");
    assert_eq!(installation.copy().err.matches("bringing").count(), 0);
    fs::remove_dir_all(installation.path("home/.cache")).unwrap();
    fs::remove_file(packed).unwrap();
    installation.copy().says(&["all of it, since no packed agent is beside this program"]);
}

#[test]
fn a_host_without_gzip_gets_the_agent_as_it_is() {
    let installation = Installation::new();
    installation.pack_agent("whose bytes travel");
    // Everything that the far line needs, but nothing that decompresses.
    let (bin, path) = (installation.path("tools"), "/usr/bin:/bin");
    fs::create_dir_all(&bin).unwrap();
    for tool in
        ["sh", "ls", "id", "wc", "uname", "mkdir", "head", "sha256sum", "chmod", "sync", "mv", "find", "rm"]
    {
        let found =
            path.split(':').map(|directory| Path::new(directory).join(tool)).find(|file| file.exists());
        std::os::unix::fs::symlink(found.expect("every Linux has it"), bin.join(tool)).unwrap();
    }
    let home = installation.path("home").display().to_string();
    let shell = format!("shift\nHOME={home} XDG_CACHE_HOME= PATH={} exec sh -c \"$*\"", bin.display());
    installation.script("rsh", &shell);
    installation.copy().says(&["bringing its agent"]);
    assert_eq!(installation.kept(), [length(&installation.path("agent"))]);
}

#[test]
fn what_an_agent_can_not_do_is_done_by_the_whole_program() {
    let installation = Installation::new();
    installation.pack_agent("for copies");
    installation.copy().says(&["bringing its agent"]);
    let state = installation.path("state").display().to_string();
    let applied = installation.run(&["doctor", "--applied", "--state", &state, "far"]).exits(0);
    applied.says(&["bringing it"]);
    let jobs = installation.run(&["status", "far"]).exits(0);
    assert_eq!(jobs.err.matches("bringing").count(), 0);
    assert_eq!(installation.kept(), [length(&installation.path("agent")), length(Path::new(PROGRAM))]);
}
