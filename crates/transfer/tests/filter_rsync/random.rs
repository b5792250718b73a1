//! Random trees and rules.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

const FILES: [&str; 10] = ["f", "g.o", "core", "a.c", "x y", "s*r", "b\\c", "[k]", "h.o~", "\u{e9}"];
const DIRECTORIES: [&str; 6] = ["a", "b", "foo", "a.d", "keep", "CVS"];

/// Makes a random tree at `here`, and one of the same names but with others missing at `there`.
pub fn grow(random: &mut fastrand::Rng, here: &Path, there: Option<&Path>, depth: u32) {
    for top in [Some(here), there].into_iter().flatten() {
        for name in FILES {
            if random.u8(..2) == 0 {
                fs::write(top.join(name), "").unwrap();
            }
        }
        if random.u8(..3) == 0 {
            write_merge(random, top);
        }
    }
    for name in DIRECTORIES {
        if depth == 3 || random.u32(..depth + 2) > 0 {
            continue;
        }
        let which = random.u8(..4);
        let [here, there] = [Some(here), there].map(|top| top.map(|top| top.join(name)));
        let here = here.filter(|_| which != 0);
        let there = there.filter(|_| which != 1);
        for made in [&here, &there].into_iter().flatten() {
            fs::create_dir(made).unwrap();
        }
        match (here, there) {
            (Some(here), there) => grow(random, &here, there.as_deref(), depth + 1),
            (None, Some(there)) => grow(random, &there, None, depth + 1),
            (None, None) => {}
        }
    }
}

pub fn write_merge(random: &mut fastrand::Rng, directory: &Path) {
    let name = random.choice([".m", ".n", ".cvsignore"]).unwrap();
    let mut text = Vec::new();
    for _ in 0..random.usize(1..4) {
        let line = match (name, random.u8(..10)) {
            (".n", _) => pattern(random),
            (".cvsignore", _) => pattern(random).replace(' ', ""),
            (_, 0) => "!".into(),
            (_, 1) => format!("{} .n", random.choice([":-", ":n-", ":-s"]).unwrap()),
            (_, 2) => "# a comment".into(),
            _ => rule(random),
        };
        text.extend_from_slice(line.as_bytes());
        text.extend_from_slice(random.choice(["\n", "\r\n", "\n\n"]).unwrap().as_bytes());
    }
    fs::write(directory.join(name), text).unwrap();
}

/// Options with rules, and the files that they name.
pub fn rules(random: &mut fastrand::Rng, directory: &Path) -> Vec<(&'static str, OsString)> {
    let mut rules = Vec::new();
    for number in 0..random.usize(1..6) {
        let (option, text) = match random.u8(..16) {
            0..3 => ("--exclude", pattern(random)),
            3..5 => ("--include", pattern(random)),
            5 => ("--exclude", old_rule(random)),
            6 => (
                "--filter",
                chosen(random, &[": .m", ": /.m", ":e .m", ":n .m", ":p .m", ": ../.m", ":ep .m"]),
            ),
            7 => (
                "--filter",
                chosen(
                    random,
                    &[
                        ":- .n",
                        ":+ .n",
                        ":-n .n",
                        ":-p .n",
                        "dir-merge,-_.n",
                        ":w- .n",
                        ":-es .n",
                        ":-er .n",
                        ":-ep .n",
                    ],
                ),
            ),
            8 if random.u8(..3) == 0 => ("--filter", chosen(random, &[":C", "-C", "!"])),
            9 => ("--filter", named_file(random, directory, number, "merge ", rule)),
            10 => ("--filter", named_file(random, directory, number, ".s- ", pattern)),
            11 => ("--exclude-from", named_file(random, directory, number, "", old_rule)),
            12 => ("--include-from", named_file(random, directory, number, "", pattern)),
            _ => ("--filter", rule(random)),
        };
        rules.push((option, OsString::from(text)));
    }
    rules
}

pub fn chosen(random: &mut fastrand::Rng, among: &[&str]) -> String {
    random.choice(among).unwrap().to_string()
}

fn old_rule(random: &mut fastrand::Rng) -> String {
    chosen(random, &["+ ", "- ", "", "-"]) + &pattern(random)
}

fn named_file(
    random: &mut fastrand::Rng,
    directory: &Path,
    number: usize,
    rule: &str,
    line: fn(&mut fastrand::Rng) -> String,
) -> String {
    let path = directory.join(format!("rules{number}"));
    let lines: String = (0..random.usize(1..4)).map(|_| line(random) + "\n").collect();
    fs::write(&path, lines).unwrap();
    format!("{rule}{}", path.display())
}

fn rule(random: &mut fastrand::Rng) -> String {
    let prefix = [
        "- ",
        "+ ",
        "-_",
        "-! ",
        "-p ",
        "-s ",
        "-r ",
        "+s ",
        "-,rp ",
        "exclude ",
        "include,! ",
        "hide ",
        "show ",
        "protect ",
        "risk_",
        "H ",
        "Pp ",
        "-/ ",
        "-sr ",
    ];
    format!("{}{}", random.choice(prefix).unwrap(), pattern(random))
}

fn pattern(random: &mut fastrand::Rng) -> String {
    let part = [
        "*",
        "**",
        "?",
        "[a-g]*",
        "[!a]",
        "*.o",
        "f",
        "g.o",
        "a",
        "b",
        "foo",
        "CVS",
        "keep",
        "a.*",
        "***",
        "x y",
        "s\\*r",
        "b\\c",
        "b\\\\c*",
        "[[:alpha:]]",
        "[k]",
        "\\[k]",
        "[]k[]*",
        "f*",
        "*o",
        "[^b-z]?*",
        "[a",
        "x*\\",
        "\u{e9}",
        "?[[:punct:]]?",
        "[[:digit]*",
    ];
    let mut text = String::from(if random.u8(..4) == 0 { "/" } else { "" });
    for index in 0..random.usize(1..4) {
        if index > 0 && random.u8(..4) > 0 {
            text.push('/');
        }
        text.push_str(random.choice(part).unwrap());
    }
    if random.u8(..4) == 0 {
        text.push_str(random.choice(["/", "/***", "/**", "/*"]).unwrap());
    }
    text
}
