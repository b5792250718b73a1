//! What is released: the files that every package installs, and the packages made of them.

use anyhow::Context;
use flate2::{Compression, GzBuilder};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use super::parts::Parts;
use super::{archive, deb, hexadecimal, licences, output, rpm, sbom};

/// One sentence, as package managers list it.
pub const SUMMARY: &str = "moves file trees between Linux servers at the line rate";
/// More of them, of at most 80 characters a line.
pub const DESCRIPTION: &str = "\
linerate copies and syncs file trees between Linux servers over the user's own
ssh: encrypted, verified, and continued after an interruption. It measures a
path beside other tools, and names the one stage that limits a transfer.";
/// The licence of linerate and of the parts of the C library in it, as SPDX writes it.
pub const LICENCE: &str = "(Apache-2.0 OR MIT) AND LGPL-2.1-or-later";
/// Where licences are, below the prefix.
pub const DOCUMENTS: &str = "share/doc/linerate";
/// Where zsh looks on most systems.
pub const ZSH: &str = "share/zsh/site-functions";

/// A file of the release.
#[derive(Clone)]
pub struct InstalledFile {
    /// Below the prefix: `bin/linerate`.
    pub path: String,
    pub mode: u32,
    pub bytes: Vec<u8>,
}

/// All of it.
pub struct Product {
    pub version: String,
    /// As Rust calls it: `x86_64`.
    pub arch: &'static str,
    /// The time of every file, in seconds since 1970.
    pub seconds: u32,
    /// Sorted by path.
    pub files: Vec<InstalledFile>,
    sbom: Vec<u8>,
}

impl Product {
    /// Asks `program` for its pages and completions, and the working tree for everything else.
    pub fn gather(repository: &Path, program: &Path, seconds: u32) -> anyhow::Result<Self> {
        let parts = Parts::read(repository)?;
        let bytes = fs::read(program).with_context(|| format!("reading {}", program.display()))?;
        let sbom = sbom::document(&parts, seconds, &hexadecimal(&bytes))?;
        let mut files = pages(program)?;
        files.extend(completions(program)?);
        for (name, text) in licences::files(repository, &parts)? {
            files.push(document(&name, text));
        }
        let changes = fs::read(repository.join("CHANGELOG.md")).context("reading CHANGELOG.md")?;
        files.push(document("changelog.gz", compressed(&changes)?));
        files.push(document("linerate.spdx.json", sbom.clone()));
        files.extend(examples(&repository.join("contrib"), "examples")?);
        files.push(InstalledFile { path: "bin/linerate".into(), mode: 0o755, bytes });
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let version = parts.version().to_owned();
        Ok(Self { version, arch: std::env::consts::ARCH, seconds, files, sbom })
    }

    /// The names and bytes of what users download.
    pub fn packages(&self) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let (name, arch) = (format!("linerate-{}-{}", self.version, self.arch), self.arch);
        let tar = archive::tar(&archive::below(&name, &self.files), self.seconds)?;
        let tar = zstd::encode_all(&*tar, 19).context("compressing the archive")?;
        let version = self.package_version();
        Ok(vec![
            (format!("{name}.tar.zst"), tar),
            (format!("linerate_{version}_{}.deb", deb::architecture(arch)), deb::package(self)?),
            (format!("linerate-{version}-1.{arch}.rpm"), rpm::package(self)?),
            (format!("{name}.spdx.json"), self.sbom.clone()),
        ])
    }

    /// 1.0.0-rc.1 comes before 1.0.0, which package managers write with a tilde.
    pub fn package_version(&self) -> String {
        self.version.replace('-', "~")
    }
}

fn document(name: &str, bytes: impl Into<Vec<u8>>) -> InstalledFile {
    InstalledFile { path: format!("{DOCUMENTS}/{name}"), mode: 0o644, bytes: bytes.into() }
}

/// Everything below `directory`, as documents below `name`.
fn examples(directory: &Path, name: &str) -> anyhow::Result<Vec<InstalledFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))? {
        let path = entry?.path();
        let name = format!("{name}/{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() {
            files.extend(examples(&path, &name)?);
        } else {
            let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            files.push(document(&name, bytes));
        }
    }
    Ok(files)
}

/// The manual pages, as distributions keep them.
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

/// gzip(1) without a name or a time.
pub fn compressed(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
    gzip.write_all(bytes).and_then(|()| gzip.finish()).context("compressing a file")
}
