//! Tests of `linerate verify -a`: owners, attributes, ACLs and hard links are compared, as far as both ends
//! may read them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use rustix::fs::XattrFlags;

use crate::archive::{ACCESS, acl, make_everything};
use crate::bed::{Case, NOBODY, args, case_with_attributes};
use crate::support::Run;
use crate::tree::write;

/// `linerate verify` in the near directory.
fn verify(case: &Case, args: Vec<OsString>) -> Run {
    let words = args![case.bed.program(), "verify", "-F", case.bed.lab.ssh_config()];
    case.start_with(words, args).end()
}

fn set(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty()).expect("it takes attributes");
}

#[test]
fn a_tree_of_everything_is_the_same_after_an_archive() {
    let Some(case) = case_with_attributes() else { return };
    make_everything(&case.near.join("tree"), 300);
    case.cp(args!["-a", "tree", case.b("tree")]).exits(0);
    let run = verify(&case, args!["-a", "tree", case.b("tree")]).exits(0);
    assert!(run.out.is_empty() && !run.err.contains("alone were compared"), "{run}");
    verify(&case, args!["-a", "--numeric-ids", case.b("tree"), "tree"]).exits(0);
}

/// Makes the same tree at both ends, with all kinds of metadata that `-a` compares.
fn make_two(case: &Case) {
    for top in [case.near.join("tree"), case.far.join("tree")] {
        for name in ["acl", "group", "linked", "owner", "value", "xattr", "below/file"] {
            write(top.join(name), "x");
            set(&top.join(name), "user.one", b"1");
        }
        symlink("nowhere", top.join("dangling")).expect("writable");
        fs::hard_link(top.join("linked"), top.join("linked too")).expect("it links");
        set(&top.join("acl"), ACCESS, &acl(4));
        set(&top.join("acl"), "trusted.one", b"1");
    }
}

/// Changes one property at each of several paths of a tree.
fn change(tree: &Path) {
    set(&tree.join("acl"), ACCESS, &acl(5));
    set(&tree.join("below"), "system.posix_acl_default", &acl(7));
    chown(tree.join("group"), None, Some(12)).expect("root may");
    fs::remove_file(tree.join("linked too")).expect("it is there");
    write(tree.join("linked too"), "x");
    set(&tree.join("linked too"), "user.one", b"1");
    chown(tree.join("owner"), Some(12), None).expect("root may");
    set(&tree.join("value"), "user.one", b"2");
    set(&tree.join("xattr"), "trusted.two", b"");
}

#[test]
fn every_difference_of_an_archive_is_found_and_none_without_it() {
    let Some(case) = case_with_attributes() else { return };
    make_two(&case);
    verify(&case, args!["-a", "--no-times", "tree", case.b("tree")]).exits(0);
    change(&case.far.join("tree"));
    let expected = "differs  acl (mode, acl)\ndiffers  below (acl)\ndiffers  group (group)\n\
                    differs  linked too (links)\ndiffers  owner (owner)\n\
                    differs  value (xattrs)\ndiffers  xattr (xattrs)\n";
    for ends in [args!["tree", case.b("tree")], args![case.b("tree"), "tree"]] {
        let run = verify(&case, [args!["-a", "--no-times"], ends.clone()].concat()).exits(3);
        assert_eq!(run.out, expected, "{run}");
        verify(&case, ends).exits(0);
    }
    let parts = [("--acls", "acl"), ("--group", "group"), ("--hard-links", "links"), ("--owner", "owner")];
    for (part, aspect) in parts.into_iter().chain([("--xattrs", "xattrs")]) {
        let run = verify(&case, args!["--json", part, "tree", case.b("tree")]).exits(3);
        let of = |line: &&str| line.contains("\"differs\"") && line.contains(&format!("\"{aspect}\"]"));
        let count = expected.matches(&format!("{aspect})")).count();
        assert_eq!(run.out.lines().filter(of).count(), count, "{part}: {run}");
        assert!(run.out.contains(&format!("\"differ\":{count},")), "{part}: {run}");
    }
    verify(
        &case,
        args![
            "-a",
            "--no-times",
            "--no-perms",
            "--no-xattrs",
            "--no-hard-links",
            "--no-owner",
            "--no-group",
            "tree",
            case.b("tree")
        ],
    )
    .exits(0);
}

#[test]
fn what_an_ordinary_user_may_not_see_is_said_once_and_no_difference() {
    let Some(case) = case_with_attributes() else { return };
    make_two(&case);
    for name in ["", "acl", "group", "linked", "owner", "value", "xattr", "below", "below/file"] {
        chown(case.far.join("tree").join(name), Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    for name in ["acl", "below"] {
        let attribute = if name == "acl" { "trusted.two" } else { "trusted.one" };
        set(&case.near.join("tree").join(name), attribute, b"root's");
    }
    let shell = case.aside("bin").join("shell");
    let ssh = format!("ssh -F {}", case.bed.lab.ssh_config().display());
    fs::write(&shell, format!("SSH='{ssh}'\n{}\n", case.as_far_nobody())).expect("writable");
    let rsh = format!("sh {}", shell.display());
    let words = args![case.bed.program(), "verify", "--rsh", rsh];
    let compare = |more: &[&str]| {
        let args = more.iter().map(OsString::from).chain(args!["tree", case.b("tree")]).collect();
        case.start_with(words.clone(), args).end()
    };
    let run = compare(&["-a", "--no-times", "--no-owner", "--no-group"]).exits(0);
    assert_eq!(run.err.matches("only extended attributes in 'user.' were compared").count(), 1, "{run}");
    assert!(run.out.is_empty(), "{run}");
    let run = compare(&["-p", "--no-times", "--acls"]).exits(0);
    assert!(!run.err.contains("alone were compared"), "{run}");
    // What it may see is compared all the same, and what it can't read is told.
    set(&case.far.join("tree/value"), "user.one", b"2");
    let run = compare(&["--xattrs"]).exits(3);
    assert_eq!(run.out, "differs  value (xattrs)\n", "{run}");
    set(&case.far.join("tree/value"), "user.one", b"1");
    chown(case.far.join("tree/xattr"), Some(0), None).expect("root may");
    fs::set_permissions(case.far.join("tree/xattr"), PermissionsExt::from_mode(0o600)).expect("our own");
    let run = compare(&["--xattrs"]).exits(3);
    assert!(run.out.is_empty(), "{run}");
    run.says(&["tree/xattr: its extended attributes can't be read: Permission denied"]);
}
