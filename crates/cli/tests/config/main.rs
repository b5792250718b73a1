//! Tests of the configuration files. A script replaces ssh, stores its arguments, and runs the far command on
//! this host.

#[path = "../support/mod.rs"]
mod support;

mod show;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::{Run, Running, directory};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_linerate");

/// A user with a separate home directory, with a user's and a system's configuration file.
struct Ground {
    home: TempDir,
}

impl Ground {
    fn new(user: &str, system: &str) -> Self {
        let ground = Self { home: directory("linerate-config-") };
        fs::create_dir_all(ground.path(".config/linerate")).unwrap();
        fs::create_dir_all(ground.path("bin")).unwrap();
        let far = "for line; do :; done\nexec sh -c \"$line\"\n";
        ground.script("bin/ssh", &format!("printf '%s\\n' \"$*\" >>\"$HOME/words\"\n{far}"));
        ground.script("bin/other", &format!("printf 'other %s\\n' \"$*\" >>\"$HOME/words\"\n{far}"));
        ground.write(".config/linerate/config.toml", &format!("agent-command = \"{PROGRAM}\"\n{user}"));
        ground.write("system.toml", system);
        ground.write("file", "contents");
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o644)).unwrap();
    }

    fn script(&self, name: &str, text: &str) {
        linerate_testing::write_script(&self.path(name), &format!("#!/bin/sh\n{text}"));
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(words);
        self.prepared(command)
    }

    /// The command with this home directory and these configuration files.
    fn prepared(&self, mut command: Command) -> Command {
        let search = std::env::var_os("PATH").unwrap_or_default();
        let search = [self.path("bin").as_os_str(), OsStr::new(":"), &search].join(OsStr::new(""));
        command.current_dir(self.home.path()).env("PATH", search);
        command.env("HOME", self.home.path()).env_remove("XDG_CONFIG_HOME").env_remove("LINERATE_NO_CONFIG");
        command.env("LINERATE_SYSTEM_CONFIG", self.path("system.toml"));
        command
    }

    #[track_caller]
    fn run(&self, words: &[&str]) -> Run {
        Running::start(self.command(words)).end()
    }

    /// The arguments of ssh, or of its replacement, since the last call of this function, without the far
    /// command line.
    fn ssh(&self) -> String {
        let words = fs::read_to_string(self.path("words")).unwrap_or_default();
        drop(fs::remove_file(self.path("words")));
        words
    }

    /// A path on a far host, in the ground's directory.
    fn far(&self, host: &str, name: &str) -> String {
        format!("{host}:{}", self.path(name).display())
    }
}

#[track_caller]
fn summary(run: &Run) -> Value {
    serde_json::from_str(run.out.lines().last().unwrap_or_default()).unwrap()
}

/// A developer's own configuration must not affect tests: see .cargo/config.toml.
#[test]
fn tests_run_without_the_developers_configuration() {
    assert_eq!(std::env::var("LINERATE_NO_CONFIG").as_deref(), Ok("1"), "run the tests by cargo");
}

#[test]
fn options_of_hosts_count_unless_the_command_line_says_something() {
    let ground = Ground::new(
        "streams = 3\noption = \"Compression=no\"\n[host.\"web*\"]\nport = 2222\nidentity = \"~/key\"\n",
        "streams = 2\nretry = 4\nport = 22\n",
    );
    let (web, db) = (ground.far("u@web1", "a"), ground.far("db", "b"));
    // The data must use several streams, so the file is large.
    fs::write(ground.path("file"), vec![1; 64 << 20]).unwrap();
    let run = ground.run(&["cp", "--json", "file", &web]).exits(0);
    assert_eq!(summary(&run)["streams"], 3, "{run}");
    let words = ground.ssh();
    let key = format!("-i {}", ground.path("key").display());
    for word in ["-p 2222", &key, "-o Compression=no", "u@web1"] {
        assert!(words.contains(word), "{word}: {words}");
    }
    let run = ground.run(&["cp", "--json", "--streams", "1", "-P", "99", "-o", "A=b", "file", &db]).exits(0);
    assert_eq!(summary(&run)["streams"], 1, "{run}");
    let words = ground.ssh();
    assert!(words.contains("-p 99") && !words.contains("-i "), "{words}");
    assert!(words.find("A=b") < words.find("Compression=no"), "{words}");
    let run = ground.run(&["stream", "--json", "--seconds", "0.2", "u@web1"]).exits(0);
    assert_eq!(summary(&run)["streams"], 3, "{run}");
    ground.ssh();
    // Each of two hosts by itself.
    ground.run(&["verify", &web, &db]).exits(0);
    let words = ground.ssh();
    let of = |host: &str| words.lines().find(|line| line.contains(host)).unwrap_or_default().to_owned();
    assert!(of("web1").contains("-p 2222") && of("db").contains("-p 22 "), "{words}");
    ground.run(&["cp", &web, &ground.far("db", "c")]).exits(0);
    let words = ground.ssh();
    let of = |host: &str| words.lines().find(|line| line.contains(host)).unwrap_or_default().to_owned();
    assert!(of("web1").contains("-p 2222") && of("db").contains("-p 22 "), "{words}");
    // With -G ssh only prints its configuration.
    let mut logins = words.lines().filter(|line| !line.contains(" -G "));
    assert!(logins.all(|line| line.contains("ForwardAgent=no")), "{words}");
}

