//! The packages of a release: the same bytes each time, installable, and gone after their removal.
//!
//! A script that runs the built program stands for the static binary, which takes minutes to build.
//! `LINERATE_TEST_PROGRAM=FILE` and `LINERATE_TEST_AGENT=FILE` pack other ones.

mod installed;
mod packed;
mod parts;
mod refused;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use linerate_testing::{has, skip};

use packed::{
    HERE, OTHER, debian, ending, other_elf, program, release, released, run, text, tree, unpacked,
    xtask_release,
};

#[test]
fn two_releases_of_one_program_have_the_same_bytes() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(program) = program(first.path()) else { return };
    let outs = [first.path().join("out"), second.path().join("elsewhere/out")];
    outs.iter().for_each(|out| release(&program, out));
    let names = |out: &Path| {
        let entries = fs::read_dir(out).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<BTreeSet<_>>()
    };
    assert_eq!(names(&outs[0]), names(&outs[1]));
    let version = env!("CARGO_PKG_VERSION");
    let of_machine = |machine: &str| {
        let rest = ["tar.zst", "spdx.json"].map(|end| format!("linerate-{version}-{machine}.{end}"));
        let deb = format!("linerate_{version}_{}.deb", debian(machine));
        rest.into_iter().chain([deb, format!("linerate-{version}-1.{machine}.rpm")]).collect::<Vec<_>>()
    };
    let agents =
        [format!("-{version}.tar.zst"), format!("_{version}_all.deb"), format!("-{version}-1.noarch.rpm")];
    let agents = agents.map(|end| format!("linerate-agents{end}"));
    let expected = [of_machine(HERE), of_machine(OTHER), agents.to_vec(), vec!["SHA256SUMS".to_owned()]];
    assert_eq!(names(&outs[0]), expected.concat().into_iter().collect());
    for name in names(&outs[0]) {
        let [one, other] = [0, 1].map(|out: usize| fs::read(outs[out].join(&name)).unwrap());
        assert!(one == other, "{name} differs");
    }
    let sums = run(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(&outs[0]));
    assert_eq!(text(&sums).matches(": OK").count(), 11, "{sums:?}");
}

#[test]
fn a_signature_is_that_of_the_key_and_of_these_sums() {
    if !has("ssh-keygen") {
        return skip("ssh-keygen", "there is no ssh-keygen");
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = program(directory.path()) else { return };
    let (out, key) = (directory.path().join("out"), directory.path().join("key"));
    run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key));
    let release = || {
        run(xtask_release(&program, &out).arg("--sign").arg(&key));
    };
    release();
    // Over the older signature.
    release();
    let public = fs::read_to_string(key.with_extension("pub")).unwrap();
    let signers = directory.path().join("signers");
    fs::write(&signers, format!("releases@linerate {public}")).unwrap();
    let verify = |sums: &Path| {
        let mut verify = Command::new("ssh-keygen");
        verify
            .args(["-Y", "verify", "-I", "releases@linerate", "-n", "linerate-release", "-f"])
            .arg(&signers);
        verify.arg("-s").arg(out.join("SHA256SUMS.sig")).stdin(fs::File::open(sums).unwrap());
        verify.output().unwrap().status.success()
    };
    assert!(verify(&out.join("SHA256SUMS")));
    fs::write(out.join("other"), "0123  other\n").unwrap();
    assert!(!verify(&out.join("other")));
}

#[test]
fn the_date_is_that_of_every_file() {
    let Some(release) = released() else { return };
    let list = run(Command::new("tar")
        .args(["--full-time", "--utc", "-tvf"])
        .arg(ending(release.path(), &format!("{HERE}.tar.zst"))));
    for line in text(&list).lines() {
        assert!(line.contains(" root/root ") && line.contains(" 2023-11-14 22:13:20 "), "{line}");
    }
    assert!(text(&list).lines().count() > 30);
    assert!(!text(&list).contains("/\n"), "a prefix keeps its own directories as they are");
}

#[test]
fn debians_checker_finds_no_error_in_a_deb() {
    if !has("lintian") {
        return;
    }
    let Some(release) = released() else { return };
    let packages = [&format!("{}.deb", debian(HERE)), "_all.deb"].map(|end| ending(release.path(), end));
    let checked = Command::new("lintian").args(["--no-cfg", "--allow-root"]).args(packages).output().unwrap();
    let found = text(&checked);
    // It ends with 1 where it could not look, and with 2 where it found an error.
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    let of_texts = ["copyright-without-copyright-notice", "changelog", "malformed"];
    let is_wrong = |line: &&str| line.starts_with("E: ") || of_texts.iter().any(|tag| line.contains(tag));
    assert_eq!(found.lines().filter(is_wrong).collect::<Vec<_>>(), [""; 0], "{found}");
}

#[test]
fn a_maintainer_is_who_is_named_and_else_nobody() {
    if !has("dpkg-deb") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = program(directory.path()) else { return };
    let out = directory.path().join("out");
    let field = || {
        let mut show = Command::new("dpkg-deb");
        text(&run(show.args(["--show", "--showformat=${Maintainer}"]).arg(ending(&out, ".deb"))))
    };
    run(&mut xtask_release(&program, &out));
    assert!(field().ends_with(".invalid>"), "{}", field());
    run(xtask_release(&program, &out).args(["--maintainer", "A B <a@b.example>"]));
    assert_eq!(field(), "A B <a@b.example>");
    let refused = xtask_release(&program, &out).args(["--maintainer", "A B"]).output().unwrap();
    assert!(!refused.status.success() && !refused.stderr.is_empty(), "{refused:?}");
}

#[test]
fn another_machine_has_packages_with_its_own_program_and_the_same_texts() {
    let (Some(release), directory) = (released(), tempfile::tempdir().unwrap()) else { return };
    let [ours, theirs] = [HERE, OTHER].map(|machine| unpacked(release.path(), machine, directory.path()));
    let agent = |machine| format!("lib/linerate/agent-{machine}.gz");
    assert!(fs::read(theirs.join("bin/linerate")).unwrap() == other_elf());
    let unpack = run(Command::new("gzip").arg("-dc").arg(theirs.join(agent(OTHER))));
    assert!(unpack.stdout == other_elf());
    let named_as_ours =
        |path: PathBuf| if path == Path::new(&agent(OTHER)) { agent(HERE).into() } else { path };
    assert_eq!(tree(&ours), tree(&theirs).into_iter().map(named_as_ours).collect());
    for path in tree(&ours).iter().filter(|path| path.starts_with("share") && ours.join(path).is_file()) {
        let is_of_machine = path.ends_with("linerate.spdx.json") || path.ends_with("LICENSE-crates.txt");
        let same = fs::read(ours.join(path)).unwrap() == fs::read(theirs.join(path)).unwrap();
        assert!(same || is_of_machine, "{}", path.display());
    }
    if has("dpkg-deb") {
        let package = ending(release.path(), &format!("{}.deb", debian(OTHER)));
        let field = run(Command::new("dpkg-deb").arg("--field").arg(package).arg("Architecture"));
        assert_eq!(text(&field).trim(), debian(OTHER));
    }
    if has("rpm") {
        let package = ending(release.path(), &format!("{OTHER}.rpm"));
        let tag =
            run(Command::new("rpm").args(["--query", "--queryformat", "%{ARCH}", "--package"]).arg(package));
        assert_eq!(text(&tag), OTHER);
    }
}
