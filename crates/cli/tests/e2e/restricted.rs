//! Tests of a login that is restricted to `linerate agent --below DIR`: which commands work through a real
//! ssh server, and which are refused.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use linerate_lab::End;
use rustix::fs::{CWD, FileType, Mode, XattrFlags};

use crate::bed::{Case, args, case, case_with_attributes};
use crate::json::{summary_of, u64_at};
use crate::network::Wall;
use crate::rsync_lines::words;
use crate::support::Run;
use crate::tree::{assert_alike, make_mixed, noise, shape, write};
use crate::units::path_with_linerate;

/// The text that every refusal contains.
const WHOSE: &str = "authorized_keys";

/// An ssh key with which every login runs one fixed command.
pub struct Login<'a> {
    case: &'a Case,
    /// The ssh configuration that uses the key.
    pub config: PathBuf,
}

impl<'a> Login<'a> {
    /// A login that runs `linerate agent --below FAR` with these further options.
    fn restricted(case: &'a Case, options: &str) -> Self {
        let (program, below) = (case.bed.program(), case.far.display().to_string());
        Self::forced(case, &format!("{} agent --below {below} {options}", program.display()))
    }

    pub fn forced(case: &'a Case, command: &str) -> Self {
        let name = command.bytes().fold(5381_u64, |sum, byte| sum.wrapping_mul(33) ^ u64::from(byte));
        let key = case.aside("keys").join(format!("{name:x}"));
        let made =
            Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
        assert!(made.unwrap().success());
        let public = fs::read_to_string(key.with_extension("pub")).unwrap();
        let lab_config = case.bed.lab.ssh_config();
        let keys = lab_config.parent().unwrap().join("authorized_keys");
        // In one piece: other tests append to it as well.
        let line = format!("restrict,command=\"{command}\" {public}");
        OpenOptions::new().append(true).open(keys).unwrap().write_all(line.as_bytes()).unwrap();
        let config = key.with_extension("config");
        let text = fs::read_to_string(&lab_config).unwrap();
        let own = lab_config.with_file_name("user_key").display().to_string();
        fs::write(&config, text.replace(&own, &key.display().to_string())).unwrap();
        Self { case, config }
    }

    /// Runs a linerate command with these arguments in the near directory.
    #[track_caller]
    pub fn run(&self, command: &str, args: Vec<OsString>) -> Run {
        let words = args![self.case.bed.program(), command, "-F", &self.config];
        self.case.start_with(words, args).end()
    }

    #[track_caller]
    fn refused(&self, command: &str, args: Vec<OsString>, what: &str) {
        self.run(command, args).exits(2).says(&[what, WHOSE]);
    }
}

#[test]
fn a_restricted_login_serves_what_is_below_its_directory() {
    let Some(case) = case() else { return };
    let login = Login::restricted(&case, "");
    let tree = case.near.join("tree");
    make_mixed(&tree);
    for (destination, there) in [("b:r1", "r1"), ("b:/r2", "r2"), ("b:~/r3", "r3"), ("b:/sub/", "sub/tree")] {
        login.run("cp", args!["-v", "-r", "tree", destination]).exits(0).says(&["encrypted"]);
        assert_alike(&tree, &case.far.join(there));
    }
    login.run("cp", args!["-r", "tree/.", "b:"]).exits(0);
    assert!(case.far.join("small").exists());
    for (source, back) in
        [("b:r1", "1"), ("b:/r2", "2"), ("b:~/r3/", "3"), ("b:s*b/t*", "4/"), ("b:/r?", "5/")]
    {
        login.run("cp", args!["-r", source, back]).exits(0);
    }
    for back in ["1", "2", "3", "4/tree", "5/r1", "5/r3"] {
        assert_alike(&tree, &case.near.join(back));
    }
    login.run("cp", args!["-n", "-r", "b:r1", "x"]).exits(0);
    login.run("verify", args!["tree", "b:/r1"]).exits(0);
    login.run("verify", args!["b:r1", "1"]).exits(0);
    write(case.far.join("r1/extra"), "x");
    login.run("sync", args!["--delete", "--verify", "tree/", "b:/r1"]).exits(0);
    assert_alike(&tree, &case.far.join("r1"));
    fs::remove_file(case.near.join("1/small")).unwrap();
    login.run("sync", args!["--delete", "b:r1/", "1"]).exits(0);
    assert_alike(&tree, &case.near.join("1"));
    login.run("stream", args!["b", "--seconds", "1"]).exits(0);
    let left = case.far.join("sub/.linerate.journal.0123456789abcdef0123456789abcdef");
    fs::write(&left, "").unwrap();
    assert!(login.run("clean", args!["-n", "b:/"]).exits(0).out.contains("sub/.linerate.journal"));
    login.run("clean", args!["b:sub"]).exits(0);
    assert!(!left.exists());
    for (command, args) in
        [("facts", args!["b"]), ("doctor", args!["b"]), ("doctor", args!["--path", "local", "b"])]
    {
        let run = login.run(command, args).says(&["may not query the host's facts", WHOSE]);
        assert_ne!(run.code, Some(0), "{run}");
    }
}

