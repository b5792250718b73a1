//! Copies the pages, and the files to which the pages refer, to their places in the site.

use anyhow::{Context, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::links::{self, Moved};

const CONTENTS: &str = "docs/SUMMARY.md";

/// Writes all pages of the table of contents, and the files to which they refer, into `out`; returns the
/// table of contents.
///
/// # Errors
/// If a file can't be read or written, or a page below docs/ isn't in the table of contents.
pub fn pages(repository: &Path, out: &Path) -> anyhow::Result<String> {
    let contents = fs::read_to_string(repository.join(CONTENTS)).context("reading the contents")?;
    let listed = listed(repository, &contents)?;
    let mut files = BTreeSet::new();
    for page in &listed {
        let text = fs::read_to_string(repository.join(page));
        let text = text.with_context(|| format!("reading {}", page.display()))?;
        let moved = moved(repository, &text, page, &listed);
        write(&out.join(links::place(page, true)), moved.text.as_bytes())?;
        files.extend(moved.files);
    }
    for file in &files {
        copy(repository, file, out)?;
    }
    Ok(moved(repository, &contents, Path::new(CONTENTS), &listed).text)
}

/// The pages of the table of contents, as paths in the repository.
fn listed(repository: &Path, contents: &str) -> anyhow::Result<BTreeSet<PathBuf>> {
    // Because no path counts as a page here, each link counts as a file.
    let listed = links::moved(contents, Path::new(CONTENTS), |_| false, |_| false).files;
    let mut missing = crate::docs::pages_below(repository)?;
    missing.retain(|page| {
        let page = page.strip_prefix(repository).unwrap_or(page);
        page.starts_with("docs") && page != Path::new(CONTENTS) && !listed.contains(page)
    });
    if !missing.is_empty() {
        bail!("{CONTENTS} doesn't list {missing:?}");
    }
    Ok(listed)
}

fn moved(repository: &Path, text: &str, page: &Path, listed: &BTreeSet<PathBuf>) -> Moved {
    let is_page = |path: &Path| listed.contains(path);
    links::moved(text, page, is_page, |path| repository.join(path).is_dir())
}

/// Copies a file, or a directory with a page that lists it.
fn copy(repository: &Path, path: &Path, out: &Path) -> anyhow::Result<()> {
    let from = repository.join(path);
    if !from.is_dir() {
        let bytes = fs::read(&from).with_context(|| format!("reading {}", from.display()))?;
        return write(&out.join(links::place(path, false)), &bytes);
    }
    let mut items = String::new();
    for file in files_below(&from)? {
        let below = file.strip_prefix(&from).unwrap_or(&file);
        copy(repository, &path.join(below), out)?;
        items += &format!("<li><a href=\"{0}.txt\">{0}</a></li>\n", below.display());
    }
    let name = path.display();
    let page = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>{name}</title>\n<h1>{name}</h1>\n<ul>\n{items}</ul>\n"
    );
    write(&out.join("files").join(path).join("index.html"), page.as_bytes())
}

fn files_below(directory: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    let entries = fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else {
            files.insert(path);
        }
    }
    Ok(files)
}

/// Writes a file; creates its directory if it is missing.
pub fn write(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let written = file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(file, bytes));
    written.with_context(|| format!("writing {}", file.display()))
}
