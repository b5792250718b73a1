//! The packages of a release: the same bytes each time, installable, and gone after their removal.
//!
//! A script that runs the built program stands for the static binary, which takes minutes to build.
//! `LINERATE_TEST_PROGRAM=FILE` and `LINERATE_TEST_AGENT=FILE` pack other ones.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use linerate_testing::{has, is_root, skip};
use linerate_wire::identity::{IDENTITY, STAMP};
use tempfile::TempDir;

const DATE: &str = "1700000000";
const HERE: &str = std::env::consts::ARCH;
/// The other kind of machine that is released for.
const OTHER: &str = if cfg!(target_arch = "aarch64") { "x86_64" } else { "aarch64" };

/// A processor's name in Debian.
fn debian(machine: &str) -> &str {
    if machine == "aarch64" { "arm64" } else { "amd64" }
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn run(command: &mut Command) -> Output {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The program to pack, below `directory` unless it is given.
fn program(directory: &Path) -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("LINERATE_TEST_PROGRAM") {
        return Some(given.into());
    }
    let built = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("linerate");
    if !built.exists() {
        let why = format!("{} isn't built; `cargo test --workspace` does", built.display());
        skip("linerate", why);
        return None;
    }
    let script = directory.join("linerate");
    let text = format!("#!/bin/sh\n# {STAMP} {}\nexec '{}' \"$@\"\n", named_commit(), built.display());
    linerate_testing::write_script(&script, &text);
    Some(script)
}

/// The commit of the working tree; none outside of a git checkout.
fn commit() -> Option<String> {
    let mut describe = Command::new("git");
    describe
        .args(["describe", "--always", "--no-abbrev", "--exclude=*", "--dirty"])
        .current_dir(repository());
    repository().join(".git").exists().then(|| text(&run(&mut describe)).trim().to_owned())
}

/// As `cargo xtask dist` puts it into a binary.
fn named_commit() -> String {
    commit().map_or_else(String::new, |commit| format!("(commit {commit})"))
}

fn release(program: &Path, out: &Path) {
    // A script stands for the agent, and the beginning of an ELF file for the binaries of the other machine.
    let directory = tempfile::tempdir().unwrap();
    let (script, elf) = (directory.path().join("script"), directory.path().join("elf"));
    fs::write(&script, format!("#!/bin/sh\n# {STAMP} {}\n", named_commit())).unwrap();
    fs::write(&elf, other_elf()).unwrap();
    let other = for_other(&elf);
    let agent = std::env::var_os("LINERATE_TEST_AGENT").unwrap_or_else(|| script.into());
    run(xtask_release(program, out).args([
        OsStr::new("--program"),
        &other,
        OsStr::new("--agent"),
        &agent,
        OsStr::new("--agent"),
        &other,
    ]));
}

fn xtask_release(program: &Path, out: &Path) -> Command {
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.current_dir(repository()).args(["release", "--program"]).arg(program).arg("--out").arg(out);
    xtask.env("SOURCE_DATE_EPOCH", DATE);
    xtask
}

/// An ELF file of nothing but a header, what it speaks and the commit, elf(5): EM_X86_64 is 62, EM_AARCH64 183.
fn other_elf() -> Vec<u8> {
    elf_with(STAMP)
}

fn elf_with(stamp: &str) -> Vec<u8> {
    let mut elf = [vec![0; 64], stamp.as_bytes().to_vec(), named_commit().into_bytes()].concat();
    elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
    elf[18] = if OTHER == "aarch64" { 183 } else { 62 };
    elf
}

fn for_other(file: &Path) -> OsString {
    [OsStr::new(OTHER), file.as_os_str()].join(OsStr::new("="))
}

/// A release in a directory that is removed with it.
fn released() -> Option<TempDir> {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path())?;
    release(&program, directory.path());
    Some(directory)
}

/// The one file in `directory` whose name ends so.
fn ending(directory: &Path, end: &str) -> PathBuf {
    let mut files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.to_string_lossy().ends_with(end)).expect("the release has it")
}

/// Everything below a directory, apart from what a package manager notes for itself.
fn tree(root: &Path) -> BTreeSet<PathBuf> {
    let (mut found, mut open) = (BTreeSet::new(), vec![root.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let shown = path.strip_prefix(root).unwrap().to_owned();
            if shown.starts_with("var") {
                continue;
            }
            if path.symlink_metadata().unwrap().is_dir() {
                open.push(path);
            }
            found.insert(shown);
        }
    }
    found
}

