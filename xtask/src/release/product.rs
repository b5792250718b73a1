//! The product that is released: the files that every package installs, and the packages made of them.

use anyhow::{Context, bail, ensure};
use flate2::{Compression, GzBuilder};
use linerate_remote::binary::{BESIDE, LIBRARY, NAME};
use linerate_remote::packed::{self, SILENT};
use linerate_wire::identity::{IDENTITY, reported_by};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use super::parts::{Part, Parts};
use super::sbom::{Binaries, BuiltBinary};
use super::{ByMachine, ReleaseSource, archive, changes, deb, hexadecimal, licence_texts, output, rpm, sbom};
use crate::dist::commit_of;
use crate::machine::Machine;

/// A summary in one sentence, as package managers list it.
const SUMMARY: &str = "moves file trees between Linux servers at the line rate";
/// A longer description, in lines of at most 80 characters.
const DESCRIPTION: &str = "\
linerate copies and syncs file trees between Linux servers over the user's own
ssh: encrypted, verified, and continued after an interruption. It measures a
path beside other tools, and names the one stage that limits a transfer.";
const AGENTS_SUMMARY: &str = "linerate for far hosts of other kinds of machine";
const AGENTS_DESCRIPTION: &str = "\
linerate brings itself to the hosts that it copies to and from. With this
package it brings the right binary to hosts of another architecture, too.";
/// The licences of linerate, of the C library and of GCC's runtime in the binary, as an SPDX expression.
const LICENCE: &str = "(Apache-2.0 OR MIT) AND LGPL-2.1-or-later AND GPL-3.0-or-later WITH GCC-exception-3.1";
/// The maintainer if none is named. The domain of the address is reserved (RFC 2606), so it belongs to
/// nobody.
const NOBODY: &str = "The linerate contributors <linerate@linerate.invalid>";
/// The greatest number of bytes that may be sent to a new host.
pub const MOST_BROUGHT: usize = 5_000_000;
/// The directory of each package's documents, below the prefix.
const DOCUMENTS: &str = "share/doc";
/// The changelog's name among the documents.
pub const CHANGES: &str = "changelog.gz";
/// The name of the list of parts among the documents.
const PARTS: &str = "linerate.spdx.json";
/// The directory in which zsh looks for completions on most systems.
pub const ZSH: &str = "share/zsh/site-functions";

/// A file that packages install.
#[derive(Clone)]
pub struct InstalledFile {
    /// The path below the prefix: `bin/linerate`.
    pub path: String,
    pub mode: u32,
    pub bytes: Vec<u8>,
}

/// The contents of a package.
pub struct Product {
    pub name: &'static str,
    pub summary: &'static str,
    pub description: &'static str,
    pub version: String,
    /// The maintainer, as `NAME <ADDRESS>`.
    pub maintainer: String,
    /// The licences of linerate and of all linked parts, as an SPDX expression.
    pub licence: String,
    /// The kind of machine; `None` if the package is for all machines.
    machine: Option<Machine>,
    /// The time of every file, in seconds since 1970.
    pub seconds: u32,
    /// The files, sorted by path.
    pub files: Vec<InstalledFile>,
    sbom: Option<Vec<u8>>,
}

impl Product {
    /// The package of the program for a kind of machine, with its agent and `texts`.
    pub fn program(
        source: &ReleaseSource,
        machine: &Machine,
        program: &Path,
        agent: Option<&Path>,
        texts: &[InstalledFile],
    ) -> anyhow::Result<Self> {
        let ReleaseSource { repository, seconds, .. } = source;
        let parts = Parts::read(repository, [machine])?;
        let bytes = read(program)?;
        let mut built = BTreeMap::from([("linerate", built_binary(&bytes))]);
        if let Some(agent) = agent {
            built.insert("linerate-agent", built_binary(&read(agent)?));
        }
        let binaries = Binaries { machine, built, rust: rust_of(&bytes) };
        let sbom = sbom::document(&parts, *seconds, &binaries)?;
        let mut product = Self::empty("linerate", &parts, source);
        product.machine = Some(machine.clone());
        product.files = texts.to_vec();
        product.add_licences(repository, &parts)?;
        product.add_changes(repository)?;
        product.add_document(PARTS, sbom.clone());
        product.add_examples(&repository.join("contrib"), "examples")?;
        product.files.push(InstalledFile { path: "bin/linerate".into(), mode: 0o755, bytes });
        match agent {
            Some(agent) => product.files.push(packed_agent(LIBRARY, machine, agent)?),
            None => println!("no agent for {}: far hosts will get the whole program", machine.name()),
        }
        product.files.sort_by(|a, b| a.path.cmp(&b.path));
        product.sbom = Some(sbom);
        Ok(product)
    }