#[test]
fn nothing_leads_out_of_it() {
    let Some(case) = case() else { return };
    let login = Login::restricted(&case, "");
    let secret = case.aside("secret");
    write(secret.join("file"), "secret");
    write(secret.join(".rules"), "- *\n");
    make_mixed(&case.near.join("tree"));
    // Links out come with a tree, and stay links there.
    for (link, target) in
        [("up", PathBuf::from("../../secret")), ("abs", secret.clone()), ("file", secret.join("file"))]
    {
        symlink(target, case.near.join("tree").join(link)).unwrap();
    }
    login.run("cp", args!["-r", "tree", "b:tree"]).exits(0);
    let before = shape(&secret);
    let real = secret.display().to_string();
    for path in ["../secret", "tree/../../secret", "/../secret/file", "~/../secret", "*/../../secret/*"] {
        for command in ["cp", "sync"] {
            login.refused(command, args![format!("b:{path}"), "got"], "goes up by '..'");
            login.refused(command, args!["tree/small", format!("b:{path}")], "goes up by '..'");
        }
        login.refused("verify", args!["tree", format!("b:{path}")], "goes up by '..'");
        login.refused("clean", args![format!("b:{path}")], "goes up by '..'");
    }
    for link in ["tree/up", "tree/abs", "tree/up/file", "tree/abs/", "/tree/abs/file", "~/tree/file"] {
        let out = "leads out of the allowed directory";
        login.run("cp", args!["-r", format!("b:{link}"), "got"]).exits(2).says(&[out, WHOSE]);
        login.refused("sync", args!["tree/", format!("b:{link}")], out);
        login.refused("cp", args!["-r", "tree", format!("b:{link}")], out);
        login.refused("cp", args!["tree/small", format!("b:{link}")], out);
        login.refused("verify", args!["tree", format!("b:{link}")], out);
        login.refused("clean", args![format!("b:{link}")], out);
    }
    for pattern in ["tree/u*/*", "tree/abs/f*", ".*/*", "[.][.]/*"] {
        login.run("cp", args!["-r", format!("b:{pattern}"), "got/"]).exits(2).says(&["matches no file"]);
    }
    // What looks like a path of the host is one below, where there is none.
    for path in [format!("b:{real}/file"), "b:/etc/passwd".into(), "b:~root/.bashrc".into()] {
        login.run("cp", args![path, "got"]).exits(2);
    }
    login.run("cp", args!["-r", "tree/.", "b:~root/"]).exits(0);
    assert_alike(&case.near.join("tree"), &case.far.join("~root"));
    // A merge file above the directory is none: nothing is left out.
    write(case.far.parent().unwrap().join(".rules"), "- *\n");
    login.run("sync", args!["--filter=: /../../../.rules", "b:tree/", "all"]).exits(0);
    assert_alike(&case.far.join("tree"), &case.near.join("all"));
    assert_eq!(shape(&secret), before);
    assert!(!case.near.join("got").exists() || fs::read_dir(case.near.join("got")).unwrap().count() == 0);
}

