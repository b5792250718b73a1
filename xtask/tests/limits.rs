//! A part of `cargo xtask limits` that a busy machine doesn't change.

use std::path::Path;
use std::process::Command;

use linerate_testing::skip;

#[test]
fn limits_made_on_purpose_are_named() {
    let xtask = Path::new(env!("CARGO_BIN_EXE_xtask"));
    let program = xtask.with_file_name("linerate");
    if !program.exists() {
        return skip(
            "linerate",
            format_args!("{} isn't built; `cargo test --workspace` does", program.display()),
        );
    }
    let kinds = "bwlimit,window,send-buffer,slow-source,slow-destination,quota-sender,quota-receiver,measure-slow-source";
    let mut limits = Command::new(xtask);
    limits.args(["limits", "--tries", "1", "--only", kinds, "--program"]).arg(program);
    let output = limits.output().expect("xtask is there");
    let (reported, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if error.contains("limits can't be made here") {
        return skip("limits", error);
    }
    assert!(output.status.success(), "{reported}{error}");
    assert!(reported.contains("8 of 8 named right"), "{reported}");
}
