//! Tests of the meaning of SRC and DST: scp's rules, and a slash at the end of DST.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use linerate_lab::End;

use crate::bed::{Case, args, case};
use crate::support::Run;
use crate::tree::{assert_alike, make_mixed, shape, write};

#[test]
fn a_file_goes_into_a_directory_or_gets_a_new_name() {
    let Some(case) = case() else { return };
    write(case.near.join("file"), "new");
    write(case.far.join("there"), "old");
    case.cp(args!["file", case.b("")]).exits(0);
    case.cp(args!["file", case.b("there")]).exits(0);
    case.cp(args![case.near.join("file"), case.b("named")]).exits(0);
    for name in ["file", "there", "named"] {
        assert_eq!(fs::read_to_string(case.far.join(name)).unwrap(), "new", "{name}");
    }
}

#[test]
fn a_pull_has_the_same_rules() {
    let Some(case) = case() else { return };
    write(case.far.join("file"), "new");
    write(case.near.join("there"), "old");
    fs::create_dir(case.near.join("directory")).unwrap();
    for destination in [".", "there", "named", "directory", "made/"] {
        case.cp(args![case.b("file"), destination]).exits(0);
    }
    for path in ["file", "there", "named", "directory/file", "made/file"] {
        assert_eq!(fs::read_to_string(case.near.join(path)).unwrap(), "new", "{path}");
    }
}

#[test]
fn several_trees_merge_where_their_names_meet() {
    let Some(case) = case() else { return };
    for (tree, own) in [("one", "sub/a"), ("two", "sub/b")] {
        for name in [own, "sub/same"] {
            write(case.near.join(tree).join(name), tree);
        }
        fs::hard_link(case.near.join(tree).join(own), case.near.join(tree).join("sub/link")).unwrap();
    }
    for options in ["-r", "-rp", "-a"] {
        // Twice: what is there already is no reason to refuse what comes.
        for _ in 0..2 {
            case.cp(args![options, "one/.", "two/.", case.b("merged/")]).exits(0);
            case.cp(args![options, case.b("merged/."), case.b("merged/."), "back/"]).exits(0);
        }
        for top in [case.far.join("merged"), case.near.join("back")] {
            let mut names: Vec<_> =
                fs::read_dir(top.join("sub")).unwrap().map(|found| found.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["a", "b", "link", "same"], "{options}");
        }
    }
}

#[test]
fn a_tree_goes_into_a_directory_that_is_there_and_else_becomes_it() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    fs::create_dir(case.far.join("there")).unwrap();
    case.cp(args!["-r", "tree", case.b("there")]).exits(0);
    case.cp(args!["-r", "tree", case.b("new")]).exits(0);
    case.cp(args!["-r", "tree/", case.b("made/")]).exits(0);
    for landed in ["there/tree", "new", "made/tree"] {
        assert_alike(&case.near.join("tree"), &case.far.join(landed));
    }
    case.cp(args!["-r", case.b("new"), "pulled"]).exits(0);
    case.cp(args!["-r", case.b("new/"), "slash/"]).exits(0);
    for landed in ["pulled", "slash/new"] {
        assert_alike(&case.near.join("tree"), &case.near.join(landed));
    }
}

#[test]
fn dots_merge_into_what_is_there() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    write(case.far.join("there/a/kept"), "kept");
    write(case.far.join("there/small"), "old");
    case.cp(args!["-r", "tree/.", case.b("there")]).exits(0);
    write(case.near.join("tree/a/kept"), "kept");
    assert_alike(&case.near.join("tree"), &case.far.join("there"));
    case.cp(args!["-r", case.b("there/."), "new"]).exits(0);
    assert_alike(&case.near.join("tree"), &case.near.join("new"));
}