#[test]
fn one_that_reads_writes_nothing() {
    let Some(case) = case() else { return };
    let login = Login::restricted(&case, "--read-only");
    make_mixed(&case.near.join("tree"));
    make_mixed(&case.far.join("tree"));
    let left = case.far.join(".linerate.journal.0123456789abcdef0123456789abcdef");
    fs::write(&left, "").unwrap();
    let before = shape(&case.far);
    login.refused("cp", args!["-r", "tree", "b:new"], "may not write anything (--read-only)");
    login.refused("sync", args!["--delete", "tree/", "b:tree"], "may not write anything (--read-only)");
    login.refused("clean", args!["b:"], "may not remove anything (--read-only)");
    login.run("cp", args!["-r", "b:tree", "back"]).exits(0);
    login.run("verify", args!["tree", "b:tree"]).exits(0);
    login.run("clean", args!["-n", "b:"]).exits(0);
    assert_alike(&case.far.join("tree"), &case.near.join("back"));
    assert_eq!(shape(&case.far), before);
}

#[test]
fn one_that_writes_reads_and_deletes_nothing() {
    let Some(case) = case() else { return };
    let login = Login::restricted(&case, "--write-only --no-delete");
    make_mixed(&case.near.join("tree"));
    write(case.far.join("tree/kept"), "kept");
    write(case.far.join("tree/small/in-the-way"), "kept");
    let left = case.far.join(".linerate.journal.0123456789abcdef0123456789abcdef");
    fs::write(&left, "").unwrap();
    let read = "may not read, list or compare anything (--write-only)";
    login.refused("cp", args!["-r", "b:tree", "back"], read);
    login.refused("cp", args!["-n", "-r", "b:tree", "back"], read);
    login.refused("sync", args!["b:tree/", "back"], read);
    login.refused("verify", args!["tree", "b:tree"], read);
    login.refused("clean", args!["-n", "b:"], "may not list anything (--write-only)");
    login.refused("clean", args!["b:"], "may not remove anything (--no-delete)");
    let delete = "may not delete anything (--no-delete)";
    login.refused("sync", args!["--delete", "tree/", "b:tree"], delete);
    login.refused("sync", args!["--delete", "--max-delete=1", "tree/", "b:tree"], delete);
    // A directory that isn't empty stays in a file's way.
    login.run("sync", args!["tree/", "b:tree"]).exits(3).says(&["small"]);
    assert!(case.far.join("tree/kept").exists() && case.far.join("tree/small/in-the-way").exists());
    assert!(left.exists());
    login.run("cp", args!["-r", "tree", "b:new"]).exits(0);
    assert_alike(&case.near.join("tree"), &case.far.join("new"));
    assert!(!case.near.join("back").exists());
    // It would learn what small blocks hold.
    write(case.far.join("large/x"), noise(3, 6 << 20));
    write(case.near.join("large/x"), [&b"y"[..], &noise(3, 6 << 20)].concat());
    let run = login.run("sync", args!["--json", "--no-whole-file", "large/", "b:large"]).exits(0);
    assert!(u64_at(&summary_of(&run.out), "/sender/stages/bytes") > 6 << 20, "{run}");
}

