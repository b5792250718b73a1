//! Tests of the secrets of a login: what each far host can learn about the login to the other host, and
//! restricted logins.

use std::fs;
use std::path::Path;

use linerate_lab::End;

use super::ground::{HOSTS, Trio, trio};
use crate::bed::args;
use crate::support::{PATIENCE, within};
use crate::tree::{assert_alike, make_mixed, noise, write};

/// Everything that a host's processes know about a login: their environment, command lines, and names of open
/// files.
fn known_at(trio: &Trio, name: &str) -> String {
    let mut known = Vec::new();
    for process in trio.processes(name) {
        let of = Path::new("/proc").join(process.to_string());
        known.extend(fs::read(of.join("environ")).unwrap_or_default());
        known.extend(fs::read(of.join("cmdline")).unwrap_or_default());
        for descriptor in fs::read_dir(of.join("fd")).into_iter().flatten().flatten() {
            known.extend(fs::read_link(descriptor.path()).unwrap_or_default().as_os_str().as_encoded_bytes());
            known.push(b'\n');
        }
    }
    String::from_utf8_lossy(&known).into_owned()
}

/// Whether a process's writable memory contains `what`, read from /proc/PID/mem.
fn memory_holds(process: i32, what: &[u8]) -> bool {
    use std::os::unix::fs::FileExt;
    let of = Path::new("/proc").join(process.to_string());
    let Ok(memory) = fs::File::open(of.join("mem")) else { return false };
    let maps = fs::read_to_string(of.join("maps")).unwrap_or_default();
    let areas = maps.lines().filter(|line| line.contains(" rw-p ")).filter_map(|line| {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
    });
    areas.into_iter().any(|(from, to)| {
        let mut bytes = vec![0; usize::try_from(to - from).unwrap_or(0).min(64 << 20)];
        memory
            .read_at(&mut bytes, from)
            .is_ok_and(|read| bytes[..read].windows(what.len()).any(|part| part == what))
    })
}

#[test]
fn neither_host_gets_anything_of_the_login_to_the_other() {
    let Some(trio) = trio() else { return };
    has_nothing_of_the_other(&trio, "", &[]);
}

/// Connections of the user's that all logins share, and that have the agent.
#[test]
fn neither_host_gets_the_agent_of_connections_that_the_user_keeps_open() {
    let Some(trio) = trio() else { return };
    let config = std::fs::read_to_string(trio.config()).unwrap();
    let shared =
        "    ForwardAgent yes\n    ControlMaster auto\n    ControlPersist 60\n    ControlPath ctl-%n\n";
    let config =
        config.replace("    ControlPath none\n", "").replace("Host *\n", &format!("Host *\n{shared}"));
    write(trio.config(), &config);
    let open = |options: &str| {
        let config = trio.config();
        format!(
            "for host in src dst; do ssh -F {} {options} $host true >/dev/null 2>&1; done; ",
            config.display()
        )
    };
    has_nothing_of_the_other(&trio, &open(""), &[]);
    // The configuration doesn't say that these have the agent.
    write(trio.config(), config.replace("ForwardAgent yes", "ForwardAgent no"));
    let opened = open("-A");
    fs::remove_dir_all(trio.trees().1).unwrap();
    has_nothing_of_the_other(&trio, &opened, &[]);
    fs::remove_dir_all(trio.trees().1).unwrap();
    has_nothing_of_the_other(&trio, &opened, &["--detach"]);
}

#[test]
fn two_that_go_on_alone_have_nothing_of_either_login() {
    let Some(trio) = trio() else { return };
    has_nothing_of_the_other(&trio, "", &["--detach"]);
}

