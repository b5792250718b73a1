//! Measures the costs of a copy between two far hosts, compared with a direct copy.

use super::ground::{Trio, trio_with_link};
use crate::bed::args;
use crate::json::summary_of;
use crate::support::Run;
use crate::tree::{noise, write};

/// The number of bytes: enough for several seconds at 1 Gbit/s.
const BYTES: usize = 400 << 20;
/// The number of tries, since a busy machine may disturb one of two runs.
const TRIES: usize = 4;

fn seconds(run: &Run) -> f64 {
    summary_of(&run.out)["payload_seconds"].as_f64().expect("a number")
}

/// The seconds of a copy between two far hosts, and the bytes that passed through the client's network
/// interfaces meanwhile.
fn copied_between(trio: &Trio) -> (f64, u64) {
    let _ = std::fs::remove_dir_all(trio.case.far.join("to"));
    let before = trio.client_bytes();
    let line = args!["--json", "--compress=off", "-r", trio.src("tree"), trio.dst("to")];
    let run = trio.cp(line).exits(0);
    (seconds(&run), trio.client_bytes() - before)
}

/// The seconds of a copy that is started at the source itself.
fn pushed(trio: &Trio) -> f64 {
    let _ = std::fs::remove_dir_all(trio.case.far.join("to"));
    let line = args!["--json", "--compress=off", "-r", "tree", trio.case.b("to")];
    seconds(&trio.case.cp(line).exits(0))
}

#[test]
fn timed_a_gigabit_link_is_as_full_as_with_a_direct_push_and_the_client_carries_no_data() {
    let Some(trio) = trio_with_link("1gbit") else { return };
    write(trio.case.near.join("tree/file"), noise(1, BYTES));
    // The first copy brings the program, and fills the caches.
    copied_between(&trio);
    let mut best = f64::INFINITY;
    for _ in 0..TRIES {
        let ((between, through), direct) = (copied_between(&trio), pushed(&trio));
        eprintln!(
            "between {between:.3} s, direct {direct:.3} s, ratio {:.4}; through the client {through} bytes",
            between / direct
        );
        assert!(through * 1000 <= BYTES as u64, "{through} bytes went through the client");
        best = best.min(between / direct);
        if best <= 1.02 {
            return;
        }
    }
    panic!("{best:.3} times as long as a direct push");
}