#[test]
fn several_sources_need_a_directory() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    write(case.near.join("x"), "x");
    write(case.near.join("sub/y"), "y");
    write(case.far.join("file"), "kept");
    case.cp(args!["-r", "tree", "x", "sub/y", case.b("missing")]).exits(2).says(&["directory", "missing"]);
    case.cp(args!["-r", "tree", "x", "sub/y", case.b("file")]).exits(2).says(&["file"]);
    assert_eq!(fs::read_to_string(case.far.join("file")).unwrap(), "kept");
    assert!(!case.far.join("missing").exists());
    case.cp(args!["-r", "tree", "x", "sub/y", case.b("all/")]).exits(0);
    assert_alike(&case.near.join("tree"), &case.far.join("all/tree"));
    let pulled = args!["-r", case.b("all/tree"), case.b("all/x"), case.b("all/y"), "back/"];
    case.cp(pulled).exits(0);
    assert_alike(&case.far.join("all"), &case.near.join("back"));
}

#[test]
fn sources_of_one_name_do_not_land_on_each_other() {
    let Some(case) = case() else { return };
    write(case.near.join("a/x"), "a");
    write(case.near.join("b/x"), "b");
    case.cp(args!["a/x", "b/x", case.b("")]).exits(2).says(&["x"]);
    assert_eq!(shape(&case.far).len(), 1, "nothing has landed");
}

#[test]
fn a_directory_above_the_destination_must_be_there() {
    let Some(case) = case() else { return };
    write(case.near.join("x"), "x");
    case.cp(args!["x", case.b("no/where")]).exits(2).says(&["no"]);
    case.cp(args!["x", case.b("no/where/")]).exits(2).says(&["no/where"]);
    write(case.far.join("x"), "x");
    case.cp(args![case.b("x"), "no/where"]).exits(2).says(&["no"]);
}

#[test]
fn patterns_are_expanded_at_the_far_end() {
    let Some(case) = case() else { return };
    for name in ["a.gz", "b.gz", ".hidden.gz", "c.txt", "[d].gz"] {
        write(case.far.join(name), name);
    }
    let names = |directory: &str| -> Vec<OsString> {
        let names = fs::read_dir(case.near.join(directory)).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    case.cp(args![case.b("[ab].gz"), "some/"]).exits(0);
    assert_eq!(names("some"), ["a.gz", "b.gz"]);
    case.cp(args![case.b("*.gz"), "all/"]).exits(0);
    assert_eq!(names("all"), ["[d].gz", "a.gz", "b.gz"], "a shell's * leaves hidden names out");
    case.cp(args![case.b(".h*"), "hidden/"]).exits(0);
    assert_eq!(names("hidden"), [".hidden.gz"]);
    case.cp(args![case.b("[d].gz"), "literal/"]).exits(0);
    assert_eq!(names("literal"), ["[d].gz"], "a name that is there is no pattern");
    case.cp(args![case.b("*.zip"), "none/"]).exits(2).says(&["*.zip"]);
    case.cp(args![case.b("*.zip"), case.b("c.txt"), "rest/"]).exits(3).says(&["*.zip"]);
    assert_eq!(names("rest"), ["c.txt"]);
}

#[test]
fn a_pattern_finds_names_that_are_not_unicode() {
    let Some(case) = case() else { return };
    let name = OsStr::from_bytes(b"caf\xe9.txt");
    write(case.far.join(name), "latin-1");
    write(case.far.join("plain.txt"), "ascii");
    case.cp(args![case.b("*.txt"), "all/"]).exits(0);
    assert_alike(&case.far, &case.near.join("all"));
}

#[test]
fn no_far_shell_reads_a_path() {
    let Some(case) = case() else { return };
    let name = "a b; touch hit $(touch hit) `touch hit` 'x' \"y\" & *";
    write(case.near.join(name), "contents");
    case.cp(args![format!("./{name}"), case.b("")]).exits(0);
    case.cp(args![case.b(name), "back"]).exits(0);
    assert_eq!(fs::read_to_string(case.near.join("back")).unwrap(), "contents");
    assert_eq!(shape(&case.far).len(), 2, "{:?}", shape(&case.far));
}

#[test]
fn without_a_path_the_login_directory_is_meant() {
    let Some(case) = case() else { return };
    let name = case.near.parent().unwrap().file_name().unwrap().to_owned();
    write(case.near.join(&name), "home");
    let home = PathBuf::from(case.bed.on(End::B, &["sh", "-c", "cd; pwd"]).trim());
    let landed = home.join(&name);
    let run = case.cp(args![&name, "b:"]);
    let there = fs::read_to_string(&landed);
    let mut relative = OsString::from("b:");
    relative.push(&name);
    let pulled = case.cp(args![relative, "relative"]);
    // Removed before anything is asserted: it isn't the test's directory.
    let _ = fs::remove_file(&landed);
    run.exits(0);
    pulled.exits(0);
    assert_eq!(there.unwrap(), "home");
    assert_eq!(fs::read_to_string(case.near.join("relative")).unwrap(), "home");
}

#[test]
fn a_tilde_is_the_far_home() {
    let Some(case) = case() else { return };
    let home = case.aside("home");
    let shell = case.in_home(&home);
    write(case.near.join("x"), "x");
    case.cp_by(&shell, args!["x", "b:~/made/"]).exits(0);
    case.cp_by(&shell, args!["x", "b:~"]).exits(0);
    case.cp_by(&shell, args!["b:~/x", "y"]).exits(0);
    for path in [home.join("made/x"), home.join("x"), case.near.join("y")] {
        assert_eq!(fs::read_to_string(&path).unwrap_or_default(), "x", "{}", path.display());
    }
}

#[test]
fn a_file_may_be_named_like_an_option_a_host_or_a_home() {
    let Some(case) = case() else { return };
    for name in ["-r", "b:x", "~"] {
        write(case.near.join("odd").join(name), name);
    }
    case.cp(args!["odd/~", "odd/b:x", "odd/-r", case.b("one/")]).exits(0);
    assert_alike(&case.near.join("odd"), &case.far.join("one"));
    let run = case.cp(args![case.b("one/~"), case.b("one/b:x"), "--", case.b("one/-r"), "back/"]);
    run.exits(0);
    assert_alike(&case.near.join("odd"), &case.near.join("back"));
}

#[test]
fn a_source_that_is_a_link_is_what_it_points_to() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    symlink("tree", case.near.join("to-tree")).unwrap();
    symlink("tree/small", case.near.join("to-file")).unwrap();
    case.cp(args!["-r", "to-tree", "to-file", case.b("")]).exits(0);
    assert_alike(&case.near.join("tree"), &case.far.join("to-tree"));
    assert!(case.far.join("to-file").symlink_metadata().unwrap().is_file());
    symlink("to-tree", case.far.join("again")).unwrap();
    case.cp(args!["-r", case.b("again"), "."]).exits(0);
    assert_alike(&case.near.join("tree"), &case.near.join("again"));
}

