//! Tests of running studies, on a test bed without a network. The tools are shell scripts: correct tools, and
//! tools with every kind of error.

#[path = "runner/again.rs"]
mod again;
#[path = "runner/killed.rs"]
mod killed;
#[path = "runner/put_back.rs"]
mod put_back;
#[path = "runner/search.rs"]
mod search;
#[path = "runner/settings.rs"]
mod settings;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;

use linerate_bench::record::{Link, Outcome, Record};
use linerate_bench::run::{Bed, End, Event, Phase, Runner, RunnerError, Setup, Stop};
use linerate_bench::spec::Word;
use linerate_bench::spec::study::{SettingSpec, Study};
use linerate_bench::spec::tool::{Tool, Toolbox};
use linerate_bench::store::{self, Invocation};
use linerate_host::{CpuTimes, Facts};

/// A test bed both of whose ends are this host.
struct Here;

impl Bed for Here {
    fn command(&self, end: End, argv: &[OsString]) -> io::Result<Command> {
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).env("END", format!("{end:?}"));
        Ok(command)
    }

    fn ssh_config(&self) -> PathBuf {
        "/nowhere/ssh_config".into()
    }

    fn host(&self) -> String {
        "b".into()
    }

    fn address(&self) -> String {
        "127.0.0.1".into()
    }

    fn link(&self) -> Link {
        Link {
            bits_per_second: Some(1_000_000_000_000),
            mtu: 1500,
            kind: "memory".into(),
            frame_overhead_bytes: 38,
            burst_bytes: 0,
        }
    }

    fn shares_processors(&self) -> bool {
        true
    }

    fn has(&self, _end: End, program: &str) -> bool {
        program != "absent"
    }

    fn addresses(&self) -> Vec<String> {
        ["127.0.0.1", "127.0.0.2"].map(str::to_owned).to_vec()
    }

    fn stop_samples(&mut self, end: End) -> io::Result<Option<Vec<u8>>> {
        Ok(matches!(end, End::B).then(|| b"seen at b".to_vec()))
    }

    fn facts(&mut self, _end: End) -> io::Result<Facts> {
        Ok(Facts::read(Path::new("/")))
    }

    fn cpu(&mut self, _end: End) -> io::Result<CpuTimes> {
        CpuTimes::read(Path::new("/"))
    }
}

const HEAD: &str = r#"
name = "trial"
title = "Trial"
blocks = 2
timeout = "2 s"
settle = "10 ms"
repeats = 0
[[link]]
name = "memory"
rate = "open"
[[dataset]]
name = "tree"
kind = "log-normal"
size = "300 KB"
mean = "10 KB"
"#;

struct Trial {
    dir: tempfile::TempDir,
    tools: Toolbox,
    stop: Stop,
}

impl Trial {
    /// Makes a tool file and a case for each script. In a script, `$1` is the source and `$2` the
    /// destination.
    fn new(scripts: &[(&str, &str)]) -> Trial {
        let mut tools = Toolbox::default();
        for (name, script) in scripts {
            let text = format!(
                "name = \"{name}\"\nmoves = \"files\"\nparallel = \"copies\"\n\
                 command = [\"sh\", \"-c\", '''{script}''', \"sh\", \"{{source}}\", \"{{destination}}\"]\n"
            );
            tools.add(Tool::parse(name, &text).unwrap());
        }
        Trial { dir: tempfile::tempdir().unwrap(), tools, stop: Stop::default() }
    }

    fn add(&mut self, text: &str) {
        self.tools.add(Tool::parse("added", text).unwrap());
    }

    fn study(&self, cases: &[(&str, u32)]) -> Study {
        let case = |(tool, streams): &(&str, u32)| {
            format!("[[case]]\nid = \"{tool}-{streams}\"\ntool = \"{tool}\"\nstreams = {streams}\n")
        };
        let text = format!("{HEAD}{}", cases.iter().map(case).collect::<String>());
        Study::parse("trial.toml", &text, &self.tools).unwrap()
    }

