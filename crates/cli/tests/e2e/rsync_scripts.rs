//! Tests with scripts that call rsync: each script is run with rsync and with `linerate rsync`, in a directory
//! of its own. The exit code, the lines of the output, and everything in the directory must be equal
//! afterwards. The far host `h` is this host, in the same directory.

use std::path::Path;
use std::process::Command;

use linerate_testing::{has, write_script};

use crate::rsync_lines;
use crate::support::{Run, Running, directory};

/// Stands in for ssh. Logins to `h` begin in the directory of the script.
const SHELL: &str = "#!/bin/sh
while :; do case $1 in -l) shift 2 ;; -*) shift ;; *) break ;; esac; done
echo \"${1#*@}\" >>\"$FAR/hosts\"
shift
cd \"$FAR\" && exec sh -c \"$*\"
";

const TREE: &str = "mkdir -p 'src/my dir' src/sub/deep d7 e1 e2; echo 1 >'src/a b'; echo 2 >src/one; echo 3 >src/two
    echo 4 >'src/my dir/f'; echo 5 >src/sub/in; echo 6 >src/sub/deep/er; echo 7 >'src/{x,y}'; echo 8 >'src/st*r'
    echo 9 >'src/b\\s'; ln -s one src/link; touch -d @1500000000 src/* src src/sub/*";

/// Hosts that are written in brackets.
const HOSTS: &[&str] = &[
    "$R -ai '[::1]:src/one' d1",
    "$R -ai 'u@[::1]:src/one' d2",
    "$R -ai src/one '[::1]:d3'",
    "$R -ai '[fe80::1%lo]:src/one' d4",
    "echo 1 >src/x::y; $R -ai h:src/x::y d5",
    "echo 1 >src/x::y; $R -ai ./src/x::y d6",
];

/// Lines that fail, each in another way.
const CODES: &[&str] = &[
    "$R -a src/ no/where/",
    "$R -a src/ no/where",
    "$R -a src/one no/where",
    "$R -a src/one no/where/",
    "$R -a src/one src/two no/where",
    "$R -a src/ h:no/where/",
    "$R -a src/one h:no/where",
    "$R -a src/ src/one",
    "$R -e \"sh -c 'sleep 20'\" --timeout=1 -a src/ h:d",
    "$R -a --zc=foo src/ d",
    "$R -a --zc=none src/ d",
    "$R -a --debug=nosuch src/ d",
    "$R -a --debug=FLIST2,del src/ d >/dev/null",
    "$R -a --delete=1 src/ d",
    "$R -a --no-delete=1 src/ d",
    "$R -a -P --no-P src/ d",
    "$R -a --no-b src/ d",
    "$R -aL --no-L src/ d",
    "$R -a --no-copy-dirlinks src/ d",
    "$R -a --no-insecure-links src/ d",
    "$R -h >/dev/null",
    "$R -hh >/dev/null",
    "$R >/dev/null",
];

/// Lines with columns and progress.
const PRINTED: &[&str] = &[
    "mkdir d; touch -d @1 d; $R -aPn src/ d",
    "mkdir d; touch -d @1 d; $R -an --progress src/ d",
    "$R -U --list-only src/one src/sub/",
    "$R -UU --list-only --no-h src/one",
    "$R -U --list-only h:src/sub/",
    r"touch $(printf 'src/\033') $(printf 'src/\303\251'); $R -a --out-format='%-9n|%9n|%12f|%-12L|' src/ d",
];

/// Runs a script in a directory that is made for it, and lists everything in that directory afterwards.
fn run(program: &[&str], top: &Path, script: &str) -> (Run, String) {
    let place = top.join("place");
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).expect("writable");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{TREE}\n{script}")]).current_dir(&place);
    command.env("R", program.join(" ")).env("FAR", &place).env("RSYNC_RSH", top.join("shell"));
    command.env("HOME", top.join("home")).env_remove("XDG_CACHE_HOME").env("LINERATE_NO_CONFIG", "1");
    let run = Running::start(command).end();
    let mut list = Command::new("sh");
    let script = "sort -u hosts >h; mv h hosts 2>/dev/null
        find . -printf '%p %y %l\\n' | sort; find . -type f -exec cksum {} + | sort
        command -v getfacl >/dev/null && find . ! -type l | sort | getfacl -n - 2>/dev/null; :";
    list.args(["-c", script]).current_dir(&place);
    (run, Running::start(list).end().exits(0).out)
}

fn assert_alike(top: &Path, scripts: &[&str]) {
    write_script(&top.join("shell"), SHELL);
    let ours = [env!("CARGO_BIN_EXE_linerate"), "rsync"];
    let mut differing = Vec::new();
    for script in scripts {
        let (ours, our_tree) = run(&ours, top, script);
        let (theirs, their_tree) = run(&["rsync"], top, script);
        let lines = |run: &Run| {
            let mut lines = rsync_lines::lines(&run.out);
            lines.sort();
            lines
        };
        if ours.code != theirs.code || lines(&ours) != lines(&theirs) || our_tree != their_tree {
            differing.push(format!("{script}\nours: {ours}\n{our_tree}\nrsync's: {theirs}\n{their_tree}"));
        }
    }
    assert!(differing.is_empty(), "{} scripts:\n{}", differing.len(), differing.join("\n"));
}

fn assert_all_alike(scripts: &[&str]) {
    if has("rsync") {
        assert_alike(directory("linerate-scripts-").path(), scripts);
    }
}

#[test]
fn hosts_may_have_brackets() {
    assert_all_alike(HOSTS);
}

#[test]
fn failures_have_rsync_s_codes() {
    assert_all_alike(CODES);
}

#[test]
fn columns_are_filled_and_shown_as_with_rsync() {
    assert_all_alike(PRINTED);
}
