//! The cases of mscp's own end-to-end tests (upa/mscp, test/test_e2e.py), under the same names, for
//! `linerate cp`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::bed::{Case, args, case};
use crate::support::{Run, within};
use crate::tree::{noise, write};

const MIB: usize = 1 << 20;
/// The size of a large file, which is sent in several parts; mscp's tests use 100 MB and more.
const LARGE: usize = 20 * MIB;

/// Whether an mscp test passes with `linerate cp`.
#[derive(Clone, Copy)]
enum Standing {
    /// The test passes, in both directions.
    Holds(fn(&Way)),
    /// The test passes; it concerns the login, regardless of the direction of the data.
    HoldsOfLogin(fn(&Way)),
    /// The test passes except for the described difference.
    Differs(&'static str, fn(&Way)),
    /// The test doesn't apply to linerate, for this reason.
    NotApplicable(&'static str),
}

use Standing::{Differs, Holds, HoldsOfLogin, NotApplicable};

const PASSWORDS: &str = "ssh itself asks for passphrases and passwords";
const SLASH: &str = "several sources make a directory only where its name ends in a slash, as with scp";

const CASES: [(&str, Standing); 45] = [
    ("test_usage", HoldsOfLogin(usage)),
    ("test_invalid_chunk_size_config", NotApplicable("sizes of chunks are not the user's")),
    ("test_nonidentical_hostnames", HoldsOfLogin(hosts_that_make_no_sense)),
    ("test_single_copy", Holds(single_copy)),
    ("test_failed_to_copy_nonexistent_file", Holds(nothing_to_copy)),
    ("test_double_copy", Differs(SLASH, double_copy)),
    ("test_double_copy_with_ipv6_notation", Differs(SLASH, ipv6_notation)),
    ("test_double_copy_with_user_and_ipv6_notation", Differs(SLASH, ipv6_notation_with_user)),
    ("test_dir_copy", Holds(dir_copy_twice)),
    ("test_dir_copy_single", Holds(dir_into_dir)),
    ("test_override_single_file", Holds(override_file)),
    ("test_copy_file_under_root_to_dir", Holds(file_into_dir)),
    ("test_dst_has_suffix_slash", Holds(suffix_slash)),
    ("test_remote_path_contains_tilde", Holds(tilde)),
    ("test_remote_path_contains_tilde2", HoldsOfLogin(tilde_alone)),
    ("test_min_chunk", NotApplicable("sizes of chunks are not the user's")),
    ("test_glob_src_path", Differs(SLASH, glob)),
    ("test_thread_affinity", NotApplicable("threads go where the kernel puts them; taskset(1) holds them")),
    ("test_cannot_override_file_with_dir", Holds(file_in_the_way)),
    ("test_transfer_zero_bytes", Holds(zero_bytes)),
    ("test_override_dst_having_larger_size", Holds(larger_destination)),
    ("test_dont_truncate_dst", Differs("it may be reported as changed under way", onto_itself)),
    ("test_copy_readonly_file", Holds(readonly)),
    ("test_dont_make_conns_more_than_chunks", Holds(many_streams_for_little)),
    ("test_bwlimit", Holds(bwlimit)),
    ("test_set_port_ng", HoldsOfLogin(wrong_port)),
    ("test_set_port_ok", HoldsOfLogin(right_port)),
    ("test_v4only", HoldsOfLogin(v4_only)),
    ("test_v6only", HoldsOfLogin(v6_only)),
    ("test_v4_to_v6_should_fail", HoldsOfLogin(v4_to_v6)),
    ("test_v6_to_v4_should_fail", HoldsOfLogin(v6_to_v4)),
    ("test_quiet_mode", HoldsOfLogin(quiet)),
    ("test_set_conn_interval", NotApplicable("streams begin when they are of use")),
    ("test_compression", Holds(compression)),
    (
        "test_ccalgo",
        NotApplicable("the kernel's congestion control is the host's: 'linerate doctor' judges it"),
    ),
    ("test_config_ok", HoldsOfLogin(config)),
    ("test_config_ng", HoldsOfLogin(empty_config)),
    ("test_inline_option_ok", Differs("ssh refuses an option that it doesn't know", inline_options)),
    ("test_inline_option_ng", HoldsOfLogin(wrong_inline_options)),
    ("test_porxyjump_ok", Holds(jump)),
    ("test_porxyjump_ng", HoldsOfLogin(wrong_jump)),
    ("test_specify_password_via_env and three more", NotApplicable(PASSWORDS)),
    ("test_10k_files", Holds(many_files)),
    ("test_checkpoint_dump_and_resume", NotApplicable("nothing is planned ahead: -n shows what would come")),
    ("test_checkpoint_interrupt_large_file and _many_files", Holds(interrupted)),
];

/// The direction of a copy; both ends are directories of the same case.
struct Way<'c> {
    case: &'c Case,
    pulls: bool,
}

impl Way<'_> {
    fn from(&self) -> &Path {
        if self.pulls { &self.case.far } else { &self.case.near }
    }

