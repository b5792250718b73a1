//! Tests of copies from one far host to another: the client logs in to both, and the data goes directly
//! between them.

mod detached;
mod ends;
mod figures;
mod ground;
mod logins;
mod ways;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::bed::args;
use crate::json::{events, summary_of, u64_at};
use crate::proofs::assert_listed;
use crate::tree::{assert_alike, make_mixed, names, noise, write};
use ground::trio;

#[test]
fn a_tree_goes_from_one_host_to_another() {
    let Some(trio) = trio() else { return };
    let (tree, to) = trio.trees();
    make_mixed(&tree);
    let run = trio.cp(args!["-v", "-r", trio.src("tree"), trio.dst("to")]).exits(0);
    run.says(&["data connection: from src to dst", "encrypted", " at src, ", " at dst; "]);
    assert_alike(&tree, &to);
    trio.cp(args!["-r", trio.src("tree/s*"), trio.src("tree/large"), trio.dst("several/")]).exits(0);
    assert!(
        to.with_file_name("several").join("large").exists(),
        "several sources, and a pattern at the far end"
    );
    assert_eq!(fs::read_dir(trio.client()).unwrap().count(), 0, "nothing lands here");
    trio.assert_all_gone();
}

#[test]
fn an_archive_keeps_modes_owners_and_further_names() {
    let Some(trio) = trio() else { return };
    let (tree, to) = trio.trees();
    make_mixed(&tree);
    fs::hard_link(tree.join("large"), tree.join("one more")).unwrap();
    fs::set_permissions(tree.join("small"), PermissionsExt::from_mode(0o4751)).unwrap();
    trio.cp(args!["-a", trio.src("tree"), trio.dst("to")]).exits(0);
    assert_alike(&tree, &to);
    assert_eq!(fs::metadata(to.join("small")).unwrap().permissions().mode() & 0o7777, 0o4751);
    trio.sync(args!["--dry-run", trio.src("tree"), trio.dst("to")])
        .exits(0)
        .says(&["would send 0 of 7 files"]);
}

#[test]
fn sync_sends_what_differs_and_deletes_what_isnt_there() {
    let Some(trio) = trio() else { return };
    let (tree, to) = trio.trees();
    make_mixed(&tree);
    trio.sync(args![trio.src("tree"), trio.dst("to")]).exits(0);
    assert_alike(&tree, &to);
    write(to.join("surplus"), "x");
    write(to.join("kept.o"), "x");
    write(tree.join("new"), "new");
    let line = args![
        "--json",
        "--delete",
        "--itemize-changes",
        "--exclude",
        "*.o",
        trio.src("tree"),
        trio.dst("to")
    ];
    let run = trio.sync(line).exits(0);
    let changes: Vec<_> = events(&run.out).into_iter().filter(|event| event["type"] == "change").collect();
    let has = |item: &str, path: &str| {
        changes.iter().any(|change| change["item"].as_str().unwrap().contains(item) && change["path"] == path)
    };
    assert!(has("*deleting", "surplus") && has("f+++++++++", "new"), "{run}");
    let summary = summary_of(&run.out);
    assert_eq!((u64_at(&summary, "/deleted"), u64_at(&summary, "/unchanged_files")), (1, 6), "{summary}");
    assert!(to.join("kept.o").exists(), "what the rules leave out is spared");
    fs::remove_file(to.join("kept.o")).unwrap();
    assert_alike(&tree, &to);
}

#[test]
fn a_changed_file_travels_as_what_differs() {
    let Some(trio) = trio() else { return };
    let (tree, to) = trio.trees();
    let old = noise(5, 24 << 20);
    write(to.join("image"), &old);
    let mut new = old;
    new[11 << 20..][..4096].fill(7);
    write(tree.join("image"), &new);
    let run = trio.sync(args!["--json", "--no-whole-file", trio.src("tree"), trio.dst("to")]).exits(0);
    let summary = summary_of(&run.out);
    assert!(u64_at(&summary, "/matched_bytes") > 20 << 20, "{summary}");
    assert!(u64_at(&summary, "/wire_bytes") < 6 << 20, "{summary}");
    assert_alike(&tree, &to);
}

#[test]
fn a_list_of_files_of_the_clients_selects_what_goes() {
    let Some(trio) = trio() else { return };
    let (tree, to) = trio.trees();
    for name in ["a/one", "a/two", "b/three", "four"] {
        write(tree.join(name), name);
    }
    let list = trio.client().join("list");
    fs::write(&list, "a/one\nfour\n").unwrap();
    trio.sync(args!["--files-from", &list, trio.src("tree"), trio.dst("to")]).exits(0);
    let mut found = names(&to);
    found.sort();
    assert_eq!(found, ["a", "a/one", "four"]);
    fs::remove_file(list).unwrap();
}

#[test]
fn a_dry_run_lists_what_is_at_the_source_and_logs_in_nowhere_else() {
    let Some(trio) = trio() else { return };
    write(trio.case.near.join("tree/file"), "x");
    trio.restrict("dst", "--below /nowhere/at/all");
    let run = trio.cp(args!["-n", "-r", trio.src("tree"), trio.dst("to")]).exits(0);
    assert!(run.out.contains("tree/file"), "{run}");
}

