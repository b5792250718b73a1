//! Debian's package, deb(5).

use anyhow::Context;
use ar::{Builder, Header};

use super::archive::{below, tar};
use super::product::{InstalledFile, Product, ZSH, compressed};

/// Where Debian's zsh looks for what packages bring.
const DEBIAN_ZSH: &str = "share/zsh/vendor-completions";

/// A processor's name in Debian.
pub fn architecture(arch: Option<&str>) -> &str {
    match arch {
        Some("x86_64") => "amd64",
        Some("aarch64") => "arm64",
        Some(other) => other,
        None => "all",
    }
}

/// The package. gzip, since dpkg before Debian 12 reads no Zstandard.
pub fn package(product: &Product) -> anyhow::Result<Vec<u8>> {
    let mut files = below("usr", &product.files);
    files.iter_mut().for_each(|file| file.path = file.path.replace(ZSH, DEBIAN_ZSH));
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

/// deb-control(5). A static binary depends on nothing; ssh is a program that it runs.
fn control(product: &Product) -> String {
    let kibibytes: usize = product.files.iter().map(|file| file.bytes.len().div_ceil(1024)).sum();
    format!(
        "Package: {}\nVersion: {}\nArchitecture: {}\nMaintainer: The linerate project\n\
         Installed-Size: {kibibytes}\nRecommends: {}\nSection: net\nPriority: optional\n\
         Description: {}\n {}\n",
        product.name,
        product.package_version(),
        architecture(product.arch()),
        if product.arch().is_some() { "openssh-client" } else { "linerate" },
        product.summary,
        product.description.replace('\n', "\n "),
    )
}
