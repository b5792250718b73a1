//! Every check is explained completely, and by the numbers and names that its code has.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use linerate_doctor::check::{CHECKS, Check};
use linerate_doctor::explanation::{Explanation, explained, shared_formulas};

#[test]
fn each_check_has_every_part_and_nothing_else_has() {
    let bare: Vec<_> = names_of(|check| Explanation::of(check).is_none());
    assert!(bare.is_empty(), "a part of the section is missing: {bare:?}");
    let unknown: Vec<_> = explained().filter(|name| CHECKS.iter().all(|check| check.name != *name)).collect();
    assert!(unknown.is_empty(), "sections of no check: {unknown:?}");
    assert_eq!(explained().count(), CHECKS.len(), "a check has two sections");
}

/// A document that anybody can read, not only this project's page about the papers.
#[test]
fn each_check_has_a_public_source() {
    let none: Vec<_> =
        names_of(|check| !check.sources.iter().any(|source| source.url.starts_with("https://")));
    assert!(none.is_empty(), "{none:?}");
}

#[test]
fn no_two_checks_share_a_text() {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for (check, reported) in all() {
        let rule = reported.decision.text().to_owned();
        for (part, text) in [("decision", rule), ("wrong", reported.wrong), ("misses", reported.misses)] {
            let here = format!("{part} of {}", check.name);
            if let Some(first) = seen.insert(text, here.clone()) {
                panic!("{first} and {here} are the same");
            }
        }
    }
}

#[test]
fn each_shared_formula_is_used_and_each_name_in_italics_is_one() {
    let used: Vec<String> =
        all().flat_map(|(_, reported)| reported.formulas).map(|formula| formula.name).collect();
    for formula in shared_formulas() {
        assert!(used.contains(&formula.name), "no check names {}", formula.name);
    }
    let names: Vec<String> = shared_formulas().map(|formula| formula.name).collect();
    for name in italics(&page()) {
        assert!(name == "italics" || names.contains(&name), "*{name}* isn't a shared formula");
    }
}

/// A limit that changes in a check's code has to change in its explanation.
#[test]
fn each_number_and_name_of_the_code_is_explained() {
    let mut unreported = Vec::new();
    for (check, reported) in all() {
        let text = format!("{} {} {}", reported.looks_at, reported.decision.text(), reported.misses);
        for constant in constants(&code_of(check)) {
            unreported.extend(constant.unreported(&text).map(|what| format!("{}: {what}", check.name)));
        }
    }
    assert!(unreported.is_empty(), "not in the explanation:\n{}", unreported.join("\n"));
}

#[test]
fn each_number_of_the_shared_formulas_is_explained() {
    let all: Vec<String> = shared_formulas().map(|formula| formula.says).collect();
    let mut unreported = Vec::new();
    for file in ["formula/cpu.rs", "formula/ssh.rs", "formula/pcie.rs", "finding.rs"] {
        let code = fs::read_to_string(sources().join(file)).unwrap();
        for constant in constants(&code).into_iter().filter(|constant| constant.name != "CHANNEL") {
            unreported.extend(constant.unreported(&all.join(" ")).map(|what| format!("{file}: {what}")));
        }
    }
    assert!(unreported.is_empty(), "not among the shared formulas:\n{}", unreported.join("\n"));
}

/// An open mark of code would take the marks out of the wrong parts.
#[test]
fn code_is_closed() {
    for line in page().split("\n- ") {
        assert_eq!(line.matches('`').count() % 2, 0, "{line}");
    }
}

#[test]
fn numbers_are_found_in_the_forms_that_people_write() {
    let says = |expression: &str, text: &str| {
        constants(&format!("const A: f64 = {expression};"))[0].unreported(text).next().is_none()
    };
    for (expression, text) in [
        ("0.05", "below 5 %, or"),
        ("1e-4", "one in 10,000"),
        ("2e-5", "from 2 in 100,000 of"),
        ("10e9", "needs 10 Gbit/s"),
        ("1 << 20", "below 1 MiB"),
        ("0.001", "less than 1 ms"),
        ("(4, 18)", "before 4.18 (bbr)"),
        ("(1e6, 2e6)", "1 million to 2 million a second"),
        ("250_000", "up to 250,000."),
    ] {
        assert!(says(expression, text), "{expression}: {text}");
    }
    assert!(
        !says("0.05", "below 15 %, 0.5, 50 %, 5 ms or one in 200")
            && !says("10e9", "needs 110 Gbit/s or 10,5")
    );
}

fn names_of(is_wanted: impl Fn(&Check) -> bool) -> Vec<&'static str> {
    CHECKS.iter().filter(|check| is_wanted(check)).map(|check| check.name).collect()
}

fn all() -> impl Iterator<Item = (&'static Check, Explanation)> {
    CHECKS.iter().filter_map(|check| Some((*check, Explanation::of(check)?)))
}

fn sources() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn page() -> String {
    fs::read_to_string(sources().join("checks.md")).unwrap()
}

/// The file that registers a check.
fn code_of(check: &Check) -> String {
    let files = fs::read_dir(sources().join("check")).unwrap();
    let paths = files.map(|file| file.unwrap().path()).filter(|path| path.is_file());
    let mut texts = paths.map(|path| fs::read_to_string(path).unwrap());
    let named = format!("name: \"{}\"", check.name);
    texts.find(|text| text.contains(&named)).unwrap_or_else(|| panic!("no file of {}", check.name))
}

