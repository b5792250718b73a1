//! The test bed: one lab that all concurrent tests share, and separate directories for each test.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use linerate_lab::{End, Lab, LabError, LabOptions, SlurmWish, Wan};
use linerate_remote::binary::Binary;
use linerate_testing::{is_root, skip};
use tempfile::TempDir;

use crate::support::{Run, Running, directory, directory_with_attributes, processes_with};

/// The user and group ID of an ordinary user that every system has.
pub const NOBODY: u32 = 65534;

/// Tests that measure time lock it exclusively; all others share it. The names of tests that measure time begin
/// with `timed_`, so that `cargo xtask test` runs them after all others, and no other test has to wait for them.
static PROCESSORS: RwLock<()> = RwLock::new(());
static SHARED: Mutex<Weak<Bed>> = Mutex::new(Weak::new());

/// Arguments of different string types as one list.
macro_rules! args {
    ($($arg:expr),* $(,)?) => { vec![$(std::ffi::OsString::from($arg)),*] };
}
pub(crate) use args;

/// A lab, and this program's binary at a path where every user may run it.
pub struct Bed {
    /// The two hosts.
    pub lab: Lab,
    directory: TempDir,
    /// The copy of the binary in root's cache; it is removed with the bed if the bed created it.
    brought: Option<PathBuf>,
}

