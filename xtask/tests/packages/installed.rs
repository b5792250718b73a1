//! A package brings everything, and leaves nothing behind.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use linerate_testing::{has, is_root};

use crate::packed::{HERE, OTHER, debian, ending, released, run, text, tree};

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
