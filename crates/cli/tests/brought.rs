//! Tests that a new host gets the agent packed with the program or, without one, the whole program. The far
//! host is this host with a different home directory.

mod support;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use linerate_remote::packed;
use linerate_testing::{copy_program, has, is_root, write_script};
use linerate_wire::identity::{IDENTITY, reported_by};
use support::{Run, Running, directory};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_linerate");

/// An installation, a remote shell, and the home directory at its far end.
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
        fs::hard_link(PROGRAM, &program).unwrap_or_else(|_| copy_program(Path::new(PROGRAM), &program));
        let home = installation.path("home").display().to_string();
        // Only the program's own directory may contain a linerate.
        let shell = format!("shift\nHOME={home} XDG_CACHE_HOME= PATH=/usr/bin:/bin exec sh -c \"$*\"");
        installation.script("rsh", &shell);
        fs::write(installation.path("file"), "contents").unwrap();
        installation
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    fn script(&self, name: &str, text: &str) {
        write_script(&self.path(name), &format!("#!/bin/sh\n{text}\n"));
    }

    /// Restricts the far host to the tools that the far command line needs, and `more`. Its shell stores its
    /// input in the file `sent`.
    fn far_tools(&self, more: &[&str]) {
        const NEEDED: [&str; 14] = [
            "sh",
            "ls",
            "id",
            "wc",
            "uname",
            "mkdir",
            "head",
            "sha256sum",
            "chmod",
            "sync",
            "mv",
            "find",
            "rm",
            "tee",
        ];
        let bin = self.path("tools");
        fs::create_dir_all(&bin).unwrap();
        for tool in NEEDED.iter().chain(more) {
            let places = ["/usr/bin", "/bin"].map(|directory| Path::new(directory).join(tool));
            let found = places.into_iter().find(|file| file.exists());
            std::os::unix::fs::symlink(found.expect("every Linux has it"), bin.join(tool)).unwrap();
        }
        let (home, sent) = (self.path("home").display().to_string(), self.path("sent").display().to_string());
        let shell = format!(
            "shift\nexport HOME={home} XDG_CACHE_HOME= PATH={}\ntee -a {sent} | sh -c \"$*\"",
            bin.display()
        );
        self.script("rsh", &shell);
    }

    /// Packs a script that replaces the agent; a different `note` makes a different script.
    fn pack_agent(&self, note: &str) -> PathBuf {
        self.script("agent", &format!("# {note} (speaks {IDENTITY})\nexec {PROGRAM} \"$@\""));
        let packed = self.path("usr/lib/linerate").join(format!(
            "{}{}{}",
            packed::NAME,
            std::env::consts::ARCH,
            packed::END
        ));
        packed::write(&self.path("agent"), &mut File::create(&packed).unwrap()).unwrap();
        packed
    }

    /// Copies a file to the far host and checks the copy.
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

    /// The sizes of the files that the far host keeps; checks that no other files are left there.
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
    installation.copy().says(&["copying its agent"]);
    assert_eq!(installation.kept(), [length(&installation.path("agent"))]);
    assert_eq!(installation.copy().err.matches("copying").count(), 0);
    // The file is truncated, as by a full disk.
    let cache = installation.path("home/.cache/linerate");
    fs::write(fs::read_dir(cache).unwrap().next().unwrap().unwrap().path(), "").unwrap();
    installation.copy().says(&["copying its agent"]);
    // An upgrade.
    installation.pack_agent("the second one");
    installation.copy().says(&["copying its agent"]);
    assert_eq!(installation.kept().len(), 2);
}

#[test]
fn an_agent_that_can_not_be_run_any_more_is_brought_again() {
    let installation = Installation::new();
    installation.pack_agent("the first");
    installation.copy().says(&["copying its agent"]);
    let cache = installation.path("home/.cache/linerate");
    let kept = fs::read_dir(cache).unwrap().next().unwrap().unwrap().path();
    // Of the right length.
    fs::write(&kept, format!("#!/nowhere/sh\n{}", " ".repeat(length(&kept) as usize - 14))).unwrap();
    installation.copy().says(&["logging in again", "copying its agent"]);
    let again = installation.copy();
    assert!(!again.err.contains("copying") && !again.err.contains("logging in again"), "{again}");
}

