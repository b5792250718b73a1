//! Checks that the files, headings, commands, options and source files that the documentation names exist.

use anyhow::{Context, bail};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::commands::{Programs, words};
use crate::sizes;

/// The directory of the crates.
const CRATES: &str = "crates";

/// Checks every page of the repository.
///
/// # Errors
/// If a page can't be read, or refers to something that doesn't exist; each such reference is printed.
pub fn run(repository: &Path) -> anyhow::Result<()> {
    let mut pages = BTreeMap::new();
    for path in pages_below(repository)?.into_iter().chain(pages_of_crates(repository)?) {
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        pages.insert(path, Page::parse(&text));
    }
    let mut programs = Programs::default();
    let sources = sources(repository)?;
    let mut wrong = Vec::new();
    for (path, page) in &pages {
        let shown = path.strip_prefix(repository).unwrap_or(path).display();
        let dead = page.links.iter().filter_map(|link| match path.starts_with(repository.join(CRATES)) {
            true => unpublished_link(link),
            false => dead_link(path, link, &pages),
        });
        let unknown = page.commands.iter().filter_map(|command| programs.unknown(command));
        let missing = page.sources.iter().filter(|name| !sources.iter().any(|file| is_named(file, name)));
        let missing = missing.map(|name| format!("no source file {name}"));
        wrong.extend(dead.chain(unknown).chain(missing).map(|what| format!("{shown}: {what}")));
    }
    wrong.extend(sizes::unstated(repository));
    let sum = |of: fn(&Page) -> usize| pages.values().map(of).sum::<usize>();
    let (links, commands, files) =
        (sum(|page| page.links.len()), sum(|page| page.commands.len()), sum(|page| page.sources.len()));
    if !wrong.is_empty() {
        bail!("the documentation refers to what isn't there:\n  {}", wrong.join("\n  "));
    }
    println!(
        "documentation: {} pages, {links} links, {commands} commands and {files} names of source files are right",
        pages.len()
    );
    Ok(())
}

/// The pages in the top directory and below docs/.
pub fn pages_below(repository: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    let mut directories = vec![repository.join("docs")];
    let mut add = |path: PathBuf| {
        if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    };
    for entry in fs::read_dir(repository)? {
        add(entry?.path());
    }
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() { directories.push(path) } else { add(path) }
        }
    }
    Ok(pages)
}

/// The pages of crates that the package registry shows.
fn pages_of_crates(repository: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let crates = fs::read_dir(repository.join(CRATES)).context("reading crates")?;
    let pages = crates.map(|entry| Ok(entry?.path().join("README.md")));
    pages.filter(|page| page.as_ref().is_ok_and(|page| page.exists()) || page.is_err()).collect()
}

/// The source files of the crates, of this program and of the fuzz targets, as paths from the top directory on.
fn sources(repository: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut directories = vec![repository.join(CRATES), repository.join("xtask"), repository.join("fuzz")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
            let path = entry?.path();
            match path.is_dir() {
                true if path.ends_with("target") => {}
                true => directories.push(path),
                false => files.push(path.strip_prefix(repository)?.to_owned()),
            }
        }
    }
    Ok(files)
}

/// True if `name` means this source file. The documentation leaves out some folders of a path, such as `crates` and
/// `src`.
fn is_named(file: &Path, name: &str) -> bool {
    let mut rest = file.iter().rev();
    let mut parts = Path::new(name).iter().rev();
    parts.next() == rest.next() && parts.all(|part| rest.any(|folder| folder == part))
}

/// The references of a page, and the anchors in the page to which others may refer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    links: Vec<String>,
    headings: HashSet<String>,
    commands: Vec<Vec<String>>,
    sources: Vec<String>,
}

impl Page {
    fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let (mut heading, mut shell) = (None, false);
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.to_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    page.headings.extend(heading.take().map(|text| anchor(&text)));
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => shell = &*language == "sh",
                Event::End(TagEnd::CodeBlock) => shell = false,
                Event::Text(text) if shell => page.commands.extend(words(&text)),
                Event::Text(text) => heading.iter_mut().for_each(|heading| heading.push_str(&text)),
                Event::Code(text) => {
                    heading.iter_mut().for_each(|heading| heading.push_str(&text));
                    page.commands.extend(words(&text).into_iter().filter(|words| words.len() > 1));
                    page.sources.extend(source(&text));
                }
                _ => {}
            }
        }
        page
    }
}

/// The source file that a piece of code names.
fn source(code: &str) -> Option<String> {
    let is_path =
        |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '.'));
    (code.ends_with(".rs") && is_path(code)).then(|| code.to_owned())
}

/// The error in `link` on the page at `path`, if any.
fn dead_link(path: &Path, link: &str, pages: &BTreeMap<PathBuf, Page>) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = link.split_once('#').map_or((link, None), |(file, heading)| (file, Some(heading)));
    let target = if file.is_empty() { path.to_owned() } else { path.parent()?.join(file) };
    let Ok(target) = target.canonicalize() else { return Some(format!("no file {file}")) };
    let known = |heading: &str| pages.get(&target).is_some_and(|page| page.headings.contains(heading));
    let heading = heading.filter(|heading| !known(heading))?;
    Some(format!("no heading #{heading} in {}", target.display()))
}

/// The error in `link` on a crate's page, if any. The registry shows the crate's page without the other files of this
/// repository.
fn unpublished_link(link: &str) -> Option<String> {
    (!link.contains("://"))
        .then(|| format!("{link} leads nowhere in the crates' registry: write a whole address"))
}

/// The anchor of a heading, in the form that code hosting sites generate.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_what_it_refers_to() {
        let page = Page::parse(
            "# A `b`, c\n[x](y.md#z) `linerate cp` in `d/e.rs`, `{d}.rs`\n```sh\nlinerate lab status # now\n```\n",
        );
        assert_eq!(page.links, ["y.md#z"]);
        assert!(page.headings.contains("a-b-c"));
        assert_eq!(page.commands, [vec!["linerate", "cp"], vec!["linerate", "lab", "status"]]);
        assert_eq!(page.sources, ["d/e.rs"]);
    }

    #[test]
    fn a_source_file_is_named_by_its_end_and_some_of_its_folders() {
        let file = Path::new("crates/cli/src/doctor/treatment/far.rs");
        assert!(
            ["far.rs", "treatment/far.rs", "cli/doctor/treatment/far.rs", "cli/far.rs"]
                .iter()
                .all(|name| is_named(file, name))
        );
        assert!(!["near.rs", "doctor/cli/far.rs", "treat/far.rs"].iter().any(|name| is_named(file, name)));
    }

    #[test]
    fn dead_links_are_reported() {
        let directory = std::env::temp_dir().canonicalize().unwrap();
        let here = directory.join("page.md");
        let pages = BTreeMap::from([(here.clone(), Page::parse("# One"))]);
        assert!(dead_link(&here, "https://example.org/#x", &pages).is_none());
        assert!(dead_link(&here, "no-such-file.md", &pages).is_some());
        assert!(dead_link(&here, "#two", &BTreeMap::new()).is_some());
        assert!(unpublished_link("https://example.org/#x").is_none());
        assert!(unpublished_link("docs/guide/copying.md").is_some());
    }
}
