//! Fuzz target for filter rules of options, files and peers, for their patterns, and for lists of files.

use linerate_transfer::bounds::Bounds;
use linerate_transfer::filter::{Builder, FilesFrom, Filter, Place, Reading, Rules, Side};
use linerate_wire::path::RelPath;

/// Parses the input; the first byte selects the parser for the rest. If rules were parsed, they are applied
/// to paths of all kinds.
pub fn filter(data: &[u8]) {
    let Some((&mode, rest)) = data.split_first() else { return };
    let reading = Reading { delete_excluded: mode & 8 != 0, nul: mode & 16 != 0 };
    match mode % 8 {
        0..=2 => ask(&rules_of_options(rest, reading, mode), rest),
        3 => {
            if let Ok(rules) = postcard::from_bytes::<Rules>(rest) {
                assert!(rules.as_slice().iter().all(|rule| rule.check().is_ok()));
                ask(&rules, b"a/b.c\nmain.o\n.git\n");
            }
        }
        4 => merge_file(rest, reading),
        _ => list(rest, reading.nul),
    }
}

/// Each line of the input is the value of an option.
fn rules_of_options(text: &[u8], reading: Reading, mode: u8) -> Rules {
    let mut builder = Builder::new(reading);
    if mode & 32 != 0 {
        builder.cvs_exclude();
    }
    for line in text.split(|b| *b == b'\n').take(64) {
        // A rule that names a merge file would read a file of this host, so it is skipped.
        if names_a_file(line) {
            continue;
        }
        let _ = match mode % 8 {
            0 => builder.exclude(line),
            1 => builder.include(line),
            _ => builder.filter(line),
        };
    }
    builder.build().unwrap_or_default()
}

fn names_a_file(rule: &[u8]) -> bool {
    matches!(rule.trim_ascii_start().first(), Some(b'.' | b'm'))
}

/// The first line of the input is a rule of the command line, the rest is the contents of each directory's
/// merge file.
fn merge_file(text: &[u8], reading: Reading) {
    let mut parts = text.splitn(2, |b| *b == b'\n');
    let (first, file) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let mut builder = Builder::new(reading);
    let _ = if names_a_file(first) { Ok(()) } else { builder.filter(first) };
    let _ = builder.filter(b": .rules");
    let Ok(rules) = builder.build() else { return };
    for side in [Side::Sender, Side::Receiver] {
        let mut scope = Filter::new(&rules, side, place(b"", RelPath::root())).scope();
        for directory in ["", "a", "a/b"] {
            let entered = scope.enter(&path(directory.as_bytes()), &mut |_| Ok(Some(file.to_vec())));
            let Ok(inside) = entered else { return };
            scope = inside;
            for name in ["x", "main.o", "[y]", "core"] {
                let asked = path(directory.as_bytes()).join(name.as_bytes()).expect("a name");
                let _ = (scope.excludes(&asked, false), scope.protects_in_deleted(&asked, true));
            }
        }
    }
}

fn ask(rules: &Rules, text: &[u8]) {
    for (side, root) in [(Side::Sender, &b"/srv/data"[..]), (Side::Receiver, b"")] {
        let place = place(root, path(b"top"));
        let scope = Filter::new(rules, side, place).scope();
        for line in text.split(|b| *b == b'\n').take(16) {
            let Ok(asked) = RelPath::new(line) else { continue };
            let _ = (
                scope.excludes(&asked, true),
                scope.excludes(&asked, false),
                scope.protects_in_deleted(&asked, true),
            );
        }
    }
}

fn place(root: &[u8], prefix: RelPath) -> Place {
    Place { root: root.to_vec(), prefix, bounds: Bounds::here() }
}

fn list(text: &[u8], nul: bool) {
    let Ok(list) = FilesFrom::parse(text, nul) else { return };
    let mut again = FilesFrom::default();
    for listed in list.listed() {
        assert!(list.of(0).wants(&listed.path, false).sent);
        let above = listed.path.split().map(|(parent, _)| parent);
        assert!(above.is_none_or(|above| list.of(0).wants(&above, false).entered));
        again.add(listed).expect("no more than before");
    }
    assert_eq!(list, again);
}

fn path(bytes: &[u8]) -> RelPath {
    RelPath::new(bytes).expect("an honest path")
}
