//! The package of Fedora, Red Hat and SUSE.

use anyhow::Context;
use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileOptions, PackageBuilder};
use std::collections::BTreeSet;
use std::path::Path;

use super::product::{InstalledFile, Product};

/// The directory, below the prefix, that only linerate's packages own.
const OWN: &str = "lib/linerate";
/// Directories of shell completions that several packages own; the package `filesystem` owns only some or
/// none of them, depending on the system. Their modes must equal those of the other packages, or rpm reports
/// a conflict.
const SHARED: [&str; 3] = ["share/bash-completion", "share/fish", "share/zsh"];

/// The bytes of the package. It is compressed with xz, because rpm before 4.14 can't read Zstandard.
pub fn package(product: &Product) -> anyhow::Result<Vec<u8>> {
    let config = BuildConfig::v4().compression(CompressionWithLevel::Xz(9)).source_date(product.seconds);
    let version = product.package_version();
    let arch = architecture(product.arch());
    let mut package = PackageBuilder::new(product.name, &version, &product.licence, arch, product.summary);
    package.using_config(config).release("1").description(product.description).build_host("localhost");
    match product.arch() {
        Some(_) => package.recommends(Dependency::any("openssh-clients")),
        // linerate can't use programs and agents of another version.
        None => package.requires(Dependency::eq("linerate", format!("{version}-1"))),
    };
    // When rpm removes the last package that owns these directories, it removes them too, if they are empty. Other
    // directories belong to the package `filesystem`.
    for directory in own_directories(product) {
        let options = FileOptions::dir(format!("/usr/{directory}")).permissions(0o755);
        package.with_dir_entry(options).context("packing a directory")?;
    }
    for file in &product.files {
        add(&mut package, file, &product.documents()).with_context(|| format!("packing {}", file.path))?;
    }
    let mut bytes = Vec::new();
    package.build().and_then(|package| package.write(&mut bytes)).context("making the rpm package")?;
    Ok(bytes)
}

/// A processor's name for rpm.
pub fn architecture(arch: Option<&str>) -> &str {
    arch.unwrap_or("noarch")
}

/// The directories that may be missing on a system without this package.
fn own_directories(product: &Product) -> BTreeSet<String> {
    let above = product.files.iter().flat_map(|file| Path::new(&file.path).ancestors().skip(1));
    let documents = product.documents();
    let own = |directory: &&Path| {
        let tops = SHARED.into_iter().chain([documents.as_str(), OWN]);
        tops.into_iter().any(|top| directory.starts_with(top))
    };
    above.filter(own).map(|directory| directory.to_string_lossy().into_owned()).collect()
}

fn add(package: &mut PackageBuilder, file: &InstalledFile, documents: &str) -> Result<(), rpm::Error> {
    let options = FileOptions::new(format!("/usr/{}", file.path)).permissions(file.mode as u16);
    let options = match file.path.strip_prefix(documents) {
        Some(name) if name.contains("LICENSE") || name == "/copyright" => options.license(),
        Some(_) => options.doc(),
        None => options,
    };
    package.with_file_contents(file.bytes.clone(), options).map(|_| ())
}
