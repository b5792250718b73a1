//! Labs of two sites: their hosts reach each other, Slurm runs on them, and nothing is left whenever the process that
//! made the lab is killed.

mod common;

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{NOBODY, Program, can_make_labs, on, options, remains, text, wait_for_line, within};
use linerate_lab::{End, Lab, LabError, LabOptions, SlurmWish, down, status, sweep};
use linerate_testing::{has, has_all};
use rustix::process::{Pid, Signal, kill_process};

/// The number of times that the process that makes a lab is killed.
const KILLS: u32 = 6;

fn sites(name: &str, shape: &str, link: &str) -> LabOptions {
    LabOptions { sites: Some(shape.parse().expect("a shape")), ..options(name, link) }
}

fn has_slurm() -> bool {
    has_all(&["slurmctld", "slurmd", "munged", "sbatch", "squeue", "srun"])
}

/// Runs a shell line on a host, by ssh from the first host.
fn at(lab: &Lab, host: &str, line: &str) -> Output {
    let config = lab.ssh_config();
    on(lab, End::A, &["ssh", "-F", config.to_str().expect("a plain path"), host, line])
}

/// The rate in bits per second to which the kernel limits a port.
fn shaped(lab: &Lab, namespace: &str, interface: &str) -> Option<u64> {
    let line = ["ip", "netns", "exec", namespace, "tc", "-j", "qdisc", "show", "dev", interface];
    let qdiscs: serde_json::Value =
        serde_json::from_str(&text(&on(lab, End::A, &line))).expect("tc writes JSON");
    let tbf = qdiscs.as_array()?.iter().find(|qdisc| qdisc["kind"] == "tbf")?;
    tbf["options"]["rate"].as_u64().map(|bytes| bytes * 8)
}

/// Checks that docs/formats.md has every key of a lab's JSON.
fn assert_documented(value: &serde_json::Value) {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats.md"));
    let page = page.expect("it is in the repository");
    let section = page.split("## ").find(|section| section.starts_with("JSON of labs")).expect("it is there");
    let mut values = vec![value];
    while let Some(value) = values.pop() {
        for (key, value) in value.as_object().into_iter().flatten() {
            assert!(section.contains(&format!("`{key}`")), "{key} isn't documented");
            values.push(value);
        }
        values.extend(value.as_array().into_iter().flatten());
    }
}

fn kill(child: &mut Child) {
    kill_process(Pid::from_child(child), Signal::KILL).expect("our own child");
    child.wait().expect("our child");
}

#[test]
fn each_host_logs_in_to_each_other_and_sites_share_one_link() {
    if !can_make_labs() {
        return;
    }
    let options = LabOptions {
        host_link: Some("1gbit".parse().expect("a rate")),
        mtu: Some(9000),
        ..sites("sites", "2x2", "100mbit")
    };
    let lab = Lab::up(&options).expect("a lab");
    let name = lab.name().to_string();
    let all = ["s1h1", "s1h2", "s2h1", "s2h2"];
    assert_eq!(lab.description().site_hosts().map(|host| host.name.as_str()).collect::<Vec<_>>(), all);
    for from in all {
        for to in all {
            let line = format!(
                "hostname; ssh -F $LINERATE_LAB_SSH_CONFIG {to} 'hostname; ls -d $LINERATE_LAB_SITE2_DIR'"
            );
            let directory = lab.sites()[1].directory.display();
            assert_eq!(text(&at(&lab, from, &line)), format!("{from}\n{to}\n{directory}\n"));
        }
    }
    assert_eq!(text(&at(&lab, "b", "hostname")), "s2h1\n");
    for site in lab.sites() {
        assert_eq!(shaped(&lab, &site.switch.namespace, &site.switch.interface), Some(100_000_000));
        assert_eq!(shaped(&lab, &site.hosts[1].host.namespace, "eth0"), Some(1_000_000_000));
        assert_eq!(shaped(&lab, &site.switch.namespace, "port2"), Some(1_000_000_000));
    }
    let far = &lab.sites()[1].hosts[1].host;
    for address in [Some(far.address.to_string()), far.address6.map(|address| address.to_string())] {
        let Some(address) = address else { continue };
        let login = format!("ssh -F {} {address} hostname", lab.ssh_config().display());
        assert_eq!(text(&on(&lab, End::A, &["sh", "-c", &login])), "s2h2\n");
        let route = text(&on(&lab, End::A, &["ip", "route", "get", &address]));
        assert!(route.contains("via"), "it is behind the switch: {route}");
    }
    // Nothing waits for a name server that can't be there.
    assert_eq!(text(&on(&lab, End::A, &["ip", "route", "show", "default"])), "");
    // The other site is behind the link, and so is nothing of the own one.
    let bytes = |to: &str| {
        let site = &lab.sites()[0].switch;
        let counter = format!("/sys/class/net/{}/statistics/tx_bytes", site.interface);
        let seen = || text(&on(&lab, End::A, &["ip", "netns", "exec", &site.namespace, "cat", &counter]));
        let count = |text: String| text.trim().parse::<u64>().expect("a count");
        let before = count(seen());
        let copy = format!("head -c 300000 /dev/zero | ssh -F {} {to} wc -c", lab.ssh_config().display());
        assert_eq!(text(&on(&lab, End::A, &["sh", "-c", &copy])).trim(), "300000");
        count(seen()) - before
    };
    let (within_site, across) = (bytes("s1h2"), bytes("s2h2"));
    assert!(within_site < 100_000 && across > 300_000, "{within_site}, {across}");
    lab.down().expect("all of it goes");
    assert_eq!(remains(&name), Vec::<String>::new());
}

