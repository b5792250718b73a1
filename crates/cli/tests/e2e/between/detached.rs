//! Tests of copies that continue without their client: they can be listed, watched, ended and resumed.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use linerate_lab::End;
use rustix::process::Signal;
use serde_json::Value;

use super::ends::goes_on;
use super::ground::{HOSTS, Trio, trio};
use crate::bed::args;
use crate::json::events;
use crate::mounts::Mounted;
use crate::network::Wall;
use crate::support::{PATIENCE, Run, send, within};
use crate::tree::{assert_alike, make_mixed, names, noise, temporaries, write};

/// Starts a copy that continues without its client, of a tree that takes some seconds at the set rate.
fn left(trio: &Trio, options: &[&str], to: &str) -> Run {
    let mut line: Vec<OsString> = options.iter().map(OsString::from).collect();
    line.extend(args!["--detach", "-r", trio.src("tree"), trio.dst(to)]);
    trio.cp(line)
}

fn large_tree(trio: &Trio) {
    let (tree, _) = trio.trees();
    write(tree.join("chunked"), noise(1, 40 << 20));
    for number in 0..12 {
        write(tree.join(format!("large {number}")), noise(100 + number, 2 << 20));
    }
}

/// The name of the job that a run started.
fn job(run: &Run) -> String {
    let (_, rest) = run.err.split_once("linerate: job ").expect("it names the job");
    rest[..8].to_owned()
}

fn status(trio: &Trio, host: &str) -> Vec<Value> {
    let run = trio.run("status", args!["--json", host]).exits(0);
    events(&run.out)
}

/// Checks the list of jobs in the form for users.
#[track_caller]
fn says(trio: &Trio, host: &str, words: &[&str]) {
    let run = trio.run("status", args![host]).exits(0);
    words.iter().for_each(|words| assert!(run.out.contains(words), "{words}: {run}"));
}

/// Waits until the only job at a host isn't running any more, and returns it.
fn ended(trio: &Trio, host: &str) -> Value {
    let mut found = Value::Null;
    let over = || {
        let jobs = status(trio, host);
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        found = jobs[0].clone();
        found["state"] != "running"
    };
    assert!(within(PATIENCE, over), "it never ended");
    found
}

/// Waits until a part of the tree has arrived, while the copy continues.
fn landing(trio: &Trio, to: &str) {
    let to = trio.case.far.join(to);
    let landed = || to.exists() && names(&to).len() > temporaries(&to).len() + 6;
    assert!(within(PATIENCE, landed), "it never got under way");
}

#[test]
fn a_copy_goes_on_without_its_client_and_is_found_again() {
    let Some(trio) = trio() else { return };
    large_tree(&trio);
    says(&trio, "dst", &["no detached jobs"]);
    trio.run("attach", args!["dst"]).exits(2).says(&["linerate: dst: this host has no detached jobs"]);
    let run = left(&trio, &["--bwlimit", "4m"], "to").exits(0);
    let id = job(&run);
    run.says(&["continues between src and dst", &format!("linerate attach dst:{id}")]);
    // Each host has the one process that does the work, and nobody's login.
    for (name, role) in [("src", "sends"), ("dst", "receives")] {
        let alone = || {
            let all = trio.processes(name);
            all.len() == 1
                && fs::read_to_string(format!("/proc/{}/cmdline", all[0]))
                    .is_ok_and(|line| line.contains("agent\0--background"))
        };
        assert!(within(PATIENCE, alone), "{:?}", trio.processes(name));
        let jobs = status(&trio, name);
        let of = |field: &str| jobs[0][field].as_str().unwrap_or_default().to_owned();
        assert_eq!(
            (jobs.len(), of("id"), of("role"), of("state")),
            (1, id.clone(), role.into(), "running".into())
        );
        assert_eq!((of("from"), of("to")), ("src".into(), "dst".into()));
    }
    // Two watch at once, and see what the command would have printed.
    let (one, other) =
        (trio.start("attach", args!["dst"]), trio.start("attach", args!["--json", format!("dst:{id}")]));
    one.end().exits(0).says(&["13 files, ", "encrypted", " at src, ", " at dst; "]);
    let events = events(&other.end().exits(0).out);
    assert!(events.iter().any(|event| event["type"] == "progress"), "{events:?}");
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["exit"], &last["files"]), (&"summary".into(), &0.into(), &13.into()));
    let (tree, to) = trio.trees();
    assert_alike(&tree, &to);
    trio.assert_all_gone();
    for name in ["src", "dst"] {
        let job = ended(&trio, name);
        assert_eq!(
            (&job["state"], &job["exit"], &job["files"]),
            (&"finished".into(), &0.into(), &13.into()),
            "{job}"
        );
        assert_eq!(job["bytes"], (64 << 20), "{job}");
        let jobs = trio.state(name).join("linerate/jobs");
        assert_eq!(fs::metadata(&jobs).unwrap().permissions().mode() & 0o777, 0o700);
        for file in fs::read_dir(&jobs).unwrap().flatten() {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
        }
    }
    trio.run("attach", args!["dst"]).exits(0).says(&["13 files, "]);
    trio.run("attach", args!["src"]).exits(0).says(&["everything was sent", &format!("attach dst:{id}")]);
    says(
        &trio,
        "dst",
        &["finished, exit 0", "receives", " src:", " -> dst:", "13 of 13 files", "13 files, "],
    );
}

