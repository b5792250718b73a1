//! The package of Fedora, Red Hat and SUSE.

use anyhow::Context;
use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileOptions, PackageBuilder};
use std::collections::BTreeSet;
use std::path::Path;

use super::product::{DESCRIPTION, DOCUMENTS, InstalledFile, LICENCE, Product, SUMMARY};

/// The package. xz, since rpm before 4.14 reads no Zstandard.
pub fn package(product: &Product) -> anyhow::Result<Vec<u8>> {
    let config = BuildConfig::v4().compression(CompressionWithLevel::Xz(9)).source_date(product.seconds);
    let version = product.package_version();
    let mut package = PackageBuilder::new("linerate", &version, LICENCE, product.arch, SUMMARY);
    package.using_config(config).release("1").description(DESCRIPTION).build_host("localhost");
    package.recommends(Dependency::any("openssh-clients"));
    // Removed with the package; the other directories belong to the system.
    for directory in own_directories(product) {
        let options = FileOptions::dir(format!("/usr/{directory}")).permissions(0o755);
        package.with_dir_entry(options).context("packing a directory")?;
    }
    for file in &product.files {
        add(&mut package, file).with_context(|| format!("packing {}", file.path))?;
    }
    let mut bytes = Vec::new();
    package.build().and_then(|package| package.write(&mut bytes)).context("making the rpm package")?;
    Ok(bytes)
}

/// The directory of the documents, and those below it.
fn own_directories(product: &Product) -> BTreeSet<String> {
    let above = product.files.iter().flat_map(|file| Path::new(&file.path).ancestors().skip(1));
    let own = above.filter(|directory| directory.starts_with(DOCUMENTS));
    own.map(|directory| directory.to_string_lossy().into_owned()).collect()
}

fn add(package: &mut PackageBuilder, file: &InstalledFile) -> Result<(), rpm::Error> {
    let options = FileOptions::new(format!("/usr/{}", file.path)).permissions(file.mode as u16);
    let options = match file.path.strip_prefix(DOCUMENTS) {
        Some(name) if name.contains("LICENSE") || name == "/copyright" => options.license(),
        Some(_) => options.doc(),
        None => options,
    };
    package.with_file_contents(file.bytes.clone(), options).map(|_| ())
}