#[test]
fn two_labs_of_sites_run_jobs_beside_each_other_and_all_jobs_end_with_them() {
    if !can_make_labs() || !has_slurm() {
        return;
    }
    let make = |name: &str| {
        let options = LabOptions { slurm: SlurmWish::Always, ..sites(name, "2x2", "open") };
        Lab::up(&options).expect("a lab")
    };
    let labs = [make("cluster-a"), make("cluster-b")];
    for lab in &labs {
        assert_eq!(text(&at(lab, "s2h1", "srun -N 2 -p site2 hostname | sort")), "s2h1\ns2h2\n");
        assert_eq!(text(&at(lab, "s1h2", "sinfo -h -p all -o '%D %t'")), "4 idle\n");
        // Tasks are spread over the nodes: each waits for the other.
        let ran = lab.scratch().join("ran");
        std::fs::create_dir(&ran).expect("writable");
        let task = format!(
            "cd {}; hostname >$SLURM_ARRAY_TASK_ID; setsid sleep 611 & while [ $(ls | wc -l) -lt 2 ]; do sleep 0.1; done",
            ran.display()
        );
        text(&at(lab, "s1h1", &format!("sbatch -p site1 --array 0-1 -o /dev/null --wrap '{task}'")));
        let said = || ["0", "1"].map(|task| std::fs::read_to_string(ran.join(task)).unwrap_or_default());
        assert!(within(Duration::from_secs(60), || said().iter().all(|name| name.ends_with('\n'))));
        let mut said = said();
        said.sort_unstable();
        assert_eq!(said, ["s1h1\n", "s1h2\n"]);
        text(&at(lab, "s1h1", "sbatch -p all -N 4 --wrap 'srun sleep 612'"));
    }
    for lab in labs {
        let name = lab.name().to_string();
        lab.down().expect("all of it goes");
        assert_eq!(remains(&name), Vec::<String>::new());
    }
}

#[test]
fn a_kept_lab_of_sites_goes_as_a_whole() {
    if !can_make_labs() {
        return;
    }
    let slurm = if has_slurm() { SlurmWish::Always } else { SlurmWish::Never };
    let lab =
        Lab::up(&LabOptions { kept: true, slurm, ..sites("kept-sites", "2x1", "open") }).expect("a lab");
    let (name, place) = (lab.name().clone(), lab.place(End::A));
    drop(lab);
    let shown = status().expect("readable").into_iter().find(|lab| lab.description.name == name);
    let shown = shown.expect("it is listed");
    assert!(shown.alive && shown.kept && shown.description.sites.len() == 2);
    assert_documented(&serde_json::to_value(&shown).expect("plain data"));
    let line = format!("ssh -F {} s2h1 'hostname; echo $SLURM_CONF'", shown.ssh_config.display());
    let argv = ["sh", "-c", &line].map(Into::into);
    let said = text(&place.command(&argv).and_then(|mut command| command.output()).expect("sh runs"));
    let conf = shown.description.slurm.map(|cluster| cluster.conf.display().to_string()).unwrap_or_default();
    assert_eq!(said, format!("s2h1\n{conf}\n"));
    assert_eq!(down(Some(&name)).expect("all of it goes"), name);
    assert_eq!(remains(name.as_str()), Vec::<String>::new());
}

