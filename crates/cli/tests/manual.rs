//! Tests that `man` can display the manual pages, and that the shells can use the completions.

mod support;

use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use linerate_testing::has;
use support::within;

const PROGRAM: &str = env!("CARGO_BIN_EXE_linerate");

fn run(command: &mut Command) -> Output {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

/// The completions of a shell, in a file.
fn script(shell: &str) -> tempfile::NamedTempFile {
    let script = tempfile::NamedTempFile::new().expect("a file");
    let output = run(Command::new(PROGRAM).args(["completions", shell]));
    fs::write(script.path(), output.stdout).expect("it is ours");
    script
}

/// The completions that bash offers for the last of `words`.
fn offered_by_bash(script: &tempfile::NamedTempFile, words: &[&str]) -> Vec<String> {
    let code = r#"source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        _linerate linerate "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let output =
        run(Command::new("bash").args(["--norc", "-c", code, "bash"]).arg(script.path()).args(words));
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_and_options() {
    if !has("bash") {
        return;
    }
    let script = script("bash");
    assert_eq!(offered_by_bash(&script, &["linerate", "cp", "--manif"]), ["--manifest"]);
    assert_eq!(offered_by_bash(&script, &["linerate", "lab", "st"]), ["status"]);
    assert_eq!(offered_by_bash(&script, &["linerate", "completions", "z"]), ["zsh"]);
    let commands = offered_by_bash(&script, &["linerate", ""]);
    assert!(commands.contains(&"sync".to_owned()), "{commands:?}");
    assert!(
        !commands.iter().any(|word| ["agent", "data", "undo-timer", "wan", "guest"].contains(&word.as_str()))
    );
}

/// A directory with the program and a script named ssh. The script runs its last argument in a far home
/// directory, which has a few files, and stores its arguments in a file.
fn far_host() -> tempfile::TempDir {
    let here = tempfile::tempdir().expect("a directory");
    let home = here.path().join("home");
    let odd = ["odd/date=2026/f1", "odd/u@v:w/f2", "odd/quo'te/f3"];
    for path in ["data/tree", "data/a b", "$(touch pwned)"].into_iter().chain(odd) {
        fs::create_dir_all(home.join(path)).unwrap();
    }
    fs::write(home.join("days"), "").unwrap();
    let ssh = here.path().join("ssh");
    let script = format!(
        "#!/bin/sh\nprintf '%s|' \"$@\" > words\nfor last; do :; done\ncd '{}'\nexec sh -c \"$last\"\n",
        home.display()
    );
    linerate_testing::write_script(&ssh, &script);
    std::os::unix::fs::symlink(PROGRAM, here.path().join("linerate")).unwrap();
    here
}

/// A command with a PATH in which the program and the ssh of [`far_host`] come first.
fn beside(here: &tempfile::TempDir, program: &str) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", here.path().display())).env("HOME", here.path());
    command.env("LINERATE_NO_CONFIG", "1").current_dir(here.path());
    command
}

/// The paths that are offered for `host:` if ssh is this script, and how long that took.
fn offered_by(ssh: &str) -> (String, Duration, tempfile::TempDir) {
    let here = far_host();
    fs::write(here.path().join("ssh"), format!("#!/bin/sh\n{ssh}\n")).unwrap();
    let begun = Instant::now();
    let mut linerate = beside(&here, "linerate");
    let output = run(linerate.args(["complete", "host:", "linerate", "cp"]).env("SSH_ASKPASS", "asks"));
    assert!(output.stderr.is_empty(), "{output:?}");
    (String::from_utf8_lossy(&output.stdout).into_owned(), begun.elapsed(), here)
}

#[test]
fn a_far_host_that_never_answers_is_left_in_time() {
    let (offered, time, here) = offered_by("echo early; sleep 606 & echo $$ $! > pids; wait");
    assert_eq!(offered, "");
    assert!(time >= Duration::from_secs(4) && time < Duration::from_secs(60), "{time:?}");
    let processes = fs::read_to_string(here.path().join("pids")).unwrap();
    let runs = |pid: &str| pid.parse().is_ok_and(|pid| linerate_sys::process::start_of(pid).is_ok());
    assert!(within(Duration::from_secs(30), || !processes.split_whitespace().any(runs)), "{processes}");
}

#[test]
fn a_far_host_that_prints_without_end_is_cut_short() {
    let (offered, _, _) = offered_by("exec yes name");
    let names: Vec<_> = offered.lines().collect();
    assert!(!names.is_empty() && names.len() <= 10_000, "{}", names.len());
    assert!(names.iter().all(|name| *name == "host:name"));
}

#[test]
fn no_ssh_of_a_completion_can_ask_for_a_password() {
    // The sixth field of proc_pid_stat(5) is the session: a session of one's own has no terminal.
    let (offered, _, _) = offered_by(
        "echo \"session $(($(cut -d' ' -f6 /proc/$$/stat) - $$)) ${SSH_ASKPASS-unset} $SSH_ASKPASS_REQUIRE\"",
    );
    assert_eq!(offered, "host:session 0 unset never\n");
}

#[test]
fn bash_completes_the_paths_of_a_far_host() {
    if !has("bash") {
        return;
    }
    let (script, here) = (script("bash"), far_host());
    // readline calls the completion function like this, with the colon as the end of a word.
    let code = r#"source "$1"; COMP_LINE=$2; COMP_POINT=${#2}; COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _linerate_far linerate "${COMP_WORDS[COMP_CWORD]##*:}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let offered = |line: &str| {
        let mut bash = beside(&here, "bash");
        let output = run(bash.args(["--norc", "-c", code, "bash"]).arg(script.path()).arg(line));
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(offered("linerate cp host:da"), ["data/", "days"]);
    assert_eq!(offered("linerate sync tree user@host:data/"), ["data/a\\ b/", "data/tree/"]);
    assert_eq!(offered("linerate cp tree --to=host:da"), ["data/", "days"]);
    assert_eq!(offered("linerate cp tree --to=host:odd/date=2026/"), ["2026/f1/"]);
    assert_eq!(offered("linerate cp host:data/a\\ "), ["data/a\\ b/"]);
    // File names of a far host must never be executed here.
    assert_eq!(offered("linerate cp host:"), [r"\$\(touch\ pwned\)/", "data/", "days", "odd/"]);
    assert!(!here.path().join("pwned").exists() && !here.path().join("home/pwned").exists());
    assert_eq!(offered("linerate cp --manif"), ["--manifest"]);
    // Other characters than the colon end a word, too.
    assert_eq!(offered("linerate cp host:odd/date=2026/"), ["2026/f1/"]);
    assert_eq!(offered("linerate cp me@host:odd/u@v:"), ["w/"]);
    assert_eq!(offered(r"linerate cp host:odd/u@v\:w/"), [r"v:w/f2/"]);
    assert_eq!(offered(r"linerate cp host:odd/quo\'te/"), [r"odd/quo\'te/f3/"]);
    assert_eq!(offered("linerate cp -F 'a file' -oPort=22 -o Tag=x host:da"), ["data/", "days"]);
    assert!(words_of_ssh(&here).contains("-F|a file|-o|Port=22|-o|Tag=x|"), "{}", words_of_ssh(&here));
    assert_eq!(offered("linerate cp -F ~/config host:da"), ["data/", "days"]);
    let config = format!("-F|{}/config|", here.path().display());
    assert!(words_of_ssh(&here).contains(&config), "{}", words_of_ssh(&here));
}

/// The arguments of all calls of ssh.
fn words_of_ssh(here: &tempfile::TempDir) -> String {
    fs::read_to_string(here.path().join("words")).unwrap()
}

#[test]
fn bash_offers_no_local_file_for_a_far_host() {
    if !has("bash") {
        return;
    }
    let (script, here) = (script("bash"), far_host());
    fs::write(here.path().join("ssh"), "#!/bin/sh\nexit 255\n").unwrap();
    // compopt works only where readline has called: what it would be asked for is printed instead.
    let code = r#"source "$1"; compopt() { echo "$*"; }; COMP_LINE=$2; COMP_POINT=${#2}; COMP_WORDS=($2)
        _linerate_far linerate; printf '%s.' "${COMPREPLY[@]}""#;
    let mut bash = beside(&here, "bash");
    let line = "linerate cp host:/etc/pass";
    let output = run(bash.args(["--norc", "-c", code, "bash"]).arg(script.path()).arg(line));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "+o bashdefault +o default\n.", "{output:?}");
}

