//! Binaries that belong to another machine, commit or protocol are never packed.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use linerate_testing::skip;
use linerate_wire::identity::{IDENTITY, STAMP};

use crate::packed::{
    HERE, OTHER, commit, elf_with, for_other, list_of_parts, named_commit, program, text, xtask_release,
};

#[test]
fn a_binary_for_another_machine_than_it_is_said_to_be_for_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = program(directory.path()) else { return };
    let out = directory.path().join("out");
    let wrong = for_other(Path::new(env!("CARGO_BIN_EXE_xtask")));
    for option in ["--program", "--agent"] {
        let refused = xtask_release(&program, &out).arg(option).arg(&wrong).output().unwrap();
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success(), "{refused:?}");
        assert!(why.contains(&format!("it is a program for {HERE}, not for {OTHER}")), "{why}");
        assert!(!out.exists(), "nothing is written");
    }
}

#[test]
fn a_binary_of_another_commit_is_refused_and_one_without_a_commit_has_none_in_its_list() {
    if commit().is_none() {
        skip("git", "this source is no git checkout");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = program(directory.path()) else { return };
    let (agent, out) = (directory.path().join("agent"), directory.path().join("out"));
    refuses_of_another_commit(&program, &agent, &agent);
    fs::write(&agent, format!("#!/bin/sh\n# {STAMP}\n")).unwrap();
    let packed = xtask_release(&program, &out).arg("--agent").arg(&agent).output().unwrap();
    assert!(packed.status.success() && text(&packed).contains("doesn't name its commit"), "{packed:?}");
    let list = list_of_parts(&out, HERE);
    let packages = list["packages"].as_array().unwrap();
    let agent = packages.iter().find(|package| package["name"] == "linerate-agent").unwrap();
    assert_eq!(agent.get("sourceInfo"), None);
}

#[test]
fn a_binary_of_another_protocol_or_that_says_none_is_refused_also_one_that_can_not_run_here() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = program(directory.path()) else { return };
    let (binary, out) = (directory.path().join("binary"), directory.path().join("out"));
    let older = "linerate 0.0.1 protocol 3";
    let reported = format!("binary is of {older}, and this source is {IDENTITY}");
    let cases = [("", "doesn't state its protocol"), (&format!("(speaks {older})"), &reported)];
    for (stamp, why) in cases {
        let script = format!("#!/bin/sh\n# {stamp} {}\n", named_commit()).into_bytes();
        let here = (binary.clone().into_os_string(), script);
        for (file, bytes) in [here, (for_other(&binary), elf_with(stamp))] {
            fs::write(&binary, bytes).unwrap();
            for option in ["--agent", "--program"] {
                let refused = xtask_release(&program, &out).arg(option).arg(&file).output().unwrap();
                let said = String::from_utf8_lossy(&refused.stderr).into_owned();
                assert!(!refused.status.success() && said.contains(why), "{option}: {said}");
                assert!(said.contains("build it again"), "{said}");
                assert!(!out.exists(), "nothing is written");
            }
        }
    }
}

#[test]
fn an_agent_without_a_program_for_its_machine_must_be_of_this_commit_too() {
    if commit().is_none() {
        skip("git", "this source is no git checkout");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = program(directory.path()) else { return };
    let agent = directory.path().join("agent");
    refuses_of_another_commit(&program, &agent, for_other(&agent));
}

/// Packs an agent of another commit, named by the words of the option.
fn refuses_of_another_commit(program: &Path, agent: &Path, named: impl AsRef<OsStr>) {
    let out = agent.with_file_name("out");
    fs::write(agent, format!("#!/bin/sh\n# {STAMP} (commit {})\n", "1".repeat(40))).unwrap();
    let refused = xtask_release(program, &out).arg("--agent").arg(named).output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("agent was built from commit 11111"), "{why}");
    assert!(!out.exists(), "nothing is written");
}