/// A file of the user's in a directory that a package brought: its path below the root, and those of the directories above it.
fn users_file(root: &Path, directory: &str) -> BTreeSet<PathBuf> {
    let file = Path::new("usr").join(directory).join("_own");
    fs::write(root.join(&file), "#compdef own\n").unwrap();
    let above = file.ancestors().filter(|path| !path.as_os_str().is_empty());
    above.map(Path::to_owned).collect()
}

/// What an installed package must bring, wherever it was installed.
fn assert_installed(usr: &Path, zsh: &str) {
    let version = run(Command::new(usr.join("bin/linerate")).arg("--version"));
    assert_eq!(text(&version), format!("linerate {}\n", env!("CARGO_PKG_VERSION")));
    for file in [
        &format!("lib/linerate/agent-{}.gz", HERE),
        "share/man/man1/linerate.1.gz",
        "share/man/man1/linerate-cp.1.gz",
        "share/bash-completion/completions/linerate",
        "share/fish/vendor_completions.d/linerate.fish",
        "share/doc/linerate/copyright",
        "share/doc/linerate/LICENSE-crates.txt",
        "share/doc/linerate/LICENSE-LGPL-2.1",
        "share/doc/linerate/LICENSE-GCC-exception-3.1",
        "share/doc/linerate/linerate.spdx.json",
        "share/doc/linerate/examples/grafana/linerate.json",
        "share/doc/linerate/examples/systemd/linerate-sync@.service",
        "share/doc/linerate/examples/ansible/mirror.yml",
        zsh,
    ] {
        assert!(usr.join(file).metadata().is_ok_and(|metadata| metadata.len() > 100), "{file}");
    }
    assert!(usr.join("share/man/man1/linerate-agent.1.gz").exists(), "administrators write it");
    assert!(!usr.join("share/man/man1/linerate-data.1.gz").exists(), "a hidden command");
    if has("man") {
        let page =
            run(Command::new("man").args(["--local-file"]).arg(usr.join("share/man/man1/linerate-cp.1.gz")));
        assert!(text(&page).contains("SYNOPSIS"), "{page:?}");
    }
}

/// What the package for other machines brings.
fn assert_agents(usr: &Path) {
    for machine in [OTHER, HERE] {
        let agent = usr.join("lib/linerate/agents").join(format!("linerate-{machine}"));
        let mode = agent.metadata().map(|metadata| metadata.permissions().mode() & 0o777);
        assert_eq!(mode.ok(), Some(0o755), "{machine}");
        assert!(usr.join(format!("lib/linerate/agents/agent-{machine}.gz")).exists(), "{machine}");
        let parts = usr.join(format!("share/doc/linerate-agents/{machine}.linerate.spdx.json"));
        assert!(fs::read_to_string(parts).is_ok_and(|parts| parts.contains("zstd-sys")), "{machine}");
    }
    assert!(usr.join("share/doc/linerate-agents/copyright").exists());
}

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
fn a_deb_is_installed_into_a_fresh_root_and_nothing_is_left_after_it() {
    if !is_root("dpkg installs as root only") || !has("dpkg") {
        return;
    }
    let (Some(release), root) = (released(), tempfile::tempdir().unwrap()) else { return };
    fs::create_dir_all(root.path().join("var/lib/dpkg/updates")).unwrap();
    fs::create_dir_all(root.path().join("var/lib/dpkg/info")).unwrap();
    fs::write(root.path().join("var/lib/dpkg/status"), "").unwrap();
    let before = tree(root.path());
    let dpkg = |words: &[&str]| {
        let mut dpkg = Command::new("dpkg");
        // An image of a container may leave out documentation.
        dpkg.arg(format!("--root={}", root.path().display()))
            .args(["--path-include=/usr/share/*", "--log=/dev/null"]);
        text(&run(dpkg.args(words)))
    };
    dpkg(&["--install", ending(release.path(), &format!("{}.deb", debian(HERE))).to_str().unwrap()]);
    assert_installed(&root.path().join("usr"), "share/zsh/vendor-completions/_linerate");
    dpkg(&["--install", ending(release.path(), "_all.deb").to_str().unwrap()]);
    let needs = dpkg(&["--status", "linerate-agents"]);
    assert!(needs.contains(&format!("Depends: linerate (= {})", env!("CARGO_PKG_VERSION"))), "{needs}");
    assert_agents(&root.path().join("usr"));
    let own = users_file(root.path(), "share/zsh/vendor-completions");
    for name in ["linerate-agents", "linerate"] {
        assert_eq!(dpkg(&["--verify", name]), "", "what is installed is what the package has");
        dpkg(&["--purge", name]);
    }
    assert_eq!(tree(root.path()), &before | &own);
}

