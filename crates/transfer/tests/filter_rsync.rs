//! The same trees and rules to rsync and to us: what is sent, and what is deleted, must be the same names.

#[path = "filter_rsync/random.rs"]
mod random;

use linerate_transfer::bounds::Bounds;
use linerate_transfer::filter::{Builder, FilesFrom, Filter, Place, Reading, Scope, Side, merge_file};
use linerate_wire::path::RelPath;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use random::{chosen, grow, rules, write_merge};

type Names = BTreeSet<Vec<u8>>;

/// Rounds of random trees and rules; fewer where rsync is slow.
const ROUNDS: u64 = 300;
const LONGEST: Duration = Duration::from_secs(6);

#[test]
fn random_rules_send_what_rsync_sends() {
    rounds("sending", |random| {
        let case = Case::new(random);
        let arguments = ["-an".into(), "--out-format=%n".into(), case.source(), "empty/".into()];
        let rsync = case.rsync(&arguments);
        let lines = rsync.stdout.split(|&b| b == b'\n').filter(|line| !line.is_empty() && *line != b"./");
        case.compare(&rsync, &lines.map(<[u8]>::to_vec).collect(), &case.sent());
    });
}

#[test]
fn random_rules_delete_what_rsync_deletes() {
    rounds("deleting", |random| {
        let case = Case::new(random);
        let deleted = case.deleted();
        let before = case.old();
        // A dry run also names directories that would stay since something in them is protected, so it is a real
        // one, which sends nothing.
        let mut arguments: Vec<OsString> =
            ["-a", "--delete", "--existing", "--ignore-existing"].map(Into::into).into();
        arguments.extend([case.source(), "old/".into()]);
        if case.reading.delete_excluded {
            arguments.insert(0, "--delete-excluded".into());
        }
        let rsync = case.rsync(&arguments);
        case.compare(&rsync, &(&before - &case.old()), &deleted);
    });
}

#[test]
fn a_list_of_files_sends_what_rsync_sends() {
    rounds("listing", |random| {
        let mut case = Case::new(random);
        (case.named, case.rules) = (false, Vec::new());
        let mut all = Vec::new();
        walk(&case.path().join("a"), &mut |path, _| all.push(path.clone()));
        let list: Vec<Vec<u8>> =
            (0..random.usize(1..6)).filter_map(|_| listed(random, &case.path().join("a"), &all)).collect();
        fs::write(case.path().join("list"), list.concat()).unwrap();
        let parsed = FilesFrom::parse(&list.concat(), false).unwrap();
        let recursive = random.bool();
        let mut ours = Names::new();
        let mut entered = BTreeSet::from([RelPath::root()]);
        walk(&case.path().join("a"), &mut |path, is_directory| {
            let wanted = parsed.of(0).wants(path, recursive);
            let parent = path.split().unwrap().0;
            if wanted.sent && entered.contains(&parent) {
                ours.insert(with_slash(path.as_bytes(), is_directory));
            }
            if wanted.entered {
                entered.insert(path.clone());
            }
        });
        let mut arguments = vec!["-an".into(), "--out-format=%n".into(), "--files-from=list".into()];
        arguments.extend(recursive.then(|| "-r".into()));
        arguments.extend(["a/".into(), "empty/".into()]);
        let rsync = case.rsync(&arguments);
        let lines = rsync.stdout.split(|&b| b == b'\n').filter(|line| !line.is_empty() && *line != b"./");
        case.compare(&rsync, &lines.map(<[u8]>::to_vec).collect(), &ours);
    });
}

/// A line that names one of `all`, in one of the ways that are allowed.
fn listed(random: &mut fastrand::Rng, top: &Path, all: &[RelPath]) -> Option<Vec<u8>> {
    let path = random.choice(all)?;
    let front = chosen(random, &["", "/", "./", "//"]);
    let is_directory = top.join(path.as_os_str()).is_dir();
    let end = if is_directory { chosen(random, &["\n", "/\n", "//\n"]) } else { "\n".into() };
    Some([front.as_bytes(), path.as_bytes(), end.as_bytes()].concat())
}