/// Words between single asterisks, outside of code.
fn italics(page: &str) -> Vec<String> {
    let prose: String = page.split('`').step_by(2).collect::<Vec<_>>().join(" ").replace("**", "");
    prose
        .split('*')
        .skip(1)
        .step_by(2)
        .map(|name| name.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// A constant of the code, outside of tests: numbers, or names in a list.
struct Constant {
    name: String,
    numbers: Vec<f64>,
    version: Option<String>,
    words: Vec<String>,
}

/// Constants of numbers, of lists of texts, and of lists of pairs.
fn constants(code: &str) -> Vec<Constant> {
    let code = code.split("#[cfg(test)]").next().unwrap_or(code);
    let starts = ["\nconst ", "\npub const ", "\n    const "];
    let code = format!("\n{code}");
    let parts =
        starts.iter().flat_map(|start| code.split(start).skip(1)).filter_map(|part| part.split_once(';'));
    let mut found = Vec::new();
    for (head, rest) in parts {
        let Some((name, kind)) = head.split_once(": ") else { continue };
        if kind.starts_with("[&str") {
            let list = rest.split(';').next().unwrap_or_default();
            let words = list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
            found.push(Constant { name: name.into(), numbers: vec![], version: None, words });
        } else if kind.starts_with("[(&str") {
            let list = rest.split("\n];").next().unwrap_or_default();
            let words = list.split("(\"").skip(1).filter_map(pair).flatten().collect();
            found.push(Constant { name: name.into(), numbers: vec![], version: None, words });
        } else if kind.starts_with("[(f64") {
            let list = rest.split("];").next().unwrap_or_default();
            let numbers = list.split(['[', '(', ',', ')']).filter_map(value).collect();
            found.push(Constant { name: name.into(), numbers, version: None, words: vec![] });
        } else if let Some((_, expression)) = kind.split_once(" = ") {
            found.extend(Constant::of_number(name, expression));
        }
    }
    found
}

/// The words that name a tuple of a list: `"vxlan", 50` and `"mds", "Clear CPU buffers"`.
fn pair(tuple: &str) -> Option<Vec<String>> {
    let (name, rest) = tuple.split_once("\", ")?;
    match rest.strip_prefix('"') {
        Some(says) => Some(vec![name.into(), says.split('"').next()?.into()]),
        None => {
            let number = rest.split(')').next()?.parse::<u32>().ok()?;
            Some(vec![format!("{name} {number}")])
        }
    }
}

impl Constant {
    fn of_number(name: &str, expression: &str) -> Option<Self> {
        let parts = expression.trim_matches(['(', ')']).split(", ");
        let numbers = parts.map(value).collect::<Option<Vec<f64>>>()?;
        let version = match numbers.as_slice() {
            [major, minor] if expression.starts_with('(') && !expression.contains(['.', 'e']) => {
                Some(format!("{major}.{minor}"))
            }
            _ => None,
        };
        Some(Self { name: name.into(), numbers, version, words: vec![] })
    }

    /// The parts that aren't in a text.
    fn unreported<'a>(&'a self, text: &'a str) -> impl Iterator<Item = String> + 'a {
        let has_version = self.version.as_ref().is_some_and(|version| has(text, version));
        let numbers = self.numbers.iter().filter(move |_| !has_version);
        let numbers = numbers.filter(|number| forms(**number).iter().all(|form| !has(text, form)));
        let numbers = numbers.map(|number| format!("{} = {number}", self.name));
        let words = self.words.iter().filter(|word| !text.contains(word.as_str()));
        numbers.chain(words.map(|word| format!("{} has {word}", self.name)))
    }
}

/// `10_000`, `1e-3`, `1 << 20`.
fn value(expression: &str) -> Option<f64> {
    let number = |text: &str| text.trim().replace('_', "").parse::<f64>().ok();
    match expression.split_once(" << ") {
        Some((left, bits)) => Some(number(left)? * number(bits)?.exp2()),
        None => number(expression),
    }
}

/// The forms in which people write a number: as it is, as a share, or with its unit.
fn forms(number: f64) -> Vec<String> {
    let units = [
        (1e9, " Gbit/s"),
        (1e6, " MB"),
        (1e6, " million"),
        (1e3, " Gbit/s"),
        (1e3, " MHz"),
        (1e-2, " %"),
        (1e-3, " ms"),
        (1024.0, " KiB"),
        (1_048_576.0, " MiB"),
    ];
    let rounded = |value: f64| written((value * 1e6).round() / 1e6);
    let scaled = units.iter().map(|(unit, name)| rounded(number / unit) + name);
    let ratios = (1..10).map(|count| {
        let count_name = if count == 1 { "one".to_owned() } else { count.to_string() };
        format!("{count_name} in {}", rounded(f64::from(count) / number))
    });
    scaled.chain([rounded(number)]).chain(ratios.filter(|_| number < 1.0)).collect()
}

/// A number with commas between thousands.
fn written(value: f64) -> String {
    let text = value.to_string();
    let (whole, rest) = text
        .split_once('.')
        .map_or((text.as_str(), String::new()), |(whole, rest)| (whole, format!(".{rest}")));
    let digits: Vec<char> = whole.chars().collect();
    let groups: Vec<String> = digits.rchunks(3).rev().map(|group| group.iter().collect()).collect();
    groups.join(",") + &rest
}

/// True if a text has this number, and not only as a part of another one.
fn has(text: &str, number: &str) -> bool {
    text.match_indices(number).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after: Vec<char> = text[at + number.len()..].chars().take(2).collect();
        let is_digit = |c: Option<&char>| c.is_some_and(char::is_ascii_digit);
        let goes_on = after.first().is_some_and(char::is_ascii_alphanumeric)
            || after.first().is_some_and(|c| ".,".contains(*c)) && is_digit(after.get(1));
        !goes_on && !before.is_some_and(|c| c.is_ascii_digit() || ".,".contains(c))
    })
}
