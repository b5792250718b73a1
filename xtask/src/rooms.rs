//! Checks which modules of a crate use which other modules. The compiler enforces the dependencies between crates; this
//! check enforces those inside a crate.

use anyhow::{Context, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::names::rust_files;

/// A crate whose modules have an order of dependency.
struct House {
    name: &'static str,
    /// Each module with the modules that it may use. A module that isn't listed may use all others, and no
    /// listed module may use it.
    rooms: &'static [(&'static str, &'static [&'static str])],
}

const HOUSES: &[House] = &[
    House {
        name: "transfer",
        rooms: &[
            ("base", &[]),
            ("net", &["base"]),
            ("tree", &["base"]),
            ("send", &["base", "net", "tree"]),
            ("receive", &["base", "net", "tree"]),
            ("memory", &["base", "net"]),
            ("differences", &["base", "net", "tree"]),
            ("between", &["base", "net", "tree"]),
        ],
    },
    House {
        name: "cli",
        rooms: &[
            ("exit", &[]),
            ("units", &[]),
            ("print", &["exit", "units"]),
            ("common", &["exit", "units", "print"]),
        ],
    },
];

/// A path in the code that refers from one module to another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrow {
    from: String,
    to: String,
    /// The file below the crate's `src`, and the line.
    place: String,
}

/// Prints the dependencies between the modules of each crate that has an order.
///
/// # Errors
/// If a file can't be read, or a dependency isn't allowed; each such dependency is printed.
pub fn run(repository: &Path) -> anyhow::Result<()> {
    let mut against = Vec::new();
    for house in HOUSES {
        let arrows = arrows(&repository.join("crates").join(house.name).join("src"))?;
        let wrong = house.against_the_grain(&arrows);
        println!("{}: {} arrows, {} against the grain", house.name, arrows.len(), wrong.len());
        for ((from, to), count) in counted(&arrows) {
            println!("  {from} -> {to}: {count}");
        }
        against.extend(wrong.iter().map(|arrow| format!("crates/{}/src/{}", house.name, arrow.shown())));
    }
    if !against.is_empty() {
        bail!("arrows against the grain:\n  {}", against.join("\n  "));
    }
    Ok(())
}

impl House {
    fn against_the_grain<'a>(&self, arrows: &'a BTreeSet<Arrow>) -> Vec<&'a Arrow> {
        arrows.iter().filter(|arrow| !self.allows(&arrow.from, &arrow.to)).collect()
    }

    fn allows(&self, from: &str, to: &str) -> bool {
        let knows = self.rooms.iter().find(|(room, _)| *room == from);
        knows.is_none_or(|(_, known)| known.contains(&to))
    }
}

impl Arrow {
    fn shown(&self) -> String {
        format!("{}: {} -> {}", self.place, self.from, self.to)
    }
}

fn counted(arrows: &BTreeSet<Arrow>) -> BTreeMap<(&str, &str), usize> {
    let mut counts = BTreeMap::new();
    for arrow in arrows {
        *counts.entry((arrow.from.as_str(), arrow.to.as_str())).or_default() += 1;
    }
    counts
}

/// The dependencies between the modules of the crate whose sources are in `source`.
fn arrows(source: &Path) -> anyhow::Result<BTreeSet<Arrow>> {
    let mut arrows = BTreeSet::new();
    for file in rust_files(source)? {
        let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let below = file.strip_prefix(source).context("a file outside of its crate")?;
        let from = below.components().next().map(|first| first.as_os_str().to_string_lossy());
        let from = from.unwrap_or_default().trim_end_matches(".rs").to_owned();
        // The crate's root file exports its modules to other crates.
        if from == "lib" || from == "main" {
            continue;
        }
        for (line, to) in roots(&text).into_iter().filter(|(_, to)| *to != from) {
            arrows.insert(Arrow { from: from.clone(), to, place: format!("{}:{line}", below.display()) });
        }
    }
    Ok(arrows)
}

/// The first name of each path that begins at the crate's root, with its line; `*` for a path that imports
/// all names. Comments are ignored.
fn roots(text: &str) -> Vec<(usize, String)> {
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    for (at, path) in code.match_indices("crate::") {
        let is_whole = !code[..at].ends_with(|c: char| c.is_alphanumeric() || "_$".contains(c));
        if is_whole {
            let line = code[..at].matches('\n').count() + 1;
            found.extend(first_names(&code[at + path.len()..]).into_iter().map(|name| (line, name)));
        }
    }
    found
}

/// `a` of `a::b`; `a` and `b` of `{a::{c, d}, b}`.
fn first_names(path: &str) -> Vec<String> {
    let name = |path: &str| {
        let path = path.trim_start();
        let end = path.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(path.len());
        if path.starts_with('*') { "*".to_owned() } else { path[..end].to_owned() }
    };
    let Some(group) = path.strip_prefix('{') else { return vec![name(path)] };
    let (mut names, mut depth, mut begins) = (Vec::new(), 0, 0);
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' if depth == 0 => {
                names.push(name(&group[begins..at]));
                begins = at + 1;
            }
            '}' => {
                names.push(name(&group[begins..at]));
                break;
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_arrow_runs_against_the_grain() {
        run(crate::repository()).unwrap();
    }

    #[test]
    fn a_room_knows_only_rooms_before_it_so_that_there_is_no_circle() {
        for house in HOUSES {
            for (at, (_, known)) in house.rooms.iter().enumerate() {
                let before: Vec<&str> = house.rooms[..at].iter().map(|(room, _)| *room).collect();
                assert!(known.iter().all(|room| before.contains(room)), "{} {known:?}", house.name);
            }
        }
    }

    #[test]
    fn paths_are_found_wherever_they_stand() {
        let text = "use crate::net::{\n  clock, rate};\n/// [`crate::send`]\npub use crate::{tree::{a, b}, base};\n\
                    let x: crate::receive::Sink = mycrate::other(); // crate::memory";
        let expected = [(1, "net"), (4, "tree"), (4, "base"), (5, "receive")];
        assert_eq!(roots(text), expected.map(|(line, name)| (line, name.to_owned())));
        assert_eq!(first_names("*;"), ["*"]);
    }

    #[test]
    fn an_arrow_against_the_grain_is_named_with_its_place() {
        let directory = std::env::temp_dir().join(format!("linerate-rooms-{}", std::process::id()));
        fs::create_dir_all(directory.join("tree")).unwrap();
        fs::write(directory.join("tree/scan.rs"), "\nuse crate::send::plan::Unit;\n").unwrap();
        fs::write(directory.join("agent.rs"), "use crate::send::sender;\n").unwrap();
        let arrows = arrows(&directory).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        let against = HOUSES[0].against_the_grain(&arrows);
        let shown: Vec<String> = against.into_iter().map(Arrow::shown).collect();
        assert_eq!((arrows.len(), shown), (2, vec!["tree/scan.rs:2: tree -> send".to_owned()]));
    }
}
