//! Tests of rsync's rules for paths, compared with rsync: `-R` and lists of files, with links above the named
//! entries and at the destination.

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;

use linerate_testing::has;

use crate::bed::{args, case};
use crate::rsync_lines::{assert_alike, over_ssh, shape, words};
use crate::tree::{noise, set_time, write};

use std::time::Duration;

/// Command lines with paths through links, which lead within the tree, up, out of the tree, and to an
/// absolute path.
const THROUGH: [&str; 22] = [
    "-aiR tree/in/file DST/",
    "-aiR tree/deep/up/sub/x DST/",
    "-aiR tree/./out/beside DST/",
    "-aiR tree/absolute/file tree/in/sub DST/",
    "-aR tree/in DST/",
    "-aR tree/in/ DST/",
    "-aR tree/in tree/in/file DST/",
    "-aR tree tree/in/sub/x DST/",
    "-lptR tree/in/sub tree/in/file DST/",
    "-aR --no-implied-dirs tree/in/sub/x DST/",
    "-aRx tree/in/sub/x DST/",
    "-aRL tree/in/file tree/deep DST/",
    "-ai ./tree/real/ DST/",
    "-aR ./tree/real DST/",
    "-aR tree/././real DST/",
    "-aR tree/deep tree/real/./sub/x other/./tree/deep/more DST/",
    "-aR --del tree other/./tree/deep/more DST/",
    "-ai --files-from=list tree/ DST/",
    "-ai -r --files-from=list tree DST/",
    "-a --no-R --files-from=list tree/ DST/",
    "-a -r --no-R --files-from=list tree/ DST/",
    "-a --files-from=tops . DST/",
];

fn make_tree(near: &Path) {
    let top = near.join("tree");
    write(top.join("real/file"), "file");
    write(top.join("real/sub/x"), "x");
    write(top.join("keep"), "the source's");
    write(near.join("keep"), "not the source's");
    write(top.join("deep/own"), "own");
    write(near.join("aside/beside"), "aside");
    write(near.join("other/tree/deep/more"), "more");
    for (target, name) in [("real", "in"), ("../real", "deep/up"), ("../aside", "out")] {
        symlink(target, top.join(name)).unwrap();
    }
    symlink(top.join("real"), top.join("absolute")).unwrap();
    write(near.join("list"), "/real/file\n../keep\n./in/sub/\n# no\nreal/../deep/own\nout/beside\n");
    write(near.join("tops"), "tree/./real/sub\nother/./tree\n./tree/keep\n");
    for path in
        ["aside", "tree/real/sub", "tree/real", "tree/deep", "tree", "other/tree/deep", "other/tree", "other"]
    {
        set_time(&near.join(path), Duration::from_secs(1_500_000_000));
    }
}

#[test]
fn paths_through_links_do_what_they_do_with_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_tree(&case.near);
    THROUGH.iter().for_each(|line| assert_alike(&case, line, |_| ()));
    let absolute = format!("-aR {}/tree/in/file DST/", case.near.display());
    assert_alike(&case, &absolute, |_| ());
}

