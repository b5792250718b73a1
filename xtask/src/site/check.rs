//! Checks that every link of the built pages has a target.

use anyhow::{Context, bail};
use html5gum::{DefaultEmitter, Token, Tokenizer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::links::normal;

/// The numbers of checked items.
pub struct Looked {
    pages: usize,
    links: usize,
    /// The number of links to other sites, which aren't checked.
    foreign: usize,
}

impl fmt::Display for Looked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pages, links, foreign } = self;
        write!(
            f,
            "{pages} pages, {links} links are right; {foreign} lead to other sites and weren't looked up"
        )
    }
}

/// Checks the links of all pages below a directory.
///
/// # Errors
/// If a page can't be read, or links have no target; each such link is printed.
pub fn site(directory: &Path) -> anyhow::Result<Looked> {
    let mut pages = BTreeMap::new();
    let mut files = BTreeSet::new();
    read(directory, Path::new(""), &mut pages, &mut files)?;
    let mut looked = Looked { pages: pages.len(), links: 0, foreign: 0 };
    let mut broken = BTreeSet::new();
    for (path, page) in &pages {
        for link in &page.links {
            match fault(path, link, &pages, &files) {
                Found::Elsewhere => looked.foreign += 1,
                Found::Here => looked.links += 1,
                Found::Nowhere(why) => drop(broken.insert(format!("{}: {link}: {why}", path.display()))),
            }
        }
    }
    if pages.is_empty() || !broken.is_empty() {
        let lines: Vec<String> = broken.into_iter().collect();
        bail!("{} pages; broken links:\n  {}", pages.len(), lines.join("\n  "));
    }
    Ok(looked)
}

fn read(
    top: &Path,
    below: &Path,
    pages: &mut BTreeMap<PathBuf, BuiltPage>,
    files: &mut BTreeSet<PathBuf>,
) -> anyhow::Result<()> {
    let directory = top.join(below);
    for entry in fs::read_dir(&directory).with_context(|| format!("reading {}", directory.display()))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.path().is_dir() {
            read(top, &path, pages, files)?;
            continue;
        }
        if path.extension().is_some_and(|extension| extension == "html") {
            let text = fs::read_to_string(entry.path());
            let text = text.with_context(|| format!("reading {}", entry.path().display()))?;
            pages.insert(path.clone(), BuiltPage::parse(&text));
        }
        files.insert(path);
    }
    Ok(())
}

/// The references of a page, and the anchors in the page to which other pages may refer.
#[derive(Debug, Default, PartialEq, Eq)]
struct BuiltPage {
    links: Vec<String>,
    places: BTreeSet<String>,
}

impl BuiltPage {
    fn parse(html: &str) -> Self {
        let mut page = Self::default();
        // With this emitter, the texts of scripts and styles aren't mistaken for tags.
        let mut emitter = DefaultEmitter::<()>::default();
        emitter.naively_switch_states(true);
        for token in Tokenizer::new_with_emitter(html, emitter) {
            let Ok(Token::StartTag(tag)) = token else { continue };
            for (name, value) in &tag.attributes {
                let value = String::from_utf8_lossy(value).into_owned();
                match &***name {
                    b"href" | b"src" => page.links.push(value),
                    b"id" => drop(page.places.insert(value)),
                    _ => {}
                }
            }
        }
        page
    }
}

enum Found {
    Here,
    Elsewhere,
    Nowhere(&'static str),
}

fn fault(page: &Path, link: &str, pages: &BTreeMap<PathBuf, BuiltPage>, files: &BTreeSet<PathBuf>) -> Found {
    let (file, place) = link.split_once('#').unwrap_or((link, ""));
    if file.contains(':') || file.starts_with("//") {
        return Found::Elsewhere;
    }
    if file.starts_with('/') {
        return Found::Nowhere("is right only at the top of a server");
    }
    let mut target = page.to_owned();
    if !file.is_empty() {
        target = normal(&page.parent().unwrap_or(Path::new("")).join(file));
    }
    if file.ends_with('/') {
        target.push("index.html");
    }
    if !files.contains(&target) {
        return Found::Nowhere("no such file");
    }
    let known = pages.get(&target).is_some_and(|page| page.places.contains(place));
    if place.is_empty() || known { Found::Here } else { Found::Nowhere("no such place in it") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(pages: &[(&str, &str)]) -> anyhow::Result<Looked> {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in pages {
            super::super::stage::write(&directory.path().join(name), text.as_bytes()).unwrap();
        }
        site(directory.path())
    }

    #[test]
    fn links_that_lead_somewhere_are_right() {
        let pages = [
            ("index.html", "<a href=\"a/b.html#x\">b</a><img src='p.png'><a href=https://example.org/>"),
            ("a/b.html", "<h2 id=x>X</h2><a href='../index.html'></a><a href='#x'></a><a href=../></a>"),
            ("p.png", ""),
        ];
        let looked = built(&pages).unwrap();
        assert_eq!((looked.pages, looked.links, looked.foreign), (2, 5, 1));
    }

    #[test]
    fn links_that_lead_nowhere_fail() {
        for wrong in
            ["<a href=c.html>", "<a href=#y>", "<img src=p.png>", "<a href=/index.html>", "<a href=..>"]
        {
            assert!(built(&[("index.html", wrong)]).is_err(), "{wrong}");
        }
        assert!(built(&[]).is_err(), "no page at all");
    }

    #[test]
    fn what_a_script_or_a_text_says_is_no_link() {
        let looked = built(&[(
            "index.html",
            "<script>x = '<a href=no.html>'</script><p>&lt;a href=no.html&gt;<!-- <a href=no.html> -->",
        )]);
        assert_eq!(looked.unwrap().links, 0);
    }
}
