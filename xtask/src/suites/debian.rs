//! Fetches Debian source packages with apt. apt uses separate package lists, so that the machine's
//! configuration isn't changed.

use anyhow::{Context, bail};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::listing::Listing;

/// apt's entries for the Debian suites that may have a package's version.
const STANZAS: &[(&str, &str)] = &[
    ("http://deb.debian.org/debian", "bookworm bookworm-updates trixie trixie-updates sid"),
    ("http://deb.debian.org/debian-security", "bookworm-security trixie-security"),
];

/// The number of tries to download a file: a mirror may report that a file is missing, and have the file a moment
/// later.
const TRIES: u32 = 3;

/// An upstream tarball that a signed package index lists.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tarball {
    /// Debian's version of the source package.
    version: String,
    name: String,
    sha256: String,
}

/// An unpacked source.
#[derive(Debug)]
pub struct Source {
    /// The top directory of the source.
    pub directory: PathBuf,
}

/// Unpacks the source of the first available version in the list, from the cache or from Debian.
///
/// # Errors
/// If no version is available.
pub fn source(cache: &Path, listing: &Listing) -> anyhow::Result<Source> {
    let kept = cache.join("sources");
    fs::create_dir_all(&kept).with_context(|| format!("making {}", kept.display()))?;
    let tarball = match cached(&kept, listing) {
        Some(tarball) => tarball,
        None => fetch(cache, &kept, listing)?,
    };
    unpack(cache, &tarball)
}

/// The cached tarball. A tarball gets its final name in this directory only after its digest was checked.
fn cached(kept: &Path, listing: &Listing) -> Option<PathBuf> {
    let names: Vec<_> = fs::read_dir(kept).ok()?.flatten().map(|entry| entry.path()).collect();
    let begins = |path: &&PathBuf, version: &str| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(&format!("{}_{version}", listing.package)) && name.contains(".orig.tar.")
    };
    listing.versions.iter().find_map(|version| names.iter().find(|path| begins(path, version)).cloned())
}

fn fetch(cache: &Path, kept: &Path, listing: &Listing) -> anyhow::Result<PathBuf> {
    let apt = Apt::new(cache)?;
    let updated = apt.run("apt-get", &["update", "-q"])?;
    let shown = apt.run("apt-cache", &["showsrc", &listing.package])?;
    let records = tarballs(&String::from_utf8_lossy(&shown.stdout));
    let versions = listing.versions.iter();
    let candidates: Vec<_> = versions
        .flat_map(|version| {
            let head = format!("{}_{version}", listing.package);
            records.iter().filter(move |tarball| tarball.name.starts_with(&head))
        })
        .collect();
    if candidates.is_empty() {
        let problem = String::from_utf8_lossy(&updated.stderr).lines().last().unwrap_or_default().to_owned();
        bail!(
            "Debian's indexes have no source of {} {}: {problem}",
            listing.package,
            listing.versions.join(" or ")
        );
    }
    for _ in 0..TRIES {
        for tarball in &candidates {
            if let Some(path) = apt.fetch(&listing.package, tarball, kept)? {
                return Ok(path);
            }
        }
    }
    let names: Vec<_> = candidates.iter().map(|tarball| tarball.name.as_str()).collect();
    bail!("none of these came whole from Debian's mirror in {TRIES} tries: {}", names.join(", "))
}

/// The tarballs that the SHA-256 lines of the index's records name.
fn tarballs(records: &str) -> Vec<Tarball> {
    let mut found: Vec<Tarball> = Vec::new();
    let mut version = "";
    for line in records.lines() {
        if let Some(value) = line.strip_prefix("Version: ") {
            version = value;
        }
        let fields: Vec<_> = line.split_whitespace().collect();
        let &[sha256, _, name] = fields.as_slice() else { continue };
        if sha256.len() == 64
            && line.starts_with(' ')
            && name.contains(".orig.tar.")
            && !name.ends_with(".asc")
        {
            let (name, sha256) = (name.to_owned(), sha256.to_owned());
            found.push(Tarball { version: version.to_owned(), name, sha256 });
        }
    }
    found
}

/// apt with separate package lists.
struct Apt {
    directory: PathBuf,
}