#[test]
fn paths_through_links_are_the_same_over_ssh_both_ways() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_tree(&case.near);
    make_tree(&case.far);
    fs::remove_file(case.far.join("tree/absolute")).unwrap();
    symlink(case.near.join("tree/real"), case.far.join("tree/absolute")).unwrap();
    set_time(&case.far.join("tree"), Duration::from_secs(1_500_000_000));
    let far = case.far.display().to_string();
    // If the sources are on another host than the list, the list has no comments.
    let list = fs::read_to_string(case.near.join("list")).unwrap();
    write(case.near.join("names"), list.replace("# no\n", ""));
    for (number, line) in THROUGH
        .iter()
        .filter(|line| !line.contains("--files-from=tops") && !line.starts_with("-lpt"))
        .enumerate()
    {
        let [pushed, pulled, theirs] = ["pushed", "pulled", "theirs"].map(|name| format!("{name}{number}/"));
        over_ssh(&case, &line.replace("DST/", &format!("FAR/{pushed}"))).exits(0);
        case.start_with(args!["rsync"], words(line, theirs.trim_end_matches('/'))).end().exits(0);
        let is_path =
            |word: &&str| word.starts_with("tree") || word.starts_with("./") || word.starts_with("other");
        let far_source = |word: &str| match word.strip_prefix("./") {
            _ if line.split(' ').next().is_some_and(|options| options.contains('R')) => {
                format!("FAR/{}{word}", if word.contains("/./") { "" } else { "./" })
            }
            Some(word) => format!("FAR/{word}"),
            None => format!("FAR/{word}"),
        };
        let pull: Vec<_> = line
            .split(' ')
            .map(|word| if is_path(&word) { far_source(word) } else { word.replace("DST/", &pulled) })
            .map(|word| word.replace("--files-from=list", "--files-from=names"))
            .collect();
        over_ssh(&case, &pull.join(" ")).exits(0);
        let wanted = shape(&case.near.join(&theirs));
        assert_eq!(shape(&case.far.join(&pushed)), wanted, "{line} to {far}");
        assert_eq!(shape(&case.near.join(&pulled)), wanted, "{} from {far}", pull.join(" "));
    }
}

/// Command lines for a destination in which a directory above a sent entry is a link.
const AT_LINKS: [&str; 5] = [
    "-aR --no-implied-dirs tree/./real/file DST/",
    "-aiR --no-implied-dirs tree/./real/sub tree/./real/file DST/",
    "-rR --no-implied-dirs tree/./real DST/",
    "-aR tree/./real/file DST/",
    "-aR --no-implied-dirs --files-from=list tree/ DST/",
];

#[test]
fn links_at_the_destination_are_followed_without_implied_directories_alone() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_tree(&case.near);
    for line in AT_LINKS {
        assert_alike(&case, line, |top| {
            write(top.join("there/old"), "old");
            write(top.join("there/sub/old"), "old");
            symlink("there", top.join("real")).unwrap();
            // A stranger's counts as well: it leads nowhere else than below the destination.
            let _ = lchown(top.join("real"), Some(65534), Some(65534));
        });
    }
}

#[test]
fn a_link_out_of_the_destination_is_not_followed_by_any_of_these() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_tree(&case.near);
    make_tree(&case.far);
    let lines = [
        "-aR --no-implied-dirs tree/./real/file FAR/to/",
        "-aR --no-implied-dirs FAR/tree/./real/file back/",
    ];
    for (line, top) in lines.into_iter().zip([case.far.join("to"), case.near.join("back")]) {
        fs::create_dir_all(&top).unwrap();
        fs::create_dir_all(top.with_file_name("outside")).unwrap();
        for target in ["../outside".to_owned(), top.with_file_name("outside").display().to_string()] {
            let _ = fs::remove_file(top.join("real"));
            symlink(&target, top.join("real")).unwrap();
            over_ssh(&case, line).exits(23);
            assert_eq!(crate::tree::names(&top.with_file_name("outside")).len(), 0, "{line}: {target}");
        }
    }
}

/// Command lines that delete entries in the named directories, but not in the directories above them.
const DELETING: [&str; 12] = [
    "-aiR --del tree/real/sub DST/",
    "-aR --del ./tree/real/ DST/",
    "-aR --del ./tree DST/",
    "-aR --del --no-implied-dirs tree/real/sub/ DST/",
    "-aR --del tree/real/file DST/",
    "-aR --del tree/in/sub DST/",
    "-aR --del tree/in/ DST/",
    "-aR --del tree tree/in/sub/x DST/",
    "-aR --del tree/deep other/./tree/deep/more DST/",
    "-ai --del --files-from=list tree/ DST/",
    "-ai -r --del --files-from=list tree/ DST/",
    "-aR --del --exclude=old tree DST/",
];

