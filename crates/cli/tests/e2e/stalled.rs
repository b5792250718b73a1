//! Tests in which data connections stop working during a transfer, while the ssh connection works.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use linerate_lab::End;

use crate::bed::{Case, args, case};
use crate::killed::Way;
use crate::network::Wall;
use crate::support::{PATIENCE, Running, within};
use crate::tree::{assert_alike, names, noise, write};

/// A transfer over `port` of which a part has arrived, with its source and destination.
fn midway(case: &Case, way: Way, port: &str, more: &[&str]) -> (Running, PathBuf, PathBuf) {
    let (source, destination) = match way {
        Way::Push => (case.near.join("tree"), case.far.join("to")),
        Way::Pull => (case.far.join("tree"), case.near.join("to")),
    };
    write(source.join("chunked"), noise(1, 40 << 20));
    (0..12).for_each(|number| write(source.join(format!("{number}")), noise(number, 2 << 20)));
    let range = format!("{port}-{port}");
    let mut list = args!["--bwlimit", "16m", "--timeout", "3", "--port-range", range, "-r"];
    list.extend(more.iter().map(Into::into));
    list.extend(match way {
        Way::Push => args!["tree", case.b("to")],
        Way::Pull => args![case.b("tree"), "to"],
    });
    let running = case.start(list);
    let is_midway = || names(&destination).len() > 3;
    assert!(within(PATIENCE, is_midway), "it never got under way: {}", running.end());
    (running, source, destination)
}

/// Drops data and acknowledgements from and to these ports.
fn block(case: &Case, port: &str) -> [Wall; 2] {
    [Wall::silent(case, End::B, port), Wall::up(case, End::A, &format!("dport {port} blackhole"))]
}

#[test]
fn a_data_port_that_is_blocked_in_the_middle_is_exit_5_in_time() {
    for (way, port) in [(Way::Push, "50110"), (Way::Pull, "50111")] {
        let Some(case) = case() else { return };
        let (running, source, destination) = midway(&case, way, port, &[]);
        let walls = block(&case, port);
        let begun = Instant::now();
        let run = running.end().exits(5).says(&["--timeout", "a data connection"]);
        assert!(begun.elapsed() < Duration::from_secs(20), "{way:?}: {run}");
        drop(walls);
        // What came is gone on from.
        let command = match way {
            Way::Push => args!["-r", "tree", case.b("to")],
            Way::Pull => args!["-r", case.b("tree"), "to"],
        };
        case.cp(command).exits(0);
        assert_alike(&source, &destination);
    }
}

#[test]
fn a_data_port_that_is_blocked_for_a_while_is_retried() {
    for (way, port) in [(Way::Push, "50112"), (Way::Pull, "50113")] {
        let Some(case) = case() else { return };
        let (running, source, destination) = midway(&case, way, port, &["--retry", "20"]);
        let walls = block(&case, port);
        let has_noticed = || running.has_said("trying again");
        assert!(within(PATIENCE, has_noticed), "it waits on without end: {}", running.end());
        drop(walls);
        running.end().exits(0).says(&["a data connection", "trying again"]);
        assert_alike(&source, &destination);
    }
}
