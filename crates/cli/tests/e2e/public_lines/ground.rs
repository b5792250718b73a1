//! Runs command lines on prepared trees, and compares the results of two programs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::trees;
use crate::archive::{Everything, everything};
use crate::rsync_lines;
use crate::support::{Run, Running, directory};

/// A script that replaces a remote shell and stays on this host.
const SHELL: &str = "#!/bin/sh
while :; do case $1 in -[bcDEeFIiJLlmOopQRSWw]) shift 2 ;; -*) shift ;; *) break ;; esac; done
while [ \"$2\" = ssh ]; do shift; done
shift
cd && exec sh -c \"$*\"
";

/// The directory in which all lines are run, each in separate subdirectories.
pub struct Ground {
    top: TempDir,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Program {
    Linerate,
    Rsync,
}

/// The results of a line's runs, in order.
pub type Steps = Vec<Step>;

/// The result of a run: the exit code, the output lines, and all entries afterwards.
pub struct Step {
    name: &'static str,
    code: Option<i32>,
    lines: Vec<String>,
    err: String,
    trees: BTreeMap<PathBuf, String>,
}

impl Ground {
    pub fn make() -> Self {
        let top = directory("linerate-lines-");
        let ground = Self { top };
        for name in ["bin", "home", "start"] {
            fs::create_dir(ground.path(name)).expect("writable");
        }
        for name in ["bin/ssh", "bin/sudo"] {
            let script = if name == "bin/ssh" { SHELL } else { "#!/bin/sh\nexec \"$@\"\n" };
            linerate_testing::write_script(&ground.path(name), script);
        }
        trees::make(&ground.path("start"));
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    /// Runs the line three times: first unchanged, then again, and then after changes with `-i`. If the line
    /// prints nothing, `-i` is added from the start.
    pub fn steps(&self, number: usize, program: Program, line: &str) -> Steps {
        let place = self.place(number, program);
        let mut steps = vec![self.step("at first", program, &place, line, false)];
        steps.push(self.step("again", program, &place, line, false));
        trees::change(&place);
        let itemize = !says_much(line);
        steps.push(self.step("after changes", program, &place, line, itemize));
        if itemize && steps[0].lines.is_empty() {
            let place = self.place(number, program);
            steps.push(self.step("with -i", program, &place, line, true));
        }
        fs::remove_dir_all(&place).expect("our own");
        steps
    }

    /// Checks that linerate refuses a line before it changes anything, and that the message names the refused
    /// part.
    pub fn refuses(&self, number: usize, line: &str, named: &str) -> Result<(), String> {
        let place = self.place(number, Program::Linerate);
        let before = found(&place);
        let run = self.run(Program::Linerate, &place, line, false);
        let first = run.err.lines().next().unwrap_or_default();
        let is_refused =
            run.code == Some(1) && first.contains(&fill(named, &place)) && found(&place) == before;
        fs::remove_dir_all(&place).expect("our own");
        if is_refused { Ok(()) } else { Err(format!("  is not refused: {run}\n")) }
    }

    /// Makes the prepared trees again, and returns their directory.
    fn place(&self, number: usize, program: Program) -> PathBuf {
        let name = if program == Program::Linerate { "ours" } else { "them" };
        let place = self.path(&format!("{number}/{name}"));
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(place.parent().expect("a number")).expect("writable");
        let copied = Command::new("cp").arg("-a").args([&self.path("start"), &place]).status();
        assert!(copied.is_ok_and(|status| status.success()), "cp -a of small trees");
        place
    }

    fn step(&self, name: &'static str, program: Program, place: &Path, line: &str, itemize: bool) -> Step {
        let run = self.run(program, place, line, itemize);
        let top = place.to_string_lossy();
        let mut out = run.out.replace(&*top, "TOP").replace(top.trim_start_matches('/'), "TOP");
        if line.contains("--prune-empty-dirs") {
            // rsync counts the directories before it leaves them out.
            out = out.replace(" files to consider", " files...");
        }
        Step { name, code: run.code, lines: lines(&out), err: run.err, trees: found(place) }
    }

    fn run(&self, program: Program, place: &Path, line: &str, itemize: bool) -> Run {
        let mut command = match program {
            Program::Linerate => Command::new(env!("CARGO_BIN_EXE_linerate")),
            Program::Rsync => Command::new("rsync"),
        };
        if program == Program::Linerate {
            command.arg("rsync");
        }
        if itemize {
            command.arg("-i");
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = [self.path("bin").into_os_string(), path].join(&OsString::from(":"));
        command.args(words(line, place)).current_dir(place.join("from")).env("PATH", path);
        command.env("HOME", self.path("home")).env_remove("XDG_CACHE_HOME").env_remove("RSYNC_RSH");
        Running::start(command).end()
    }
}

impl Step {
    /// Appends the differences of two results to `against`.
    pub fn compare(&self, theirs: &Self, against: &mut String) {
        let mut add = |what: &str, ours: &dyn std::fmt::Debug, theirs: &dyn std::fmt::Debug| {
            writeln!(against, "  {}: {what}\n    linerate {ours:?}\n    rsync    {theirs:?}", self.name)
                .expect("a string");
        };
        if self.code != theirs.code && !is_of_shell(self.code, theirs.code) {
            add("exit code", &(self.code, &self.err), &(theirs.code, &theirs.err));
        }
        if self.lines != theirs.lines {
            let only = |one: &[String], other: &[String]| -> Vec<String> {
                one.iter().filter(|line| !other.contains(line)).take(8).cloned().collect()
            };
            add("lines", &only(&self.lines, &theirs.lines), &only(&theirs.lines, &self.lines));
        }
        let paths = self.trees.keys().chain(theirs.trees.keys());
        for path in paths.filter(|path| self.trees.get(*path) != theirs.trees.get(*path)).take(4) {
            add(&path.display().to_string(), &self.trees.get(path), &theirs.trees.get(path));
        }
    }
}

/// Whether only rsync's code 12 differs, with which rsync ends if its remote shell has closed the connection
/// but hasn't ended.
fn is_of_shell(ours: Option<i32>, theirs: Option<i32>) -> bool {
    ours.is_some_and(|code| code > 123) && theirs == Some(12)
}

/// All entries below a directory, with their metadata. Modification times are left out unless the line keeps
/// them. The time of the destination itself is left out too, because a journal may have been in it.
fn found(top: &Path) -> BTreeMap<PathBuf, String> {
    let is_destination = |path: &Path| ["to", "new", "to/from", "new/from"].map(Path::new).contains(&path);
    let found = everything(top).into_iter().filter(|(path, _)| path != Path::new("rsync.log"));
    let shown = |(path, found): (PathBuf, Everything)| {
        let found = if is_destination(&path) { found.without_time() } else { found.without_recent_time() };
        let alike = |text: &str| text.replace("/ours", "/them");
        (PathBuf::from(alike(&path.to_string_lossy())), alike(&format!("{found:?}")))
    };
    found.map(shown).collect()
}

/// The words of a line as a shell would split them, with placeholders replaced.
fn words(line: &str, place: &Path) -> Vec<String> {
    let words = shlex::split(line).expect("a shell's words").into_iter().map(|word| fill(&word, place));
    words.flat_map(|word| expand(&word, place).unwrap_or(vec![word])).collect()
}

fn fill(word: &str, place: &Path) -> String {
    let place = place.to_str().expect("our own name");
    let mut word = word.replace("{host}", "far");
    for (name, path) in [
        ("{src}", "from"),
        ("{dst}", "to"),
        ("{new}", "new"),
        ("{last}", "last"),
        ("{aside}", "aside"),
        ("{excludes}", "excludes"),
        ("{includes}", "includes"),
        ("{list}", "list"),
        ("{zeros}", "zeros"),
        ("{backup}", "backup"),
        ("{tmp}", "tmp"),
        ("{log}", "rsync.log"),
    ] {
        word = word.replace(name, &format!("{place}/{path}"));
    }
    word
}

/// Expands `DIR/*` of the prepared trees as a shell would; patterns in options aren't expanded.
fn expand(word: &str, place: &Path) -> Option<Vec<String>> {
    let directory = word.strip_suffix("/*").filter(|directory| Path::new(directory).starts_with(place))?;
    let names = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.file_name().into_string());
    let mut names: Vec<_> = names.map(|name| name.expect("our own names")).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    Some(names.into_iter().map(|name| format!("{directory}/{name}")).collect())
}

/// Whether a line itemizes changes by itself.
fn says_much(line: &str) -> bool {
    let is_itemizing = |word: &str| !word.starts_with("--") && word.starts_with('-') && word.contains('i');
    let mut words = line.split(' ');
    words.any(|word| word == "--itemize-changes" || is_itemizing(word))
}

/// The output lines, sorted, since programs may handle sources and hard links in a different order
/// (`rsync_lines.rs` compares the order). Left out are progress of single files, rsync's messages about its
/// internals, and the amounts of data sent for changed files.
fn lines(out: &str) -> Vec<String> {
    let inner = [
        "[sender] ",
        "[generator] ",
        "[receiver] ",
        "delta-transmission ",
        "total: ",
        "Literal data: ",
        "delete_i",
        "opening connection ",
        "  ",
        "rsync[",
    ];
    let is_progress = |line: &str| line.split_whitespace().nth(1).is_some_and(|word| word.ends_with('%'));
    let is_counting = |line: &str| line.ends_with(" files...");
    // Other lines run in the directories above.
    let above = [" /", " /dev/", " /dev/shm/", " /tmp/"];
    let is_above = |line: &str| {
        line.contains("/linerate-lines-") || above.iter().any(|directory| line.ends_with(directory))
    };
    let is_own = |line: &&str| {
        is_above(line)
            || is_progress(line)
            || is_counting(line)
            || inner.iter().any(|inner| line.starts_with(inner))
    };
    // rsync's other process may write its line behind one of progress that has no end yet.
    let whole = |line: &str| if is_progress(line) { behind_progress(line) } else { line }.to_owned();
    let whole: Vec<_> = out.split(['\n', '\r']).map(whole).collect();
    let kept: Vec<_> = whole.iter().map(String::as_str).filter(|line| !is_own(line)).collect();
    let mut lines = rsync_lines::lines(&kept.join("\n"));
    lines.retain(|line| !line.is_empty());
    lines.sort();
    lines
}

/// The rest of a progress line, after bytes, share, rate, time and the numbers of files in parentheses.
fn behind_progress(line: &str) -> &str {
    let mut rest = line.trim_start();
    for _ in 0..4 {
        rest = rest.find(' ').map_or("", |end| &rest[end..]).trim_start();
    }
    let files = if rest.starts_with('(') { rest.find(')').map_or(rest.len(), |end| end + 1) } else { 0 };
    rest[files..].trim_start()
}