#[test]
fn rsync_s_options_lead_it_through_no_links_and_to_no_names() {
    let Some(case) = case() else { return };
    write(case.near.join("tree/sub/report-v2.tar"), noise(3, 5 << 20));
    write(case.far.join("t/sub/report-v1.tar"), [b"older".to_vec(), noise(3, 5 << 20)].concat());
    let (below, write_only) = (Login::restricted(&case, ""), Login::restricted(&case, "--write-only"));
    let rsync = |login: &Login<'_>, line: &str| {
        let shell = format!("ssh -F {}", login.config.display());
        case.start_with(args![case.bed.program(), "rsync", "-e", shell], words(line, "")).end()
    };
    for option in ["-K", "--no-implied-dirs"] {
        let run = rsync(&below, &format!("-aR {option} tree/sub b:t/"));
        assert_ne!(run.code, Some(0), "{run}");
        run.says(&["may not have symbolic links followed", WHOSE]);
    }
    assert!(!case.far.join("t/sub/report-v2.tar").exists());
    let line = "-a --no-W -y --debug=FUZZY tree/ b:t/";
    for (login, is_named) in [(&write_only, false), (&below, true)] {
        let run = rsync(login, line).exits(0);
        assert_eq!(run.out.contains("report-v1") || run.err.contains("report-v1"), is_named, "{run}");
        assert!(case.far.join("t/sub/report-v1.tar").exists());
        fs::remove_file(case.far.join("t/sub/report-v2.tar")).unwrap();
    }
    // Without -R, or with a single name, there is nothing on the way.
    rsync(&below, "-a --no-implied-dirs tree/ b:t/").exits(0);
    rsync(&below, "-aR --no-implied-dirs tree/./sub b:t/").exits(0);
}

#[test]
fn what_it_fakes_gives_no_rights_and_leads_nowhere() {
    let Some(case) = case_with_attributes() else { return };
    let login = Login::restricted(&case, "");
    let secret = case.aside("secret");
    write(secret.join("file"), "secret");
    let before = shape(&secret);
    let tree = case.near.join("tree");
    make_mixed(&tree);
    symlink(secret.join("file"), tree.join("out")).unwrap();
    symlink("../../secret", tree.join("up")).unwrap();
    fs::set_permissions(tree.join("small"), PermissionsExt::from_mode(0o6755)).unwrap();
    let (mode, null) = (Mode::from_raw_mode(0o666), rustix::fs::makedev(1, 3));
    rustix::fs::mknodat(CWD, tree.join("null"), FileType::CharacterDevice, mode, null).unwrap();
    let rsync = |line: &str| {
        let shell = format!("ssh -F {}", login.config.display());
        case.start_with(args![case.bed.program(), "rsync", "-e", shell], words(line, "")).end()
    };
    rsync("-aX -M--fake-super tree/ b:to/").exits(0);
    for name in ["out", "up", "null", "small"] {
        let meta = case.far.join("to").join(name).symlink_metadata().unwrap();
        assert!(meta.is_file() && meta.mode() & 0o7000 == 0, "{name}: {meta:?}");
    }
    // It reads nothing but what it says, whatever the client asks for, and writes nothing through it.
    rsync("-aXi -M--fake-super tree/ b:to/").exits(0);
    rsync("-aL -M--fake-super b:to/ got/").exits(3).says(&["may not have symbolic links followed", WHOSE]);
    rsync("-aX -M--fake-super b:to/ back/").exits(0);
    assert_alike(&tree, &case.near.join("back"));
    assert_eq!(fs::read_link(case.near.join("back/up")).unwrap(), PathBuf::from("../../secret"));
    for path in ["b:to/up/file", "b:to/out/file"] {
        let run = rsync(&format!("-a -M--fake-super {path} got/"));
        assert_ne!(run.code, Some(0), "{run}");
        assert_ne!(rsync(&format!("-a -M--fake-super tree/small {path}")).code, Some(0));
    }
    // Words that the client brings as an attribute count for nothing.
    let says = XattrFlags::empty();
    rustix::fs::lsetxattr(tree.join("large"), "user.rsync.%stat", b"120777 0,0 0:0", says).unwrap();
    rsync("-aXX -M--fake-super tree/ b:to/").exits(0);
    rsync("-aXX -M--fake-super b:to/ again/").exits(0);
    assert!(case.near.join("again/large").symlink_metadata().unwrap().is_file());
    assert_eq!(shape(&secret), before);
    assert!(!case.near.join("got").exists() || fs::read_dir(case.near.join("got")).unwrap().count() == 0);
}