    /// The package of programs and agents for several kinds of machines, with the lists of parts for these
    /// machines.
    pub fn agents(
        source: &ReleaseSource,
        programs: &ByMachine,
        agents: &ByMachine,
        products: &[Self],
    ) -> anyhow::Result<Self> {
        let parts = Parts::read(source.repository, programs.keys().chain(agents.keys()))?;
        let mut product = Self {
            summary: AGENTS_SUMMARY,
            description: AGENTS_DESCRIPTION,
            ..Self::empty("linerate-agents", &parts, source)
        };
        product.add_licences(source.repository, &parts)?;
        product.add_changes(source.repository)?;
        for (machine, file) in programs {
            let bytes = read(file)?;
            let path = format!("{BESIDE}/{NAME}{}", machine.name());
            product.files.push(InstalledFile { path, mode: 0o755, bytes });
        }
        for (machine, file) in agents {
            product.files.push(packed_agent(BESIDE, machine, file)?);
        }
        for (machine, sbom) in products.iter().filter_map(|of| of.machine.as_ref().zip(of.sbom.clone())) {
            product.add_document(&format!("{}.{PARTS}", machine.name()), sbom);
        }
        for (machine, file) in agents.iter().filter(|(machine, _)| !programs.contains_key(machine)) {
            let (parts, bytes) = (Parts::read(source.repository, [machine])?, read(file)?);
            let built = BTreeMap::from([("linerate-agent", built_binary(&bytes))]);
            let binaries = Binaries { machine, built, rust: rust_of(&bytes) };
            let sbom = sbom::document(&parts, source.seconds, &binaries)?;
            product.add_document(&format!("{}.{PARTS}", machine.name()), sbom);
        }
        product.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(product)
    }

    fn empty(name: &'static str, parts: &Parts, source: &ReleaseSource) -> Self {
        let maintainer = source.maintainer.as_ref().or(parts.program().authors.first());
        Self {
            name,
            summary: SUMMARY,
            description: DESCRIPTION,
            version: parts.version().to_owned(),
            maintainer: maintainer.map_or(NOBODY, String::as_str).to_owned(),
            licence: licence(parts),
            machine: None,
            seconds: source.seconds,
            files: Vec::new(),
            sbom: None,
        }
    }

    /// The names and bytes of the packages that users download.
    pub fn packages(&self) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let arch = self.arch();
        let of_arch = arch.map_or_else(String::new, |arch| format!("-{arch}"));
        let name = format!("{}-{}{of_arch}", self.name, self.version);
        let tar = archive::tar_of_files(&archive::below(&name, &self.files), self.seconds)?;
        let tar = zstd::encode_all(&*tar, 19).context("compressing the archive")?;
        let version = self.package_version();
        let mut packages = vec![
            (format!("{name}.tar.zst"), tar),
            (format!("{}_{version}_{}.deb", self.name, deb::architecture(arch)), deb::package(self)?),
            (format!("{}-{version}-1.{}.rpm", self.name, rpm::architecture(arch)), rpm::package(self)?),
        ];
        packages.extend(self.sbom.clone().map(|sbom| (format!("{name}.spdx.json"), sbom)));
        Ok(packages)
    }

    /// The architecture by Rust's name: `x86_64`. `None` if the package is for all machines.
    pub fn arch(&self) -> Option<&str> {
        self.machine.as_ref().map(Machine::name)
    }

    /// The directory of the package's documents, below the prefix.
    pub fn documents(&self) -> String {
        format!("{DOCUMENTS}/{}", self.name)
    }

    fn add_document(&mut self, name: &str, bytes: impl Into<Vec<u8>>) {
        let path = format!("{}/{name}", self.documents());
        self.files.push(InstalledFile { path, mode: 0o644, bytes: bytes.into() });
    }

    fn add_licences(&mut self, repository: &Path, parts: &Parts) -> anyhow::Result<()> {
        for (name, text) in licence_texts::files(repository, parts)? {
            self.add_document(&name, text);
        }
        Ok(())
    }

    fn add_changes(&mut self, repository: &Path) -> anyhow::Result<()> {
        let text = fs::read_to_string(repository.join("CHANGELOG.md")).context("reading CHANGELOG.md")?;
        let changes = changes::packaged(&text, &self.version);
        self.add_document(CHANGES, compressed(changes.as_bytes())?);
        Ok(())
    }

    /// Adds all files below `directory` as documents below `name`.
    fn add_examples(&mut self, directory: &Path, name: &str) -> anyhow::Result<()> {
        for entry in fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))? {
            let path = entry?.path();
            let name = format!("{name}/{}", path.file_name().unwrap_or_default().to_string_lossy());
            if path.is_dir() {
                self.add_examples(&path, &name)?;
            } else {
                let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
                self.add_document(&name, bytes);
            }
        }
        Ok(())
    }

    /// The version for package managers, which write `1.0.0~rc.1` so that it is older than 1.0.0.
    pub fn package_version(&self) -> String {
        self.version.replace('-', "~")
    }
}

