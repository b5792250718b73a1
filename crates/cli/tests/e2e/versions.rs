//! Tests of ends with different versions: the protocol numbers decide whether they can work together, and the
//! client sends its own binary to a host with another version.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use linerate_lab::End;
use rustix::process::Signal;

use crate::bed::{Case, args, case};
use crate::json::{summary_of, u64_at};
use crate::restricted::Login;
use crate::resumed::journal;
use crate::support::{PATIENCE, within};
use crate::tree::{assert_alike, make_mixed, noise, write};

/// A copy of the program that claims to be another release with the same protocol.
fn of_another_version(case: &Case) -> PathBuf {
    let other = case.aside("other").join("linerate");
    let version = env!("CARGO_PKG_VERSION");
    let replaced = version.replace(|c: char| c.is_ascii_digit(), "9");
    let script = format!("s/{}/{replaced}/g", version.replace('.', r"\."));
    // By another process, as the copies of the bed are.
    let line = format!("LC_ALL=C sed '{script}' \"$1\" >\"$2\" && chmod 755 \"$2\"");
    let made = Command::new("sh").args(["-c", &line, "sh"]).arg(case.bed.program()).arg(&other).status();
    assert!(made.is_ok_and(|status| status.success()));
    let said = Command::new(&other).args(["agent", "--id"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.starts_with(&format!("linerate {replaced} protocol ")), "{said}");
    other
}

#[test]
fn a_login_that_is_bound_to_another_version_with_the_same_protocol_works_both_ways() {
    let Some(case) = case() else { return };
    let other = of_another_version(&case);
    let login = Login::forced(&case, &format!("{} agent --below {}", other.display(), case.far.display()));
    let tree = case.near.join("tree");
    make_mixed(&tree);
    login.run("cp", args!["-r", "tree", "b:one"]).exits(0);
    login.run("cp", args!["-r", "b:one", "back"]).exits(0);
    assert_alike(&tree, &case.near.join("back"));
    write(tree.join("later"), "x");
    login.run("sync", args!["--delete", "tree/", "b:one"]).exits(0);
    login.run("verify", args!["tree", "b:one"]).exits(0);
    // The other version at this end.
    let client = |command: &str, rest| {
        let words = args![&other, command, "-F", &login.config];
        case.start_with(words, rest).end().exits(0)
    };
    client("sync", args!["tree/", "b:two"]);
    client("cp", args!["-r", "b:two", "third"]);
    assert_alike(&tree, &case.near.join("third"));
}

#[test]
fn an_installed_linerate_of_another_version_is_left_alone_and_the_client_brings_its_own() {
    let Some(case) = case() else { return };
    let other = of_another_version(&case);
    let before = fs::read(&other).unwrap();
    write(case.near.join("x"), "x");
    let home = case.aside("home").display().to_string();
    let directory = other.parent().unwrap().display().to_string();
    let shell = format!(
        "exec $SSH \"$1\" \"export HOME={home} XDG_CACHE_HOME={home}/cache PATH={directory}:$PATH; exec $2\""
    );
    case.cp_by(&shell, args!["--no-install", "x", case.b("")])
        .exits(5)
        .says(&["no linerate of this version"]);
    case.cp_by(&shell, args!["x", case.b("")]).exits(0).says(&["copying linerate"]);
    let again = case.cp_by(&shell, args!["--no-install", "x", case.b("")]).exits(0);
    assert!(!again.err.contains("copying"), "{again}");
    assert!(fs::read(&other).unwrap() == before, "what is installed stays");
    // After an upgrade of the far end to this version, nothing is brought any more.
    fs::remove_file(&other).unwrap();
    linerate_testing::copy_program(&case.bed.program(), &other);
    fs::remove_dir_all(case.aside("home").join("cache")).unwrap();
    let run = case.cp_by(&shell, args!["x", case.b("")]).exits(0);
    assert!(!run.err.contains("copying"), "{run}");
}

#[test]
fn a_transfer_that_another_version_left_is_gone_on_with() {
    let Some(case) = case() else { return };
    let other = of_another_version(&case);
    let file = case.near.join("big");
    write(file.clone(), noise(7, 64 << 20));
    let words = |program: &PathBuf| args![program, "cp", "-F", case.bed.lab.ssh_config()];
    let running = case.start_with(words(&other), args!["--bwlimit", "20m", "big", case.b("")]);
    // Until a chunk of the file is written down.
    let lists_partial = |path: PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(10).any(|part| part == b".linerate.")
    };
    let is_under_way = within(PATIENCE, || journal(&case.far).is_some_and(lists_partial));
    running.signal(Signal::KILL);
    let interrupted = running.end();
    assert!(is_under_way, "it never got under way: {interrupted}");
    let run = case.start_with(words(&case.bed.program()), args!["big", case.b(""), "--json"]).end().exits(0);
    let sent = u64_at(&summary_of(&run.out), "/sender/stages/bytes");
    assert!(sent <= 60 << 20, "{sent} of {} bytes were sent again", 64 << 20);
    assert!(fs::read(&file).unwrap() == fs::read(case.far.join("big")).unwrap());
    assert!(case.bed.on(End::B, &["ls", "-A", &case.far.display().to_string()]).trim() == "big");
}
