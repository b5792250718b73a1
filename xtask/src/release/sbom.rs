//! The list of parts (SBOM) in the JSON format of SPDX 2.3: <https://spdx.github.io/spdx-spec/v2.3/>.

use anyhow::Context;
use serde_json::{Value, json};

use super::parts::{Part, Parts};
use super::{hexadecimal, output};
use crate::machine::Machine;
use std::collections::BTreeMap;
use std::process::Command;

/// GCC's runtime: libgcc and libgcc_eh, which unwinds the stack.
const LIBGCC: &str = "SPDXRef-libgcc";

/// The binaries of a release for a kind of machine, and their source.
pub struct Binaries<'a> {
    pub machine: &'a Machine,
    /// The binaries by the name of the crate: `linerate`, and `linerate-agent` if it is released.
    pub built: BTreeMap<&'static str, BuiltBinary>,
    /// The version of rustc that built the program, if the program names it.
    pub rust: Option<String>,
}

/// A binary of a release.
pub struct BuiltBinary {
    pub sha256: String,
    /// The commit from which the binary was built, if the binary contains it.
    pub commit: Option<String>,
}

/// The document: every crate that cargo links into the program with its licence and digest, Rust's standard
/// library, the C library and GCC's runtime. Crates that are only used during the build aren't listed.
///
/// # Errors
/// If a time can't be formatted.
pub fn document(parts: &Parts, seconds: u32, binaries: &Binaries) -> anyhow::Result<Vec<u8>> {
    let created =
        output(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ", "-d"]).arg(format!("@{seconds}")))?;
    let crates = parts.crates.iter().map(|part| package(part, binaries));
    let packages: Vec<Value> = crates.chain(toolchain(binaries)).collect();
    let relations = relations(parts);
    let body = json!([packages, relations]).to_string();
    let name = format!("linerate-{}-{}", parts.version(), binaries.machine.name());
    let document = json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": format!("https://spdx.org/spdxdocs/{name}-{}", hexadecimal(body.as_bytes())),
        "creationInfo": { "created": created.trim(), "creators": ["Organization: The linerate project"] },
        "packages": packages,
        "relationships": relations,
    });
    let mut bytes = serde_json::to_vec_pretty(&document).context("writing the list of parts")?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The entry of a crate. For a crate from elsewhere, the checksum is that of its source. For linerate and its agent,
/// the checksum is that of the binary.
fn package(part: &Part, binaries: &Binaries) -> Value {
    let mut package = described(&identifier(part), &part.name, Some(&part.version), &part.licence());
    let built = binaries.built.get(part.name.as_str()).filter(|_| part.source.is_none());
    if let Some(digest) = part.checksum.as_ref().or(built.map(|built| &built.sha256)) {
        package["checksums"] = json!([{ "algorithm": "SHA256", "checksumValue": digest }]);
    }
    if let Some(commit) = built.and_then(|built| built.commit.as_ref()) {
        package["sourceInfo"] = json!(format!("git commit {commit}"));
    }
    if part.source.is_some() {
        let at = format!("https://crates.io/api/v1/crates/{}/{}/download", part.name, part.version);
        package["downloadLocation"] = json!(at);
        package["externalRefs"] = json!([{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": format!("pkg:cargo/{}@{}", part.name, part.version.replace('+', "%2B")),
        }]);
    }
    package
}

fn toolchain(binaries: &Binaries) -> [Value; 3] {
    let (libc, gcc) = (binaries.machine.c_library(), binaries.machine.gcc());
    [
        described("SPDXRef-rust-std", "rust-std", binaries.rust.as_deref(), "Apache-2.0 OR MIT"),
        described("SPDXRef-glibc", "glibc", libc.as_deref(), "LGPL-2.1-or-later"),
        described(LIBGCC, "libgcc", gcc.as_deref(), "GPL-3.0-or-later WITH GCC-exception-3.1"),
    ]
}

fn described(identifier: &str, name: &str, version: Option<&str>, licence: &str) -> Value {
    json!({
        "SPDXID": identifier,
        "name": name,
        "versionInfo": version.unwrap_or("NOASSERTION"),
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
    })
}

fn relations(parts: &Parts) -> Vec<Value> {
    let relation = |from: &str, kind: &str, to: &str| json!({ "spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to });
    let named = |id: &str| parts.crates.iter().find(|part| part.id == id).map(identifier);
    let program = identifier(parts.program());
    let mut relations = vec![relation("SPDXRef-DOCUMENT", "DESCRIBES", &program)];
    let needs = parts.needs.iter().filter_map(|(from, to)| Some((named(from)?, named(to)?)));
    relations.extend(needs.map(|(from, to)| relation(&from, "DEPENDS_ON", &to)));
    for part in ["SPDXRef-rust-std", "SPDXRef-glibc", LIBGCC] {
        relations.push(relation(&program, "STATIC_LINK", part));
    }
    relations
}

/// A crate's identifier, reduced to letters, digits, dots and hyphens, which SPDX allows.
fn identifier(part: &Part) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    format!("SPDXRef-crate-{}-{}", part.name, part.version).chars().map(fit).collect()
}