    fn to(&self) -> &Path {
        if self.pulls { &self.case.near } else { &self.case.far }
    }

    fn place(&self, host: &str, top: &Path, path: &str, is_far: bool) -> OsString {
        let prefix = if is_far { format!("{host}:") } else { String::new() };
        format!("{prefix}{}/{path}", top.display()).into()
    }

    /// The arguments of a copy from or to a host with this name.
    fn words(&self, host: &str, options: &[&str], sources: &[&str], destination: &str) -> Vec<OsString> {
        let options = options.iter().map(OsString::from);
        let sources = sources.iter().map(|path| self.place(host, self.from(), path, self.pulls));
        let destination = self.place(host, self.to(), destination, !self.pulls);
        options.chain(sources).chain([destination]).collect()
    }

    #[track_caller]
    fn copy(&self, options: &[&str], sources: &[&str], destination: &str) -> Run {
        self.case.cp(self.words("b", options, sources, destination))
    }

    fn make(&self, path: &str, size: usize) {
        write(self.from().join(path), noise(path.len() as u64 + 1, size));
    }

    #[track_caller]
    fn assert_same(&self, from: &str, to: &str) {
        let [from, to] = [self.from().join(from), self.to().join(to)];
        assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap(), "{from:?} {to:?}");
    }

    /// Copies one file, with another ssh configuration than the lab's.
    #[track_caller]
    fn one_without_config(&self, host: &str, config: &Path) -> Run {
        self.make("src", MIB);
        let config = config.display().to_string();
        self.case.cp_without_ssh(self.words(host, &["-F", &config], &["src"], "dst"))
    }

    /// Copies one file with these options.
    #[track_caller]
    fn one(&self, host: &str, options: &[&str]) -> Run {
        self.make("src", MIB);
        let _ = fs::remove_file(self.to().join("dst"));
        self.case.cp(self.words(host, options, &["src"], "dst"))
    }

    /// The far end's address of an address family, from the lab's ssh configuration.
    fn address(&self, name: &str) -> String {
        let text = fs::read_to_string(self.case.bed.lab.ssh_config()).unwrap();
        let mut lines = text.lines().skip_while(|line| !line.starts_with(&format!("Host {name} ")));
        let address = lines.nth(1).unwrap().trim().strip_prefix("HostName ").unwrap();
        address.to_owned()
    }
}

#[test]
fn what_mscps_tests_ask_for_holds() {
    if case().is_none() {
        return;
    }
    let mut applicable = 0;
    for (name, standing) in CASES {
        let (ways, why, check) = match standing {
            Holds(check) => (&[false, true][..], "", check),
            HoldsOfLogin(check) => (&[false][..], "", check),
            Differs(why, check) => (&[false, true][..], why, check),
            NotApplicable(why) => {
                println!("{name}: {why}");
                continue;
            }
        };
        applicable += 1;
        for &pulls in ways {
            let Some(case) = case() else { return };
            println!("{name}, pulls: {pulls}: {why}");
            check(&Way { case: &case, pulls });
        }
    }
    assert_eq!(applicable, 38);
}

