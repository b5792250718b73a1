//! Converts links of a page from the paths in the repository to the paths in the site.

use pulldown_cmark::{Event, Options, Parser, Tag};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

/// The path in the site of the file that is at `path` in the repository.
pub fn place(path: &Path, is_page: bool) -> PathBuf {
    match path.strip_prefix("docs") {
        // The site's first page. mdBook would also make index.html from README.md, but wouldn't change the links to
        // README.md.
        Ok(below) if below == Path::new("README.md") => "index.md".into(),
        Ok(below) if is_page || path.starts_with("docs/images") => below.to_owned(),
        Err(_) if path == Path::new("README.md") => "project.md".into(),
        Err(_) if is_page => path.to_owned(),
        // Browsers display .txt files, but would download a .toml or .service file.
        _ => Path::new("files").join(format!("{}.txt", path.display())),
    }
}

/// A page with its links changed for the site, and the other files to which it refers.
pub struct Moved {
    pub text: String,
    pub files: BTreeSet<PathBuf>,
}

/// Changes the links of the page at `path` in the repository. `is_page` and `is_directory` look up paths in the
/// repository.
pub fn moved(
    text: &str,
    path: &Path,
    is_page: impl Fn(&Path) -> bool,
    is_directory: impl Fn(&Path) -> bool,
) -> Moved {
    let here = place(path, true);
    let mut moved = Moved { text: String::new(), files: BTreeSet::new() };
    let mut written = 0;
    for (range, link) in links(text) {
        let (file, heading) = link.split_at(link.find('#').unwrap_or(link.len()));
        if file.is_empty() || file.contains(':') {
            continue;
        }
        let target = normal(&path.parent().unwrap_or(Path::new("")).join(file));
        let mut goal = place(&target, is_page(&target));
        if is_directory(&target) {
            goal = Path::new("files").join(&target).join("index.html");
        }
        if !is_page(&target) {
            moved.files.insert(target);
        }
        moved.text += &text[written..range.start];
        moved.text += &format!("{}{heading}", relative(&here, &goal));
        written = range.end;
    }
    moved.text += &text[written..];
    moved
}

/// The positions and the targets of the links in `text`.
fn links(text: &str) -> Vec<(Range<usize>, String)> {
    let mut found = Vec::new();
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event else { continue };
        // The target follows the link's words. Links in another notation have no such position; if they lead
        // nowhere, the check of the site finds them.
        if let Some(at) = text[range.clone()].rfind(&format!("]({dest_url}")) {
            let start = range.start + at + 2;
            found.push((start..start + dest_url.len(), dest_url.to_string()));
        }
    }
    // The parser reports an image in a link's words after the link, but the image's target precedes the link's target.
    found.sort_by_key(|(range, _)| range.start);
    found
}

/// The relative path from the page `from` to `to`; both are below the same directory.
pub fn relative(from: &Path, to: &Path) -> String {
    let directory: Vec<_> = from.parent().into_iter().flat_map(Path::components).collect();
    let goal: Vec<_> = to.components().collect();
    let common = directory.iter().zip(&goal).take_while(|(a, b)| a == b).count();
    let up = directory[common..].iter().map(|_| "..".to_owned());
    let down = goal[common..].iter().map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

/// `path` without `.` and `..`; a leading `..` is dropped.
pub fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            _ => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(text: &str, path: &str) -> Moved {
        let is_page = |path: &Path| path.extension().is_some_and(|extension| extension == "md");
        moved(text, Path::new(path), is_page, |path| path == Path::new("contrib"))
    }

    #[test]
    fn links_lead_to_the_same_things_from_the_new_places() {
        for (page, link, wanted) in [
            ("docs/guide/a.md", "b.md#c", "b.md#c"),
            ("docs/guide/a.md", "../../SECURITY.md#x", "../SECURITY.md#x"),
            ("docs/guide/a.md", "../../README.md#install", "../project.md#install"),
            ("docs/guide/a.md", "../README.md", "../index.md"),
            ("CONTRIBUTING.md", "docs/guide/a.md", "guide/a.md"),
            ("README.md", "docs/images/a.png", "images/a.png"),
            ("docs/guide/a.md", "../../contrib/a.service", "../files/contrib/a.service.txt"),
            ("docs/guide/a.md", "../../contrib", "../files/contrib/index.html"),
            ("docs/guide/a.md", "https://example.org/b.md", "https://example.org/b.md"),
            ("docs/guide/a.md", "#here", "#here"),
        ] {
            let text = there(&format!("Words, [a link]({link}) and more."), page).text;
            assert_eq!(text, format!("Words, [a link]({wanted}) and more."), "{link} on {page}");
        }
    }

    #[test]
    fn an_image_in_a_link_and_what_only_looks_like_a_link() {
        let text = "[![a](docs/images/a.png)](docs/a.md) `[x](docs/b.md)`";
        let moved = there(text, "README.md");
        assert_eq!(moved.text, "[![a](images/a.png)](a.md) `[x](docs/b.md)`");
        assert_eq!(moved.files, BTreeSet::from(["docs/images/a.png".into()]));
    }
}
