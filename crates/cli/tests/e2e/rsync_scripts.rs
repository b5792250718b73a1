//! Tests with scripts that call rsync: each script is run with rsync and with `linerate rsync`, in a directory
//! of its own. The exit code, the lines of the output, and everything in the directory must be equal
//! afterwards. The far host `h` is this host, in the same directory.

use std::path::Path;
use std::process::Command;

use linerate_testing::{has, write_script};

use crate::rsync_lines;
use crate::support::{Run, Running, directory, directory_with_attributes};

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

/// The paths that words of the far end mean, with `--old-args` and without.
const WORDS: &[&str] = &[
    r"$R -ai --old-args src/one 'h:d\ 9/'",
    r"$R -ai --old-args src/one 'h:z 9'",
    r"$R -ai --old-args src/one h:'\''d 9'\''",
    r"$R -ai --old-args 'h:src/a\ b' d1",
    r#"$R -ai --old-args "h:'src/a b'" d2"#,
    r#"$R -ai --old-args 'h:"src/my dir/"' d3"#,
    r"RSYNC_OLD_ARGS=1 $R -ai 'h:src/a\ b' d4",
    r"RSYNC_OLD_ARGS=1 $R -ai --no-old-args 'h:src/a b' d4",
    r"$R -ai --old-args 'h:src/one src/two' d5",
    r"$R -ai --old-args 'h:src/o* src/t?o' d5",
    r"$R -ai --old-args 'h:src/st\*r' d5",
    r"$R -ai --old-args 'h:src/b\\s' d5",
    r#"$R -ai --old-args "h:src/'st*'*" d5"#,
    r"$R -ai --old-args src/one h:",
    r"$R -ai 'h:src/a b' d1",
    r"$R -ai 'h:src/b\s' d1",
    r"$R -ai 'h:src/st\*r' d1",
    r"$R -ai 'h:src/{x,y}' d1",
    r"$R -ai 'h:src/{x,*}' d1",
    r"$R -ai 'h:src/*{x,y}' d1",
    r"$R -ai src/one 'h:d?'",
    r"$R -ai src/one 'h:e*'",
    r"$R -ai src/one 'h:e*/new'",
    r"$R -ai src/one 'h:z*'",
    r"$R -ai src/one 'h:z\*'",
    r"$R -ai src/one 'h:{z,y}'",
    r"$R -ai -s src/one 'h:d?'",
    "mkdir w; echo 1 >'w/*'; echo 2 >w/a; echo 3 >w/b; $R -ai 'h:w/*' d",
    "mkdir w; echo 1 >'w/[x]'; echo 22 >w/x; $R -ai 'h:w/[x]' d2",
    "mkdir w; echo 1 >'w/[x]'; $R -ai 'h:w/[x]' d2",
    "mkdir w; echo 1 >'w/[x]'; echo 22 >w/x; $R -ai 'h:w/\\[x]' d2",
    "mkdir w; echo 1 >'w/[x]'; $R -ai 'h:w/*' d2",
    "$R -ai src/one h:~root/linerate-test-of-homes; mv ~root/linerate-test-of-homes homes",
    "$R -ai src/one h:~no-such-user",
    "$R -ai h:~no-such-user d9",
];

