//! Options that would do nothing, or contradict each other, are refused before anything is done.

mod support;

use std::fs;

use support::{directory, run};

/// Command lines, and the words of their errors.
const LINES: [(&str, &str); 37] = [
    ("doctor --force", "--undo <ID>|--confirm <ID>"),
    ("doctor --system x", "--apply|--confirm <ID>|--persist <ID>|--undo <ID>|--applied"),
    ("doctor --root . --plan", "cannot be used with"),
    ("doctor --fail-on minor --plan", "cannot be used with"),
    ("doctor --undo x --plan", "cannot be used with"),
    ("doctor --persist x --yes", "cannot be used with"),
    ("doctor --undo x --only rx-ring", "cannot be used with"),
    ("doctor --confirm x --json", "cannot be used with"),
    ("doctor --applied --target 10gbit", "cannot be used with"),
    ("doctor --apply --plan --yes", "cannot be used with"),
    ("doctor --apply --plan --force", "cannot be used with"),
    ("doctor --apply --plan -v", "cannot be used with"),
    ("doctor --apply --plan --each local", "cannot be used with"),
    ("doctor --apply --from-plan x --target 10gbit", "cannot be used with"),
    ("doctor --list --only rx-ring", "cannot be used with"),
    ("doctor --list local", "cannot be used with"),
    ("doctor --json --brief", "cannot be used with"),
    ("cp --fan-out tree a b", "--to <HOST:PATH>|--to-file <FILE>"),
    ("sync --inplace --no-whole-file a b", "cannot be used with"),
    ("sync --files-from x --max-delete 5 a b", "cannot be used with"),
    ("sync --files-from - --exclude-from - a b", "another option has read standard input"),
    ("sync --include-from - --exclude-from - a b", "another option has read standard input"),
    ("load pairs --connect 127.0.0.1:9 --reverse --datagram 100", "cannot be used with"),
    ("load http --url http://127.0.0.1:9/ --users 2 --step 9", "need --users auto"),
    (
        "load tile --url http://127.0.0.1:9/ --connect 127.0.0.1:9 --tiles 2 --max-tiles 1",
        "needs --tiles auto",
    ),
    ("lab run --guests 1 --seed 5 -- true", "cannot be used with"),
    ("lab run --kernel /boot -- true", "add --guest-kind qemu"),
    ("lab run --guests 1 --guest-kind namespace --guest nic=virtio -- true", "--guest-kind namespace"),
    ("bench --list quick", "cannot be used with"),
    ("bench --check --json", "cannot be used with"),
    ("bench --resume x --rsh ssh", "cannot be used with"),
    ("clean --jobs --json", "cannot be used with"),
    ("clean --jobs host:/tmp", "without a path"),
    ("fleet run -n --no-wait x", "cannot be used with"),
    ("fleet simulate --nodes 1 --link 1gbit --operations 4", "--metadata"),
    ("fleet plan a host:/b --hosts host --shards 1 --into c", "named twice"),
    ("fleet export x --for slurm --image y", "--image needs --for k8s-job"),
];

#[test]
fn options_without_an_effect_are_refused() {
    let here = directory("without-effect");
    fs::create_dir(here.path().join("a")).unwrap();
    fs::write(here.path().join("a/file"), "x").unwrap();
    run(here.path(), &["fleet", "plan", "a", "/nowhere", "--shards", "1", "--into", "x"]).exits(0);
    for (line, words) in LINES {
        let line: Vec<&str> = line.split(' ').collect();
        run(here.path(), &line).exits(2).says(&[words]);
        assert!(!here.path().join("b").exists(), "{line:?}");
    }
}

#[test]
fn times_of_deletion_are_not_combined() {
    let here = directory("without-effect");
    for words in
        ["--delete-before --delete-after", "--delete --delete-during --delete-after", "-s --old-args"]
    {
        let line: Vec<&str> = ["rsync", "-a"].into_iter().chain(words.split(' ')).chain(["a", "b"]).collect();
        run(here.path(), &line).exits(1);
    }
}