fn rounds(what: &str, round: impl Fn(&mut fastrand::Rng)) {
    if !linerate_testing::has("rsync") {
        return;
    }
    let count = std::env::var("LINERATE_TEST_ROUNDS").ok().and_then(|text| text.parse().ok());
    let begun = Instant::now();
    let mut done = 0;
    for seed in 0..count.unwrap_or(ROUNDS) {
        if count.is_none() && begun.elapsed() > LONGEST {
            break;
        }
        eprintln!("{what}: seed {seed}");
        round(&mut fastrand::Rng::with_seed(seed));
        done += 1;
    }
    assert!(done > 0);
    eprintln!("{what}: {done} rounds in {:?}", begun.elapsed());
}

/// Two trees, rules and where they stand.
struct Case {
    directory: tempfile::TempDir,
    /// The source is named without a slash behind it, so its name is a part of the paths.
    named: bool,
    reading: Reading,
    rules: Vec<(&'static str, OsString)>,
}

impl Case {
    fn new(random: &mut fastrand::Rng) -> Self {
        let memory = Path::new("/dev/shm");
        let directory =
            tempfile::tempdir_in(if memory.is_dir() { memory } else { Path::new("/tmp") }).unwrap();
        let reading = Reading { delete_excluded: random.u8(..5) == 0, nul: false };
        let mut case = Self { directory, named: random.bool(), reading, rules: Vec::new() };
        case.rules = rules(random, case.path());
        let old = if case.named { "old/a" } else { "old" };
        for top in ["a", old, "empty"] {
            fs::create_dir_all(case.path().join(top)).unwrap();
        }
        grow(random, &case.path().join("a"), Some(&case.path().join(old)), 0);
        if random.u8(..3) == 0 {
            write_merge(random, case.path());
        }
        case
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn source(&self) -> OsString {
        if self.named { "a".into() } else { "a/".into() }
    }

    fn prefix(&self) -> RelPath {
        RelPath::new(if self.named { &b"a"[..] } else { b"" }).unwrap()
    }

    fn filter(&self, side: Side, root: &str) -> Filter {
        let mut builder = Builder::new(self.reading);
        for (option, text) in &self.rules {
            let file = self.path().join(text);
            let text = text.as_bytes();
            match *option {
                "--exclude" => builder.exclude(text),
                "--include" => builder.include(text),
                "--exclude-from" => builder.exclude_from(&file),
                "--include-from" => builder.include_from(&file),
                _ => builder.filter(text),
            }
            .unwrap();
        }
        let rules = builder.build().unwrap();
        let rules = postcard::from_bytes(&postcard::to_stdvec(&rules).unwrap()).unwrap();
        let root = fs::canonicalize(self.path().join(root)).unwrap();
        let root = root.into_os_string().into_vec();
        let place = Place { root, prefix: self.prefix(), bounds: Bounds::here() };
        Filter::new(&rules, side, place)
    }

    fn shown(&self, below: &RelPath) -> Vec<u8> {
        match (self.named, below.is_root()) {
            (true, true) => b"a".to_vec(),
            (true, false) => [b"a/", below.as_bytes()].concat(),
            (false, _) => below.as_bytes().to_vec(),
        }
    }

    fn sent(&self) -> Names {
        let root = if self.named { "" } else { "a" };
        let scope = self.filter(Side::Sender, root).scope();
        let mut names = Names::new();
        if scope.excludes(&RelPath::root(), true) {
            return names;
        }
        names.insert(with_slash(&self.shown(&RelPath::root()), true));
        self.send(&scope, &RelPath::root(), &mut names);
        names.remove(&b"/"[..]);
        names
    }

    fn send(&self, scope: &Scope, directory: &RelPath, names: &mut Names) {
        let scope = entered(scope, &self.path().join("a"), directory);
        for (path, is_directory) in listing(&self.path().join("a"), directory) {
            if scope.excludes(&path, is_directory) {
                continue;
            }
            names.insert(with_slash(&self.shown(&path), is_directory));
            if is_directory {
                self.send(&scope, &path, names);
            }
        }
    }

    fn deleted(&self) -> Names {
        let sent = self.sent();
        let mut names = Names::new();
        let top = if self.named { "old/a" } else { "old" };
        if self.named && !sent.contains(&b"a/"[..]) {
            return names;
        }
        let scope = self.filter(Side::Receiver, "old").scope();
        self.sweep(&scope, &self.path().join(top), &RelPath::root(), &sent, &mut names);
        names
    }

    fn sweep(&self, scope: &Scope, top: &Path, directory: &RelPath, sent: &Names, names: &mut Names) {
        let scope = entered(scope, top, directory);
        for (path, is_directory) in listing(top, directory) {
            let name = with_slash(&self.shown(&path), is_directory);
            if sent.contains(&name) {
                if is_directory {
                    self.sweep(&scope, top, &path, sent, names);
                }
            } else if !scope.excludes(&path, is_directory)
                && (!is_directory || self.empty(&scope, top, &path, names))
            {
                names.insert(name);
            }
        }
    }

    /// Deletes what is in a directory that isn't sent; false where something stays.
    fn empty(&self, scope: &Scope, top: &Path, directory: &RelPath, names: &mut Names) -> bool {
        let scope = entered(scope, top, directory);
        let mut all = true;
        for (path, is_directory) in listing(top, directory) {
            if scope.protects_in_deleted(&path, is_directory)
                || (is_directory && !self.empty(&scope, top, &path, names))
            {
                all = false;
                continue;
            }
            names.insert(with_slash(&self.shown(&path), is_directory));
        }
        all
    }

    /// All that is at the old destination.
    fn old(&self) -> Names {
        let mut names = Names::new();
        walk(&self.path().join("old"), &mut |path, is_directory| {
            names.insert(with_slash(path.as_bytes(), is_directory));
        });
        names
    }

    fn rsync(&self, arguments: &[OsString]) -> Output {
        let mut rsync = Command::new("rsync");
        rsync.current_dir(self.path()).env("LC_ALL", "C").env("HOME", self.path()).arg("-8");
        for (option, text) in &self.rules {
            rsync.arg(option).arg(text);
        }
        let output = rsync.args(arguments).output().unwrap();
        assert!(output.status.success(), "{rsync:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    fn compare(&self, rsync: &Output, theirs: &Names, ours: &Names) {
        if theirs == ours {
            return;
        }
        let show = |names: Names| {
            names.iter().map(|name| format!("  {}\n", name.escape_ascii())).collect::<String>()
        };
        let mut tree = Command::new("sh");
        tree.args(["-c", "find . | sort; grep -r . ."]).current_dir(self.path());
        panic!(
            "rules {:?}{}, only rsync has\n{}only we have\n{}rsync said {}the trees were\n{}",
            self.rules,
            if self.reading.delete_excluded { ", --delete-excluded" } else { "" },
            show(theirs - ours),
            show(ours - theirs),
            String::from_utf8_lossy(&rsync.stderr),
            String::from_utf8_lossy(&tree.output().unwrap().stdout)
        );
    }
}

/// Shows everything below `top`, a directory before what is in it.
fn walk(top: &Path, show: &mut dyn FnMut(&RelPath, bool)) {
    let mut left = vec![RelPath::root()];
    while let Some(directory) = left.pop() {
        for (path, is_directory) in listing(top, &directory) {
            show(&path, is_directory);
            left.extend(is_directory.then_some(path));
        }
    }
}

fn with_slash(name: &[u8], is_directory: bool) -> Vec<u8> {
    [name, if is_directory { b"/" } else { b"" }].concat()
}

fn entered(scope: &Scope, top: &Path, directory: &RelPath) -> Scope {
    let fd = File::open(top.join(directory.as_os_str())).unwrap();
    scope.enter(directory, &mut |name| merge_file(&fd, name)).unwrap()
}

fn listing(top: &Path, directory: &RelPath) -> Vec<(RelPath, bool)> {
    let entries = fs::read_dir(top.join(directory.as_os_str())).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let path = directory.join(entry.file_name().as_bytes()).unwrap();
            (path, entry.file_type().unwrap().is_dir())
        })
        .collect()
}