fn usage(way: &Way) {
    way.case.cp(args![]).exits(2);
    way.case.cp(args!["-h"]).exits(0);
}

fn hosts_that_make_no_sense(way: &Way) {
    for words in [args!["a:a", "b:b", "c"], args!["a:a", "b", "c:c"], args!["a", "b:b", "c:c"]] {
        way.case.cp(words).exits(2);
    }
}

fn single_copy(way: &Way) {
    for size in [64, 4096, LARGE] {
        way.make("src", size);
        way.copy(&[], &["src"], "dst").exits(0);
        way.assert_same("src", "dst");
    }
}

fn nothing_to_copy(way: &Way) {
    let run = way.copy(&[], &["nothing"], "dst");
    assert!(run.code != Some(0) && !way.to().join("dst").exists(), "{run}");
}

fn double(way: &Way, host: &str) {
    way.make("src1", MIB);
    way.make("src2", MIB);
    way.case.cp(way.words(host, &[], &["src1", "src2"], "none")).exits(2).says(&["'/'"]);
    way.case.cp(way.words(host, &[], &["src1", "src2"], "dst/")).exits(0);
    way.assert_same("src1", "dst/src1");
    way.assert_same("src2", "dst/src2");
}

fn double_copy(way: &Way) {
    double(way, "b");
}

fn ipv6_notation(way: &Way) {
    double(way, &format!("[{}]", way.address("b6")));
}

fn ipv6_notation_with_user(way: &Way) {
    double(way, &format!("root@[{}]", way.address("b6")));
}

const TREE: [&str; 4] = ["t1", "t2", "d1/t3", "d1/d2/t4"];

fn dir_copy_twice(way: &Way) {
    TREE.iter().for_each(|path| way.make(&format!("src_dir/{path}"), 4096));
    for landed in ["dst_dir", "dst_dir/src_dir"] {
        way.copy(&["-r"], &["src_dir"], "dst_dir").exits(0);
        TREE.iter().for_each(|path| way.assert_same(&format!("src_dir/{path}"), &format!("{landed}/{path}")));
    }
}

fn dir_into_dir(way: &Way) {
    way.make("src_dir/t1", MIB);
    fs::create_dir(way.to().join("dst_dir")).unwrap();
    way.copy(&["-r"], &["src_dir"], "dst_dir").exits(0);
    way.assert_same("src_dir/t1", "dst_dir/src_dir/t1");
}

fn override_file(way: &Way) {
    way.make("src", 128);
    write(way.to().join("dst"), noise(99, 128));
    way.copy(&[], &["src"], "dst").exits(0);
    way.assert_same("src", "dst");
}

fn file_into_dir(way: &Way) {
    way.make("src", 1024);
    way.copy(&[], &["src"], "").exits(0);
    way.assert_same("src", "src");
}

fn suffix_slash(way: &Way) {
    way.make("src", MIB);
    way.copy(&[], &["src"], "dir/").exits(0);
    way.assert_same("src", "dir/src");
}

/// The home directory, which both ends share.
fn home() -> PathBuf {
    PathBuf::from(std::env::var_os("HOME").unwrap())
}

/// A file in the home directory, which is removed on drop.
struct AtHome(PathBuf);

impl AtHome {
    fn new(case: &Case) -> Self {
        let name = case.near.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        Self(home().join(format!("mscp-{name}")))
    }

    fn name(&self) -> String {
        self.0.file_name().unwrap().to_string_lossy().into_owned()
    }
}