#[test]
fn what_arrives_is_read_back_and_its_digests_are_the_clients() {
    let Some(trio) = trio() else { return };
    let (tree, to) = trio.trees();
    make_mixed(&tree);
    fs::hard_link(tree.join("large"), tree.join("one more")).unwrap();
    let line = args!["-a", "--verify", "--manifest", "sums", trio.src("tree"), trio.dst("to")];
    trio.cp(line.clone()).exits(0);
    assert_alike(&tree, &to);
    let manifest = trio.client().join("sums");
    assert_listed(&manifest, &to);
    // What is there already is read, too.
    fs::remove_file(&manifest).unwrap();
    let line = args!["--manifest", "sums", trio.src("tree"), trio.dst("to")];
    trio.sync(line).exits(0);
    assert_listed(&manifest, &to);
}

#[test]
fn scps_lines_copy_between_two_hosts_with_each_of_its_options_for_that() {
    let Some(trio) = trio() else { return };
    let (tree, _) = trio.trees();
    write(tree.join("sub/file"), "x");
    write(tree.join("other"), noise(1, 100_000));
    let far = trio.case.far.display().to_string();
    for (number, option) in [&["-r"][..], &["-3rp"], &["-R", "-r"]].iter().enumerate() {
        let to = format!("to{number}");
        let line = option.iter().map(std::ffi::OsString::from).chain(args![trio.src("tree"), trio.dst(&to)]);
        trio.run_scp(line.collect()).exits(0);
        assert_alike(&tree, &trio.case.far.join(to));
    }
    let (from, to) =
        (format!("scp://src/{}", tree.join("other").display()), format!("scp://dst:22/{far}/by-uri"));
    trio.run_scp(args![from.clone(), to]).exits(0);
    assert_eq!(fs::read(trio.case.far.join("by-uri")).unwrap(), noise(1, 100_000));
    trio.run_scp(args![from, format!("scp://dst:1/{far}/x")]).exits(255).says(&["port 1"]);
    let missing = trio.run_scp(args![trio.src("missing"), trio.dst("x")]);
    missing.exits(1).says(&["missing: No such file or directory"]);
}

#[test]
fn rsyncs_lines_have_at_most_one_far_host() {
    let Some(trio) = trio() else { return };
    let words = args![trio.case.bed.program(), "rsync", "-a"];
    let run = trio.start_with(words, args![trio.src("tree"), trio.dst("to")]).end();
    run.exits(1).says(&["The source and destination cannot both be remote."]);
}

#[test]
fn the_trees_of_two_far_hosts_are_compared() {
    let Some(trio) = trio() else { return };
    let (tree, to) = trio.trees();
    make_mixed(&tree);
    trio.cp(args!["-a", trio.src("tree"), trio.dst("to")]).exits(0);
    let verify = || trio.run("verify", args!["-a", trio.src("tree"), trio.dst("to")]);
    verify().exits(0).says(&["0 differ, 0 missing, 0 extra"]);
    write(to.join("surplus"), "x");
    fs::remove_file(to.join("small")).unwrap();
    write(to.join("large"), "other");
    let run = verify().exits(3).says(&["1 missing, 1 extra"]);
    for line in ["missing  small", "extra    surplus", "differs  large"] {
        assert!(run.out.contains(line), "{line}: {run}");
    }
    let missing = trio.run("verify", args![trio.src("tree"), trio.dst("nowhere")]);
    missing.exits(2).says(&["linerate: dst: "]);
    trio.run("verify", args![trio.src("nowhere"), trio.dst("to")]).exits(2).says(&["linerate: src: "]);
    trio.assert_all_gone();
}

#[test]
fn events_tell_of_both_ends() {
    let Some(trio) = trio() else { return };
    let (tree, _) = trio.trees();
    write(tree.join("file"), noise(1, 24 << 20));
    let run = trio.cp(args!["--json", "-r", "--bwlimit", "16m", trio.src("tree"), trio.dst("to")]).exits(0);
    let all = events(&run.out);
    let progress: Vec<_> = all.iter().filter(|event| event["type"] == "progress").collect();
    assert!(!progress.is_empty(), "{run}");
    assert!(
        progress.iter().any(|event| u64_at(event, "/bytes") > 0 && u64_at(event, "/found_files") == 1),
        "{run}"
    );
    let summary = summary_of(&run.out);
    for end in ["/sender", "/receiver"] {
        assert_eq!(u64_at(&summary, &format!("{end}/stages/bytes")), 24 << 20, "{summary}");
    }
    assert_eq!(
        (&summary["encrypted"], &summary["limiter"]),
        (&true.into(), &"rate-limit".into()),
        "{summary}"
    );
    assert!(summary["cipher"].as_str().is_some_and(|cipher| cipher.contains("aes")), "{summary}");
    assert_eq!(u64_at(&summary, "/turned_away"), 0);
}