#[test]
fn an_rpm_is_installed_into_a_fresh_root_and_nothing_is_left_after_it() {
    if !is_root("rpm installs as root only") || !has("rpm") {
        return;
    }
    let (Some(release), root) = (released(), tempfile::tempdir().unwrap()) else { return };
    // What the package `filesystem` has on every system; here none owns it. Nothing of the shells is there.
    for directory in ["usr/bin", "usr/lib", "usr/share/man/man1", "usr/share/doc"] {
        fs::create_dir_all(root.path().join(directory)).unwrap();
    }
    let before = tree(root.path());
    let package = ending(release.path(), &format!("{HERE}.rpm"));
    let rpm = |words: &[&str]| {
        let mut rpm = Command::new("rpm");
        text(&run(rpm.arg("--root").arg(root.path()).args(["--dbpath", "/var/lib/rpm"]).args(words)))
    };
    rpm(&["--initdb"]);
    rpm(&["--install", "--ignoreos", package.to_str().unwrap()]);
    let agents = ending(release.path(), "noarch.rpm");
    rpm(&["--install", "--ignoreos", agents.to_str().unwrap()]);
    let version = env!("CARGO_PKG_VERSION");
    let required = rpm(&["--query", "--requires", "linerate-agents"]);
    assert!(required.lines().any(|line| line == format!("linerate = {version}-1")), "{required}");
    let licence = rpm(&["--query", "--queryformat", "%{LICENSE}", "linerate"]);
    for part in ["(Apache-2.0 OR MIT)", "BSD-3-Clause", "ISC", "GCC-exception-3.1"] {
        assert!(licence.contains(part), "{licence}");
    }
    assert_installed(&root.path().join("usr"), "share/zsh/site-functions/_linerate");
    assert_agents(&root.path().join("usr"));
    let own = users_file(root.path(), "share/zsh/site-functions");
    for name in ["linerate-agents", "linerate"] {
        assert_eq!(rpm(&["--verify", name]), "", "what is installed is what the package has");
        rpm(&["--erase", name]);
    }
    assert_eq!(tree(root.path()), &before | &own);
}

#[test]
fn an_archive_is_unpacked_below_any_prefix() {
    let (Some(release), prefix) = (released(), tempfile::tempdir().unwrap()) else { return };
    let mut tar = Command::new("tar");
    tar.args(["--strip-components=1", "-C"]).arg(prefix.path()).arg("-xf");
    run(tar.arg(ending(release.path(), &format!("{HERE}.tar.zst"))));
    assert_installed(prefix.path(), "share/zsh/site-functions/_linerate");
}

#[test]
fn the_list_of_parts_names_each_crate_with_its_licence_and_digest() {
    let Some(release) = released() else { return };
    let list = list_of_parts(release.path(), HERE);
    assert_eq!(list["creationInfo"]["created"], "2023-11-14T22:13:20Z");
    let packages = list["packages"].as_array().unwrap();
    let named = |name: &str| packages.iter().find(|package| package["name"] == name);
    for foreign in ["rustls", "aws-lc-sys", "zstd-sys", "clap"] {
        let package = named(foreign).expect(foreign);
        assert_eq!(package["checksums"][0]["checksumValue"].as_str().map(str::len), Some(64), "{package}");
        assert_ne!(package["licenseDeclared"], "NOASSERTION", "{package}");
    }
    for other in ["proptest", "xtask", "rpm", "ring"] {
        assert!(named(other).is_none(), "{other} is in no release");
    }
    let ids: BTreeSet<_> = packages.iter().map(|package| package["SPDXID"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), packages.len(), "identifiers are unique");
    for relation in list["relationships"].as_array().unwrap() {
        let from = relation["spdxElementId"].as_str().unwrap();
        assert!(ids.contains(from) || from == "SPDXRef-DOCUMENT", "{relation}");
        assert!(ids.contains(relation["relatedSpdxElement"].as_str().unwrap()), "{relation}");
    }
}