enum Share {
    #[expect(dead_code, reason = "held for its drop")]
    Some(RwLockReadGuard<'static, ()>),
    #[expect(dead_code, reason = "held for its drop")]
    All(RwLockWriteGuard<'static, ()>),
}

impl Share {
    fn alone() -> Self {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or_default();
        assert!(test.contains("timed_"), "{test}: the name of a test that is alone begins with timed_");
        Self::All(PROCESSORS.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A test: its directories, one at each end.
pub struct Case {
    /// The bed with the lab in which the test runs.
    pub bed: Arc<Bed>,
    /// The near directory, in which `linerate` runs.
    pub near: PathBuf,
    /// The far directory, in which far paths are.
    pub far: PathBuf,
    directory: TempDir,
    _share: Share,
}

/// Makes the directories of a test in the shared lab. If no lab can be made, prints the reason and returns
/// `None`.
pub fn case() -> Option<Case> {
    let share = Share::Some(PROCESSORS.read().unwrap_or_else(PoisonError::into_inner));
    Some(Case::new(shared()?, share))
}

/// Like [`case`], while no other test runs: for tests that measure time.
pub fn case_alone() -> Option<Case> {
    let share = Share::alone();
    Some(Case::new(shared()?, share))
}

/// Like [`case`], on a file system that supports extended attributes.
pub fn case_with_attributes() -> Option<Case> {
    let share = Share::Some(PROCESSORS.read().unwrap_or_else(PoisonError::into_inner));
    Some(Case::inside(shared()?, share, directory_with_attributes("linerate-e2e-")?))
}

/// Like [`case_alone`], in a separate lab with this link.
pub fn case_with_link(link: &str) -> Option<Case> {
    let share = Share::alone();
    Some(Case::new(Arc::new(Bed::up(link, LabOptions::default())?), share))
}

/// Like [`case`], in a separate lab with this link, while other tests may run: for tests that measure
/// nothing.
pub fn case_with_own_link(link: &str) -> Option<Case> {
    let share = Share::Some(PROCESSORS.read().unwrap_or_else(PoisonError::into_inner));
    Some(Case::new(Arc::new(Bed::up(link, LabOptions::default())?), share))
}

/// Like [`case_with_link`], with a round-trip time such as `20ms`.
pub fn case_with_path(link: &str, rtt: &str) -> Option<Case> {
    let share = Share::alone();
    let wan = Wan { rtt: rtt.parse().expect("a round trip"), ..Wan::default() };
    Some(Case::new(Arc::new(Bed::up(link, LabOptions { wan: Some(wan), ..LabOptions::default() })?), share))
}

/// Like [`case`], in a separate lab with two sites of hosts: the near host is `s1h1`, the far host `s2h1`.
pub fn case_with_sites(shape: &str, slurm: SlurmWish) -> Option<Case> {
    let share = Share::Some(PROCESSORS.read().unwrap_or_else(PoisonError::into_inner));
    let sites = Some(shape.parse().expect("a shape"));
    Some(Case::new(Arc::new(Bed::up("open", LabOptions { sites, slurm, ..LabOptions::default() })?), share))
}

/// Like [`case_with_link`], with several such links.
pub fn case_with_links(link: &str, links: u32) -> Option<Case> {
    let share = Share::alone();
    Some(Case::new(Arc::new(Bed::up(link, links_of(links))?), share))
}

/// Like [`case_with_links`], while other tests may run.
pub fn case_with_own_links(link: &str, links: u32) -> Option<Case> {
    let share = Share::Some(PROCESSORS.read().unwrap_or_else(PoisonError::into_inner));
    Some(Case::new(Arc::new(Bed::up(link, links_of(links))?), share))
}

fn links_of(links: u32) -> LabOptions {
    LabOptions { links: Some(links), ..LabOptions::default() }
}

fn shared() -> Option<Arc<Bed>> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bed) = shared.upgrade() {
        return Some(bed);
    }
    let bed = Arc::new(Bed::up("10gbit", LabOptions::default())?);
    *shared = Arc::downgrade(&bed);
    Some(bed)
}

impl Bed {
    fn up(link: &str, options: LabOptions) -> Option<Self> {
        if !is_root("a lab with ordinary users and file systems in it needs root") {
            return None;
        }
        let link = linerate_lab::parse_link(link).expect("a link");
        // The emulator of a round trip is the program.
        let linerate = options.wan.map(|_| PathBuf::from(env!("CARGO_BIN_EXE_linerate")));
        let options = LabOptions { link, linerate, ..options };
        let lab = match Lab::up(&options) {
            Ok(lab) => lab,
            Err(error @ (LabError::Missing { .. } | LabError::Unprivileged)) => {
                skip("lab-packages", error);
                return None;
            }
            Err(error) => panic!("no lab: {error}"),
        };
        use_quick_keys(&lab.ssh_config());
        let directory = directory("linerate-e2e-bed-");
        copy_program(&directory.path().join("linerate"));
        let brought = cached_copy(&directory.path().join("linerate")).filter(|path| !path.exists());
        let bed = Self { lab, directory, brought };
        bed.write_nobodys_login();
        Some(bed)
    }

    /// The program under test.
    pub fn program(&self) -> PathBuf {
        self.directory.path().join("linerate")
    }

    /// Runs a command at one end, and returns its output.
    pub fn on(&self, end: End, words: &[&str]) -> String {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let run = Running::start(self.lab.place(end).command(&words).expect("well-formed")).end();
        run.exits(0).out
    }

    /// Writes the key and the ssh configuration with which an ordinary user logs in; root is the only account
    /// of the far end.
    fn write_nobodys_login(&self) {
        let (config, home) = (self.lab.ssh_config(), self.nobodys_home());
        let lab = config.parent().expect("a file in the lab's directory");
        fs::create_dir(&home).expect("writable");
        for name in ["user_key", "known_hosts", "ssh_config"] {
            let text = fs::read_to_string(lab.join(name)).expect("the lab has made it");
            let text = text.replace(&*lab.to_string_lossy(), &home.to_string_lossy());
            fs::write(home.join(name), text).expect("writable");
            fs::set_permissions(home.join(name), PermissionsExt::from_mode(0o600)).expect("our own");
            chown(home.join(name), Some(NOBODY), Some(NOBODY)).expect("root may");
        }
        chown(&home, Some(NOBODY), Some(NOBODY)).expect("root may");
    }

    fn nobodys_home(&self) -> PathBuf {
        self.directory.path().join("nobody")
    }
}

/// Makes logins agree on keys without ssh's post-quantum exchange, which takes 0.1 s of a slow processor.
fn use_quick_keys(config: &Path) {
    let text = fs::read_to_string(config).expect("the lab has made it");
    fs::write(config, format!("KexAlgorithms curve25519-sha256\n{text}")).expect("writable");
}

impl Drop for Bed {
    fn drop(&mut self) {
        if let Some(brought) = &self.brought {
            // Where no test has brought it, there is nothing to remove.
            let _ = fs::remove_file(brought);
        }
    }
}

impl Case {
    fn new(bed: Arc<Bed>, share: Share) -> Self {
        Self::inside(bed, share, directory("linerate-e2e-"))
    }

    fn inside(bed: Arc<Bed>, share: Share, directory: TempDir) -> Self {
        let (near, far) = (directory.path().join("near"), directory.path().join("far"));
        for made in [&near, &far] {
            fs::create_dir(made).expect("writable");
        }
        Self { bed, near, far, directory, _share: share }
    }

    /// A directory next to `near` and `far`.
    pub fn aside(&self, name: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::create_dir_all(&path).expect("writable");
        path
    }

    /// An argument that consists of `b:` and a path below the far directory.
    pub fn b(&self, path: impl AsRef<OsStr>) -> OsString {
        let mut argument = OsString::from("b:");
        argument.push(&self.far);
        argument.push("/");
        argument.push(path);
        argument
    }

    /// Copies a file `first`, so that the far end has the program afterwards; the first copy may take
    /// seconds.
    #[track_caller]
    pub fn bring_program(&self) {
        fs::write(self.near.join("first"), "x").expect("writable");
        self.cp(args!["first", self.b("first")]).exits(0);
    }

    /// Runs `linerate cp` with these arguments in the near directory.
    #[track_caller]
    pub fn cp(&self, args: Vec<OsString>) -> Run {
        self.start(args).end()
    }

    /// Runs `linerate sync` with these arguments in the near directory.
    #[track_caller]
    pub fn sync(&self, args: Vec<OsString>) -> Run {
        self.start_sync(args).end()
    }

    /// Starts `linerate sync` with these arguments in the near directory.
    pub fn start_sync(&self, args: Vec<OsString>) -> Running {
        let config = self.bed.lab.ssh_config();
        self.start_with(args![self.bed.program(), "sync", "-F", config], args)
    }

    /// Starts `linerate cp` with these arguments in the near directory.
    pub fn start(&self, args: Vec<OsString>) -> Running {
        let config = self.bed.lab.ssh_config();
        self.start_with(args![self.bed.program(), "cp", "-F", config], args)
    }

    /// Runs `linerate cp` without the lab's ssh configuration.
    #[track_caller]
    pub fn cp_without_ssh(&self, args: Vec<OsString>) -> Run {
        self.start_with(args![self.bed.program(), "cp"], args).end()
    }

    /// Starts a shell script in the near directory. In the script, `$CP` is `linerate cp` with its
    /// configuration.
    pub fn start_script(&self, script: &str) -> Running {
        let (program, config) = (self.bed.program(), self.bed.lab.ssh_config());
        self.start_with(
            args!["sh", "-c", format!("CP='{} cp -F {}'\n{script}", program.display(), config.display())],
            Vec::new(),
        )
    }

    /// Runs `linerate cp` as an ordinary user, to whom the near directory is given; the far end runs as root.
    #[track_caller]
    pub fn cp_as_nobody(&self, args: Vec<OsString>) -> Run {
        self.start_as_nobody(args).end()
    }

    /// Starts `linerate cp` as an ordinary user, to whom the near directory is given.
    pub fn start_as_nobody(&self, args: Vec<OsString>) -> Running {
        chown(&self.near, Some(NOBODY), Some(NOBODY)).expect("root may");
        let home = self.bed.nobodys_home();
        let mut words = as_nobody(&home);
        words.extend(args![self.bed.program(), "cp", "-F", home.join("ssh_config")]);
        self.start_with(words, args)
    }

    /// Runs `linerate cp` with a special remote shell: the script `body`, in which `$1` is the host, `$2` the
    /// command line, and `$SSH` ssh with its configuration.
    #[track_caller]
    pub fn cp_by(&self, body: &str, args: Vec<OsString>) -> Run {
        self.start_by(body, args).end()
    }

    /// Starts `linerate cp` with a special remote shell, as [`Case::cp_by`] does.
    pub fn start_by(&self, body: &str, args: Vec<OsString>) -> Running {
        let shell = self.aside("bin").join("shell");
        let ssh = format!("ssh -F {}", self.bed.lab.ssh_config().display());
        fs::write(&shell, format!("SSH='{ssh}'\n{body}\n")).expect("writable");
        let rsh = format!("sh {}", shell.display());
        self.start_with(args![self.bed.program(), "cp", "--rsh", rsh], args)
    }

    /// Runs `linerate sync` as an ordinary user, to whom the near directory is given.
    #[track_caller]
    pub fn sync_as_nobody(&self, args: Vec<OsString>) -> Run {
        chown(&self.near, Some(NOBODY), Some(NOBODY)).expect("root may");
        let home = self.bed.nobodys_home();
        let mut words = as_nobody(&home);
        words.extend(args![self.bed.program(), "sync", "-F", home.join("ssh_config")]);
        self.start_with(words, args).end()
    }

    /// Runs the `linerate` command `command` as an ordinary user at both ends, to whom the near directory is
    /// given.
    #[track_caller]
    pub fn both_as_nobody(&self, command: &[&str], args: Vec<OsString>) -> Run {
        chown(&self.near, Some(NOBODY), Some(NOBODY)).expect("root may");
        let (home, shell) = (self.bed.nobodys_home(), self.aside("bin").join("as nobody"));
        let ssh = format!("ssh -F {}", home.join("ssh_config").display());
        fs::write(&shell, format!("SSH='{ssh}'\n{}\n", self.as_far_nobody())).expect("writable");
        let mut words = as_nobody(&home);
        words.push(self.bed.program().into());
        words.extend(command.iter().map(OsString::from));
        words.extend(args!["--rsh", format!("sh '{}'", shell.display())]);
        self.start_with(words, args).end()
    }

    /// A remote shell whose far end is an ordinary user with an empty home.
    pub fn as_far_nobody(&self) -> String {
        let home = self.aside("home");
        chown(&home, Some(NOBODY), Some(NOBODY)).expect("root may");
        let home = home.display();
        format!(
            "exec $SSH \"$1\" \"cd {home}; export HOME={home} XDG_CACHE_HOME={home}/cache; \
             exec setpriv --reuid=65534 --regid=65534 --clear-groups $2\""
        )
    }

    /// A remote shell whose far end has another home directory, and so no linerate in its cache.
    pub fn in_home(&self, home: &Path) -> String {
        let home = home.display();
        format!("exec $SSH \"$1\" \"cd {home}; export HOME={home} XDG_CACHE_HOME={home}/cache; exec $2\"")
    }

    /// A remote shell that marks its far processes, so that [`Case::far_processes`] finds them.
    pub fn marked(&self) -> String {
        format!("exec $SSH \"$1\" \"export {}; exec $2\"", self.mark("FAR"))
    }

    /// The processes at the far end that a remote shell of [`Case::marked`] started.
    pub fn far_processes(&self) -> Vec<i32> {
        processes_with(&self.mark("FAR"))
    }

    /// The processes of the client and of the remote shells of this test.
    pub fn near_processes(&self) -> Vec<i32> {
        processes_with(&self.mark("NEAR"))
    }

    fn mark(&self, end: &str) -> String {
        format!("LINERATE_TEST_{end}={}", self.directory.path().display())
    }

    /// Runs `linerate clean` with these arguments.
    pub fn clean(&self, args: Vec<OsString>) -> Run {
        let words = args![self.bed.program(), "clean", "-F", self.bed.lab.ssh_config()];
        self.start_with(words, args).end().exits(0)
    }

    /// Starts a command at the near end, in the near directory.
    pub fn start_with(&self, mut words: Vec<OsString>, args: Vec<OsString>) -> Running {
        words.extend(args);
        let mut command = self.bed.lab.place(End::A).command(&words).expect("well-formed");
        command.current_dir(&self.near).envs(self.bed.lab.environment());
        command.env("LINERATE_TEST_NEAR", self.directory.path());
        Running::start(command)
    }
}

/// The words that begin the command line of an ordinary user with this home directory.
fn as_nobody(home: &Path) -> Vec<OsString> {
    let mut words = args!["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env"];
    words.push([OsStr::new("HOME="), home.as_os_str()].join(OsStr::new("")));
    words
}

/// Copies the program with another process: a descriptor that is open for writing in this process could be
/// inherited by another test's child, and the program would be "busy".
fn copy_program(to: &Path) {
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_linerate")).arg(to).status();
    assert!(copied.is_ok_and(|status| status.success()), "cargo builds the program for its tests");
}

/// The path at which the far end's root keeps the copy of the program that a transfer sends.
fn cached_copy(program: &Path) -> Option<PathBuf> {
    let id = Binary::of(String::new(), program.into()).ok()?.id;
    // The lab's ssh server hands on no variable of ours: the far home is the account's.
    let entry = fs::read_to_string("/etc/passwd").ok()?;
    let home = entry.lines().find(|line| line.starts_with("root:"))?.split(':').nth(5)?.to_owned();
    Some(Path::new(&home).join(".cache/linerate").join(format!("agent-{id}")))
}
