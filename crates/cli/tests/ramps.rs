//! Tests that the costs per gigabyte don't depend on the ramp before the measured window.
use std::fs;

const STUDY: &str = r#"
name = "ramps"
title = "One load after two ramps"
blocks = 5
[[link]]
name = "1gbit"
rate = "1gbit"
[[case]]
id = "pairs-{ramp}"
tool = "linerate-pairs"
[case.with]
ramp = [0.1, 6]
seconds = 4
"#;

#[test]
#[ignore = "it takes two minutes and a quiet machine"]
fn a_long_ramp_costs_no_more_per_gigabyte_than_a_short_one() {
    if !linerate_testing::is_root("a lab needs root") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("ramps.toml"), STUDY).unwrap();
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_linerate"))
        .args(["bench", "ramps.toml", "--json", "--out", "out"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let shown: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let price = |case: usize| shown["cases"][case]["cpu_per_gb"]["median"].as_f64().unwrap();
    let (short, long) = (price(0), price(1));
    assert!((long / short - 1.0).abs() < 0.03, "{short} and {long} CPU-s/GB");
}