#[test]
fn only_in_what_is_named_extra_entries_are_deleted() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_tree(&case.near);
    let make = |top: &Path| {
        for path in [
            "old",
            "tree/old",
            "tree/real/old",
            "tree/real/sub/old/x",
            "tree/in/old",
            "tree/in/sub/old",
            "sub/old",
        ] {
            write(top.join(path), "old");
        }
    };
    DELETING.iter().for_each(|line| assert_alike(&case, line, make));
    for (number, line) in DELETING.iter().enumerate() {
        let [ours, theirs] = [format!("far{number}/"), format!("near{number}")];
        make(&case.far.join(&ours));
        make(&case.near.join(&theirs));
        let code = case.start_with(args!["rsync"], words(line, &theirs)).end().code;
        let run = over_ssh(&case, &line.replace("DST/", &format!("FAR/{ours}")));
        assert_eq!(run.code, code, "{line}: {run}");
        assert_eq!(shape(&case.far.join(&ours)), shape(&case.near.join(&theirs)), "{line} over ssh");
    }
}

/// Command lines that name other trees and lists through a link that another user owns.
const BY_LINKS: [&str; 10] = [
    "-ai --link-dest=../lead tree/real/ DST/",
    "-ai --copy-dest=../lead tree/real/ DST/",
    "-ai --compare-dest=../lead tree/real/ DST/",
    "-ai --compare-dest=../lead/sub tree/real/sub/ DST/",
    "-ai --insecure-links --compare-dest=../lead tree/real/ DST/",
    "-ai --insecure-links --compare-dest=../lead/sub tree/real/sub/ DST/",
    "-ai --insecure-links --copy-dest=../lead tree/real/ DST/",
    "-ai --insecure-links --link-dest=../lead/ tree/real/ DST/",
    "-ai --insecure-links --files-from=aside/lead tree/ DST/",
    "-ai --insecure-links --exclude-from=aside/lead tree/real/ DST/",
];

#[test]
fn a_strangers_link_on_the_way_to_what_an_option_names_is_followed_by_word_alone() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_tree(&case.near);
    symlink("tree/real", case.near.join("lead")).unwrap();
    symlink("../list", case.near.join("aside/lead")).unwrap();
    for link in ["lead", "aside/lead"] {
        if lchown(case.near.join(link), Some(65534), Some(65534)).is_err() {
            return linerate_testing::skip("root", "only root makes a stranger's link");
        }
    }
    BY_LINKS.iter().for_each(|line| assert_alike(&case, line, |_| ()));
    let refused = case
        .start_with(args![case.bed.program(), "rsync"], words("-a --files-from=aside/lead tree/ no/", ""));
    refused.end().exits(1).says(&["belongs to"]);
    // The word is this end's alone.
    symlink("tree", case.far.join("lead")).unwrap();
    write(case.far.join("tree/file"), "file");
    lchown(case.far.join("lead"), Some(65534), Some(65534)).unwrap();
    let run = over_ssh(&case, "-ai --insecure-links --compare-dest=../lead tree/real/ FAR/to/").exits(0);
    assert!(run.out.contains("f+++++++++ file"), "{run}");
    over_ssh(&case, "-a --insecure-links tree/real/ FAR/lead/").exits(3).says(&["belongs to"]);
}

/// Command lines with rules for names of extended attributes.
const ATTRIBUTES: [&str; 7] = [
    "-aX --filter=-x_user.b* src/ DST/",
    "-aXi --filter=+x_user.bc --filter=-x_user.* src/ DST/",
    "-aX --filter=-xs_user.b* src/ DST/",
    "-aXi --filter=-xr_user.old src/ DST/",
    "-aX --filter=-x!_user.a src/ DST/",
    "-aX --filter=-x_system.* --filter=-_a src/ DST/",
    "-rX --filter=merge_rules src/ DST/",
];

