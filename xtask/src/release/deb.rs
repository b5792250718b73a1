//! Debian's package, deb(5).

use anyhow::Context;
use ar::{Builder, Header};

use super::archive::{below, tar};
use super::changes;
use super::product::{CHANGES, InstalledFile, Product, ZSH, compressed};

/// The directory in which Debian's zsh looks for completions from packages.
const DEBIAN_ZSH: &str = "share/zsh/vendor-completions";

/// The name of linerate's changelog in Debian packages; the usual name is for Debian's own changelog.
const UPSTREAM: &str = "NEWS.gz";
/// The sentence about the texts of common licences, which every Debian system has.
const COMMON: &str = "
On Debian systems, the complete texts of the Apache License, Version 2.0, of the
GNU Lesser General Public License, version 2.1, and of the GNU General Public
License, version 3, are in /usr/share/common-licenses/Apache-2.0,
/usr/share/common-licenses/LGPL-2.1 and /usr/share/common-licenses/GPL-3.
";

/// The exceptions for Debian's package checker, for the package of all machines.
const OVERRIDES: &str = "\
# These programs run on the far hosts to which linerate brings them, whatever this one is.
linerate-agents: arch-independent-package-contains-binary-or-object
";

/// A processor's name in Debian.
pub fn architecture(arch: Option<&str>) -> &str {
    match arch {
        Some("x86_64") => "amd64",
        Some("aarch64") => "arm64",
        Some(other) => other,
        None => "all",
    }
}

/// The bytes of the package. It is compressed with gzip, because dpkg before Debian 12 can't read Zstandard.
pub fn package(product: &Product) -> anyhow::Result<Vec<u8>> {
    let mut files = below("usr", &product.files);
    files.iter_mut().for_each(|file| file.path = file.path.replace(ZSH, DEBIAN_ZSH));
    with_debians_texts(product, &mut files)?;
    let control = InstalledFile { path: "control".into(), mode: 0o644, bytes: control(product).into_bytes() };
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", compressed(&tar(&[control], product.seconds)?)?),
        ("data.tar.gz", compressed(&tar(&files, product.seconds)?)?),
    ];
    let mut package = Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = Header::new(name.into(), bytes.len() as u64);
        header.set_mode(0o100_644);
        header.set_mtime(product.seconds.into());
        package.append(&header, &*bytes).with_context(|| format!("packing {name}"))?;
    }
    package.into_inner().context("ending the package")
}

/// Adds Debian's changelog and the sentence about the texts of common licences.
fn with_debians_texts(product: &Product, files: &mut Vec<InstalledFile>) -> anyhow::Result<()> {
    let document = |name: &str| format!("usr/{}/{name}", product.documents());
    for file in files.iter_mut() {
        if file.path == document(CHANGES) {
            file.path = document(UPSTREAM);
        } else if file.path == document("copyright") {
            file.bytes.extend_from_slice(COMMON.as_bytes());
        }
    }
    let bytes = compressed(changes::of_debian(product, UPSTREAM)?.as_bytes())?;
    files.push(InstalledFile { path: document(CHANGES), mode: 0o644, bytes });
    if product.arch().is_none() {
        let path = format!("usr/share/lintian/overrides/{}", product.name);
        files.push(InstalledFile { path, mode: 0o644, bytes: OVERRIDES.into() });
    }
    Ok(())
}

/// The package's control file, deb-control(5). A static binary has no dependencies; ssh is only a program
/// that it runs.
fn control(product: &Product) -> String {
    let kibibytes: usize = product.files.iter().map(|file| file.bytes.len().div_ceil(1024)).sum();
    format!(
        "Package: {}\nVersion: {}\nArchitecture: {}\nMaintainer: {}\n\
         Installed-Size: {kibibytes}\n{}\nSection: net\nPriority: optional\n\
         Description: {}\n {}\n",
        product.name,
        product.package_version(),
        architecture(product.arch()),
        product.maintainer,
        match product.arch() {
            Some(_) => "Recommends: openssh-client".to_owned(),
            // linerate can't use programs and agents of another version.
            None => format!("Depends: linerate (= {})", product.package_version()),
        },
        product.summary,
        product.description.replace('\n', "\n "),
    )
}