#[test]
fn a_copy_outlives_its_servers() {
    let Some(trio) = trio() else { return };
    large_tree(&trio);
    left(&trio, &["--bwlimit", "8m"], "to").exits(0);
    trio.stop_servers();
    let (tree, to) = trio.trees();
    let all = || HOSTS.iter().all(|(name, _)| trio.processes(name).is_empty());
    assert!(within(PATIENCE, all), "it never ended");
    assert_alike(&tree, &to);
}

#[test]
fn a_client_that_is_killed_at_any_moment_leaves_a_copy_or_nobody() {
    let Some(trio) = trio() else { return };
    large_tree(&trio);
    let (tree, to) = trio.trees();
    let start = || trio.start("cp", args!["--detach", "-r", trio.src("tree"), trio.dst("to")]);
    let whole = start().end().exits(0).time;
    for part in 1.. {
        trio.assert_gone_within(PATIENCE);
        fs::remove_dir_all(&to).ok();
        let mut running = start();
        std::thread::sleep(whole * part / 12);
        let was_left = running.has_ended();
        running.signal(Signal::KILL);
        running.end();
        trio.assert_gone_within(PATIENCE);
        if was_left || to.exists() {
            assert_alike(&tree, &to);
        }
        if was_left {
            break;
        }
    }
    fs::remove_dir_all(&to).ok();
    trio.cp(args!["-r", trio.src("tree"), trio.dst("to")]).exits(0);
    assert_alike(&tree, &to);
}

#[test]
fn a_killed_source_is_named_by_both_records_and_gone_on_from() {
    let Some(trio) = trio() else { return };
    large_tree(&trio);
    left(&trio, &["--bwlimit", "8m"], "to").exits(0);
    landing(&trio, "to");
    trio.processes("src").iter().for_each(|process| send(*process, Signal::KILL));
    assert_eq!(ended(&trio, "src")["state"], "died");
    let job = ended(&trio, "dst");
    assert_eq!((&job["state"], &job["exit"]), (&"failed".into(), &5.into()), "{job}");
    trio.run("attach", args!["dst"]).exits(5).says(&["linerate: src: "]);
    trio.run("attach", args!["src"])
        .exits(1)
        .says(&["process ended without a result", "run the same copy again"]);
    says(&trio, "src", &["died, sends"]);
    goes_on(&trio);
}

#[test]
fn a_killed_destination_has_died_and_is_gone_on_from() {
    let Some(trio) = trio() else { return };
    large_tree(&trio);
    left(&trio, &["--bwlimit", "8m"], "to").exits(0);
    landing(&trio, "to");
    trio.processes("dst").iter().for_each(|process| send(*process, Signal::KILL));
    assert_eq!(ended(&trio, "dst")["state"], "died");
    assert_eq!(ended(&trio, "src")["state"], "failed");
    trio.run("attach", args!["dst"]).exits(1).says(&["process ended without a result"]);
    goes_on(&trio);
}

#[test]
fn a_source_that_hangs_is_given_up_by_the_other_host_alone() {
    let Some(trio) = trio() else { return };
    large_tree(&trio);
    left(&trio, &["--bwlimit", "8m", "--timeout", "2"], "to").exits(0);
    landing(&trio, "to");
    let stopped = trio.processes("src");
    stopped.iter().for_each(|process| send(*process, Signal::STOP));
    let job = ended(&trio, "dst");
    assert_eq!((&job["state"], &job["exit"]), (&"failed".into(), &5.into()), "{job}");
    assert!(job["message"].as_str().is_some_and(|why| why.starts_with("src: ")), "{job}");
    stopped.iter().for_each(|process| send(*process, Signal::KILL));
    goes_on(&trio);
}

