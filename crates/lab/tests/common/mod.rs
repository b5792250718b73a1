//! Shared by the lab's tests: requirements, the example program, and the search for remains.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use linerate_lab::{End, Lab, LabOptions};
use linerate_testing::{has_all, is_root, skip};
use tempfile::TempDir;

/// The user and group "nobody", which have no rights and no home.
pub const NOBODY: u32 = 65534;

/// True if this process may make labs, and everything they need is installed; otherwise the test is skipped.
pub fn can_make_labs() -> bool {
    is_root("making namespaces for the test needs root")
        && has_all(&["ip", "tc", "sshd", "ssh", "ssh-keygen"])
}

/// The example program, which cargo builds for the tests.
pub fn example() -> PathBuf {
    let tests = std::env::current_exe().expect("our own path");
    // target/debug/deps/TEST, beside target/debug/examples/lab.
    tests.ancestors().nth(2).expect("in a target directory").join("examples/lab")
}

/// Options with a link of this rate and a name that no other test has.
pub fn options(name: &str, link: &str) -> LabOptions {
    let name = format!("test-{name}-{}", std::process::id());
    LabOptions {
        name: Some(name.parse().expect("a good name")),
        link: linerate_lab::parse_link(link).expect("a link"),
        ..LabOptions::default()
    }
}

/// Runs a command on one end of a lab.
pub fn on(lab: &Lab, end: End, argv: &[&str]) -> Output {
    let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
    let command = lab.place(end).command(&argv);
    command.and_then(|mut command| command.stdin(Stdio::null()).output()).expect("it starts")
}

/// Runs a command on b by ssh from a.
pub fn by_ssh(lab: &Lab, line: &str) -> Output {
    let config = lab.ssh_config();
    on(lab, End::A, &["ssh", "-F", config.to_str().expect("a plain path"), "b", line])
}

pub fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The remains of the lab with this name: namespaces, directories, mounts, processes that mention one of them or carry the
/// lab's name.
pub fn remains(name: &str) -> Vec<String> {
    let directories = [format!("/run/linerate/{name}"), format!("/dev/shm/linerate-lab-0-{name}")];
    // Of root's labs only: an ordinary user's beside them may have the same name, in a directory of its own.
    let mentions = directories.each_ref().map(|directory| format!("{directory}/"));
    let prefix = format!("linerate-{name}-");
    let namespaces = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let namespaces = namespaces.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    let namespaces = namespaces.map(|entry| entry.path().display().to_string());
    let files = directories.into_iter().filter(|path| Path::new(path).symlink_metadata().is_ok());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let is_own =
        |line: &&str| line.contains(&prefix) || mentions.iter().any(|mention| line.contains(mention));
    let mounts: Vec<String> = mounts.lines().filter(is_own).map(|line| format!("mount {line}")).collect();
    let mark = format!("LINERATE_LAB={name}");
    let user_namespace = |process: &Path| std::fs::read_link(process.join("ns/user")).ok();
    let roots = user_namespace(Path::new("/proc/self"));
    let processes = std::fs::read_dir("/proc").expect("procfs").flatten().filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let is_marked = environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
            && user_namespace(&entry.path()) == roots;
        let is_left = is_marked || mentions.iter().any(|mention| line.contains(mention));
        is_left.then(|| format!("{:?} {line}", entry.file_name()))
    });
    namespaces.chain(files).chain(mounts).chain(processes).collect()
}

/// The example program, which does what `linerate lab run` does, and a separate directory for one user.
pub struct Program {
    directory: TempDir,
    user: u32,
}

impl Program {
    pub fn for_user(user: u32) -> Self {
        let directory = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir();
        let directory = directory.expect("a temporary directory");
        let built = example();
        // A copy, because the build directory may be closed to the user; by another process, because a
        // descriptor open for writing here could slip into another test's child and make the program "busy".
        let copied = Command::new("cp").arg(&built).arg(directory.path().join("lab")).status();
        assert!(copied.is_ok_and(|status| status.success()), "cargo builds examples for its tests");
        let runtime = directory.path().join("runtime");
        std::fs::create_dir(&runtime).expect("writable");
        chown(&runtime, Some(user), Some(user)).expect("root may");
        Self { directory, user }
    }

    /// The program with these arguments, as its user, with no rights left.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = if self.user == 0 { Command::new(self.path()) } else { self.as_user() };
        command.args(arguments).env("XDG_RUNTIME_DIR", self.runtime()).env("HOME", "/").current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it starts")
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("lab")
    }

    pub fn runtime(&self) -> PathBuf {
        self.directory.path().join("runtime")
    }

    fn as_user(&self) -> Command {
        let mut command = Command::new("setpriv");
        let (user, group) = (format!("--reuid={}", self.user), format!("--regid={}", self.user));
        command.args([&user, &group, "--clear-groups"]).arg(self.path());
        command
    }
}

/// Waits until `line` has been printed to the child's standard output.
pub fn wait_for_line(child: &mut Child, line: &str) {
    use std::io::BufRead;
    let output = child.stdout.as_mut().expect("piped");
    let found = std::io::BufReader::new(output).lines().map_while(Result::ok).any(|printed| printed == line);
    assert!(found, "{line:?} was never printed");
}

pub fn within(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !done() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// A command that runs `argv` as an ordinary user in a new user namespace, with all rights inside it.
pub fn in_user_namespace(argv: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.args(["unshare", "--user", "--map-current-user", "--keep-caps"]).args(argv);
    command
}

/// True if an ordinary user gets user namespaces here; otherwise the test is skipped.
pub fn user_namespaces_work() -> bool {
    let mut trial = in_user_namespace(&["unshare", "--mount", "--net", "true"]);
    let work = trial.output().is_ok_and(|done| done.status.success());
    if !work {
        skip("user-namespaces", "this kernel gives an ordinary user no user namespace");
    }
    work
}