    fn setup<'t>(&'t self, study: &'t Study, work: &'t Path, out: &'t Path) -> Setup<'t> {
        std::fs::create_dir_all(work).unwrap();
        Setup {
            study,
            tools: &self.tools,
            blocks: study.blocks,
            seed: 7,
            tree: None,
            work,
            out,
            linerate: Path::new("/bin/true"),
            invocation: Invocation::default(),
            stop: Stop::clone(&self.stop),
        }
    }

    fn places(&self) -> (PathBuf, PathBuf) {
        (self.dir.path().join("work"), self.dir.path().join("results"))
    }

    fn run(&self, study: &Study, watch: &mut dyn FnMut(Event)) -> (Record, PathBuf) {
        let (work, out) = self.places();
        let runner = Runner::new(self.setup(study, &work, &out), beds(), watch).unwrap();
        let dir = runner.dir();
        (runner.run(watch).unwrap(), dir)
    }

    fn resume(&self, study: &Study, dir: &Path) -> Result<Record, RunnerError> {
        let (work, out) = self.places();
        let watch = &mut |_: Event| {};
        Runner::resume(self.setup(study, &work, &out), beds(), dir, watch)?.run(watch)
    }
}

fn beds() -> BTreeMap<String, Box<dyn Bed>> {
    BTreeMap::from([("memory".to_owned(), Box::new(Here) as Box<dyn Bed>)])
}

fn reason(record: &Record, case: &str) -> String {
    let run = record.runs.iter().find(|run| run.case == case).unwrap();
    match &run.outcome {
        Outcome::Measured(measures) => format!("measured {measures:?}"),
        Outcome::Failed { reason } => format!("failed: {reason}"),
        Outcome::Unavailable { reason } => format!("unavailable: {reason}"),
    }
}

#[test]
fn good_tools_are_measured_with_one_copy_and_with_several() {
    let trial = Trial::new(&[("copy", "sleep 0.2; cp -r \"$1\" \"$2\"/")]);
    let study = trial.study(&[("copy", 1), ("copy", 4)]);
    let (record, dir) = trial.run(&study, &mut |_| {});
    assert_eq!(record.runs.len(), 4);
    for run in &record.runs {
        let Outcome::Measured(measures) = &run.outcome else { panic!("{run:?}") };
        assert_eq!((measures.files, measures.bytes), (30, 300_000));
        assert!((0.2..1.5).contains(&measures.seconds), "{}", measures.seconds);
        assert!(measures.cpu_a.processors > 0 && measures.cpu_a == measures.cpu_b);
    }
    assert_eq!((record.datasets[0].files, record.hosts.len()), (30, 2));
    let loaded = store::load(&dir).unwrap().record;
    assert_eq!(serde_json::to_value(&loaded).unwrap(), serde_json::to_value(&record).unwrap());
    assert_eq!(std::fs::read_dir(dir.join("raw")).unwrap().count(), 6);
    assert_eq!(std::fs::read_to_string(dir.join("study.toml")).unwrap(), study.text);
}