/// Directories without their contents, and deletions in them.
const SHALLOW: &[&str] = &[
    "mkdir -p dst/old/x dst/sub/y; echo 1 >dst/only; $R -dlti --delete src/ dst",
    "mkdir -p dst/old/x dst/sub/y; echo 1 >dst/only; $R -dlti --del src/ h:dst",
    "mkdir -p dst/old/x dst/sub/y; echo 1 >dst/only; $R -dlti --delete-after h:src/ dst",
    "mkdir -p dst/old/x dst/sub/y; echo 1 >dst/only; $R -dlti --delete --exclude=old src/ dst",
    "mkdir -p dst/old/x dst/sub/y; echo 1 >dst/only; $R -dlti --delete-excluded --exclude=old src/ dst",
    "mkdir -p dst/src/x dst/y; $R -dlti --delete src dst",
    "mkdir -p dst/src/x dst/y; $R -dlti --delete src/. dst",
    "mkdir -p dst/src/x dst/sub/y; $R -dltiR --delete src/ dst",
    "mkdir -p dst/src/x dst/y; $R -dlti --delete src/ src/sub/ dst",
    "mkdir -p dst/old dst/sub/y; echo 1 >dst/only; echo one >l; $R -lti --delete --files-from=l src/ dst",
    "mkdir -p dst/old dst/sub/y; echo 1 >dst/only; printf 'one\nsub/\n' >l; $R -lti --delete --files-from=l src/ dst",
    "mkdir -p dst/old dst/sub/y; echo 1 >dst/only; printf 'one\n./\n' >l; $R -lti --delete --files-from=l src/ dst",
    "$R -lt --delete src/ dst",
    "$R -dlt --no-d --delete src/ dst",
    "$R --list-only -d --delete --exclude='*' src/",
    "$R -ai --old-dirs src/ n1",
    "$R -ti --old-d src/ n3",
    "mkdir n4; $R -lti --old-dirs src n4",
    "$R -lti --old-dirs --no-r src/ n4",
    "$R -lti --old-dirs --no-d src/ n4",
    "$R -lti --old-dirs --include=/sub/in src/ n5",
    "$R -lti --old-dirs h:src/ n6",
    "mkdir -p dst/sub dst/x/y; touch dst/sub/k; $R -lti --old-dirs --delete src/ dst",
    "mkdir -p dst/sub dst/x/y; touch dst/sub/k; $R -lti --old-dirs --delete-excluded src/ dst",
];

/// Hosts that are written in brackets.
const HOSTS: &[&str] = &[
    "$R -ai '[::1]:src/one' d1",
    "$R -ai 'u@[::1]:src/one' d2",
    "$R -ai src/one '[::1]:d3'",
    "$R -ai '[fe80::1%lo]:src/one' d4",
    "echo 1 >src/x::y; $R -ai h:src/x::y d5",
    "echo 1 >src/x::y; $R -ai ./src/x::y d6",
];

/// `-R` with patterns of the far end.
const KEPT_PATHS: &[&str] = &[
    "$R -aiR h:src/one 'h:src/t*' d10",
    "$R -aiR 'h:src/./t*' d11",
    "$R -aiR 'h:src/./[ot]*' d12",
    "$R -aiR 'h:s*/sub/./d*/*' d13",
    "$R -aiR \"h:$PWD/src/t*\" d14",
    "$R -aiR 'h:src/sub/i*' 'h:src/nothing*' d15",
    "mkdir 'src/[t]'; echo 1 >'src/[t]/x'; mkdir src/t; echo 2 >src/t/x; $R -aiR 'h:src/*/x' d17",
    "mkdir 'src/[t]'; echo 1 >'src/[t]/x'; $R -aiR 'h:src/[t]/x' 'h:src/one' d18",
    "mkdir -p dst/src/sub/old; $R -aiR --delete 'h:src/s*' h:src/one dst",
];