#[test]
fn a_maker_that_is_killed_at_any_moment_leaves_nothing_to_the_next_command() {
    if !can_make_labs() {
        return;
    }
    let program = Program::for_user(0);
    let name = format!("test-killed-{}", std::process::id());
    let slurm: &[&str] = if has_slurm() { &["--slurm"] } else { &[] };
    let words =
        [&["--name", &name, "--sites", "2x2"], slurm, &["sh", "-c", "echo ready; exec sleep 613"]].concat();
    let start = || program.command(&words).stderr(Stdio::null()).spawn().expect("it starts");
    let begun = Instant::now();
    let mut child = start();
    wait_for_line(&mut child, "ready");
    let whole = begun.elapsed();
    kill(&mut child);
    assert!(!remains(&name).is_empty(), "or the last line of this test could not fail");
    let kills = std::env::var("LINERATE_TEST_KILLS").ok().and_then(|kills| kills.parse().ok());
    let kills: u32 = kills.unwrap_or(KILLS);
    for number in 0..kills {
        // The rerun sweeps what the one before has left.
        let mut child = start();
        std::thread::sleep(whole * (number + 1) / (kills + 1));
        kill(&mut child);
        if number % 2 == 0 {
            sweep().expect("readable").into_iter().for_each(|swept| swept.outcome.expect("all of it goes"));
            assert!(within(Duration::from_secs(10), || remains(&name).is_empty()), "{:?}", remains(&name));
        }
    }
    sweep().expect("readable");
    assert!(within(Duration::from_secs(10), || remains(&name).is_empty()), "{:?}", remains(&name));
}

#[test]
fn an_ordinary_user_gets_sites_in_a_user_namespace() {
    if !can_make_labs() || !has("setpriv") || !common::user_namespaces_work() {
        return;
    }
    let program = Program::for_user(NOBODY);
    let (slurm, jobs): (&[&str], _) = if has_slurm() {
        (&["--slurm"], "srun -N 2 -p site2 hostname | sort")
    } else {
        (&[], "echo s2h1; echo s2h2")
    };
    let script = format!("hostname; ssh -F $LINERATE_LAB_SSH_CONFIG s2h2 hostname; {jobs}");
    let words = [&["--sites", "2x2"], slurm, &["sh", "-c", &script]].concat();
    let mut command = program.command(&words);
    // As within a job of another cluster.
    command.envs([
        ("SLURM_CONF", "/nowhere"),
        ("SLURM_JOB_ID", "1"),
        ("SLURM_NNODES", "9"),
        ("SLURM_PARTITION", "x"),
    ]);
    command.envs([("SLURM_NTASKS", "9"), ("SBATCH_PARTITION", "x"), ("SINFO_PARTITION", "x")]);
    assert_eq!(text(&command.output().expect("it starts")), "s1h1\ns2h2\ns2h1\ns2h2\n");
    if slurm.is_empty() {
        return;
    }
    let script = "sbatch -o /dev/null --wrap 'srun sleep 614'; sbatch -o /dev/null --export=NONE --wrap 'sleep 615'; \
        while [ $(pgrep -c -u 65534 -f 'sleep 61[45]') -lt 4 ]; do sleep 0.1; done; echo ready; exec sleep 616";
    let mut child =
        program.command(&["--sites", "2x2", "--slurm", "sh", "-c", script]).spawn().expect("it starts");
    wait_for_line(&mut child, "ready");
    kill(&mut child);
    let reported = program.run(&["true"]);
    assert!(String::from_utf8_lossy(&reported.stderr).contains("left behind by process"), "{reported:?}");
    let left = Command::new("pgrep").args(["-l", "-u", "65534", "-f", "sleep 61[456]|slurmstepd:"]).output();
    let left = String::from_utf8_lossy(&left.expect("pgrep runs").stdout).into_owned();
    assert_eq!(left, "", "jobs go with their lab");
}

#[test]
fn a_shape_that_no_sites_have_is_refused() {
    if !can_make_labs() {
        return;
    }
    let refused = |options: LabOptions| {
        let error = Lab::up(&options).expect_err("no lab");
        assert!(matches!(error, LabError::Shape { .. }), "{error}");
    };
    refused(LabOptions { guests: 1, ..sites("sites-guests", "2x2", "open") });
    refused(LabOptions { links: Some(2), ..sites("sites-links", "2x2", "open") });
    refused(LabOptions { queues: Some(2), ..sites("sites-queues", "2x2", "open") });
    refused(LabOptions { slurm: SlurmWish::Always, ..options("pair-slurm", "open") });
    refused(LabOptions { host_link: Some("1gbit".parse().expect("a rate")), ..options("pair-rate", "open") });
}
