//! `cargo xtask names` checks that the name of a type has one meaning. The check fails if a crate defines a name twice,
//! or if more than [`MOST_SHARING_PERCENT`] percent of all definitions share their name with another definition.
//! `names.txt` lists names that have the same meaning everywhere; the check ignores them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

/// The greatest percentage of definitions that may share their name.
const MOST_SHARING_PERCENT: f64 = 15.0;
/// The file of names that have the same meaning wherever they are defined, one per line: `NAME: REASON`.
const SAME: &str = "xtask/names.txt";

/// One definition of a type.
#[derive(Debug, PartialEq)]
struct Definition {
    crate_: String,
    /// `FILE:LINE`.
    place: String,
    name: String,
}

/// A word, a literal or a punctuation mark of Rust code, with its line. Comments give no token.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CodeToken<'a> {
    text: &'a str,
    line: usize,
}

/// Prints each shared name with the places of its definitions, and the share of definitions whose name is shared.
///
/// # Errors
/// If a name is defined twice in a crate, too many definitions share a name, or `names.txt` is wrong.
pub fn run(repository: &Path) -> anyhow::Result<()> {
    let all = workspace(repository)?;
    let same = meanings(&fs::read_to_string(repository.join(SAME)).context(SAME)?)?;
    let mut names: BTreeMap<&str, Vec<&Definition>> = BTreeMap::new();
    all.iter().for_each(|definition| names.entry(&definition.name).or_default().push(definition));
    names.retain(|_, places| places.len() > 1);
    let stale: Vec<_> = same.iter().filter(|name| !names.contains_key(name.as_str())).collect();
    ensure!(stale.is_empty(), "{SAME} lists names that have one definition: {stale:?}; remove these lines");
    names.retain(|name, _| !same.contains(*name));
    for (name, places) in &names {
        let places: Vec<_> = places.iter().map(|definition| definition.place.as_str()).collect();
        println!("{name}: {}", places.join(", "));
    }
    let twice: Vec<_> = names.iter().filter(|(_, places)| is_twice(places)).map(|(name, _)| *name).collect();
    let sharing: usize = names.values().map(Vec::len).sum();
    let share = 100.0 * sharing as f64 / all.len().max(1) as f64;
    println!("{sharing} of {} definitions share their name: {share:.1} %", all.len());
    ensure!(twice.is_empty(), "names defined twice in one crate: {}; rename one of each", twice.join(", "));
    ensure!(
        share <= MOST_SHARING_PERCENT,
        "more than {MOST_SHARING_PERCENT} % share their name: rename some, or give the reason in {SAME}"
    );
    Ok(())
}

fn is_twice(places: &[&Definition]) -> bool {
    let crates: BTreeSet<_> = places.iter().map(|definition| &definition.crate_).collect();
    crates.len() < places.len()
}

/// The names that `names.txt` lists.
fn meanings(text: &str) -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split_once(": ") {
            Some((name, reason)) if !reason.trim().is_empty() => names.insert(name.to_owned()),
            _ => bail!("{SAME}: '{line}' gives no reason; write NAME: REASON"),
        };
    }
    Ok(names)
}

/// All definitions in the production code of the workspace's crates.
fn workspace(repository: &Path) -> anyhow::Result<Vec<Definition>> {
    let mut crates: Vec<PathBuf> = fs::read_dir(repository.join("crates"))?
        .map(|entry| Ok(entry?.path()))
        .collect::<anyhow::Result<_>>()?;
    crates.push(repository.join("xtask"));
    crates.sort();
    let mut all = Vec::new();
    for top in crates.iter().filter(|top| top.join("src").is_dir()) {
        let crate_ = top.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let files = rust_files(&top.join("src"))?;
        let texts: Vec<_> =
            files.iter().map(|file| Ok((file, fs::read_to_string(file)?))).collect::<anyhow::Result<_>>()?;
        let parsed: Vec<_> = texts.iter().map(|(file, text)| (*file, items(&tokens(text)))).collect();
        let tests: BTreeSet<_> = parsed
            .iter()
            .flat_map(|(file, items)| items.test_modules.iter().flat_map(|name| module(file, name)))
            .collect();
        for (file, items) in
            parsed.iter().filter(|(file, _)| !tests.iter().any(|test| file.starts_with(test)))
        {
            let shown = file.strip_prefix(repository).unwrap_or(file).display();
            all.extend(items.types.iter().map(|token| Definition {
                crate_: crate_.clone(),
                place: format!("{shown}:{}", token.line),
                name: token.text.to_owned(),
            }));
        }
    }
    Ok(all)
}