#[test]
fn a_cache_on_a_file_system_without_programs_or_room_is_reported_and_nothing_is_sent_in_vain() {
    if !is_root("only root mounts") || !has("unshare") || !has("mount") {
        return;
    }
    let installation = Installation::new();
    installation.pack_agent("any");
    let home = installation.path("home").display().to_string();
    for (options, says, is_brought) in [
        ("noexec", "no program may be run there", false),
        ("ro", "Read-only file system", false),
        ("size=4k,nr_inodes=3", "No space left on device", false),
    ] {
        let mounted = format!("mount -t tmpfs -o {options} none {home} || exit 77; exec sh -c \"$1\"");
        let shell = format!(
            "shift\nexport HOME={home} XDG_CACHE_HOME= PATH=/usr/bin:/bin\nexec unshare --mount sh -c '{mounted}' sh \"$*\""
        );
        installation.script("rsh", &shell);
        let run = installation.run(&["cp", "file", "far:/nowhere/copied"]);
        if run.code == Some(77) {
            return linerate_testing::skip("mount", "no file system can be mounted here");
        }
        let run = run.exits(5).says(&[
            "cannot install it in",
            says,
            "install linerate there, or let XDG_CACHE_HOME",
        ]);
        assert_eq!(run.err.contains("copying"), is_brought, "{options}: {run}");
    }
}

#[test]
fn a_login_after_which_nothing_can_be_run_is_tried_twice_and_says_what_to_try() {
    let installation = Installation::new();
    installation.pack_agent("any");
    installation.script("rsh", "echo x >>logins; exit 126");
    let run = installation.run(&["cp", "file", "far:copied"]).exits(5);
    run.says(&["no agent could be started", "mounted noexec", "Install linerate on the far host"]);
    assert_eq!(fs::read_to_string(installation.path("logins")).unwrap().lines().count(), 2);
}

#[test]
fn without_a_fitting_agent_all_of_the_program_is_brought_and_serves_later() {
    let installation = Installation::new();
    let packed = installation.pack_agent("other bytes");
    fs::write(&packed, "no gzip").unwrap();
    installation.copy().says(&["copying linerate", "the whole program", "isn't a packed agent"]);
    assert_eq!(installation.kept(), [length(Path::new(PROGRAM))]);
    installation.pack_agent("as it should be");
    assert_eq!(installation.copy().err.matches("copying").count(), 0);
    fs::remove_dir_all(installation.path("home/.cache")).unwrap();
    fs::remove_file(packed).unwrap();
    installation.copy().says(&["the whole program, because no packed agent is beside it"]);
}

#[test]
fn a_host_without_gzip_gets_the_agent_as_it_is() {
    let installation = Installation::new();
    installation.pack_agent("whose bytes travel");
    installation.far_tools(&[]);
    installation.copy().says(&["copying its agent"]);
    assert_eq!(installation.kept(), [length(&installation.path("agent"))]);
}

#[test]
fn a_host_without_zstd_gets_all_of_the_program_compressed_by_gzip() {
    let installation = Installation::new();
    installation.pack_agent("for copies");
    installation.far_tools(&["gzip"]);
    // A copy that continues without the client needs the whole program at the far end.
    let from = format!("far:{}", installation.path("file").display());
    let to = format!("away:{}", installation.path("copied").display());
    installation.run(&["cp", "--detach", &from, &to]).exits(0).says(&["copying linerate"]);
    installation.run(&["attach", "away"]).exits(0);
    assert_eq!(fs::read_to_string(installation.path("copied")).unwrap(), "contents");
    assert!(installation.kept().contains(&length(Path::new(PROGRAM))));
    let brought = length(&installation.path("sent"));
    assert!(brought < length(Path::new(PROGRAM)), "{brought} bytes");
}

#[test]
fn what_an_agent_can_not_do_is_done_by_the_whole_program() {
    let installation = Installation::new();
    installation.pack_agent("for copies");
    installation.copy().says(&["copying its agent"]);
    let state = installation.path("state").display().to_string();
    let applied = installation.run(&["doctor", "--applied", "--state", &state, "far"]).exits(0);
    applied.says(&["copying linerate"]);
    let jobs = installation.run(&["status", "far"]).exits(0);
    assert_eq!(jobs.err.matches("copying").count(), 0);
    assert_eq!(installation.kept(), [length(&installation.path("agent")), length(Path::new(PROGRAM))]);
}

