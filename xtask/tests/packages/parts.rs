//! The list of parts: each crate, the libraries that cargo does not list, the binaries and their commit.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::packed::{HERE, OTHER, commit, list_of_parts, released, run, text, unpacked};

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

/// The SHA-256 digest of a file by sha256sum(1).
fn digest(file: &Path) -> String {
    text(&run(Command::new("sha256sum").arg(file)))[..64].to_owned()
}