#[test]
fn whoever_watches_leaves_the_job_alone_or_ends_it() {
    let Some(trio) = trio() else { return };
    large_tree(&trio);
    left(&trio, &["--bwlimit", "8m"], "to").exits(0);
    landing(&trio, "to");
    let watching = trio.start("attach", args!["--json", "dst"]);
    assert!(within(PATIENCE, || watching.said().contains("\"progress\"")), "{}", watching.said());
    watching.signal(Signal::INT);
    watching.end().exits(130);
    assert_eq!(status(&trio, "dst")[0]["state"], "running");
    trio.run("attach", args!["--cancel", "dst"]).exits(130).says(&["interrupted"]);
    assert_eq!(ended(&trio, "dst")["exit"], 130);
    assert_eq!(ended(&trio, "src")["exit"], 130);
    goes_on(&trio);
}

#[test]
fn several_jobs_are_distinguished() {
    let Some(trio) = trio() else { return };
    large_tree(&trio);
    let one = job(&left(&trio, &["--bwlimit", "8m"], "to").exits(0));
    let other = job(&left(&trio, &["--bwlimit", "8m"], "other").exits(0));
    let jobs = status(&trio, "dst");
    assert!(jobs.len() == 2 && jobs.iter().all(|job| job["state"] == "running"), "{jobs:?}");
    trio.run("attach", args!["dst"]).exits(2).says(&["several jobs", &one, &other]);
    for id in [&other, &one] {
        trio.run("attach", args!["-q", format!("dst:{id}")]).exits(0);
    }
    let (tree, to) = trio.trees();
    assert_alike(&tree, &to);
    assert_alike(&tree, &to.with_file_name("other"));
    trio.run("attach", args!["dst:ffffffff"]).exits(2).says(&["no detached job 'ffffffff'"]);
    trio.run("attach", args!["dst:../x"]).exits(2).says(&["isn't a job's name"]);
}

#[test]
fn problems_of_single_entries_are_reported_to_whoever_asks_later() {
    let Some(trio) = trio() else { return };
    let (tree, to) = trio.trees();
    make_mixed(&tree);
    write(to.join("tree/small/in the way"), "x");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        tree.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let line = args!["-r", trio.src("tree"), trio.dst("to/")];
    left(&trio, &[], "to/").exits(0);
    let job = ended(&trio, "dst");
    assert_eq!((&job["state"], &job["exit"]), (&"finished".into(), &3.into()), "{job}");
    let run = trio.run("attach", args!["dst"]).exits(3);
    let words =
        ["linerate: src:", "pipe: ", "linerate: dst:", "small", "2 entries are missing or incomplete"];
    run.says(&words);
    trio.cp(line).exits(3).says(&words);
}

#[test]
fn a_full_destination_ends_the_job_and_is_named() {
    let Some(trio) = trio() else { return };
    large_tree(&trio);
    let to = trio.case.far.join("full");
    fs::create_dir(&to).unwrap();
    let Some(_mount) = Mounted::memory(&to, "16m") else { return };
    left(&trio, &[], "full/").exits(0);
    let job = ended(&trio, "dst");
    assert_eq!((&job["state"], &job["exit"]), (&"failed".into(), &1.into()), "{job}");
    trio.run("attach", args!["dst"]).exits(1).says(&["linerate: dst: ", "No space left"]);
    trio.assert_all_gone();
}

/// Runs a small copy that continues without its client, with these options, to its end.
#[track_caller]
fn through(trio: &Trio, command: &str, options: &[&str]) {
    let mut line: Vec<OsString> = options.iter().map(OsString::from).collect();
    line.extend(args!["--detach", trio.src("tree/."), trio.dst("to/")]);
    trio.run(command, line).exits(0);
    trio.run("attach", args!["dst"]).exits(0);
    let (tree, to) = trio.trees();
    assert_alike(&tree, &to);
    trio.assert_all_gone();
    trio.run("clean", args!["--jobs", "dst"]).exits(0);
}

#[test]
fn either_host_may_be_the_one_that_is_reached() {
    for (end, ports) in [(End::A, "7251-7254"), (End::B, "7251-7254")] {
        let Some(trio) = trio() else { return };
        make_mixed(&trio.trees().0);
        let _wall = Wall::refusing(&trio.case, end, ports);
        through(&trio, "cp", &["-r", "--port-range", ports, "--streams", "4"]);
        through(&trio, "sync", &["--port-range", ports, "--no-encrypt", "--verify", "--checksum"]);
    }
}