#[test]
fn each_kind_of_failure_is_a_row_with_its_reason() {
    let trial = Trial::new(&[
        ("refuses", "echo no entry >&2; exit 7"),
        ("hangs", "echo waiting >&2; sleep 30"),
        ("nothing", "true"),
        ("short", "cp -r \"$1\" \"$2\"/; rm \"$2\"/tree/d0000/f0003"),
        (
            "garbles",
            "cp -r \"$1\" \"$2\"/; f=\"$2\"/tree/d0000/f0003; s=$(stat -c %s $f); head -c $s /dev/zero > $f",
        ),
        ("elsewhere", "mkdir \"$2\"/x; cp -r \"$1\" \"$2\"/x/"),
        ("good", "cp -r \"$1\" \"$2\"/"),
    ]);
    let names = ["refuses", "hangs", "nothing", "short", "garbles", "elsewhere", "good"];
    let (record, _) = trial.run(&trial.study(&names.map(|name| (name, 1))), &mut |_| {});
    let expected = [
        ("refuses-1", "no entry"),
        ("hangs-1", "the command was stopped, because it had not ended after 2 s: waiting"),
        ("nothing-1", "0 files and 0 bytes arrived, not 30 and 300000"),
        ("short-1", "29 files"),
        ("garbles-1", "d0000/f0003 differs in its contents"),
        ("elsewhere-1", "tree is missing"),
        ("good-1", "measured"),
    ];
    for (case, part) in expected {
        assert!(reason(&record, case).contains(part), "{case}: {}", reason(&record, case));
        assert_eq!(record.runs.iter().filter(|run| run.case == case).count(), 2, "{case}");
    }
}

#[test]
fn one_bad_copy_of_several_fails_the_run() {
    let trial =
        Trial::new(&[("copy", "case \"$1\" in *-2) echo broken >&2; exit 1;; esac; cp -r \"$1\" \"$2\"/")]);
    let (record, _) = trial.run(&trial.study(&[("copy", 4)]), &mut |_| {});
    let reason = reason(&record, "copy-4");
    assert!(reason.contains("copy 2") && reason.contains("broken"), "{reason}");
}

#[test]
fn a_run_that_fails_after_a_good_warm_up_fails_alone() {
    let trial = Trial::new(&[(
        "flaky",
        "dir=$(dirname \"$2\"); n=$(cat $dir/n 2>/dev/null || echo 0); \
         echo $((n + 1)) > $dir/n; [ $n != 1 ] || exit 9; cp -r \"$1\" \"$2\"/",
    )]);
    let (record, _) = trial.run(&trial.study(&[("flaky", 1)]), &mut |_| {});
    assert!(
        matches!(&record.runs[0].outcome, Outcome::Failed { reason } if reason.contains('9')),
        "{:?}",
        record.runs
    );
    assert!(matches!(&record.runs[1].outcome, Outcome::Measured(_)), "{:?}", record.runs);
}

#[test]
fn a_missing_tool_is_a_row_that_says_so() {
    let mut trial = Trial::new(&[("good", "cp -r \"$1\" \"$2\"/")]);
    trial.add(
        "name = \"lost\"\nmoves = \"files\"\ncommand = [\"absent\", \"{destination}\"]\n[needs]\na = \"absent\"\n\
         packages = \"absent-tools\"\n",
    );
    let (record, _) = trial.run(&trial.study(&[("good", 1), ("lost", 1)]), &mut |_| {});
    let reason = reason(&record, "lost-1");
    assert!(reason.starts_with("unavailable") && reason.contains("apt-get install absent-tools"), "{reason}");
    assert_eq!(record.runs.len(), 4);
}

