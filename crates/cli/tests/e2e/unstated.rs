//! Tests of files whose stated size isn't the number of bytes that can be read, such as those of /proc and
//! /sys: they must be copied completely.

use std::fs;
use std::path::Path;

use linerate_lab::End;

use crate::bed::{args, case};
use crate::json::{summary_of, u64_at};

/// A file that fits in a batch and a file that doesn't; both have a stated size of 0.
const EMPTY: [&str; 2] = ["/proc/version", "/proc/kallsyms"];
/// A file whose stated size is a page.
const PAGE: &str = "/sys/class/net/lo/mtu";

#[test]
fn files_that_say_they_are_empty_come_whole() {
    let Some(case) = case() else { return };
    for options in [args!["cp"], args!["cp", "--verify"], args!["cp", "-a"], args!["sync", "--verify"]] {
        for (number, path) in EMPTY.into_iter().enumerate() {
            let expected = fs::read(path).unwrap();
            assert!(fs::metadata(path).unwrap().len() == 0 && (expected.len() > 65_536) == (number == 1));
            let to = case.near.join(format!("{number}"));
            let words = [args![case.bed.program()], options.clone(), args!["-F", case.bed.lab.ssh_config()]];
            let run =
                case.start_with(words.concat(), args!["--json", format!("b:{path}"), &to]).end().exits(0);
            assert!(fs::read(&to).unwrap() == expected, "{options:?} {path}");
            assert_eq!(u64_at(&summary_of(&run.out), "/bytes"), expected.len() as u64, "{options:?} {path}");
            fs::remove_file(to).unwrap();
        }
    }
    // Whose times are those of the moment at which they are looked for.
    case.cp(args!["-r", "b:/proc/net", "net"]).exits(0);
    assert!(fs::read_to_string(case.near.join("net/dev")).unwrap().contains("lo:"));
    case.cp(args![EMPTY[0], case.b("pushed")]).exits(0);
    assert_eq!(fs::read(case.far.join("pushed")).unwrap(), fs::read(EMPTY[0]).unwrap());
    let verify = args![case.bed.program(), "verify", "-F", case.bed.lab.ssh_config()];
    let verified = |to| case.start_with(verify.clone(), args![EMPTY[0], case.b(to)]).end();
    verified("pushed").exits(0);
    fs::write(case.far.join("empty"), "").unwrap();
    verified("empty").exits(3);
}

/// Like scp, linerate copies as many bytes as can be read.
#[test]
fn files_that_say_they_have_a_page_come_as_they_are() {
    let Some(case) = case() else { return };
    if !Path::new(PAGE).is_file() {
        return linerate_testing::skip("sysfs", "/sys isn't mounted here");
    }
    let expected = case.bed.on(End::A, &["cat", PAGE]);
    for option in ["-p", "-a", "--verify"] {
        case.cp(args![option, PAGE, case.b("mtu")]).exits(0);
        assert_eq!(fs::read_to_string(case.far.join("mtu")).unwrap(), expected, "{option}");
    }
}