#[test]
fn two_that_reach_each_other_in_no_way_are_not_left_alone() {
    let Some(trio) = trio() else { return };
    make_mixed(&trio.trees().0);
    let _walls = [End::A, End::B].map(|host| Wall::refusing(&trio.case, host, "7261-7264"));
    let run = left(&trio, &["--port-range", "7261-7264"], "to").exits(5);
    run.says(&[
        "linerate: dst: dst can't connect to src: ",
        "and src can't connect to dst: ",
        "7261-7264",
        "leave out --detach",
    ]);
    trio.assert_all_gone();
    assert_eq!((status(&trio, "src").len(), status(&trio, "dst").len()), (0, 0));
}

#[test]
fn sync_does_alone_what_it_does_with_its_client() {
    let Some(trio) = trio() else { return };
    let (tree, to) = trio.trees();
    make_mixed(&tree);
    write(to.join("surplus"), "x");
    write(to.join("kept.o"), "x");
    write(tree.join("new"), "new");
    let line = args![
        "--detach",
        "--delete",
        "--itemize-changes",
        "--exclude",
        "*.o",
        trio.src("tree/"),
        trio.dst("to/")
    ];
    trio.sync(line).exits(0);
    let run = trio.run("attach", args!["--json", "dst"]).exits(0);
    let changes: Vec<_> = events(&run.out).into_iter().filter(|event| event["type"] == "change").collect();
    let has = |item: &str, path: &str| {
        changes.iter().any(|change| change["item"].as_str().unwrap().contains(item) && change["path"] == path)
    };
    assert!(has("*deleting", "surplus") && has("f+++++++++", "new"), "{run}");
    assert!(to.join("kept.o").exists(), "what the rules leave out is spared");
    fs::remove_file(to.join("kept.o")).unwrap();
    assert_alike(&tree, &to);
    // A list is the client's file.
    let list = trio.client().join("list");
    fs::write(&list, "new\n").unwrap();
    let line = args!["--detach", "--files-from", &list, trio.src("tree/"), trio.dst("other/")];
    let id = job(&trio.sync(line).exits(0));
    fs::remove_file(list).unwrap();
    trio.run("attach", args![format!("dst:{id}")]).exits(0);
    assert_eq!(names(&to.with_file_name("other")), ["new"]);
}

#[test]
fn what_cannot_go_on_alone_is_refused_at_once() {
    let Some(trio) = trio() else { return };
    let (tree, _) = trio.trees();
    write(tree.join("file"), "x");
    let here = trio.client().join("x");
    fs::write(&here, "x").unwrap();
    trio.cp(args!["--detach", &here, trio.dst("to")])
        .exits(2)
        .says(&["--detach is for a copy from one far host"]);
    trio.cp(args!["--detach", trio.src("tree"), "--to", trio.dst("to")]).exits(2);
    trio.cp(args!["--detach", trio.src("missing"), trio.dst("to")])
        .exits(2)
        .says(&["linerate: src: ", "missing"]);
    trio.restrict("dst", &format!("--below {}", trio.case.far.display()));
    left(&trio, &[], "to").exits(2).says(&["linerate: dst: this login may not leave a process behind"]);
    trio.run("status", args!["dst"]).exits(2).says(&["may not query detached jobs"]);
    trio.assert_all_gone();
    assert_eq!(status(&trio, "src").len(), 0, "nothing is noted of what never began");
    fs::remove_file(here).unwrap();
}

#[test]
fn records_that_others_may_have_made_are_not_believed() {
    let Some(trio) = trio() else { return };
    let (tree, _) = trio.trees();
    write(tree.join("file"), "x");
    let jobs = trio.state("dst").join("linerate/jobs");
    fs::create_dir_all(&jobs).unwrap();
    let set = |mode: u32| {
        for path in [jobs.parent().unwrap(), &jobs] {
            fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
    };
    set(0o755);
    trio.run("status", args!["dst"]).exits(1).says(&["with mode 0700"]);
    left(&trio, &[], "to").exits(1).says(&["linerate: dst: ", "with mode 0700"]);
    trio.assert_all_gone();
    set(0o700);
    let secret = trio.client().join("secret");
    fs::write(&secret, "root:x").unwrap();
    std::os::unix::fs::symlink(&secret, jobs.join("01010101-receives.json")).unwrap();
    std::os::unix::fs::symlink(&secret, jobs.join("02020202-receives.events")).unwrap();
    fs::write(jobs.join("03030303-receives.json"), "{\"schema\":1").unwrap();
    assert_eq!(status(&trio, "dst").len(), 0);
    let id = job(&left(&trio, &[], "to").exits(0));
    assert_eq!(ended(&trio, "dst")["id"], id);
    assert_eq!(fs::read_to_string(&secret).unwrap(), "root:x");
    trio.run("clean", args!["--jobs", "dst"]).exits(0);
    assert_eq!(status(&trio, "dst").len(), 0);
    fs::remove_file(secret).unwrap();
}