#[test]
fn another_remote_shell_is_reported_and_gives_way_to_ssh_s_options() {
    let ground = Ground::new("[host.far]\nrsh = \"other -x\"\n", "port = 2222\n");
    let (far, near) = (ground.far("far", "a"), ground.far("near", "b"));
    ground.run(&["cp", "file", &far]).exits(0).says(&["the remote shell is 'other -x', as configured"]);
    assert!(ground.ssh().starts_with("other -x far "));
    let run = ground.run(&["cp", "-q", "file", &far]).exits(0);
    assert!(run.err.is_empty() && ground.ssh().starts_with("other"), "{run}");
    ground.run(&["cp", "-P", "7", "file", &far]).exits(0);
    assert!(ground.ssh().contains("-p 7 "), "ssh's option on the command line says that it is ssh");
    ground.run(&["cp", "file", &near]).exits(0);
    assert!(ground.ssh().contains("-p 2222 "));
    ground.run(&["cp", "-e", "other -y", "file", &near]).exits(0);
    assert!(ground.ssh().starts_with("other -y near "), "ssh's options are nothing to it");
}

#[test]
fn a_wrong_file_ends_every_command_that_reads_it() {
    let ground = Ground::new("steams = 8\n", "");
    let far = ground.far("far", "a");
    let line = "linerate/config.toml:2: there is no option steams; did you mean streams?";
    for words in [&["cp", "file", &far][..], &["verify", "file", "file"], &["facts"], &["config", "show"]] {
        ground.run(words).exits(2).says(&[line]);
    }
    assert!(!ground.path("a").exists() && ground.ssh().is_empty());
    ground.run(&["verify", "--no-config", "file", "file"]).exits(0);
    let mut off = ground.command(&["verify", "file", "file"]);
    off.env("LINERATE_NO_CONFIG", "1");
    Running::start(off).end().exits(0);
    for (file, says) in
        [("streams = 1\nno-encrypt = true\n", "config.toml:3: no-encrypt"), ("delete = true\n", "delete")]
    {
        ground.write(".config/linerate/config.toml", &format!("# x\n{file}"));
        ground.run(&["verify", "file", "file"]).exits(2).says(&[says]);
    }
    let file = ground.path(".config/linerate/config.toml");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    ground.run(&["verify", "file", "file"]).exits(2).says(&["chmod go-w"]);
}

#[test]
fn what_isn_t_ours_reads_nothing() {
    let ground = Ground::new("steams = 8\n", "nonsense");
    fs::create_dir(ground.path("to")).unwrap();
    ground.run(&["rsync", "file", "to/a"]).exits(0);
    ground.run(&["scp", "file", "to/b"]).exits(0);
    ground.run(&["--version"]).exits(0);
    ground.run(&["cp", "--help"]).exits(0);
    // The far end is this account, and its agent must not mind.
    let words = ["cp", "--no-config", "--agent-command", PROGRAM, "file", &ground.far("far", "to/c")];
    ground.run(&words).exits(0);
    assert!(ground.path("to/c").exists());
}