#[test]
fn rules_for_attributes_do_what_they_do_with_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    let attribute = |path: &Path, name: &str| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, name, name.as_bytes(), flags).is_ok()
    };
    let top = case.near.join("src");
    write(top.join("a"), "a");
    write(top.join("dir/b"), "b");
    for path in ["a", "dir", "dir/b"] {
        for name in ["user.a", "user.b", "user.bc", "trusted.t"] {
            if !attribute(&top.join(path), name) {
                return linerate_testing::skip("extended attributes", "they can't be set here");
            }
        }
    }
    for path in ["a", "dir/b", "dir", ""] {
        crate::archive::set_time(&top.join(path), 1_500_000_000, 0);
    }
    write(case.near.join("rules"), "-x user.a\n- b\n");
    for line in ATTRIBUTES {
        let line = line.replace("=merge_", "=._");
        assert_alike(&case, &line, |_| ());
        assert_alike(&case, &line, |top| {
            write(top.join("a"), "a");
            for name in ["user.old", "user.bb", "trusted.old"] {
                let flags = rustix::fs::XattrFlags::empty();
                rustix::fs::setxattr(top.join("a"), name, b"old", flags).unwrap();
            }
            crate::archive::set_time(&top.join("a"), 1_500_000_000, 0);
        });
    }
    over_ssh(&case, "-aX --filter=-x_user.b* src/ FAR/to/").exits(0);
    over_ssh(&case, "-aX --filter=-x_user.a FAR/to/ back/").exits(0);
    let mut names = vec![0; 1024];
    for (path, left) in [("back/a", "trusted.t"), ("back/dir/b", "trusted.t")] {
        let length = rustix::fs::listxattr(case.near.join(path), names.as_mut_slice()).unwrap();
        assert_eq!(String::from_utf8_lossy(&names[..length]), format!("{left}\0"), "{path}");
    }
}

/// Command lines that write files in place and make backups of them.
const IN_PLACE: [&str; 7] = [
    "-aib --inplace src/ DST/",
    "-ai -b --suffix=.old --inplace src/ DST/",
    "-aib --inplace --delete src/ DST/",
    "-ab --inplace --backup-dir=kept --exclude=kept src/ DST/",
    "-aib --inplace --whole-file src/ DST/",
    "-rtb --inplace src/ DST/",
    "-aibn --inplace src/ DST/",
];

#[test]
fn a_file_that_is_written_into_has_a_copy_by_then() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    let top = case.near.join("src");
    write(top.join("a"), "newer");
    write(top.join("dir/large"), noise(7, 9_000_000));
    write(top.join("new"), "new");
    symlink("a", top.join("link")).unwrap();
    let make = |top: &Path| {
        write(top.join("a"), "older one");
        fs::set_permissions(top.join("a"), fs::Permissions::from_mode(0o640)).unwrap();
        let mut older = noise(7, 9_000_000);
        older[4_500_000] ^= 1;
        write(top.join("dir/large"), older);
        write(top.join("extra"), "extra");
        symlink("b", top.join("link")).unwrap();
        for path in ["a", "dir/large"] {
            set_time(&top.join(path), Duration::from_secs(1_500_000_000));
        }
    };
    IN_PLACE.iter().for_each(|line| assert_alike(&case, line, make));
    make(&case.far.join("to"));
    fs::hard_link(case.far.join("to/a"), case.far.join("to/other")).unwrap();
    over_ssh(&case, "-ab --inplace --backup-dir=../kept src/ FAR/to/").exits(0);
    let read = |path: &str| fs::read_to_string(case.far.join(path)).unwrap();
    assert_eq!([read("kept/a"), read("to/a"), read("to/other")], ["older one", "newer", "newer"]);
    // Where no backup can be made, nothing is written.
    make(&case.far.join("whole"));
    write(case.far.join("file"), "no directory");
    for (directory, code, says) in [("../file/below", 23, "whole/a"), ("../file", 1, "The backup-dir is not")]
    {
        let line = format!("-ab --inplace --backup-dir={directory} src/ FAR/whole/");
        over_ssh(&case, &line).exits(code).says(&[says]);
        assert_eq!(read("whole/a"), "older one");
    }
}
