//! The changelog in the form for packages.

use anyhow::Context;
use std::process::Command;

use super::output;
use super::product::Product;

/// The heading of the changes that aren't released yet.
const UNRELEASED: &str = "## [Unreleased]";

/// The changelog's text with the packaged version as its heading, and without links to pages that packages
/// don't contain.
pub fn packaged(changelog: &str, version: &str) -> String {
    without_links(&changelog.replacen(UNRELEASED, &format!("## [{version}]"), 1))
}

/// Replaces each link to a file of the repository by its text. A link that only names the guide is removed
/// together with its parentheses.
fn without_links(text: &str) -> String {
    let (mut kept, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("](") {
        let (before, behind) = rest.split_at(at);
        let target = &behind[2..behind.find(')').unwrap_or(behind.len())];
        let end = (2 + target.len() + 1).min(behind.len());
        let start = before.rfind('[').filter(|_| !target.contains("://"));
        let Some(start) = start else {
            kept += &rest[..at + end];
            rest = &rest[at + end..];
            continue;
        };
        let (shown, is_aside) = (&before[start + 1..], before[..start].ends_with('('));
        if is_aside && behind[end..].starts_with(')') {
            kept += before[..start - 1].trim_end();
            rest = &behind[end + 1..];
        } else {
            kept += &before[..start];
            kept += shown;
            rest = &behind[end..];
        }
    }
    kept + rest
}

/// The Debian changelog (deb-changelog(5)), with one entry for the packaged release.
///
/// # Errors
/// If the time can't be formatted.
pub fn of_debian(product: &Product, upstream: &str) -> anyhow::Result<String> {
    let date = output(Command::new("date").args(["-u", "-R", "-d"]).arg(format!("@{}", product.seconds)))
        .context("dating Debian's changelog")?;
    Ok(format!(
        "{} ({}) unstable; urgency=medium\n\n  * Release {}; {upstream} lists the changes.\n\n -- {}  {}\n",
        product.name,
        product.package_version(),
        product.version,
        product.maintainer,
        date.trim(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packaged_changelog_has_its_version_and_no_link_to_a_page() {
        let text = "[Keep](https://keep.org)\n## [Unreleased]\n- `cp` copies\n  ([guide](docs/a.md)). Two\n\
                    ([docs/p.md](docs/p.md)); one ([guide](a.md), with b)\n- [Some](SECURITY.md#x).";
        let packed = "[Keep](https://keep.org)\n## [0.1.0]\n- `cp` copies. Two; one (guide, with b)\n- Some.";
        assert_eq!(packaged(text, "0.1.0"), packed);
    }

    #[test]
    fn the_repositorys_changelog_has_no_link_left() {
        let text = std::fs::read_to_string(crate::repository().join("CHANGELOG.md")).unwrap();
        let packed = packaged(&text, "0.1.0");
        assert!(!packed.contains("](docs/") && !packed.contains("Unreleased"), "{packed}");
        assert!(packed.contains("](https://keepachangelog.com"), "{packed}");
    }
}
