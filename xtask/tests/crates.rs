//! The crates as the registry gets them: each package has the licences' texts, and addresses that exist.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

fn cargo(words: &[&str]) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(words).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap());
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "{cargo:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Those that are published, as `cargo metadata` describes them.
fn published() -> Vec<Value> {
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages.filter(|package| package["publish"] != serde_json::json!([])).cloned().collect()
}

#[test]
fn each_package_has_the_licences_and_no_page_of_another_directory() {
    let crates = published();
    assert!(crates.len() > 10, "{crates:?}");
    for package in crates {
        let name = package["name"].as_str().unwrap();
        let list = cargo(&["package", "--list", "--allow-dirty", "--offline", "--package", name]);
        let files: Vec<_> = list.lines().collect();
        let directory = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        for licence in LICENCES {
            assert!(files.contains(&licence), "{name}: {licence}");
            let text = std::fs::read_to_string(directory.join(licence)).unwrap();
            assert!(text.len() > 1000, "{name}: {licence}");
        }
        // `cargo xtask docs` checks the links of the pages that are there.
        if let Some(page) = package["readme"].as_str() {
            assert_eq!(page, "README.md", "{name}");
            assert!(files.contains(&page), "{name}");
        }
    }
}

#[test]
fn each_crate_says_what_it_is_and_its_addresses_are_whole() {
    for package in published() {
        let name = package["name"].as_str().unwrap();
        assert_eq!(package["license"], "Apache-2.0 OR MIT", "{name}");
        assert!(package["description"].as_str().is_some_and(|text| text.len() > 30), "{name}");
        assert_eq!(package["documentation"], format!("https://docs.rs/{name}"), "{name}");
        for key in ["repository", "homepage"] {
            let address = &package[key];
            assert!(
                address.is_null() || address.as_str().is_some_and(|it| it.starts_with("https://")),
                "{name}"
            );
        }
    }
}