impl Apt {
    fn new(cache: &Path) -> anyhow::Result<Self> {
        let directory = cache.join("apt");
        for inner in ["lists/partial", "archives/partial", "got"] {
            fs::create_dir_all(directory.join(inner)).context("making directories for apt")?;
        }
        // apt downloads as its own user, who needs access to the directory.
        let stanza = |(place, suites): &(&str, &str)| {
            format!(
                "Types: deb-src\nURIs: {place}\nSuites: {suites}\nComponents: main\n\
                 Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
            )
        };
        let text = STANZAS.iter().map(stanza).collect::<Vec<_>>().join("\n");
        fs::create_dir_all(directory.join("parts")).context("making a directory for apt's sources")?;
        fs::write(directory.join("parts/suites.sources"), text).context("writing apt's sources")?;
        Ok(Self { directory })
    }

    /// Runs one of apt's programs, and returns its output even if it fails.
    fn run(&self, program: &str, words: &[&str]) -> anyhow::Result<Output> {
        let at = |inner: &str| self.directory.join(inner).display().to_string();
        let options = [
            "Dir::Etc::sourcelist=/dev/null".to_owned(),
            format!("Dir::Etc::sourceparts={}", at("parts")),
            format!("Dir::State::lists={}", at("lists")),
            format!("Dir::Cache::archives={}", at("archives")),
            format!("Dir::Cache::srcpkgcache={}", at("srcpkgcache.bin")),
            format!("Dir::Cache::pkgcache={}", at("pkgcache.bin")),
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::Retries=2".to_owned(),
        ];
        let mut command = Command::new(program);
        for option in options {
            command.args(["-o", &option]);
        }
        command.args(words).current_dir(self.directory.join("got"));
        command.output().with_context(|| format!("running {program}"))
    }

    /// Downloads a tarball, and returns its path below `kept`; `None` if it wasn't downloaded completely. Other files
    /// of the source package aren't needed.
    fn fetch(&self, package: &str, tarball: &Tarball, kept: &Path) -> anyhow::Result<Option<PathBuf>> {
        let wanted = format!("{package}={}", tarball.version);
        self.run("apt-get", &["source", "-q", "--download-only", &wanted])?;
        let got = self.directory.join("got").join(&tarball.name);
        let Ok(bytes) = fs::read(&got) else { return Ok(None) };
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        if digest != tarball.sha256 {
            return Ok(None);
        }
        let place = kept.join(&tarball.name);
        fs::rename(&got, &place).with_context(|| format!("keeping {}", place.display()))?;
        Ok(Some(place))
    }
}

/// Unpacks a tarball, unless it is already unpacked.
fn unpack(cache: &Path, tarball: &Path) -> anyhow::Result<Source> {
    let name = tarball.file_name().unwrap_or_default().to_string_lossy();
    let version = name.split(".orig.tar.").next().unwrap_or_default();
    let place = cache.join(version).join("source");
    if place.is_dir() {
        return Ok(Source { directory: place });
    }
    let half = cache.join(version).join("unpacking");
    let _ = fs::remove_dir_all(&half);
    fs::create_dir_all(&half).context("making a directory for the source")?;
    let status = Command::new("tar")
        .arg("-xf")
        .arg(tarball)
        .arg("-C")
        .arg(&half)
        .args(["--strip-components=1"])
        .status();
    if !status.context("running tar")?.success() {
        bail!("tar could not unpack {}", tarball.display());
    }
    fs::rename(&half, &place).context("keeping the source")?;
    Ok(Source { directory: place })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tarballs_are_found_in_the_index() {
        let digest = "d5de0c8a95b00e0f50038ba04526bcbd5fe4f3ff97b4035bb97b084398bfbb60";
        let records = format!(
            "Package: rsync\nVersion: 3.5.0+ds1-1\nFiles:\n 0123 5 rsync_3.5.0+ds1.orig.tar.xz\nChecksums-Sha256:\n \
             {digest} 5 rsync_3.5.0+ds1.orig.tar.xz\n {digest} 5 rsync_3.5.0+ds1-1.dsc\n \
             {digest} 5 rsync_3.5.0+ds1.orig.tar.xz.asc\n"
        );
        let found = tarballs(&records);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].version.as_str(), found[0].name.as_str()),
            ("3.5.0+ds1-1", "rsync_3.5.0+ds1.orig.tar.xz")
        );
    }
}