#[test]
fn a_memory_tool_states_its_own_figures_and_is_not_believed_beyond_reason() {
    let mut trial = Trial::new(&[]);
    let tool = |name: &str, json: &str| {
        // Braces are doubled, because in a tool file single braces enclose placeholders.
        let json = json.replace('{', "{{").replace('}', "}}").replace('"', "\\\"");
        format!(
            "name = \"{name}\"\nmoves = \"memory\"\nversion = [\"echo\", \"{name} 1.2\"]\n\
             command = [\"sh\", \"-c\", \"sleep 0.2; echo '{json}'\", \"sh\", \"{{bytes}}\"]\n\
             [result]\nread = \"last-line\"\nbytes = \"/b\"\nseconds = \"/s\"\nencrypted = \"/e\"\n"
        )
    };
    trial.add(&tool("fair", r#"{"b": 300000, "s": 0.1}"#));
    trial.add(&tool("boasts", r#"{"b": 300000000000, "s": 0.1}"#));
    trial.add(&tool("dawdles", r#"{"b": 300000, "s": 9}"#));
    trial.add(&tool("mute", r#"{"b": 300000}"#));
    trial.add(&tool("sly", r#"{"b": 300000, "s": 0.1, "e": true}"#));
    let names = ["fair", "boasts", "dawdles", "mute", "sly"];
    let mut study = trial.study(&names.map(|name| (name, 1)));
    study.blocks = 1;
    let mut shaped = Vec::new();
    let (record, _) = trial.run(&study, &mut |event| {
        if let Event::Starting { phase, .. } = event {
            shaped.push(phase);
        }
    });
    assert_eq!(shaped.iter().filter(|phase| **phase == Phase::WarmUp).count(), 5);
    assert!(
        reason(&record, "fair-1").contains("payload_seconds: Some(0.1)"),
        "{}",
        reason(&record, "fair-1")
    );
    assert!(
        reason(&record, "boasts-1").contains("above the link's ceiling"),
        "{}",
        reason(&record, "boasts-1")
    );
    assert!(
        reason(&record, "dawdles-1").contains("9.000 s for the payload"),
        "{}",
        reason(&record, "dawdles-1")
    );
    assert!(reason(&record, "mute-1").contains("no number at /s"), "{}", reason(&record, "mute-1"));
    assert!(reason(&record, "sly-1").contains("encrypted: true"), "{}", reason(&record, "sly-1"));
    assert_eq!(record.cases[0].version.as_deref(), Some("fair 1.2"));
}

#[test]
fn a_server_is_started_at_the_far_end_and_ended() {
    let mut trial = Trial::new(&[]);
    let dir = trial.dir.path().display().to_string();
    trial.add(&format!(
        "name = \"served\"\nmoves = \"nothing\"\n\
         command = [\"sh\", \"-c\", \"[ $END = A ] && kill -0 $(cat {dir}/pid)\"]\n\
         [server]\ncommand = [\"sh\", \"-c\", \"echo $$ > {dir}/pid; [ $END = B ] && echo now ready; sleep 60\"]\n\
         ready = \"ready\"\n"
    ));
    trial.add(
        "name = \"unserved\"\nmoves = \"nothing\"\ncommand = \"true\"\n\
         [server]\ncommand = [\"sh\", \"-c\", \"echo port in use >&2; exit 1\"]\nready = \"ready\"\n",
    );
    let (record, _) = trial.run(&trial.study(&[("served", 1), ("unserved", 1)]), &mut |_| {});
    assert!(reason(&record, "served-1").starts_with("measured"), "{}", reason(&record, "served-1"));
    assert!(reason(&record, "unserved-1").contains("port in use"), "{}", reason(&record, "unserved-1"));
    let pid = std::fs::read_to_string(trial.dir.path().join("pid")).unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
}

#[test]
fn a_stop_keeps_what_was_recorded() {
    let trial = Trial::new(&[("copy", "cp -r \"$1\" \"$2\"/")]);
    let study = trial.study(&[("copy", 1), ("copy", 2)]);
    let mut ended = 0;
    let (record, dir) = trial.run(&study, &mut |event| {
        if let Event::Ended(..) = event {
            ended += 1;
        }
        if ended == 3 {
            trial.stop.store(true, Ordering::Relaxed);
        }
    });
    assert_eq!(record.runs.len(), 1);
    assert_eq!(store::load(&dir).unwrap().record.runs.len(), 1);
}

fn words(words: &[&str]) -> Vec<Word> {
    words.iter().map(|word| Word::parse(word).unwrap()).collect()
}

/// A setting of one host, with its reading and its writing command.
fn setting(name: &str, host: &str, read: &[&str], write: &[&str]) -> SettingSpec {
    let (read, write) = (words(read), words(write));
    SettingSpec { name: name.into(), hosts: vec![host.into()], read, write, optional: false }
}

/// Checks that the record has every run of the study once: blocks x cases, in the order that the seed
/// determines.
fn assert_complete(record: &Record, study: &Study) {
    let mut seen: Vec<(u32, &str)> = record.runs.iter().map(|run| (run.block, run.case.as_str())).collect();
    let made = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!((made, seen.len()), (study.cases.len() * study.blocks as usize, made));
    assert!((0..).zip(&record.runs).all(|(order, run)| run.order == order));
}

#[test]
fn an_interrupted_study_goes_on_where_it_was() {
    let trial = Trial::new(&[("one", "cp -r \"$1\" \"$2\"/"), ("two", "cp -r \"$1\" \"$2\"/")]);
    let mut study = trial.study(&[("one", 1), ("two", 1)]);
    study.blocks = 4;
    let (whole, _) = trial.run(&study, &mut |_| {});
    for stop_at in 1..=study.blocks * 2 {
        let stop = Stop::clone(&trial.stop);
        let mut timed = 0;
        let (part, dir) = trial.run(&study, &mut |event| {
            if let Event::Starting { phase: Phase::Block(_), .. } = event {
                timed += 1;
                stop.store(timed == stop_at, Ordering::Relaxed);
            }
        });
        trial.stop.store(false, Ordering::Relaxed);
        assert_eq!(part.runs.len(), stop_at as usize - 1);
        // The test cuts the last line off, as a crash could.
        let mut text = std::fs::read(dir.join("runs.jsonl")).unwrap();
        text.extend_from_slice(b"{\"case\":\"one");
        std::fs::write(dir.join("runs.jsonl"), text).unwrap();
        let record = trial.resume(&study, &dir).unwrap();
        assert_complete(&record, &study);
        let order = |record: &Record| record.runs.iter().map(|run| run.case.clone()).collect::<Vec<_>>();
        assert_eq!(order(&record), order(&whole), "the seed's order");
        assert_complete(&store::load(&dir).unwrap().record, &study);
        // A complete study has no missing runs.
        assert_complete(&trial.resume(&study, &dir).unwrap(), &study);
    }
}

#[test]
fn another_study_is_not_gone_on_with() {
    let trial = Trial::new(&[("one", "cp -r \"$1\" \"$2\"/"), ("two", "cp -r \"$1\" \"$2\"/")]);
    let (_, dir) = trial.run(&trial.study(&[("one", 1)]), &mut |_| {});
    let error = trial.resume(&trial.study(&[("one", 1), ("two", 1)]), &dir).unwrap_err().to_string();
    assert!(error.contains("list of cases"), "{error}");
    let mut longer = trial.study(&[("one", 1)]);
    longer.blocks = 9;
    assert!(trial.resume(&longer, &dir).unwrap_err().to_string().contains("number of blocks"));
    assert!(trial.resume(&longer, &dir.join("none")).unwrap_err().to_string().contains("reading"));
}

#[test]
fn copies_go_to_the_addresses_in_turn_and_parameters_are_placeholders() {
    let mut trial = Trial::new(&[]);
    trial.add(
        "name = \"spread\"\nmoves = \"nothing\"\nparallel = \"copies\"\n\
         command = [\"sh\", \"-c\", \"echo $0 $1 >> ../to; echo $@ >> ../all\", \"{index}\", \"{address}\"]\n\
         [environment]\nALL = \"x\"\n",
    );
    let to = trial.dir.path().join("to");
    let mut tool = trial.tools.get("spread").unwrap().clone();
    let script = format!("echo $0 $1 >> {0}; echo $@ >> {0}-all", to.display());
    tool.command = words(&["sh", "-c", &script, "{index}", "{address}", "{addresses}"]);
    trial.tools.add(tool);
    let mut study = trial.study(&[("spread", 3)]);
    study.blocks = 1;
    let (record, dir) = trial.run(&study, &mut |_| {});
    assert!(reason(&record, "spread-3").starts_with("measured"), "{}", reason(&record, "spread-3"));
    let seen = std::fs::read_to_string(&to).unwrap();
    for line in ["0 127.0.0.1", "1 127.0.0.2", "2 127.0.0.1"] {
        assert_eq!(seen.lines().filter(|seen| *seen == line).count(), 2, "warm-up and block: {seen}");
    }
    let all = std::fs::read_to_string(format!("{}-all", to.display())).unwrap();
    assert!(all.contains("127.0.0.2 127.0.0.1 127.0.0.2\n"), "{all}");
    // The run also holds the results of the samplers.
    let Outcome::Measured(measures) = &record.runs[0].outcome else { panic!() };
    assert_eq!(measures.recordings, ["samples/00001-block-0-spread-3-b.rec.zst"]);
    let stored = std::fs::read(dir.join(&measures.recordings[0])).unwrap();
    assert_eq!(zstd::decode_all(stored.as_slice()).unwrap(), b"seen at b");
    assert!(measures.notes[0].starts_with("the recording of host b: "), "{:?}", measures.notes);
}

/// A bed whose path and generator have these rates. A script in place of linerate prints them.
#[test]
fn a_generator_is_tested_alone_and_runs_near_its_limit_are_marked() {
    let mut trial = Trial::new(&[]);
    // At its own end the server is at 127.0.0.1: there the generator does 4 Gbit/s, and over the path 3.8.
    let json = |bytes: u64| format!("{{{{\\\"b\\\": {bytes}, \\\"s\\\": 0.1, \\\"n\\\": 9}}}}");
    trial.add(&format!(
        "name = \"asks\"\nmoves = \"requests\"\n\
         command = [\"sh\", \"-c\", \"sleep 0.2; if [ $END = A ] && [ $0 = 127.0.0.1 ] && [ -n $1 ]; then \
         if [ $1 = one ]; then echo '{}'; else echo '{}'; fi; fi\", \"{{address}}\", \"{{host}}\"]\n\
         [result]\nread = \"last-line\"\nbytes = \"/b\"\nseconds = \"/s\"\ntransactions = \"/n\"\n",
        json(50_000_000),
        json(47_000_000),
    ));
    let mut study = trial.study(&[("asks", 1)]);
    study.blocks = 1;
    study.capacity = true;
    let (work, out) = trial.places();
    let linerate = trial.dir.path().join("linerate");
    let script = "#!/bin/sh\nif [ $1 = serve ]; then echo listening on it; exec sleep 30; fi\nsleep 0.1\n\
                  echo '{\"bytes\":125000000,\"bytes_back\":0,\"seconds\":0.1,\"connections\":[],\"window\":{\"begin\":1,\"end\":2}}'\n";
    linerate_testing::write_script(&linerate, script);
    let mut setup = trial.setup(&study, &work, &out);
    setup.linerate = &linerate;
    let runner = Runner::new(setup, beds(), &mut |_| {}).unwrap();
    let dir = runner.dir();
    let record = runner.run(&mut |_| {}).unwrap();
    let parts: Vec<(&str, Option<&str>)> =
        record.capacity.iter().map(|part| (part.part.as_str(), part.tool.as_deref())).collect();
    assert_eq!(parts, [("path", None), ("generator", Some("asks"))]);
    let rate = |part: usize| record.capacity[part].gbit_per_second;
    assert!((rate(0) - 10.0).abs() < 0.01 && (rate(1) - 3.76).abs() < 0.01, "{:?}", record.capacity);
    let Outcome::Measured(measures) = &record.runs[0].outcome else { panic!("{:?}", record.runs) };
    let reported = measures.limited_by_bed.as_deref().unwrap();
    assert!(reported.starts_with("generator asks: 3.76 Gbit/s alone"), "{reported}");
    assert_eq!(store::load(&dir).unwrap().record.capacity, record.capacity);
}
