//! The parts of the binary: the crates from which cargo builds it.

use anyhow::{Context, ensure};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::output;
use crate::cargo;
use crate::machine::Machine;

/// A crate, as `cargo metadata` describes it.
#[derive(Clone, Deserialize)]
pub struct Part {
    pub id: String,
    pub name: String,
    pub version: String,
    #[serde(default)]
    pub license: Option<String>,
    #[serde(default)]
    pub authors: Vec<String>,
    /// The source of the crate; `None` for crates of this repository.
    #[serde(default)]
    pub source: Option<String>,
    pub manifest_path: PathBuf,
    /// The SHA-256 checksum in Cargo.lock.
    #[serde(skip)]
    pub checksum: Option<String>,
}

impl Part {
    /// The crate's licence as an SPDX expression. Older crates separate two licences with a slash.
    pub fn licence(&self) -> String {
        self.license.as_deref().unwrap_or("NOASSERTION").replace('/', " OR ").replace("  ", " ")
    }
}

/// Dependencies between crates as pairs of ids: the first crate needs the second.
type Needs = Vec<(String, String)>;

/// All parts of the program: the crates that are linked, and procedural macros, whose output is part of the
/// program.
pub struct Parts {
    /// The crates, including those of this repository, sorted by name and version.
    pub crates: Vec<Part>,
    /// The dependencies between the crates, by id.
    pub needs: Needs,
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
    /// The kind of dependency: `None` for linked crates, `build` and `dev` for others.
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
    /// Reads from cargo the parts of the binaries for these kinds of machines.
    pub fn read<'a>(
        repository: &Path,
        machines: impl IntoIterator<Item = &'a Machine>,
    ) -> anyhow::Result<Self> {
        let mut tree = cargo();
        tree.args(["tree", "--locked", "--package", "linerate", "--package", "linerate-agent"]);
        tree.args(["--edges", "normal", "--prefix", "none", "--format", "{p}"]);
        let mut metadata = cargo();
        metadata.args(["metadata", "--format-version", "1", "--locked"]);
        for machine in machines {
            tree.args(["--target", &machine.triple()]);
            metadata.args(["--filter-platform", &machine.triple()]);
        }
        let metadata: CargoMetadata =
            serde_json::from_str(&output(&mut metadata)?).context("reading cargo metadata")?;
        let lock = fs::read_to_string(repository.join("Cargo.lock")).context("reading Cargo.lock")?;
        let lock: Lock = toml::from_str(&lock).context("reading Cargo.lock")?;
        let parts = linked(metadata, &output(&mut tree)?, &lock);
        ensure!(parts.crates.iter().any(is_program), "reading cargo tree: there is no crate linerate");
        Ok(parts)
    }

    /// The version of linerate.
    pub fn version(&self) -> &str {
        &self.program().version
    }

    /// The crate of the program.
    pub fn program(&self) -> &Part {
        self.crates.iter().find(|part| is_program(part)).expect("parts without it aren't read")
    }
}

fn is_program(part: &Part) -> bool {
    part.name == "linerate" && part.source.is_none()
}

/// The crates in `tree`, which has lines of `NAME vVERSION`, and their dependencies. The metadata alone has
/// too many: it includes features that any crate of the workspace requests.
fn linked(metadata: CargoMetadata, tree: &str, lock: &Lock) -> Parts {
    let names: BTreeSet<Vec<&str>> = tree.lines().map(|line| line.split(' ').take(2).collect()).collect();
    let is_linked = |part: &Part| names.contains(&vec![part.name.as_str(), &format!("v{}", part.version)]);
    let mut crates: Vec<Part> = metadata.packages.into_iter().filter(is_linked).collect();
    crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    for part in &mut crates {
        let locked = lock.package.iter().find(|l| l.name == part.name && l.version == part.version);
        part.checksum = locked.and_then(|locked| locked.checksum.clone());
    }
    let ids: BTreeSet<&str> = crates.iter().map(|part| part.id.as_str()).collect();
    let mut needs = Vec::new();
    for node in metadata.resolve.nodes.iter().filter(|node| ids.contains(node.id.as_str())) {
        let runs = |need: &&Need| need.dep_kinds.iter().any(|kind| kind.kind.is_none());
        let deps = node.deps.iter().filter(runs).filter(|need| ids.contains(need.pkg.as_str()));
        needs.extend(deps.map(|need| (node.id.clone(), need.pkg.clone())));
    }
    needs.sort();
    Parts { crates, needs }
}
