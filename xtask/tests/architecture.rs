//! The table of rooms in docs/architecture.md is what the Cargo.toml files say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

type Arrows = BTreeMap<String, BTreeSet<String>>;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn from_manifests() -> Arrows {
    let mut arrows = Arrows::new();
    for room in fs::read_dir(repository().join("crates")).unwrap() {
        let room = room.unwrap();
        let manifest = fs::read_to_string(room.path().join("Cargo.toml")).unwrap();
        let section = manifest.split("[dependencies]").nth(1).unwrap_or_default();
        let section = section.split("\n[").next().unwrap();
        let names = section.lines().filter_map(|line| line.strip_prefix("linerate-"));
        let names = names.map(|line| line.split(['.', ' ']).next().unwrap().to_owned());
        arrows.insert(room.file_name().into_string().unwrap(), names.collect());
    }
    arrows
}

fn from_page() -> Arrows {
    let page = fs::read_to_string(repository().join("docs/architecture.md")).unwrap();
    let table = page.split("| room |").nth(1).unwrap().split("\n\n").next().unwrap().lines();
    table.filter(|row| row.starts_with("| `")).map(room_of_row).collect()
}

fn room_of_row(row: &str) -> (String, BTreeSet<String>) {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
    (cells[1].trim_matches('`').to_owned(), names(cells[3]))
}

#[test]
fn the_map_shows_the_arrows_as_they_are() {
    let (mut manifests, page) = (from_manifests(), from_page());
    // The binary may know everybody; the page says so in one word.
    manifests.insert("cli".into(), BTreeSet::new());
    assert_eq!(page, manifests);
}
