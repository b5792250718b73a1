//! Tests with a standard output that can't be written: each command must then report an error.

#[path = "support/mod.rs"]
mod support;

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use linerate_bench::record::{Case, Cpu, Measures, Outcome, Record, Run, SCHEMA};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_linerate");

/// Commands that the help doesn't list; a test in main.rs keeps this list whole.
const HIDDEN: [&str; 4] = ["agent", "data hold", "data task", "wan"];

/// How a command is called so that it prints something, without and with `--json`, and its exit code if the
/// output can be written. Words in braces are replaced by paths and names of the [`Ground`].
struct Call {
    command: &'static str,
    plain: &'static [&'static str],
    json: &'static [&'static str],
    code: i32,
}

const fn call(command: &'static str, plain: &'static [&'static str], json: &'static [&'static str]) -> Call {
    Call { command, plain, json, code: 0 }
}

/// Calls of every command. A command that prints nothing on standard output, in one of the two ways, has no
/// such call.
const CALLS: [Call; 43] = [
    call("cp", &["-n -r tree far:/x"], &["-n -r tree far:/x"]),
    call("rsync", &["-nv tree {top}/new", "--help"], &[]),
    call("scp", &["--help"], &[]),
    call("sync", &["-n {rsh} tree far:{top}/new"], &["{rsh} tree far:{top}/new"]),
    call(
        "fleet plan",
        &["--shards 2 --into {lab} tree {top}/new"],
        &["--shards 2 --into {lab} tree {top}/new"],
    ),
    call("fleet run", &["-n planned"], &["-n planned"]),
    call("fleet status", &["planned"], &["planned"]),
    call("fleet submit", &["finished"], &[]),
    Call { code: 3, ..call("fleet verify", &["planned"], &["planned"]) },
    call("fleet manifest", &["finished"], &[]),
    call("fleet report", &["finished"], &["finished"]),
    call(
        "fleet simulate",
        &["--nodes 2 --link 1gbit --plan finished"],
        &["--nodes 64 --link 100gbit --files 1e9 --bytes 1PB"],
    ),
    call("fleet export", &["--for slurm planned"], &[]),
    call("status", &["", "{rsh} far"], &["", "{rsh} far"]),
    call("attach", &[], &["", "{rsh} far:0a0b0c0d"]),
    call("clean", &["-n left"], &["-n left"]),
    Call { code: 3, ..call("verify", &["{rsh} tree far:{top}/other"], &["{rsh} tree far:{top}/other"]) },
    call("stream", &[], &["--seconds 0.1 {rsh} far"]),
    call("measure", &["--seconds 0.1"], &["--seconds 0.1 --export json", "--seconds 0.1 --export csv"]),
    call("facts", &[""], &[""]),
    call("doctor", &["", "--list"], &[""]),
    call("load rr", &["{length} --connect {rr}"], &["{length} --connect {rr}"]),
    call("load crr", &["{length} --connect {rr}"], &["{length} --connect {rr}"]),
    call("load pairs", &["{length} --connect {rr}"], &["{length} --connect {rr}"]),
    call(
        "load http",
        &["--seconds 0.2 --ramp 0 --users 1 --url {url}"],
        &["--seconds 0.2 --users 1 --url {url}"],
    ),
    call("load tile", &["{length} --connect {rr} --url {url}"], &["{length} --connect {rr} --url {url}"]),
    call("serve rr", &["--idle-timeout 0.1"], &[]),
    call("serve http", &["--idle-timeout 0.1"], &[]),
    call("serve tile", &["--idle-timeout 0.1"], &[]),
    call("config show", &[""], &[""]),
    call("lab up", &["--name {lab}"], &[]),
    call("lab status", &[""], &[""]),
    call("lab down", &["{lab}"], &[]),
    call("lab run", &["-- echo x"], &[]),
    call("bench", &["--check quick", "--dry-run quick"], &["--list"]),
    call("bench list", &[""], &[""]),
    call("bench report", &["results"], &["results"]),
    call("compare", &["base.json new.json"], &["base.json new.json", "--equal base.json"]),
    call("man", &["", "lab run"], &[]),
    call("completions", &["bash", "zsh", "fish"], &[]),
    call("agent", &["--id"], &[]),
    call("data task", &[""], &[]),
    call("data hold", &["-- echo x"], &[]),
];

/// Further commands of the doctor.
const OF_DOCTOR: [Call; 1] = [call("doctor explain", &["rx-ring"], &[])];

/// Commands that print nothing on standard output.
const SILENT: [&str; 1] = ["wan"];

#[test]
fn no_command_succeeds_without_its_output() {
    let ground = Ground::new();
    for call in CALLS.iter().chain(&OF_DOCTOR) {
        if call.command.starts_with("lab ")
            && call.command != "lab status"
            && !rustix::process::geteuid().is_root()
        {
            eprintln!("skipped: linerate {} needs root", call.command);
            continue;
        }
        for words in call.plain {
            ground.assert_lost(call, words);
        }
        let flag = if call.command == "measure" { "" } else { "--json " };
        for words in call.json {
            ground.assert_lost(call, &format!("{flag}{words}"));
        }
    }
    for words in ["--help", "-h", "--version", "cp --help", "help cp"] {
        assert_eq!(ground.run(words, true).code, Some(1), "{words}");
    }
}

#[test]
fn every_command_is_called() {
    let mut called: Vec<&str> =
        CALLS.iter().chain(&OF_DOCTOR).map(|call| call.command).chain(SILENT).collect();
    called.sort_unstable();
    let mut known = commands(&[]);
    known.extend(HIDDEN.map(str::to_owned));
    known.sort();
    assert_eq!(called, known, "a new command belongs into CALLS");
    for call in CALLS.iter().filter(|call| !HIDDEN.contains(&call.command)) {
        let help = help(&call.command.split(' ').collect::<Vec<_>>());
        let has_json = help.contains("--json") || help.contains("--export");
        assert_eq!(has_json, !call.json.is_empty(), "--json of linerate {}", call.command);
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let mut command = Command::new(PROGRAM);
    let child = command.args(["doctor", "--list"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("it runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("our own child");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// The commands below `path` that can be run, as the help lists them.
fn commands(path: &[&str]) -> Vec<String> {
    let text = help(path);
    let listed =
        text.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A description that takes two lines goes on further to the right.
    let names: Vec<&str> = listed
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let mut found = Vec::new();
    // Above a list of commands, a usage without one is a command of its own.
    if !path.is_empty() && !text.contains(&format!("Usage: linerate {} <COMMAND>", path.join(" "))) {
        found.push(path.join(" "));
    }
    for name in names.into_iter().filter(|name| *name != "help") {
        found.extend(commands(&[path, &[name]].concat()));
    }
    found
}

fn help(path: &[&str]) -> String {
    let output = Command::new(PROGRAM).args(path).arg("-h").output().expect("it runs");
    String::from_utf8(output.stdout).expect("text")
}

/// The data for the commands: two trees, results of studies, and two servers.
struct Ground {
    top: TempDir,
    rr: (Child, String),
    http: (Child, String),
}

impl Ground {
    fn new() -> Self {
        let top = support::directory("linerate-output-");
        let at = |name: &str| top.path().join(name);
        for (tree, text) in [("tree", "one"), ("other", "two"), ("left", "three")] {
            fs::create_dir(at(tree)).expect("a directory");
            fs::write(at(tree).join("file"), text).expect("a file");
        }
        leave_job(&at(".local/state/linerate/jobs"));
        // What an interrupted transfer leaves, for clean.
        fs::write(at("left/.linerate.0123456789abcdef.1"), "part").expect("a file");
        for words in [
            "plan -q --shards 2 --into planned tree never",
            "plan -q --shards 2 --manifest --into finished tree finished.copy",
            "run -q finished",
        ] {
            let mut fleet = Command::new(PROGRAM);
            fleet.current_dir(top.path()).arg("fleet").args(words.split(' '));
            assert!(fleet.status().expect("it runs").success(), "{words}");
        }
        fs::create_dir(at("results")).expect("a directory");
        let record = record();
        for name in ["base.json", "new.json"] {
            fs::write(at(name), serde_json::to_vec(&record).expect("JSON")).expect("a file");
        }
        let head = Record { runs: Vec::new(), ..record.clone() };
        fs::write(at("results/record.json"), serde_json::to_vec(&head).expect("JSON")).expect("a file");
        let runs = record.runs.iter().map(|run| serde_json::to_string(run).expect("JSON") + "\n");
        fs::write(at("results/runs.jsonl"), runs.collect::<String>()).expect("a file");
        // A remote shell without a remote host: it leaves out the host and runs the line.
        fs::write(at("shell"), "shift\nexec sh -c \"$*\"\n").expect("a file");
        Self { rr: serve("rr"), http: serve("http"), top }
    }

    fn run(&self, words: &str, full: bool) -> support::Run {
        let top = self.top.path().display();
        let rsh = format!("{top}/shell");
        let lab = format!("out{}{}", std::process::id(), if full { "f" } else { "w" });
        let words =
            words.replace("{top}", &top.to_string()).replace("{rr}", &self.rr.1).replace("{lab}", &lab);
        let words = words.replace("{url}", &format!("http://{}/", self.http.1));
        let words = words.replace("{length}", "--seconds 0.2 --warm-up 0");
        let mut command = Command::new(PROGRAM);
        for word in words.split_whitespace() {
            match word {
                "{rsh}" => command.args(["--rsh", &format!("sh {rsh}")]),
                word => command.arg(word),
            };
        }
        // The far end finds this very program.
        let own = Path::new(PROGRAM).parent().expect("a directory").display();
        let path = format!("{own}:{}", std::env::var("PATH").unwrap_or_default());
        command.current_dir(self.top.path()).env("PATH", path).env("HOME", self.top.path());
        command.env_remove("SSH_CONNECTION").env_remove("XDG_STATE_HOME");
        if full {
            let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
            support::Running::start_onto(command, full).end()
        } else {
            support::Running::start(command).end()
        }
    }

    #[track_caller]
    fn assert_lost(&self, call: &Call, words: &str) {
        let line = format!("{} {words}", call.command);
        let lost = self.run(&line, true);
        assert_eq!(lost.code, Some(1), "linerate {line} > /dev/full: {lost}");
        let documented = self.run(&format!("{} --help", call.command), false).out;
        let lists = documented.lines().any(|line| line.starts_with("  1    "));
        assert!(lists, "linerate {} --help doesn't list exit code 1", call.command);
        let written = self.run(&line, false);
        assert_eq!(written.code, Some(call.code), "linerate {line}: {written}");
        assert!(!written.out.is_empty(), "linerate {line} prints nothing: {written}");
        if line.contains("--json") || line.contains("export json") {
            assert_documented(&written.out, &line);
        }
    }
}

/// Checks that the documentation names every field of every line.
#[track_caller]
fn assert_documented(out: &str, line: &str) {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let pages =
        ["formats.md", "guide/copying.md"].map(|page| fs::read_to_string(docs.join(page)).expect("a page"));
    for event in serde_json::Deserializer::from_str(out).into_iter::<serde_json::Value>() {
        let event = event.unwrap_or_else(|error| panic!("linerate {line}: {error}: {out}"));
        for field in event.as_object().into_iter().flat_map(|fields| fields.keys()) {
            let is_named = pages.iter().any(|page| page.contains(&format!("`{field}`")));
            assert!(is_named, "linerate {line} prints `{field}`, which no page explains");
        }
    }
}

/// Writes the record of a detached job that has ended.
fn leave_job(jobs: &Path) {
    fs::create_dir_all(jobs).expect("a directory");
    for path in [jobs, jobs.parent().expect("above")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).expect("our own");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("later").as_secs();
    let record = serde_json::json!({
        "schema": 1, "type": "job", "id": "0a0b0c0d", "role": "receives", "state": "finished",
        "host": rustix::system::uname().nodename().to_string_lossy(), "from": "a", "to": "b", "sources": ["tree"],
        "more_sources": 0, "destination": "to", "since": now, "updated": now, "ended": now, "gbit_per_second": 1.0,
        "exit": 0, "message": null, "last": "1 file", "process": { "pid": 1, "start": 1, "boot": "" },
    });
    let event = "{\"schema\":1,\"type\":\"note\",\"message\":\"x\"}\n";
    for (name, text) in [("json", record.to_string()), ("events", event.to_owned())] {
        let file = jobs.join(format!("0a0b0c0d-receives.{name}"));
        fs::write(&file, text).expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("our own");
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        for child in [&mut self.rr.0, &mut self.http.0] {
            // Our own children.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn serve(kind: &str) -> (Child, String) {
    let mut command = Command::new(PROGRAM);
    let mut child = command.args(["serve", kind]).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut ready = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut ready).expect("a line");
    let address = ready.strip_prefix("listening on ").expect("the ready line");
    let address = address.split([',', '\n']).next().expect("an address").to_owned();
    (child, address)
}

fn record() -> Record {
    let run = |block: u32| {
        let cpu = Cpu { processors: 2, user: 1.0, idle: 1.0, ..Cpu::default() };
        let measures =
            Measures { bytes: 1_000_000_000, seconds: 1.0, cpu_a: cpu, cpu_b: cpu, ..Measures::default() };
        let started = "2026-01-01T00:00:00Z".into();
        ["cp", "again"].map(|case| Run {
            case: case.into(),
            block,
            order: block,
            started: String::clone(&started),
            outcome: Outcome::Measured(measures.clone()),
        })
    };
    let case = |id: &str| Case { id: id.into(), label: id.into(), link: "open".into(), ..Case::default() };
    Record {
        schema: SCHEMA,
        linerate: "0".into(),
        study: "small".into(),
        blocks: 10,
        cases: vec![case("cp"), case("again")],
        runs: (0..10).flat_map(run).collect(),
        ..Record::default()
    }
}