#[test]
fn fish_and_zsh_complete_the_paths_of_a_far_host() {
    let here = far_host();
    if has("fish") {
        let code =
            "source $argv[1]; complete -C 'linerate cp host:da'; complete -C 'linerate cp -P 22 host:data/t'";
        let mut fish = beside(&here, "fish");
        let output = run(fish.args(["--no-config", "-c", code]).arg(script("fish").path()));
        let offered = String::from_utf8_lossy(&output.stdout);
        let words: Vec<_> = offered.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(words, ["host:data/", "host:days", "host:data/tree/"], "{output:?}");
        let code = "source $argv[1]; complete -C 'linerate cp tree --to=host:da'; \
                    complete -C 'linerate cp tree --to host:da'; complete -C 'linerate cp --t'";
        let mut fish = beside(&here, "fish");
        let output = run(fish.args(["--no-config", "-c", code]).arg(script("fish").path()));
        let offered = String::from_utf8_lossy(&output.stdout);
        let words: Vec<_> = offered.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(
            words[..4],
            ["--to=host:data/", "--to=host:days", "host:data/", "host:days"],
            "{output:?}"
        );
        assert_eq!(words.iter().filter(|word| **word == "--to").count(), 1, "{output:?}");
        let code = r#"source $argv[1]; complete -C 'linerate cp host:data/a\ ';
            complete -C "linerate cp -F 'a file' host:odd/quo\\'te/"; complete -C 'linerate cp "host:data/a '"#;
        let mut fish = beside(&here, "fish");
        let output = run(fish.args(["--no-config", "-c", code]).arg(script("fish").path()));
        let offered = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            offered.lines().collect::<Vec<_>>(),
            ["host:data/a b/", "host:odd/quo'te/f3/", "host:data/a b/"],
            "{output:?}"
        );
    }
    if has("zsh") {
        // Without a terminal there is no line to complete: the function's own words are checked.
        let code = "compadd() { shift 3; print -l -- $@ }; autoload -U compinit; compinit -D; source $1; \
                    words=(linerate cp -F \"'a file'\" host:data/); CURRENT=5 PREFIX=host:data/; _linerate";
        let output = run(beside(&here, "zsh").args(["-f", "-c", code, "zsh"]).arg(script("zsh").path()));
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "host:data/a b/\nhost:data/tree/\n",
            "{output:?}"
        );
        assert!(words_of_ssh(&here).contains("-F|a file|"), "{}", words_of_ssh(&here));
    }
}

