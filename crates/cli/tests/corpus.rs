//! Runs the fuzz targets over the committed corpus, so that inputs that a fuzzer once found stay harmless.

#[path = "../../../fuzz/src/lib.rs"]
mod fuzz;

use std::fs;
use std::path::Path;

/// Runs `target` over all of its inputs, and over each input truncated at several places.
fn replay(name: &str, target: fn(&[u8])) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
    let mut count = 0;
    for seed in fs::read_dir(&seeds).unwrap_or_else(|error| panic!("{}: {error}", seeds.display())) {
        let bytes = fs::read(seed.expect("readable").path()).expect("readable");
        target(&bytes);
        [1, 2, 3].into_iter().for_each(|quarter| target(&bytes[..bytes.len() * quarter / 4]));
        count += 1;
    }
    assert!(count > 10, "only {count} seeds");
}

#[test]
fn what_the_other_end_says() {
    replay("wire", fuzz::wire::wire);
}

#[test]
fn filter_rules_and_lists() {
    replay("filter", fuzz::filter::filter);
}

#[test]
fn study_and_tool_files_and_results() {
    replay("bench", fuzz::bench::bench);
}

#[test]
fn recordings_and_what_proc_and_sys_say() {
    replay("host", fuzz::host::host);
}

#[test]
fn what_lies_where_a_journal_belongs() {
    replay("journal", fuzz::journal::journal);
}

#[test]
fn packets_of_a_link() {
    replay("packet", fuzz::packet::packet);
}

#[test]
fn whole_sessions_of_a_receiver() {
    replay("receiver", fuzz::receiver::receiver);
}