#[test]
fn a_completion_reads_the_files_if_the_command_does() {
    let ground = Ground::new("[host.\"web*\"]\nport = 2222\noption = \"BatchMode=no\"\n", "");
    let word = ground.far("web1", "fi");
    let offered = |before: &[&str]| {
        let run = ground.run(&[&["complete", &word, "linerate"], before].concat()).exits(0);
        assert!(run.err.is_empty(), "{run}");
        (run.out, ground.ssh())
    };
    let (out, words) = offered(&["cp", "-o", "A=b"]);
    assert_eq!(out, format!("{word}le\n"));
    assert!(words.contains("-p 2222") && words.find("BatchMode=yes") < words.find("BatchMode=no"), "{words}");
    assert!(offered(&["sync", "-P", "99"]).1.contains("-p 99"));
    assert!(offered(&["fleet", "plan"]).1.contains("-p 2222"));
    for without in [&["cp", "--no-config"][..], &["rsync"], &["scp"]] {
        let (out, words) = offered(without);
        assert!(out == format!("{word}le\n") && !words.contains("2222"), "{without:?}: {words}");
    }
    ground.write(".config/linerate/config.toml", "steams = 8\n");
    assert_eq!(offered(&["cp"]), (String::new(), String::new()), "nothing is asked with half of the options");
    assert!(!offered(&["cp", "--no-config"]).0.is_empty());
}