#[test]
fn it_connects_back_to_its_client() {
    let Some(case) = case() else { return };
    let login = Login::restricted(&case, "");
    let _wall = Wall::refusing(&case, End::A, "7181-7184");
    make_mixed(&case.near.join("tree"));
    let run = login.run("cp", args!["-v", "--port-range", "7181-7184", "-r", "tree", "b:to"]).exits(0);
    run.says(&["data connection: from the far end to here"]);
    assert_alike(&case.near.join("tree"), &case.far.join("to"));
}

#[test]
fn another_version_or_no_agent_at_all_is_reported_at_once() {
    let Some(case) = case() else { return };
    write(case.near.join("x"), "x");
    // The Hello of a protocol that nobody speaks yet, whose agent then waits.
    let hello = [r"\032\0\0\0\0\377\001\0059.9.9\0", &r"\0".repeat(16)].concat();
    let hello = format!(r"printf '\nlinerate-agent ready\n{hello}'; exec sleep 60");
    let newer = Login::forced(&case, &hello);
    for args in [args!["x", "b:x"], args!["b:x", "y"]] {
        let run = newer.run("cp", args).exits(7).says(&["9.9.9", "protocol 255", "install the same version"]);
        assert!(run.time < Duration::from_secs(10), "{run}");
    }
    // One that doesn't know the option says so, and another directory than the one that was meant isn't served.
    let unknown = Login::forced(&case, &format!("{} agent --beneath /", case.bed.program().display()));
    unknown.run("cp", args!["x", "b:x"]).exits(5).says(&["--beneath"]);
    let nowhere = Login::forced(&case, &format!("{} agent --below /no/such", case.bed.program().display()));
    nowhere.run("cp", args!["x", "b:x"]).exits(1).says(&["can't be opened", WHOSE]);
}

/// The guide's page about restricted logins.
fn page() -> String {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/restricted.md");
    fs::read_to_string(page).unwrap()
}

#[test]
fn the_lines_of_the_guide_do_what_its_page_says() {
    let Some(case) = case() else { return };
    let page = page();
    // The near host's /etc, the far host's directory, and whoever may log in there.
    let below = case.far.join("backup");
    let etc = case.near.join("etc");
    make_mixed(&etc);
    write(etc.join("hostname"), "web1\n");
    let here = |line: &str| {
        let line = line.replace("/srv/backup", &below.display().to_string()).replace("-o backup", "-o root");
        line.replace(" /etc", &format!(" {}", etc.display())).replace("backup@", "")
    };
    let command = page.split('"').nth(1).expect("the page begins with the line of authorized_keys");
    let login = Login::forced(
        &case,
        &here(command).replacen("linerate", &case.bed.program().display().to_string(), 1),
    );
    let config = fs::read_to_string(&login.config).unwrap();
    fs::write(
        &login.config,
        config.replace("Host b ", "Host vault b ").replace("Host b\n", "Host vault b\n"),
    )
    .unwrap();
    let path = format!("PATH={}", path_with_linerate(&case, &login.config));
    let lines: Vec<_> = page.lines().map(str::trim).filter(|line| is_command(line)).collect();
    // The page shows the set-up last.
    let (setup, commands): (Vec<_>, _) = lines.into_iter().partition(|line| line.starts_with("install "));
    assert_eq!((setup.len(), commands.len()), (1, 6), "{setup:?} {commands:?}");
    for line in setup.into_iter().chain(commands) {
        let run = case.start_with(args!["env", &path, "sh", "-c", here(line)], Vec::new()).end();
        if line.contains("# refused") {
            run.exits(2).says(&[WHOSE]);
        } else {
            run.exits(0);
        }
    }
    assert_alike(&etc, &below.join("web1/etc"));
    assert_eq!(fs::read(below.join("trial/hostname")).unwrap(), b"web1\n");
    assert!(!case.near.join("hostname").exists() && !case.far.join("x").exists());
}

/// Whether a line of the page is a shell command.
fn is_command(line: &str) -> bool {
    line.starts_with("install -") || (line.starts_with("linerate ") && line.contains("@vault:"))
}