/// Lists of one entry, or of none. Only the trees are compared.
const SINGLE: &[&str] = &[
    "$R -aR src/./one d5",
    "$R -aR h:src/./one d5",
    "$R -aR src/./one h:d5",
    "mkdir dst; $R -aR src/./one dst",
    "$R -aR src/./one d5/",
    "$R -aR src/./sub d6",
    "$R -aR ./src/./one d7",
    "$R -aR src/one d7",
    "$R -lptR src/./sub d7",
    "echo one >l; $R -a --files-from=l src d8",
    "echo one >l; $R -a --files-from=l src h:d8",
    "echo one >l; $R -a --files-from=l h:src d8",
    "echo sub/in >l; $R -a --no-R --files-from=l src d8",
    "echo 'st*r' >l; $R -a --files-from=l h:src d8",
    "echo sub >l; $R -ar --files-from=l src d9",
    "echo nothing >l; $R -a --files-from=l src d9",
    "printf 'nothing\none\n' >l; $R -a --files-from=l --ignore-missing-args src/ d14",
    "printf 'nothing\n' >l; $R -a --files-from=l --ignore-missing-args src/ d14",
    "$R -a --files-from=/dev/null src/ n18",
    "$R -a --files-from=/dev/null h:src/ n18; rm -f hosts",
    "$R -a --files-from=/dev/null nowhere/ n18",
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
    "$R -a --exclude-from=nowhere src/ d",
    "$R -a --include-from=nowhere src/ d",
    "$R -a -f'. nowhere' src/ d",
    "$R -a -f'x nowhere' src/ d",
    "$R -a --files-from=nowhere src/ d",
    "echo one | $R -a --files-from=- nowhere/ d",
    "echo one | $R -a --files-from=- src/one d",
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
fn paths_mean_at_the_far_end_what_a_shell_makes_of_them() {
    assert_all_alike(WORDS);
}

#[test]
fn directories_without_their_contents_lose_what_the_source_lacks() {
    assert_all_alike(SHALLOW);
}

#[test]
fn hosts_may_have_brackets() {
    assert_all_alike(HOSTS);
}

#[test]
fn patterns_keep_the_paths_that_they_match() {
    assert_all_alike(KEPT_PATHS);
}

#[test]
fn a_single_file_gets_the_destination_s_name() {
    assert_all_alike(SINGLE);
}

#[test]
fn failures_have_rsync_s_codes() {
    assert_all_alike(CODES);
}

#[test]
fn what_only_the_far_shell_knows_is_refused() {
    let top = directory("linerate-scripts-");
    write_script(&top.path().join("shell"), SHELL);
    for path in ["h:`echo src/one`", "h:$HOME/x", "h:src/one;id", "h:'src/one", "h:{1..3}"] {
        let script = "$R -ai --old-args \"$P\" d; code=$?; ls -d d hosts; exit $code";
        let program = [env!("CARGO_BIN_EXE_linerate"), "rsync"];
        let (run, _) = run(&program, top.path(), &format!("P={}\n{script}", shlex::try_quote(path).unwrap()));
        assert!(run.out.is_empty(), "{path}: {run}");
        run.exits(1).says(&["--old-args: '", path]);
    }
}

#[test]
fn columns_are_filled_and_shown_as_with_rsync() {
    assert_all_alike(PRINTED);
}

/// `-X` with rules for the names of attributes.
const ATTRIBUTES: &[&str] = &[
    "setfacl -d -m u:3:rx src/sub; setfattr -n user.b -v 2 src/sub; $R -aX -f'-x user.b' src/ d4",
    "setfacl -d -m u:3:rx src/sub; setfacl -m u:4:rw src/one; $R -aX -f'-xs user.b' src/ d4",
    "setfacl -d -m u:3:rx src/sub; setfacl -m u:4:rw src/one; $R -aX -f'-x system.*' src/ d4",
    "setfacl -d -m u:3:rx src/sub; setfacl -m u:4:rw src/one; $R -aX -f'-x! user.*' src/ d4",
    "setfacl -d -m u:3:rx src/sub; setfacl -m u:4:rw src/one; $R -aX src/ d4",
    "setfacl -d -m u:3:rx src/sub; setfacl -m u:4:rw src/one; $R -a -f'-x user.b' src/ d4",
];

#[test]
fn rules_for_attributes_let_acls_pass() {
    let Some(top) = directory_with_attributes("linerate-scripts-") else { return };
    if ["rsync", "setfacl", "setfattr"].into_iter().all(has) {
        assert_alike(top.path(), ATTRIBUTES);
    }
}