#[test]
fn messages_show_each_byte_of_a_file_s_path() {
    let ground = Ground::new("", "");
    let above = ground.home.path().join(OsStr::from_bytes(b"odd\xff"));
    fs::create_dir_all(above.join("linerate")).unwrap();
    let file = above.join("linerate/config.toml");
    for (text, says) in
        [("", "linerate/config.toml: read"), ("steams = 8\n", "linerate/config.toml:1: there is no")]
    {
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let mut show = ground.command(&["config", "show"]);
        show.env("XDG_CONFIG_HOME", &above);
        let run = Running::start(show).end();
        assert!([&run.out, &run.err].iter().any(|said| said.contains(&format!("odd\\xff/{says}"))), "{run}");
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let mut verify = ground.command(&["verify", "file", "file"]);
    verify.env("XDG_CONFIG_HOME", &above);
    Running::start(verify).end().exits(2).says(&["odd\\xff/linerate/config.toml: "]);
}

#[test]
fn a_copy_within_this_host_takes_nothing_from_the_files() {
    let ground = Ground::new("bwlimit = \"1\"\nstreams = 1\n", "");
    fs::write(ground.path("file"), vec![1; 1 << 20]).unwrap();
    let run = ground.run(&["cp", "--json", "--streams", "2", "file", "copy"]).exits(0);
    assert!(run.time.as_secs() < 30, "a KiB a second would take 1,024 s: {run}");
}

#[test]
fn what_is_given_counts_before_what_is_configured() {
    let ground = Ground::new(
        "retry = 5\nport = 2222\njump = \"gate\"\nipv4 = true\ninterfaces = \"all\"\n",
        "ipv6 = true\n",
    );
    let far = ground.far("far", "a");
    let run = ground.run(&["cp", "--detach", "file", &far]).exits(2);
    assert!(run.err.contains("--detach is for a copy from one far host to another"), "{run}");
    ground.run(&["cp", "--no-encrypt", "file", &far]).exits(0);
    let words = ground.ssh();
    assert!(words.contains("-p 2222 ") && words.contains("-J gate "), "{words}");
    assert!(
        words.contains(" -4 ") && !words.contains(" -6 "),
        "the user's file, and not the system's: {words}"
    );
    let given = ["-o", "Port=99", "-o", "proxycommand=x", "-o", " AddressFamily=any"];
    ground.run(&[&["facts", "far"][..], &given].concat());
    let words = ground.ssh();
    assert!(words.contains("-o Port=99 "), "{words}");
    for configured in ["-p 2222", "-J gate", " -4 "] {
        assert!(!words.contains(configured), "{configured}: {words}");
    }
}

#[test]
fn a_key_is_judged_where_it_is_used() {
    let ground = Ground::new(
        "[host.\"dtn*\"]\ninterfaces = \"no-eth2\"\n[host.\"web*\"]\nssh-config = \"~/none\"\n",
        "[host.other]\ninterfaces = \"no-eth3\"\n",
    );
    let far = |host: &str| ground.far(host, "a");
    for words in [&["cp", "file", "copy"][..], &["cp", "file", &far("far")], &["facts"], &["config", "show"]]
    {
        ground.run(words).exits(0);
    }
    ground.run(&["verify", "file", &far("dtn1")]).exits(0);
    let run = ground.run(&["config", "show", "dtn1"]).exits(0);
    assert!(run.out.contains("no-eth2"), "{run}");
    let run = ground.run(&["cp", "file", &far("dtn1")]).exits(2);
    run.says(&["linerate/config.toml:3: interfaces: 'no-eth2' isn't an interface of this host"]);
    let run = ground.run(&["cp", "file", &far("other")]).exits(2);
    run.says(&["system.toml:2: interfaces: 'no-eth3' isn't an interface of this host"]);
    ground.ssh();
    let none = ground.path("none").display().to_string();
    let says = format!("linerate/config.toml:5: ssh-config: '{none}' can't be read for web1: No such file");
    ground.run(&["cp", "file", &far("web1")]).exits(2).says(&[&says]);
    ground.run(&["status", "web1"]).exits(2).says(&[&says]);
    assert_eq!(ground.ssh(), "", "nobody has logged in");
    ground.run(&["cp", "-F", "none", "file", &far("web1")]).exits(0);
}

#[test]
fn several_destinations_have_one_value() {
    let ground = Ground::new("[host.far]\nbwlimit = \"10mbit\"\n[host.\"web*\"]\nstreams = 2\n", "");
    let [far, far2, web1, web2] = ["far", "far2", "web1", "web2"].map(|host| ground.far(host, host));
    ground.write("hosts", &format!("# all\n{far2}\n{far}\n"));
    for to in [
        &["--to", &far2, "--to", &far][..],
        &["--to", &far, "--to", &far2],
        &["--to-file", "hosts"],
        &["--to", &far2, "--to", &far, "-n"],
    ] {
        for command in ["cp", "sync"] {
            let run = ground.run(&[&[command, "file"], to].concat()).exits(2);
            run.says(&[
                "different configured values of bwlimit",
                "10mbit for far (",
                "linerate/config.toml:3)",
                "none for far2 (built in)",
                "give --bwlimit on the command line, or copy to the hosts one by one",
            ]);
        }
    }
    assert!(ground.ssh().is_empty() && !ground.path("far").exists() && !ground.path("far2").exists());
    ground.run(&["cp", "file", "--bwlimit", "1g", "--to", &far2, "--to", &far]).exits(0);
    ground.run(&["cp", "file", "--no-config", "--agent-command", PROGRAM, "--to-file", "hosts"]).exits(0);
    ground.run(&["cp", "file", "--to", &web1, "--to", &web2]).exits(0);
    // The one destination of a list, which may come through a pipe.
    fs::write(ground.path("file"), vec![1; 64 << 20]).unwrap();
    let line = format!("echo '{web1}' | exec \"$0\" cp --json file --to-file /dev/stdin");
    let mut piped = Command::new("sh");
    piped.args(["-c", &line, PROGRAM]);
    let run = Running::start(ground.prepared(piped)).end().exits(0);
    assert_eq!(summary(&run)["streams"], 2, "{run}");
}

#[test]
fn a_file_that_a_stranger_may_write_is_refused() {
    let ground = Ground::new("", "streams = 2\n");
    let files = [".config/linerate/config.toml", "system.toml"];
    let change = |name: &str, mode| {
        fs::set_permissions(ground.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    for name in files {
        for mode in [0o664, 0o646, 0o602] {
            change(name, mode);
            let says = format!(
                "{}: users other than its owner may write it: change its mode (chmod go-w)",
                ground.path(name).display()
            );
            for words in [&["config", "show"][..], &["verify", "file", "file"]] {
                ground.run(words).exits(2).says(&[&says]);
            }
            ground.run(&["verify", "--no-config", "file", "file"]).exits(0);
        }
        change(name, 0o644);
    }
    if !linerate_testing::is_root("only root gives files away") || !linerate_testing::has("setpriv") {
        return;
    }
    let (user, stranger) = (65533, 65532);
    fs::set_permissions(ground.home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // The program may be where only root comes.
    let program = ground.path("bin/linerate");
    linerate_testing::copy_program(Path::new(PROGRAM), &program);
    for (name, owner, by_root, by_user) in [
        (files[0], 0, 0, 0),
        (files[1], 0, 0, 0),
        (files[0], user, 2, 0),
        (files[1], user, 2, 0),
        (files[0], stranger, 2, 2),
        (files[1], stranger, 2, 2),
    ] {
        std::os::unix::fs::chown(ground.path(name), Some(owner), None).unwrap();
        let id = format!("--reuid={user}");
        let as_user = ["setpriv", &id, "--regid=65533", "--clear-groups"];
        for (before, code) in [(&["env"][..], by_root), (&as_user, by_user)] {
            let mut command = Command::new(before[0]);
            command.args(&before[1..]).arg(&program).args(["config", "show"]);
            let run = Running::start(ground.prepared(command)).end().exits(code);
            assert_eq!(code == 2, run.err.contains(&format!("belongs to user {owner}")), "{name}: {run}");
        }
        std::os::unix::fs::chown(ground.path(name), Some(0), None).unwrap();
    }
}