#[test]
fn a_destination_that_is_a_link_to_a_directory_is_that_directory() {
    let Some(case) = case() else { return };
    write(case.near.join("x"), "x");
    let real = case.aside("real");
    symlink(&real, case.far.join("link")).unwrap();
    case.cp(args!["x", case.b("link")]).exits(0);
    assert_eq!(fs::read_to_string(real.join("x")).unwrap(), "x");
    assert!(case.far.join("link").symlink_metadata().unwrap().is_symlink());
}

#[test]
fn what_cannot_be_served_needs_no_login() {
    let Some(case) = case() else { return };
    write(case.near.join("x"), "x");
    // A remote shell that must never run.
    let login = "touch ../logged-in";
    for (args, word) in [
        (args!["x", "a:y", "z"], "other sources are on another"),
        (args!["x", "a:y", "b:z"], "other sources are on another"),
        (args!["a:x", "b:y", "c:z"], "several hosts"),
        (args!["a:x", "b:x", "."], "several hosts"),
        (args!["missing", "b:"], "missing"),
        (args!["x", "-oProxyCommand=touch hit:y"], ""),
    ] {
        case.cp_by(login, args).exits(2).says(&[word]);
    }
    assert!(!case.near.join("../logged-in").exists());
}

#[test]
fn a_link_at_the_destination_is_replaced_by_a_file_and_a_special_file_stays() {
    let Some(case) = case() else { return };
    write(case.near.join("file"), "new");
    write(case.far.join("source"), "new");
    for end in [&case.far, &case.near] {
        write(end.join("real"), "old");
        let made = std::process::Command::new("mkfifo").arg(end.join("pipe")).status();
        assert!(made.unwrap().success());
    }
    for run in [Case::cp, Case::sync] {
        for (link, target) in [("link", "real"), ("dangling", "nowhere"), ("loop", "loop")] {
            for end in [&case.far, &case.near] {
                // Of an earlier command there is a file.
                let _ = fs::remove_file(end.join(link));
                symlink(target, end.join(link)).unwrap();
            }
            // Twice: the second one finds what the first one has made.
            for _ in 0..2 {
                run(&case, args!["file", case.b(link)]).exits(0);
                run(&case, args![case.b("source"), link]).exits(0);
                for end in [&case.far, &case.near] {
                    assert!(end.join(link).symlink_metadata().unwrap().is_file(), "{link}");
                    assert_eq!(fs::read_to_string(end.join(link)).unwrap(), "new", "{link}");
                    assert_eq!(fs::read_to_string(end.join("real")).unwrap(), "old", "{link}");
                    assert!(!end.join("nowhere").exists());
                }
            }
        }
        run(&case, args!["file", case.b("pipe")]).exits(2).says(&["is a device, a pipe or a socket"]);
        run(&case, args![case.b("source"), "pipe"]).exits(2).says(&["is a device, a pipe or a socket"]);
    }
    assert!([&case.far, &case.near].iter().all(|end| !fs::metadata(end.join("pipe")).unwrap().is_file()));
}

