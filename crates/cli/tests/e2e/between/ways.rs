//! Tests of the data connections between two far hosts, and of data that goes through the client if no
//! connection is possible.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use linerate_lab::End;

use super::ground::{Trio, trio};
use crate::bed::args;
use crate::network::Wall;
use crate::tree::{assert_alike, make_mixed, noise, write};

/// Copies a tree, and returns the messages.
#[track_caller]
fn copies(trio: &Trio, options: &[&str]) -> crate::support::Run {
    let (tree, to) = trio.trees();
    make_mixed(&tree);
    let mut line: Vec<_> = options.iter().map(std::ffi::OsString::from).collect();
    line.extend(args!["-v", "-r", trio.src("tree"), trio.dst("to")]);
    let run = trio.cp(line).exits(0);
    assert_alike(&tree, &to);
    run
}

#[test]
fn a_destination_that_cant_be_reached_connects_to_the_source() {
    let Some(trio) = trio() else { return };
    let _wall = Wall::refusing(&trio.case, End::A, "7211-7214");
    // It lasts until all streams are there, however busy this machine is.
    let run = copies(&trio, &["--streams", "4", "--bwlimit", "10m", "--port-range", "7211-7214"]);
    run.says(&[
        "src can't connect to dst",
        "now dst tries to connect to src",
        "data connection: from dst to src",
        "encrypted, 4 streams",
    ]);
}

#[test]
fn a_destination_that_never_answers_connects_to_the_source() {
    let Some(trio) = trio() else { return };
    let _wall = Wall::silent(&trio.case, End::B, "7221-7224");
    let run = copies(&trio, &["--port-range", "7221-7224"]);
    assert!(run.time < Duration::from_secs(20), "{run}");
    run.says(&["data connection: from dst to src"]);
}

#[test]
fn with_no_way_between_them_the_data_goes_through_the_client_and_it_cant_read_it() {
    let Some(trio) = trio() else { return };
    let _walls = [End::A, End::B].map(|host| Wall::refusing(&trio.case, host, "7231-7234"));
    let options = ["--port-range", "7231-7234", "--verify"];
    copies(&trio, &options).says(&[
        "warning: dst can't connect to src",
        "the data goes through this host on one stream, encrypted from end to end",
        "open a TCP port of 7231-7234 from one of the two hosts to the other",
        "data connection: through this host, encrypted from src to dst",
        " encrypted, 1 stream;",
    ]);
}

/// The data that passes through the client must be encrypted: the test records what the client reads from the
/// source's login.
#[test]
fn what_goes_through_the_client_is_no_plain_text() {
    let Some(trio) = trio() else { return };
    let _walls = [End::A, End::B].map(|host| Wall::refusing(&trio.case, host, "7241-7244"));
    let (tree, to) = trio.trees();
    let reported = b"a secret that stands in the file again and again; ";
    write(tree.join("file"), reported.repeat(20_000));
    let seen = trio.client().join("seen");
    // The remote shell is the client's own, and keeps all that the source's agent says.
    let shell = trio.client().join("shell");
    let text = format!(
        "case \"$1\" in src) ssh -F {0} \"$@\" | tee -a {1};; *) exec ssh -F {0} \"$@\";; esac\n",
        trio.config().display(),
        seen.display()
    );
    std::fs::write(&shell, text).unwrap();
    let rsh = format!("sh {}", shell.display());
    let words = args![trio.case.bed.program(), "cp", "--rsh", rsh];
    let line = args!["--compress=off", "--port-range", "7241-7244", "-r", trio.src("tree"), trio.dst("to")];
    trio.start_with(words, line).end().exits(0).says(&["through this host"]);
    assert_alike(&tree, &to);
    let seen = std::fs::read(seen).unwrap();
    assert!(seen.len() > reported.len() * 20_000, "the data went by: {}", seen.len());
    assert!(!seen.windows(20).any(|part| part == &reported[..20]), "the client saw it");
}

#[test]
fn a_second_round_has_its_own_stream_through_the_client() {
    let Some(trio) = trio() else { return };
    let _walls = [End::A, End::B].map(|host| Wall::refusing(&trio.case, host, "7251-7254"));
    let (tree, to) = trio.trees();
    write(tree.join("file"), noise(3, 3 << 20));
    write(tree.join("other"), "x");
    let line = args!["--verify", "--port-range", "7251-7254", trio.src("tree"), trio.dst("to")];
    trio.sync(line.clone()).exits(0);
    // What differs though its size and time don't is found when it is read back, and sent once more.
    let damaged = OpenOptions::new().write(true).open(to.join("file")).unwrap();
    let modified = damaged.metadata().unwrap().modified().unwrap();
    damaged.write_all_at(b"damaged", 100).unwrap();
    damaged.set_modified(modified).unwrap();
    trio.sync(line).exits(0).says(&["through this host"]);
    assert_alike(&tree, &to);
}

#[test]
fn without_encryption_the_data_still_has_a_checksum() {
    let Some(trio) = trio() else { return };
    copies(&trio, &["--no-encrypt"]).says(&["travels in clear", "NOT ENCRYPTED"]);
}