#[test]
fn the_program_s_file_says_what_it_speaks() {
    assert_eq!(reported_by(&fs::read(PROGRAM).unwrap()), Some(IDENTITY));
    let asked = Command::new(PROGRAM).args(["agent", "--id"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&asked.stdout), format!("{IDENTITY}\n"));
}

/// A packed agent in which a byte of the checksum, which precedes the length at the end, was changed.
fn with_a_changed_byte(packed: &Path) -> Vec<u8> {
    let mut bytes = fs::read(packed).unwrap();
    let checksum = bytes.len() - 8;
    bytes[checksum] ^= 1;
    bytes
}

/// The program with a header that claims another kind of machine, otherwise unchanged.
fn of_another_machine(installation: &Installation, packed: &Path) {
    let mut bytes = fs::read(PROGRAM).unwrap();
    bytes[18] = if std::env::consts::ARCH == "aarch64" { 62 } else { 183 };
    let program = installation.path("other");
    fs::write(&program, bytes).unwrap();
    packed::write(&program, &mut File::create(packed).unwrap()).unwrap();
}

#[test]
fn an_agent_that_can_not_be_brought_is_named_and_all_of_the_program_brought() {
    type Harm = fn(&Installation, &Path);
    // More of them are tested beside the code that looks; each brings all of the program, which takes time.
    let harms: [(&str, Harm); 4] = [
        ("it is a directory", |_, file| {
            fs::remove_file(file).unwrap();
            fs::create_dir(file).unwrap();
        }),
        ("it is a program for ", of_another_machine),
        ("usr/lib: users other than its owner may write it", |installation, _| {
            fs::set_permissions(installation.path("usr/lib"), fs::Permissions::from_mode(0o777)).unwrap();
        }),
        ("can't be copied: it ", |_, file| fs::write(file, with_a_changed_byte(file)).unwrap()),
    ];
    for (why, harm) in harms {
        let installation = Installation::new();
        let packed = installation.pack_agent(&"that is long enough to be damaged within".repeat(50));
        harm(&installation, &packed);
        let file = packed.file_name().unwrap().to_str().unwrap();
        let run = installation.copy();
        let run = run.says(&[file, why, "copying linerate", "the whole program"]);
        assert!(!run.err.contains("copying its agent"), "{run}");
        assert_eq!(installation.kept(), [length(Path::new(PROGRAM))]);
    }
}

#[test]
fn where_nothing_else_fits_the_damaged_agent_is_the_reason() {
    let installation = Installation::new();
    let packed = installation.pack_agent(&"that is long enough to be damaged within".repeat(50));
    let agents = installation.path("usr/lib/linerate/agents");
    fs::create_dir(&agents).unwrap();
    let other = if std::env::consts::ARCH == "aarch64" { "x86_64" } else { "aarch64" };
    let file = agents.join(format!("agent-{other}.gz"));
    fs::rename(packed, &file).unwrap();
    // The far host is of that machine.
    fs::create_dir(installation.path("far")).unwrap();
    installation.script("far/uname", &format!("echo Linux {other}"));
    let (home, far) =
        (installation.path("home").display().to_string(), installation.path("far").display().to_string());
    let shell = format!("shift\nHOME={home} XDG_CACHE_HOME= PATH={far}:/usr/bin:/bin exec sh -c \"$*\"");
    installation.script("rsh", &shell);
    let copy =
        || installation.run(&["cp", "file", &format!("far:{}", installation.path("copied").display())]);
    let name = format!("agent-{other}.gz");
    fs::write(&file, with_a_changed_byte(&file)).unwrap();
    copy().exits(5).says(&[&name, "the far host is Linux ", "install linerate"]);
    fs::write(&file, "").unwrap();
    copy().exits(5).says(&[&format!("{name}: it is empty"), "install linerate"]);
    // A whole program that is damaged, too.
    fs::write(agents.join(format!("linerate-{other}")), "").unwrap();
    copy().exits(5).says(&[&format!("{name}: it is empty"), &format!("linerate-{other}: it is empty")]);
    // This agent was left by a package of another version.
    let older = "#!/bin/sh\n# (speaks linerate 0.0.1 protocol 1)\n";
    fs::write(agents.join(format!("linerate-{other}")), older).unwrap();
    copy().exits(5).says(&[&format!("linerate-{other}: it belongs to linerate 0.0.1 protocol 1, not to")]);
    fs::remove_dir_all(agents).unwrap();
    copy().exits(5).says(&["for which this host has no binary: install linerate"]);
}
