//! The parts of the binary: the crates that cargo resolves, and what the toolchain brings.

use anyhow::Context;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::output;
use crate::cargo;

/// A crate, as `cargo metadata` describes it.
#[derive(Clone, Deserialize)]
pub struct Part {
    pub id: String,
    pub name: String,
    pub version: String,
    #[serde(default)]
    pub license: Option<String>,
    /// None for the crates of this repository.
    #[serde(default)]
    pub source: Option<String>,
    pub manifest_path: PathBuf,
    /// SHA-256, from Cargo.lock.
    #[serde(skip)]
    pub checksum: Option<String>,
}

impl Part {
    /// Its licence as an SPDX expression; crates of earlier years separate two by a slash.
    pub fn licence(&self) -> String {
        self.license.as_deref().unwrap_or("NOASSERTION").replace('/', " OR ").replace("  ", " ")
    }
}

/// Pairs of ids: the first needs the second.
type Needs = Vec<(String, String)>;

/// All parts: those that the program is linked from, and the macros that wrote parts of it.
pub struct Parts {
    /// The crates, sorted by name and version, with that of the program.
    pub crates: Vec<Part>,
    /// Which needs which, by their ids.
    pub needs: Needs,
    /// The compiler with its standard library, as it names itself.
    pub rust: String,
    /// The C library's version.
    pub libc: String,
}

#[derive(Deserialize)]
struct CargoMetadata {
    packages: Vec<Part>,
    resolve: Resolved,
}

#[derive(Deserialize)]
struct Resolved {
    nodes: Vec<ResolvedCrate>,
}

#[derive(Deserialize)]
struct ResolvedCrate {
    id: String,
    deps: Vec<Need>,
}

#[derive(Deserialize)]
struct Need {
    pkg: String,
    dep_kinds: Vec<NeedKind>,
}

#[derive(Deserialize)]
struct NeedKind {
    /// None for what is linked; `build` and `dev` for what isn't.
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

impl Parts {
    /// Asks cargo, the compiler and the C library of this machine.
    pub fn read(repository: &Path) -> anyhow::Result<Self> {
        let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", &target];
        let text = output(cargo().args(arguments))?;
        let metadata: CargoMetadata = serde_json::from_str(&text).context("reading cargo metadata")?;
        let lock = fs::read_to_string(repository.join("Cargo.lock")).context("reading Cargo.lock")?;
        let lock: Lock = toml::from_str(&lock).context("reading Cargo.lock")?;
        let (crates, needs) = linked(metadata, &lock)?;
        let rust = output(Command::new("rustc").arg("--version"))?.trim().to_owned();
        let libc = output(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
        let libc = libc.trim().trim_start_matches("glibc ").to_owned();
        Ok(Self { crates, needs, rust, libc })
    }

    /// The version of linerate.
    pub fn version(&self) -> &str {
        &self.program().version
    }

    /// The crate of the program.
    pub fn program(&self) -> &Part {
        self.crates.iter().find(|part| part.name == "linerate").expect("the others are what it needs")
    }
}

/// The crates that the program needs to run, and their needs.
fn linked(metadata: CargoMetadata, lock: &Lock) -> anyhow::Result<(Vec<Part>, Needs)> {
    let program = metadata.packages.iter().find(|part| part.name == "linerate" && part.source.is_none());
    let program = program.context("reading cargo metadata: there is no crate linerate")?.id.clone();
    let nodes: BTreeMap<&str, &ResolvedCrate> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let (mut found, mut open) = (BTreeSet::from([program.clone()]), vec![program]);
    let mut needs = Vec::new();
    while let Some(id) = open.pop() {
        let deps = nodes.get(id.as_str()).map(|node| node.deps.as_slice()).unwrap_or_default();
        for need in deps.iter().filter(|need| need.dep_kinds.iter().any(|kind| kind.kind.is_none())) {
            needs.push((id.clone(), need.pkg.clone()));
            if found.insert(need.pkg.clone()) {
                open.push(need.pkg.clone());
            }
        }
    }
    needs.sort();
    let is_found = |part: &Part| found.contains(&part.id);
    let mut crates: Vec<Part> = metadata.packages.into_iter().filter(is_found).collect();
    crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    for part in &mut crates {
        let locked = lock.package.iter().find(|l| l.name == part.name && l.version == part.version);
        part.checksum = locked.and_then(|locked| locked.checksum.clone());
    }
    Ok((crates, needs))
}