/// The command line of an interactive shell after these keys.
fn typed(shell: &str, keys: &str, here: &tempfile::TempDir) -> String {
    let out = here.path().join("line");
    drop(fs::remove_file(&out));
    let typed = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/manual/typed.py");
    let mut python = beside(here, "python3");
    let script = script(shell);
    python.arg("-B").arg(typed).arg(shell).arg(script.path()).arg(keys).arg(out);
    let output = run(&mut python);
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

#[test]
fn quotes_and_colons_are_completed_at_a_terminal() {
    if !has("python3") {
        return;
    }
    let here = far_host();
    fs::create_dir(here.path().join("home/odd/it's $x")).unwrap();
    fs::create_dir(here.path().join("tree")).unwrap();
    fs::write(here.path().join("tree/a:bcd"), "").unwrap();
    // readline closes the quote behind the only name; what is typed behind it goes on in the same word.
    for (keys, in_bash, in_zsh) in [
        ("host:dat<TAB>tr<TAB>", "host:data/tree/", "host:data/tree/"),
        (r#""host:dat<TAB>"#, r#""host:data/""#, r#""host:data/"#),
        (r#""host:dat<TAB>tr<TAB>"#, "host:data/tree/", r#""host:data/tree/"#),
        ("'host:data/a<TAB>", "'host:data/a b/'", "'host:data/a b/"),
        (r#"host:"data/a<TAB>"#, r#"host:"data/a b/""#, r"host:data/a\ b/"),
        (r#""host:odd/i<TAB>"#, r#""host:odd/it's \$x/""#, r#""host:odd/it's \$x/"#),
        ("'host:odd/i<TAB>", r"'host:odd/it'\''s $x/'", r"'host:odd/it'\''s $x/"),
        ("--to=host:dat<TAB>tr<TAB>", "--to=host:data/tree/", "--to=host:data/tree/"),
        (r#"--to="host:dat<TAB>"#, r#"--to="host:data/""#, "--to=host:data/"),
        (r#""host:day<TAB>"#, r#""host:days""#, r#""host:days"#),
        (r#""tree/a:b<TAB>"#, r#""tree/a:bcd""#, r#""tree/a:bcd""#),
    ] {
        for (shell, line) in [("bash", in_bash), ("zsh", in_zsh)] {
            if has(shell) {
                let typed = typed(shell, &format!("linerate cp -4 {keys}"), &here);
                assert_eq!(typed, format!("linerate cp -4 {line}"), "{shell}: {keys}");
                assert!(keys.contains("tree/") || words_of_ssh(&here).contains("|-4|"), "{shell}: {keys}");
            }
        }
    }
    if has("bash") {
        // Its history is where bash looks for what follows `!` between double quotes.
        fs::create_dir(here.path().join("home/odd/wow !here")).unwrap();
        let line = typed("bash", "linerate cp -4 \"host:odd/w<TAB>", &here);
        assert_eq!(line, r#"linerate cp -4 "host:odd/wow "'!'"here/""#);
    }
    if has("zsh") {
        assert_eq!(typed("zsh", "linerate cp tree/a:b<TAB>", &here), "linerate cp tree/a:bcd");
    }
    assert!(!here.path().join("pwned").exists());
}

/// A directory of local files with unusual names, one of which has a host's name and a colon.
fn odd_files() -> tempfile::TempDir {
    let here = far_host();
    for file in ["q'uote", "dol$lar", "star*", "a dir", "auto-x", "plain", "zip"] {
        fs::write(here.path().join(file), "").unwrap();
    }
    for directory in [".sshd", "co:lon", "bashful"] {
        fs::create_dir(here.path().join(directory)).unwrap();
    }
    here
}

#[test]
fn bash_completes_the_files_of_options_as_those_of_arguments() {
    if !has("python3") || !has("bash") {
        return;
    }
    let here = odd_files();
    for (keys, line) in [
        ("cp --metrics q<TAB>", r"cp --metrics q\'uote "),
        ("cp --log-file dol<TAB>", r"cp --log-file dol\$lar "),
        ("cp --log-file=dol<TAB>", r"cp --log-file=dol\$lar "),
        ("cp -F st<TAB>", r"cp -F star\* "),
        (r"cp --log-file a\ d<TAB>", r"cp --log-file a\ dir "),
        ("cp -i ~/.ssh<TAB>", "cp -i ~/.sshd/"),
        ("cp --metrics 'q<TAB>", r"cp --metrics 'q'\''uote' "),
        ("cp --compress a<TAB>", "cp --compress auto "),
        ("cp --compress=a<TAB>", "cp --compress=auto "),
        ("cp --bwlimit pl<TAB>", "cp --bwlimit pl"),
    ] {
        assert_eq!(
            typed("bash", &format!("linerate {keys}"), &here),
            format!("linerate {line}").trim_end(),
            "{keys}"
        );
    }
}

#[test]
fn a_local_name_with_a_colon_is_offered_as_one_of_this_directory() {
    let here = odd_files();
    let keys = "linerate cp -4 co<TAB>";
    for shell in ["bash", "zsh"] {
        if has("python3") && has(shell) {
            let line = typed(shell, keys, &here).replace('\\', "");
            assert_eq!(line, "linerate cp -4 ./co:lon/", "{shell}");
            let line = typed(shell, "linerate cp -4 pla<TAB>", &here);
            assert_eq!(line.trim_end(), "linerate cp -4 plain", "{shell}");
        }
    }
    if has("fish") {
        // fish offers only what begins as the word does, so nothing with ./ before it.
        let all = offered_by_fish(&here, "linerate cp ");
        assert!(all.contains(&"plain".to_owned()) && !all.iter().any(|name| name.contains(':')), "{all:?}");
        assert_eq!(offered_by_fish(&here, "linerate cp ./co"), ["./co:lon/"]);
        assert_eq!(offered_by_fish(&here, "linerate cp co"), [""; 0]);
        assert_eq!(offered_by_fish(&here, "linerate cp pl"), ["plain"]);
        assert_eq!(offered_by_fish(&here, "linerate cp --metrics pl"), ["plain"]);
    }
}

/// The words that fish offers for a command line.
fn offered_by_fish(here: &tempfile::TempDir, line: &str) -> Vec<String> {
    let mut fish = beside(here, "fish");
    let code = "source $argv[1]; complete -C $argv[2]";
    let output = run(fish.args(["--no-config", "-c", code]).arg(script("fish").path()).arg(line));
    let offered = String::from_utf8_lossy(&output.stdout);
    offered.lines().filter_map(|line| line.split('\t').next()).map(str::to_owned).collect()
}

#[test]
fn no_shell_offers_files_where_a_word_is_needed() {
    let here = odd_files();
    if has("fish") {
        let offered = |line: &str| offered_by_fish(&here, line);
        assert_eq!(offered("linerate completions "), ["bash", "fish", "zsh"]);
        assert_eq!(offered("linerate man sy"), ["sync"]);
        assert_eq!(offered("linerate man pla"), [""; 0]);
        assert_eq!(offered("linerate config show pla"), [""; 0]);
        assert_eq!(offered("linerate doctor explain pla"), [""; 0]);
        assert_eq!(offered("linerate cp --compress "), ["auto", "off"]);
        assert_eq!(offered("linerate cp --bwlimit pla"), [""; 0]);
        assert_eq!(offered("linerate verify pla"), ["plain"]);
    }
    if has("python3") && has("zsh") {
        for (keys, line) in [
            ("cp --compress a<TAB>", "cp --compress auto"),
            ("cp --bwlimit pla<TAB>", "cp --bwlimit pla"),
            ("completions z<TAB>", "completions zsh"),
            ("cp --log-file dol<TAB>", r"cp --log-file dol\$lar"),
        ] {
            let typed = typed("zsh", &format!("linerate {keys}"), &here);
            assert_eq!(typed.trim_end(), format!("linerate {line}"), "{keys}");
        }
    }
}

#[test]
fn fish_completes_commands_and_options() {
    if !has("fish") {
        return;
    }
    let script = script("fish");
    let code = "source $argv[1]; complete -C 'linerate cp --manif'; complete -C 'linerate syn'";
    let output =
        run(Command::new("fish").args(["--no-config", "-c", code]).arg(script.path()).env("HOME", "/tmp"));
    let offered = String::from_utf8_lossy(&output.stdout);
    let words: Vec<_> = offered.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(words, ["--manifest", "sync"], "{output:?}");
}

#[test]
fn zsh_reads_its_completions() {
    if !has("zsh") {
        return;
    }
    let script = script("zsh");
    run(Command::new("zsh").args(["-f", "-n"]).arg(script.path()));
    let code = "autoload -U compinit; compinit -D; source $1; whence -w _linerate; print $_comps[linerate]";
    let output = run(Command::new("zsh").args(["-f", "-c", code, "zsh"]).arg(script.path()));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "_linerate: function\n_linerate\n", "{output:?}");
}

#[test]
fn man_shows_every_page_without_a_warning() {
    if !has("man") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    run(Command::new(PROGRAM).args(["man", "--out"]).arg(directory.path()));
    let pages: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|page| page.unwrap().path()).collect();
    assert!(pages.len() > 20, "{pages:?}");
    for page in pages {
        let mut man = Command::new("man");
        man.args(["--warnings", "--local-file"]).arg(&page);
        let shown = run(man.env("MANWIDTH", "100").env("LC_ALL", "C.UTF-8").env("MANROFFOPT", "-rLL=100n"));
        assert!(shown.stderr.is_empty(), "{}: {shown:?}", page.display());
        assert!(String::from_utf8_lossy(&shown.stdout).contains("SYNOPSIS"), "{}", page.display());
    }
}

/// The words of a usage line, without the formatting of roff(7).
fn words_of(usage: &str) -> String {
    let lines = usage.lines().filter(|line| !line.starts_with('.'));
    let plain = lines.collect::<Vec<_>>().join(" ").replace("\\fB", "").replace("\\fR", "");
    let plain = plain.replace("\\-", "-").replace("\\*(Aq", "'");
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_synopsis_of_each_page_is_the_usage_of_the_help() {
    let directory = tempfile::tempdir().expect("a directory");
    run(Command::new(PROGRAM).args(["man", "--out"]).arg(directory.path()));
    for page in fs::read_dir(directory.path()).unwrap() {
        let page = page.unwrap().path();
        let text = fs::read_to_string(&page).unwrap();
        let (_, synopsis) = text.split_once("\n.SH SYNOPSIS\n").expect("each has one");
        let (synopsis, _) = synopsis.split_once("\n.SH ").expect("others follow");
        let name = page.file_stem().unwrap().to_string_lossy().into_owned();
        let help = run(Command::new(PROGRAM).args(name.split('-').skip(1)).arg("--help"));
        let help = String::from_utf8_lossy(&help.stdout).replacen("usage: ", "Usage: ", 1);
        let (_, usage) = help.split_once("Usage: ").expect("each has one");
        let usage = usage.split("\n\n").next().unwrap();
        assert_eq!(words_of(synopsis), words_of(usage), "{name}");
    }
}

#[test]
fn the_command_of_a_restricted_login_has_a_page() {
    let page = run(Command::new(PROGRAM).args(["man", "agent"]));
    assert!(String::from_utf8_lossy(&page.stdout).contains("linerate agent \\-\\-below"), "{page:?}");
    let help = run(Command::new(PROGRAM).arg("--help"));
    assert!(!String::from_utf8_lossy(&help.stdout).contains(" agent "), "it is not listed");
}

#[test]
fn the_page_of_an_unknown_command_is_refused() {
    let output = Command::new(PROGRAM).args(["man", "lab", "cp"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("linerate lab has no command 'cp'"));
}