impl Drop for AtHome {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn tilde(way: &Way) {
    let at_home = AtHome::new(way.case);
    let far = format!("b:~/{}", at_home.name());
    let near = way.case.near.join("src");
    write(near.clone(), noise(5, MIB));
    if way.pulls {
        write(at_home.0.clone(), noise(6, MIB));
        way.case.cp(args![far, &near]).exits(0);
    } else {
        way.case.cp(args![&near, far]).exits(0);
    }
    assert!(fs::read(near).unwrap() == fs::read(&at_home.0).unwrap());
}

fn tilde_alone(way: &Way) {
    let at_home = AtHome::new(way.case);
    let near = way.case.near.join(at_home.name());
    write(near.clone(), noise(5, MIB));
    way.case.cp(args![&near, "b:~"]).exits(0);
    assert!(fs::read(near).unwrap() == fs::read(&at_home.0).unwrap());
}

fn glob(way: &Way) {
    for sources in [["src1", "src2", "src3"], ["src4/s1", "src5/s2", "src6/s3"]] {
        sources.iter().for_each(|path| way.make(path, MIB));
    }
    let expanded = if way.pulls { &["src*"][..] } else { &["src1", "src2", "src3", "src4", "src5", "src6"] };
    way.copy(&["-r"], expanded, "dstx/").exits(0);
    for path in ["src1", "src2", "src3", "src4/s1", "src5/s2", "src6/s3"] {
        way.assert_same(path, &format!("dstx/{path}"));
    }
}

fn file_in_the_way(way: &Way) {
    way.make("src", 128);
    write(way.to().join("dst"), "a file");
    let run = way.copy(&[], &["src"], "dst/src");
    assert!(run.code != Some(0) && fs::read(way.to().join("dst")).unwrap() == b"a file", "{run}");
}

fn zero_bytes(way: &Way) {
    way.make("src", 0);
    way.copy(&[], &["src"], "dst").exits(0);
    way.assert_same("src", "dst");
}

fn larger_destination(way: &Way) {
    write(way.to().join("dst"), noise(9, 2 * MIB));
    way.make("src", MIB);
    way.copy(&[], &["src"], "dst").exits(0);
    way.assert_same("src", "dst");
}

/// The two hosts have the same files, so source and destination are the same file.
fn onto_itself(way: &Way) {
    let (file, contents) = (way.case.near.join("same"), noise(3, LARGE));
    write(file.clone(), &contents);
    let far = format!("b:{}", file.display());
    let words = if way.pulls { args![far, &file] } else { args![&file, far] };
    let run = way.case.cp(words);
    assert!(matches!(run.code, Some(0 | 4)) && fs::read(&file).unwrap() == contents, "{run}");
}

fn readonly(way: &Way) {
    way.make("src", LARGE);
    fs::set_permissions(way.from().join("src"), PermissionsExt::from_mode(0o444)).unwrap();
    way.copy(&["-p"], &["src"], "dst").exits(0);
    way.assert_same("src", "dst");
    assert_eq!(fs::metadata(way.to().join("dst")).unwrap().permissions().mode() & 0o7777, 0o444);
}

fn many_streams_for_little(way: &Way) {
    (0..100).for_each(|number| way.make(&format!("src/{number:06}"), 1024));
    let begun = Instant::now();
    way.copy(&["-r", "--streams", "20"], &["src"], "dst").exits(0);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    (0..100).for_each(|number| way.assert_same(&format!("src/{number:06}"), &format!("dst/{number:06}")));
}

/// 25 MiB take 2 s at 100 Mbit/s, except for the initial burst.
fn bwlimit(way: &Way) {
    way.make("src", 25 * MIB);
    let begun = Instant::now();
    way.copy(&["--bwlimit", "100mbit"], &["src"], "dst").exits(0);
    assert!(begun.elapsed() > Duration::from_millis(1750), "{:?}", begun.elapsed());
    way.assert_same("src", "dst");
}

fn wrong_port(way: &Way) {
    way.one("b", &["-P", "21"]).exits(5);
}

fn right_port(way: &Way) {
    way.one("b", &["-P", "22"]).exits(0);
    way.assert_same("src", "dst");
}

fn v4_only(way: &Way) {
    way.one(&way.address("b"), &["-4"]).exits(0);
    way.assert_same("src", "dst");
}

fn v6_only(way: &Way) {
    way.one(&format!("[{}]", way.address("b6")), &["-6"]).exits(0);
    way.assert_same("src", "dst");
}

fn v4_to_v6(way: &Way) {
    way.one(&format!("[{}]", way.address("b6")), &["-4"]).exits(5);
}

fn v6_to_v4(way: &Way) {
    way.one(&way.address("b"), &["-6"]).exits(5);
}

fn quiet(way: &Way) {
    let run = way.one("b", &["-q"]).exits(0);
    assert_eq!((run.out.as_str(), run.err.as_str()), ("", ""));
}

fn compression(way: &Way) {
    for level in ["auto", "off", "6"] {
        way.one("b", &["--compress", level]).exits(0);
        way.assert_same("src", "dst");
    }
}

/// Uses the lab's ssh configuration, in which host b has a second name.
fn config(way: &Way) {
    let text = fs::read_to_string(way.case.bed.lab.ssh_config()).unwrap();
    let other = way.case.aside("config").join("ssh_config");
    write(other.clone(), format!("Host another\n    HostName {}\n{text}", way.address("b")));
    way.one_without_config("another", &other).exits(0);
    way.assert_same("src", "dst");
}

fn empty_config(way: &Way) {
    let empty = way.case.aside("config").join("ssh_config");
    write(empty.clone(), "\n");
    way.one_without_config("another.invalid", &empty).exits(5);
}

fn inline_options(way: &Way) {
    for options in [&["-o", "Port=22"][..], &["-o", "Port=22", "-o", "User=root"]] {
        way.one("b", options).exits(0);
        way.assert_same("src", "dst");
    }
    way.one("b", &["-o", "NoSuchOption=yes"]).exits(5).says(&["nosuchoption"]);
}

fn wrong_inline_options(way: &Way) {
    way.one("b", &["-o", "Port=8023"]).exits(5);
    way.one("b", &["-o", "User=nosuchuser"]).exits(5);
}

/// Uses the far host as a jump host to itself.
fn jump(way: &Way) {
    way.make("src", 10 * MIB);
    way.copy(&["--streams", "4", "-J", "b"], &["src"], "dst").exits(0);
    way.assert_same("src", "dst");
}

fn wrong_jump(way: &Way) {
    way.one("b", &["-J", "nosuchuser@b"]).exits(5);
}

/// mscp's test has 10,000 files; this test has enough for several batches.
fn many_files(way: &Way) {
    (0..2000).for_each(|number| way.make(&format!("src/{number:06}"), 1024));
    way.copy(&["-r"], &["src"], "dst").exits(0);
    (0..2000).for_each(|number| way.assert_same(&format!("src/{number:06}"), &format!("dst/{number:06}")));
}

/// mscp continues from a checkpoint; linerate continues if the same command is run again.
fn interrupted(way: &Way) {
    let sources = ["large1", "large2", "many"];
    way.make("large1", LARGE);
    way.make("large2", LARGE);
    (0..50).for_each(|number| way.make(&format!("many/{number:03}"), MIB));
    for moment in [300, 900, 1600] {
        let words = way.words("b", &["-r", "--bwlimit", "160mbit"], &sources, "dst/");
        let running = way.case.start(words);
        std::thread::sleep(Duration::from_millis(moment));
        running.signal(Signal::INT);
        let run = running.end();
        assert!(run.code != Some(0), "{run}");
    }
    assert!(within(Duration::from_secs(30), || way.case.far_processes().is_empty()));
    way.copy(&["-r"], &sources, "dst/").exits(0);
    for path in ["large1", "large2", "many/000", "many/049"] {
        way.assert_same(path, &format!("dst/{path}"));
    }
    let mut there: Vec<_> =
        fs::read_dir(way.to().join("dst")).unwrap().map(|found| found.unwrap().file_name()).collect();
    there.sort();
    assert_eq!(there, sources, "nothing else is left");
}