#[test]
fn the_parts_that_cargo_does_not_list_are_in_the_list_and_in_the_licences() {
    let (Some(release), directory) = (released(), tempfile::tempdir().unwrap()) else { return };
    let list = list_of_parts(release.path(), HERE);
    let packages = list["packages"].as_array().unwrap();
    let linked = list["relationships"].as_array().unwrap().iter();
    let linked = linked.filter(|relation| relation["relationshipType"] == "STATIC_LINK").count();
    assert_eq!(linked, 3, "{list}");
    let documents = unpacked(release.path(), HERE, directory.path()).join("share/doc/linerate");
    let read = |name: &str| fs::read_to_string(documents.join(name)).unwrap();
    for (name, licence, file, shown) in [
        ("rust-std", "Apache-2.0 OR MIT", "LICENSE-crates.txt", "\nrust-std "),
        ("glibc", "LGPL-2.1-or-later", "copyright", "GNU C Library"),
        ("libgcc", "GPL-3.0-or-later WITH GCC-exception-3.1", "copyright", "libgcc_eh"),
    ] {
        let package = packages.iter().find(|package| package["name"] == name).expect(name);
        assert_eq!(package["licenseDeclared"], licence);
        assert!(read(file).contains(shown) && read(file).contains(licence), "{file} lacks {name}");
    }
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

fn list_of_parts(release: &Path, machine: &str) -> serde_json::Value {
    let list = fs::read_to_string(ending(release, &format!("{machine}.spdx.json"))).unwrap();
    serde_json::from_str(&list).unwrap()
}

/// The SHA-256 digest of a file by sha256sum(1).
fn digest(file: &Path) -> String {
    text(&run(Command::new("sha256sum").arg(file)))[..64].to_owned()
}

/// Unpacks a machine's archive into a directory of its own below `to`.
fn unpacked(release: &Path, machine: &str, to: &Path) -> PathBuf {
    let archive = ending(release, &format!("{machine}.tar.zst"));
    run(Command::new("tar").arg("-C").arg(to).arg("-xf").arg(archive));
    to.join(format!("linerate-{}-{machine}", env!("CARGO_PKG_VERSION")))
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

#[test]
fn a_list_of_parts_names_its_machine_its_binaries_and_the_commit() {
    let (Some(release), directory) = (released(), tempfile::tempdir().unwrap()) else { return };
    for machine in [HERE, OTHER] {
        let list = list_of_parts(release.path(), machine);
        assert_eq!(list["name"], format!("linerate-{}-{machine}", env!("CARGO_PKG_VERSION")));
        let root = unpacked(release.path(), machine, directory.path());
        let agent = root.join(format!("lib/linerate/agent-{machine}.gz"));
        run(Command::new("gzip").arg("-d").arg(&agent));
        let packages = list["packages"].as_array().unwrap();
        let named = |name: &str| packages.iter().find(|package| package["name"] == name);
        let binaries =
            [("linerate", root.join("bin/linerate")), ("linerate-agent", agent.with_extension(""))];
        for (name, file) in binaries {
            let package = named(name).unwrap();
            assert_eq!(package["checksums"][0]["checksumValue"], digest(&file), "{package}");
            let source = package["sourceInfo"].as_str().map(str::to_owned);
            assert_eq!(source, commit().map(|commit| format!("git commit {commit}")));
        }
        // It asks an x86 processor what it can do, and no other.
        assert_eq!(named("core_detect").is_some(), machine == "x86_64");
    }
}

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
fn a_binary_of_another_protocol_or_that_tells_none_is_refused_also_one_that_can_not_run_here() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = program(directory.path()) else { return };
    let (binary, out) = (directory.path().join("binary"), directory.path().join("out"));
    let older = "linerate 0.0.1 protocol 3";
    let told = format!("binary is of {older}, and this source is {IDENTITY}");
    let cases = [("", "doesn't tell which protocol it speaks"), (&format!("(speaks {older})"), &told)];
    for (stamp, why) in cases {
        let script = format!("#!/bin/sh\n# {stamp} {}\n", named_commit()).into_bytes();
        let here = (binary.clone().into_os_string(), script);
        for (file, bytes) in [here, (for_other(&binary), elf_with(stamp))] {
            fs::write(&binary, bytes).unwrap();
            for option in ["--agent", "--program"] {
                let refused = xtask_release(&program, &out).arg(option).arg(&file).output().unwrap();
                let said = String::from_utf8_lossy(&refused.stderr).into_owned();
                assert!(!refused.status.success() && said.contains(why), "{option}: {said}");
                assert!(said.contains("build it anew"), "{said}");
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