/// All Rust files below a directory, sorted; without hidden directories and build directories of cargo.
pub fn rust_files(top: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (mut files, mut directories) = (Vec::new(), vec![top.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                directories.extend(Some(path).filter(|path| has_sources(path)));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn has_sources(directory: &Path) -> bool {
    let name = directory.file_name().unwrap_or_default();
    let is_cargos = name == "target" && directory.with_file_name("Cargo.toml").exists();
    !is_cargos && !name.as_encoded_bytes().starts_with(b".")
}

/// The possible paths of a module that `file` declares: a file and a directory. `name` may be a file name from
/// `#[path]`.
fn module(file: &Path, name: &str) -> [PathBuf; 2] {
    let is_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|root| file.ends_with(root));
    let directory = if is_root { file.with_file_name("") } else { file.with_extension("") };
    match name.ends_with(".rs") {
        true => [file.with_file_name(name), file.with_file_name("").join(name.trim_end_matches(".rs"))],
        false => [directory.join(format!("{name}.rs")), directory.join(name)],
    }
}

/// The types that a file defines outside of functions and tests, and the test modules that it declares.
#[derive(Debug, Default)]
struct Items<'a> {
    types: Vec<CodeToken<'a>>,
    test_modules: Vec<&'a str>,
}

fn items<'a>(tokens: &[CodeToken<'a>]) -> Items<'a> {
    let mut found = Items::default();
    let (mut at, mut is_test, mut path) = (0, false, None);
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    while at < tokens.len() {
        match text(at) {
            "#" => {
                let end = group(tokens, at + 1);
                let words: Vec<_> = tokens[at..end].iter().map(|token| token.text).collect();
                if let [_, _, "path", "=", file, _] = words[..] {
                    path = Some(file.trim_matches('"'));
                }
                is_test |= words.contains(&"cfg") && words.contains(&"test") && !words.contains(&"not");
                at = end;
                continue;
            }
            "pub" => {
                at = if text(at + 1) == "(" { group(tokens, at + 1) } else { at + 1 };
                continue;
            }
            "unsafe" | "}" | ";" => {
                at += 1;
                continue;
            }
            "mod" if !is_test && text(at + 2) == "{" => {
                at += 3;
                continue;
            }
            "mod" if is_test && text(at + 2) == ";" => {
                found.test_modules.push(path.unwrap_or(tokens[at + 1].text));
            }
            "struct" | "enum" | "union" | "trait" | "type" if !is_test => found.types.push(tokens[at + 1]),
            _ => (),
        }
        at = item(tokens, at);
        (is_test, path) = (false, None);
    }
    found
}