/// Checks that a host has no secrets of the other host. `before` is a shell script that runs first, with the
/// ssh agent.
fn has_nothing_of_the_other(trio: &Trio, before: &str, options: &[&str]) {
    let (tree, to) = trio.trees();
    write(tree.join("file"), noise(1, 32 << 20));
    // An ssh agent of the user's with both keys, which the client uses.
    let socket = trio.client().join("agent.sock");
    let keys = HOSTS.map(|(name, _)| trio.key(name));
    let script = format!(
        "eval \"$(ssh-agent -a {0})\" >/dev/null; ssh-add -q {1} {2}; {before}\"$@\"; code=$?; \
         for host in src dst; do ssh -F {3} -O exit $host 2>/dev/null; done; ssh-agent -k >/dev/null 2>&1; \
         exit $code",
        socket.display(),
        keys[0].display(),
        keys[1].display(),
        trio.config().display()
    );
    let words = args!["sh", "-c", script, "sh", trio.case.bed.program(), "cp", "-F", trio.config()];
    let mut line = args!["-r", "--bwlimit", "4m"];
    if before.is_empty() {
        line.extend(args!["-o", "ForwardAgent=yes"]);
    }
    line.extend(options.iter().map(std::ffi::OsString::from));
    line.extend(args![trio.src("tree"), trio.dst("to")]);
    let running = trio.start_with(words, line);
    let landing = || to.exists() && HOSTS.iter().all(|(name, _)| !trio.processes(name).is_empty());
    assert!(within(PATIENCE, landing), "it never got under way: {}", running.end());
    std::thread::sleep(std::time::Duration::from_millis(500));
    for (at, of) in [("src", "dst"), ("dst", "src")] {
        let known = known_at(trio, at);
        assert!(known.contains("linerate"), "the agent of {at} was looked at: {known}");
        let address = trio.host_address(HOSTS.iter().find(|(name, _)| *name == of).unwrap().1);
        let key = trio.key(of).display().to_string();
        for what in ["SSH_AUTH_SOCK", "agent.sock", &key, &address, "ssh_config"] {
            assert!(!known.contains(what), "{what} of {of} is known at {at}: {known}");
        }
        let private = fs::read_to_string(trio.key(of)).unwrap();
        let line = private.lines().nth(2).unwrap().as_bytes();
        for process in trio.processes(at) {
            assert!(!memory_holds(process, line), "the key of {of} is in the memory of {at}");
        }
    }
    running.end().exits(0);
    // One that goes on alone is there yet.
    trio.assert_all_gone();
    assert_alike(&tree, &to);
}

#[test]
fn restricted_logins_at_either_host_serve_what_they_may() {
    let Some(trio) = trio() else { return };
    let (tree, _) = trio.trees();
    make_mixed(&tree);
    let below = |path: &Path, options: &str| format!("--below {} {options}", path.display());
    // A restricted login dials nobody but who has logged in: the other one does.
    trio.restrict("src", &below(&trio.case.near, "--read-only"));
    trio.let_reach(End::B, End::A);
    trio.cp(args!["-v", "-r", "src:tree", trio.dst("one")])
        .exits(0)
        .says(&["data connection: from dst to src"]);
    assert_alike(&tree, &trio.case.far.join("one"));
    trio.cp(args!["-r", "src:../elsewhere", trio.dst("x")]).exits(2).says(&["src: ", "authorized_keys"]);
    trio.restrict("dst", &below(&trio.case.far, "--write-only"));
    let both = trio.cp(args!["-v", "-r", "src:tree", "dst:two"]).exits(0);
    both.says(&["through this host, encrypted from src to dst"]);
    assert_alike(&tree, &trio.case.far.join("two"));
    trio.restrict("dst", &below(&trio.case.far, "--read-only"));
    trio.cp(args!["-r", "src:tree", "dst:three"]).exits(2).says(&["dst: ", "authorized_keys"]);
    trio.restrict("src", &below(&trio.case.near, "--write-only"));
    trio.cp(args!["-r", "src:tree", "dst:three"]).exits(2).says(&["src: ", "authorized_keys"]);
    trio.assert_all_gone();
}
