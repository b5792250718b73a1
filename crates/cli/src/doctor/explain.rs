//! `linerate doctor explain CHECK`: the facts that a check looks at, its formula, the sources of its advice, and when it is wrong.

use clap::Args;
use linerate_doctor::check::{Check, named};

use crate::common::failure::Failure;

/// The guide. Its tables are the explanations, so the two always agree.
const GUIDE: &str = include_str!("guide.md");

/// The headings of its tables.
const CHECKED: &str = "| check | needs | finds |";
const FORMULAS: &str = "| what | formula | source | checks |";
const WRONG: &str = "| check | wrong if |";

/// Arguments of `linerate doctor explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The check's name: after each finding, in brackets
    #[arg(value_name = "CHECK")]
    check: String,
}

/// Prints the explanation.
///
/// # Errors
/// If there is no such check.
pub fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let Some(check) = named(&args.check) else {
        let message = format!("there is no check {:?}: linerate doctor --list has their names", args.check);
        return Err(Failure::usage(message));
    };
    say!("{}", text(check));
    Ok(())
}

fn text(check: &Check) -> String {
    let mut lines = vec![format!("{}: {}", check.name, check.about)];
    for row in rows_of(check.name) {
        lines.extend(match row.as_slice() {
            [_, needs, finds] => [format!("looks at  {needs}"), format!("finds     {finds}")],
            _ => continue,
        });
    }
    lines.extend(formulas(check.name).map(|row| format!("formula   {row}")));
    lines.extend(wrong(check.name).map(|why| format!("wrong     {why}")));
    lines.extend(check.sources.iter().map(|source| format!("source    {} <{}>", source.name, source.url)));
    lines.join("\n")
}

/// The rows of the guide's tables with this heading, as cells.
fn rows(heading: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let cells = |line: &'static str| line.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>();
    let tables = GUIDE.split("\n\n").filter(move |block| block.lines().next() == Some(heading));
    tables.flat_map(|table| table.lines().skip(2)).map(cells)
}

/// Rows of the tables of checks whose first cell has the check's name, alone or among others.
fn rows_of(name: &str) -> impl Iterator<Item = Vec<&'static str>> {
    rows(CHECKED).filter(move |row| row[0].split(", ").any(|each| each == name))
}

/// Formulas that name the check in their last cell.
fn formulas(name: &str) -> impl Iterator<Item = String> {
    let of = move |row: Vec<&'static str>| match row.as_slice() {
        [what, formula, source, checks] if checks.split(", ").any(|each| each == name) => {
            Some(format!("{what}: {formula} ({source})"))
        }
        _ => None,
    };
    rows(FORMULAS).filter_map(of)
}

/// The cases in which the check is wrong, from the table with two columns.
fn wrong(name: &str) -> impl Iterator<Item = &'static str> {
    rows(WRONG)
        .filter(move |row| row[0].split(", ").any(|each| each == name))
        .filter_map(|row| row.get(1).copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_doctor::check::CHECKS;

    #[test]
    fn each_check_is_explained() {
        let untold: Vec<_> = CHECKS
            .iter()
            .filter(|check| rows_of(check.name).next().is_none())
            .map(|check| check.name)
            .collect();
        assert!(untold.is_empty(), "no row in the guide: {untold:?}");
        let rtt = text(named("window-vs-bdp").unwrap());
        assert!(rtt.contains("formula   bandwidth-delay") && rtt.contains("source    "), "{rtt}");
        assert!(text(named("drops-by-cause").unwrap()).contains("wrong     "));
    }

    /// Two checks don't find the same, so each has a text of its own, except the checks of processors' settings.
    #[test]
    fn a_check_has_a_row_of_its_own() {
        let shared: Vec<_> = rows(CHECKED)
            .map(|row| row[0])
            .filter(|names| names.contains(", ") && !names.contains("governor"))
            .collect();
        assert!(shared.is_empty(), "{shared:?}");
        assert!(!text(named("xps-off").unwrap()).contains("too few queues"));
        assert!(!text(named("module-heat").unwrap()).contains("light"));
        assert!(!text(named("pcie-payload").unwrap()).contains("narrowest link"));
    }

    /// Checks that look only at settings or states, and neither compute a number nor compare one with a limit.
    const OF_SETTINGS: [&str; 18] = [
        "governor",
        "turbo-off",
        "smt-off",
        "mitigations",
        "tuned-profile",
        "vlan-offload",
        "bridge-in-path",
        "container",
        "packet-taps",
        "sriov-available",
        "sriov-tradeoffs",
        "guest-vcpus",
        "mtu-probing",
        "hystart",
        "tcp-ecn",
        "busy-poll",
        "network-file-system",
        "io-scheduler",
    ];

    #[test]
    fn each_check_says_when_it_is_wrong_and_how_it_computes() {
        let names = || CHECKS.iter().map(|check| check.name);
        let silent: Vec<_> = names().filter(|name| wrong(name).next().is_none()).collect();
        assert!(silent.is_empty(), "{silent:?}");
        let bare: Vec<_> = names().filter(|name| formulas(name).next().is_none()).collect();
        let of_settings: Vec<_> = names().filter(|name| OF_SETTINGS.contains(name)).collect();
        assert_eq!((bare, of_settings.len()), (of_settings.clone(), OF_SETTINGS.len()));
        assert!(CHECKS.iter().all(|check| !check.sources.is_empty()));
    }

    /// Each name in the tables is a check's.
    #[test]
    fn nothing_else_is_explained() {
        let first = |heading| rows(heading).flat_map(|row| row[0].split(", ").collect::<Vec<_>>());
        let last = rows(FORMULAS).flat_map(|row| row[3].split(", ").collect::<Vec<_>>());
        let odd: Vec<_> =
            first(CHECKED).chain(first(WRONG)).chain(last).filter(|name| named(name).is_none()).collect();
        assert!(odd.is_empty(), "{odd:?}");
    }
}