/// A compressed agent in the form that is sent to far hosts, in a directory below the prefix.
fn packed_agent(directory: &str, machine: &Machine, file: &Path) -> anyhow::Result<InstalledFile> {
    let mut bytes = Vec::new();
    packed::write(file, &mut bytes).with_context(|| format!("packing {}", file.display()))?;
    println!("agent for {}: {:.1} MB are brought", machine.name(), bytes.len() as f64 * 1e-6);
    ensure!(
        bytes.len() <= MOST_BROUGHT,
        "the agent for {} is larger than {MOST_BROUGHT} bytes: which new part of it can be left out?",
        machine.name()
    );
    let path = format!("{directory}/{}{}{}", packed::NAME, machine.name(), packed::END);
    Ok(InstalledFile { path, mode: 0o644, bytes })
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("reading {}", file.display()))
}

/// Checks that a binary speaks this source's protocol and, if the binary names its commit, that it was built from this
/// commit. The manual pages, licences and list of parts are made from this source, and far hosts get the binary as a
/// program of this version.
///
/// # Errors
/// A message with the binary, the error and advice.
pub fn check(source: &ReleaseSource, file: &Path) -> anyhow::Result<()> {
    let (bytes, shown) = (read(file)?, file.display());
    match reported_by(&bytes) {
        Some(IDENTITY) => {}
        Some(reported) => {
            bail!(
                "{shown} is of {reported}, and this source is {IDENTITY}: build it again, or check out its source"
            )
        }
        None => bail!("{shown} can't be packed: {SILENT} by cargo xtask dist"),
    }
    match (commit_of(&bytes), source.commit.as_deref()) {
        (Some(named), Some(commit)) => ensure!(
            named == commit,
            "{shown} was built from commit {named}, and this source is commit {commit}: build it again, or check out its commit",
        ),
        (Some(_), None) => {}
        (None, _) => println!(
            "{shown} doesn't name its commit (cargo xtask dist puts it in): the list of parts won't either"
        ),
    }
    Ok(())
}

/// The licences in [`LICENCE`] and those of all crates, as one SPDX expression. Each licence occurs once: licences that
/// differ only in the order of their alternatives count as the same.
fn licence(parts: &Parts) -> String {
    let foreign = parts.crates.iter().filter(|part| part.source.is_some());
    let sorted = |part: &Part| {
        let licence = part.licence();
        let is_plain = !licence.contains(['(', ')']) && !licence.contains(" AND ");
        let mut alternatives: Vec<&str> = licence.split(" OR ").collect();
        alternatives.sort_unstable();
        match alternatives.len() {
            1 => licence,
            _ if is_plain => format!("({})", alternatives.join(" OR ")),
            _ => format!("({licence})"),
        }
    };
    let others: BTreeSet<String> = foreign.map(sorted).collect();
    [LICENCE.to_owned()].into_iter().chain(others).collect::<Vec<_>>().join(" AND ")
}

fn built_binary(bytes: &[u8]) -> BuiltBinary {
    BuiltBinary { sha256: hexadecimal(bytes), commit: commit_of(bytes).map(str::to_owned) }
}

/// The rustc version that the section `.comment` of a program contains.
fn rust_of(program: &[u8]) -> Option<String> {
    let note = program.split(|byte| *byte == 0).find_map(|text| text.strip_prefix(b"rustc version "))?;
    std::str::from_utf8(note).ok()?.split(' ').next().map(str::to_owned)
}

/// The manual pages and completions, which this machine's program writes. They are the same on every machine.
pub fn texts(program: &Path) -> anyhow::Result<Vec<InstalledFile>> {
    Ok([pages(program)?, completions(program)?].concat())
}

/// The manual pages in the form in which distributions install them.
fn pages(program: &Path) -> anyhow::Result<Vec<InstalledFile>> {
    let directory = tempfile::tempdir().context("making a directory for the manual pages")?;
    output(Command::new(program).args(["man", "--out"]).arg(directory.path()))?;
    let mut files = Vec::new();
    for page in fs::read_dir(directory.path())? {
        let page = page?;
        let path = format!("share/man/man1/{}.gz", page.file_name().to_string_lossy());
        files.push(InstalledFile { path, mode: 0o644, bytes: compressed(&fs::read(page.path())?)? });
    }
    Ok(files)
}

fn completions(program: &Path) -> anyhow::Result<Vec<InstalledFile>> {
    let places = [
        ("bash", "share/bash-completion/completions/linerate".to_owned()),
        ("zsh", format!("{ZSH}/_linerate")),
        ("fish", "share/fish/vendor_completions.d/linerate.fish".to_owned()),
    ];
    let script = |(shell, path)| {
        let bytes = output(Command::new(program).args(["completions", shell]))?.into_bytes();
        Ok(InstalledFile { path, mode: 0o644, bytes })
    };
    places.into_iter().map(script).collect()
}

/// The bytes, compressed in the format of gzip(1), without a file name and a time.
pub fn compressed(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
    gzip.write_all(bytes).and_then(|()| gzip.finish()).context("compressing a file")
}