/// The index after an item: after its `;`, or after the `}` of its block.
fn item(tokens: &[CodeToken<'_>], from: usize) -> usize {
    let mut at = from;
    while let Some(token) = tokens.get(at) {
        match token.text {
            ";" => return at + 1,
            "{" => return group(tokens, at),
            "(" | "[" => at = group(tokens, at),
            _ => at += 1,
        }
    }
    at
}

/// The index after the next group in brackets.
fn group(tokens: &[CodeToken<'_>], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

fn tokens(text: &str) -> Vec<CodeToken<'_>> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let length = literal(rest).unwrap_or_else(|| word(rest).max(first.len_utf8()));
        let (token, behind) = rest.split_at(length);
        if !first.is_whitespace() && !token.starts_with("//") && !token.starts_with("/*") {
            found.push(CodeToken { text: token, line });
        }
        line += token.matches('\n').count();
        rest = behind;
    }
    found
}

/// The length of the word at the beginning of a text.
fn word(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// The length of the comment or literal at the beginning of a text, if there is one.
fn literal(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(text.find("*/").map_or(text.len(), |end| end + 2));
    }
    let prefix = ["br", "b", "cr", "c", "r", ""].into_iter().find(|prefix| {
        text.strip_prefix(*prefix).is_some_and(|rest| rest.trim_start_matches('#').starts_with('"'))
    });
    match prefix {
        Some(prefix) if prefix.ends_with('r') => raw(text, prefix.len()),
        Some(prefix) if text[prefix.len()..].starts_with('"') => Some(quoted(text, prefix.len(), b'"')),
        _ => character(text),
    }
}

/// The length of a raw string whose hashes and quote begin at `from`.
fn raw(text: &str, from: usize) -> Option<usize> {
    let hashes = text[from..].find('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = from + hashes + 1;
    Some(text[start..].find(&end).map_or(text.len(), |at| start + at + end.len()))
}

/// The length of a literal whose opening quote is at `from`.
fn quoted(text: &str, from: usize, quote: u8) -> usize {
    let bytes = text.as_bytes();
    let mut at = from + 1;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// The length of a character literal; `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let from = if text.starts_with("b'") { 1 } else { 0 };
    let mut characters = text[from..].strip_prefix('\'')?.chars();
    let is_one = characters.next()? == '\\' || characters.next()? == '\'';
    is_one.then(|| quoted(text, from, b'\''))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = r##"
//! struct Comment;
use std::{fmt, io};
const TEXT: &str = "struct InText { \" }";
const RAW: &str = r#"enum InRaw {"#;
const QUOTE: (char, u8) = ('"', b'{');
pub(crate) struct First<'a> { of: &'a str }
impl Iterator for First<'_> { type Item = u8; fn next(&mut self) -> Option<u8> { struct Local; None } }
pub trait Second { type Inner; }
mod inner { pub enum Third { A { b: u8 } } }
#[cfg(not(test))]
type Fourth = [u8; 3];
#[cfg(test)]
#[path = "x.rs"]
mod outside;
#[cfg(test)]
mod tests { struct InTests; }
macro_rules! made { ($a:ident) => { struct $a; } }
union Fifth { a: u8 }
"##;

    #[test]
    fn definitions_are_those_of_items_outside_tests() {
        let tokens = tokens(CODE);
        let found = items(&tokens);
        let names: Vec<_> = found.types.iter().map(|token| (token.text, token.line)).collect();
        assert_eq!(names, [("First", 7), ("Second", 9), ("Third", 10), ("Fourth", 12), ("Fifth", 19)]);
        assert_eq!(found.test_modules, ["x.rs"]);
    }

    #[test]
    fn a_type_is_found_by_its_definition_alone() {
        let found = |text| items(&tokens(text)).types.first().map(|token| token.text.to_owned());
        assert_eq!(found("pub(super) struct Unit<'a> {").as_deref(), Some("Unit"));
        assert_eq!(found("type Ordered = (A, B);").as_deref(), Some("Ordered"));
        assert_eq!(found("impl Of for It {\n    type Item = A;\n}"), None);
        assert_eq!(found("impl Unit {"), None);
    }

    #[test]
    fn no_type_name_is_used_twice_in_a_crate_and_few_across() {
        run(crate::repository()).unwrap();
    }

    #[test]
    fn a_modules_file_is_beside_a_root_and_below_others() {
        let file = |file: &str, name| module(Path::new(file), name)[0].clone();
        assert_eq!(file("src/a/mod.rs", "tests"), Path::new("src/a/tests.rs"));
        assert_eq!(file("src/a.rs", "tests"), Path::new("src/a/tests.rs"));
        assert_eq!(file("src/a.rs", "a_tests.rs"), Path::new("src/a_tests.rs"));
    }

    #[test]
    fn a_name_is_twice_in_one_crate_only() {
        let in_crate =
            |crate_: &str| Definition { crate_: crate_.into(), place: "x".into(), name: "Name".into() };
        let (first, second, third) = (in_crate("a"), in_crate("b"), in_crate("a"));
        assert!(!is_twice(&[&first, &second]) && is_twice(&[&first, &second, &third]));
    }

    #[test]
    fn a_shared_meaning_has_a_reason() {
        assert!(meanings("# comment\nPort: a network interface\n").unwrap().contains("Port"));
        assert!(meanings("Port\n").is_err() && meanings("Port: \n").is_err());
    }
}
