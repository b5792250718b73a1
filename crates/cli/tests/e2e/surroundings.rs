//! Tests of a program's environment: closed outputs, ignored signals, and options that exclude each other.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::bed::{args, case};
use crate::support::{PATIENCE, within};
use crate::tree::{make_mixed, noise, shape, write};

#[test]
fn an_output_that_is_gone_stops_no_transfer() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    let far = case.far.display();
    for (number, to) in ["--json >&-", "-v 2>&-", "--json | true", "-v 2>&1 | true"].iter().enumerate() {
        let script = format!("{{ $CP -r tree b:{far}/{number} {to}; }}; wait");
        case.start_script(&script).end().exits(0);
        assert!(
            within(PATIENCE, || alike(&case.near.join("tree"), &case.far.join(number.to_string()))),
            "{to}"
        );
    }
    case.start_script("$CP -n -r tree b:nowhere | head -n 1").end().exits(0);
}

#[test]
fn a_configured_host_needs_no_options_of_ssh() {
    let Some(case) = case() else { return };
    write(case.near.join("file"), noise(1, 1 << 20));
    let home = case.aside("home");
    fs::create_dir_all(home.join("linerate")).unwrap();
    let config = case.bed.lab.ssh_config();
    let text = format!(
        "[host.b]\nssh-config = \"{}\"\nport-range = \"50700-50709\"\nstreams = 2\n",
        config.display()
    );
    fs::write(home.join("linerate/config.toml"), text).unwrap();
    let copy = |options: &str, to: &str| {
        let program = case.bed.program();
        let here = format!("XDG_CONFIG_HOME='{}' '{}'", home.display(), program.display());
        let script = format!(
            "unset LINERATE_NO_CONFIG; {here} cp -v {options} file 'b:{}'",
            case.far.join(to).display()
        );
        case.start_script(&script).end()
    };
    copy("", "one").exits(0).says(&[":507"]);
    assert_eq!(fs::read(case.far.join("one")).unwrap(), noise(1, 1 << 20));
    copy("--no-config", "two").exits(5);
    assert!(!case.far.join("two").exists());
}

/// A pipe's last command may end before the copy does.
fn alike(one: &Path, other: &Path) -> bool {
    other.exists() && shape(one) == shape(other)
}

#[test]
fn events_that_were_lost_are_no_success() {
    let Some(case) = case() else { return };
    write(case.near.join("file"), "contents");
    let run = case.start_script(&format!("$CP --json file b:{}/ >/dev/full", case.far.display())).end();
    run.exits(1).says(&["standard output can't be written"]);
    assert_eq!(fs::read_to_string(case.far.join("file")).unwrap(), "contents");
}

#[test]
fn a_hangup_that_is_ignored_ends_nothing() {
    let Some(case) = case() else { return };
    write(case.near.join("file"), noise(1, 6 << 20));
    let script = format!("trap '' HUP; exec $CP --bwlimit 4m file b:{}/", case.far.display());
    let running = case.start_script(&script);
    std::thread::sleep(Duration::from_millis(700));
    running.signal(Signal::HUP);
    running.end().exits(0);
    assert_eq!(fs::metadata(case.far.join("file")).unwrap().len(), 6 << 20);
}

#[test]
fn ssh_options_and_another_remote_shell_exclude_each_other() {
    let Some(case) = case() else { return };
    write(case.near.join("x"), "x");
    for option in [["-P", "22"], ["-o", "Compression=no"], ["-J", "gate"], ["-i", "key"]] {
        let run = case.cp_by("exec $SSH \"$1\" \"$2\"", args![option[0], option[1], "x", case.b("")]);
        run.exits(2).says(&["--rsh", "-J"]);
    }
    assert!(!case.far.join("x").exists());
}

#[test]
fn quiet_says_nothing_but_why_it_failed() {
    let Some(case) = case() else { return };
    write(case.near.join("x"), "x");
    let run = case.cp(args!["-q", "--no-encrypt", "x", case.b("")]).exits(0);
    assert_eq!((run.out.as_str(), run.err.as_str()), ("", ""));
    let run = case.cp(args!["-q", "x", "nosuch.invalid:x"]).exits(5);
    run.says(&["nosuch.invalid", "resolve"]);
}