fn tree_by_cp(case: &Case, args: Vec<OsString>) -> Run {
    case.cp([args!["-r"], args].concat())
}

#[test]
fn a_tree_does_not_take_the_place_of_a_link_that_leads_to_none() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    make_mixed(&case.far.join("tree"));
    for end in [&case.far, &case.near] {
        write(end.join("real"), "old");
        symlink("real", end.join("link")).unwrap();
        symlink("nowhere", end.join("dangling")).unwrap();
    }
    for link in ["link", "dangling"] {
        for (run, source) in [(tree_by_cp as fn(&Case, Vec<OsString>) -> _, "tree"), (Case::sync, "tree/")] {
            let says = &["is a symbolic link that leads to no directory"];
            run(&case, args![source, case.b(link)]).exits(2).says(says);
            run(&case, args![case.b(source), link]).exits(2).says(says);
        }
    }
    for end in [&case.far, &case.near] {
        assert!(end.join("link").is_symlink() && end.join("dangling").is_symlink());
        assert_eq!(fs::read_to_string(end.join("real")).unwrap(), "old");
        assert!(!end.join("nowhere").exists());
    }
}

#[test]
fn a_link_of_somebody_else_s_is_not_followed_to_write() {
    let Some(case) = case() else { return };
    make_mixed(&case.near.join("tree"));
    make_mixed(&case.far.join("tree"));
    for end in [&case.far, &case.near] {
        fs::create_dir(end.join("real")).unwrap();
        symlink("real", end.join("trap")).unwrap();
        std::os::unix::fs::lchown(end.join("trap"), Some(5005), Some(5005)).unwrap();
        symlink("trap", end.join("own")).unwrap();
    }
    for through in ["trap", "trap/", "own", "trap/new", "own/new/"] {
        for (run, source) in [(tree_by_cp as fn(&Case, Vec<OsString>) -> _, "tree"), (Case::sync, "tree/")] {
            let says = &["trap belongs to user", "5005", "chown -h"];
            run(&case, args![source, case.b(through)]).exits(2).says(says);
            run(&case, args![case.b(source), through]).exits(2).says(says);
        }
    }
    for end in [&case.far, &case.near] {
        assert_eq!(fs::read_dir(end.join("real")).unwrap().count(), 0);
        std::os::unix::fs::lchown(end.join("trap"), Some(0), Some(0)).unwrap();
    }
    // As a source it is what it leads to, whoever made it.
    std::os::unix::fs::lchown(case.far.join("trap"), Some(5005), Some(5005)).unwrap();
    write(case.far.join("real/x"), "x");
    case.cp(args![case.b("trap/x"), "own"]).exits(0);
    assert_eq!(fs::read_to_string(case.near.join("real/x")).unwrap(), "x");
}
