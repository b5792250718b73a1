//! `linerate doctor explain CHECK`: prints the facts that a check uses, its decision, its limits, the commands that
//! show the facts, and the sources of its advice.

use clap::Args;
use linerate_doctor::check::{CHECKS, Check, named};
use linerate_doctor::explanation::Explanation;

use crate::common::failure::Failure;

/// The columns of the text, labels included.
const COLUMNS: usize = 100;
/// The columns of the labels before the text.
const LABEL: usize = 10;
/// The number of names that are proposed for a wrong name.
const NEAREST: usize = 5;

/// Arguments of `linerate doctor explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The check's name; doctor prints it in brackets after a finding
    #[arg(value_name = "CHECK")]
    check: String,
}

/// Prints the explanation.
///
/// # Errors
/// If there is no such check.
pub fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let check = named(&args.check).ok_or_else(|| Failure::usage(no_check(&args.check)))?;
    output!("{}", text(check));
    Ok(())
}

/// The message for a name that no check has, with the names that are nearest to it.
pub fn no_check(name: &str) -> String {
    let near = nearest(name).join(", ");
    format!("there is no check {name:?}; the nearest names: {near}; linerate doctor --list prints all names")
}

/// The names that are most like a wrong name. Names that contain the wrong name or one of its words come first, then
/// the most similar names.
fn nearest(wrong: &str) -> Vec<&'static str> {
    let wrong = wrong.to_lowercase();
    let words: Vec<&str> =
        wrong.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 1).collect();
    let shared = |name: &str| words.iter().filter(|word| name.split('-').any(|part| part == **word)).count();
    let likeness = |name: &str| {
        let contained = usize::from(wrong.len() > 2 && name.contains(&wrong));
        shared(name) as f64 + contained as f64 + strsim::jaro_winkler(&wrong, name)
    };
    let mut all: Vec<(f64, &str)> = CHECKS.iter().map(|check| (likeness(check.name), check.name)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    all.into_iter().take(NEAREST).map(|(_, name)| name).collect()
}

fn text(check: &Check) -> String {
    let mut lines = vec![format!("{}: {}", check.name, check.about)];
    lines.extend(Explanation::of(check).iter().flat_map(parts));
    lines.extend(
        check.sources.iter().map(|source| labelled("source", &format!("{} <{}>", source.name, source.url))),
    );
    lines.join("\n")
}

/// The parts of an explanation, each with its label.
fn parts(reported: &Explanation) -> Vec<String> {
    let mut lines = vec![
        labelled("looks at", &reported.looks_at),
        labelled(reported.decision.name(), reported.decision.text()),
    ];
    lines.extend(reported.formulas.iter().map(|formula| {
        labelled("where", &format!("{}: {} ({})", formula.name, formula.says, formula.source))
    }));
    lines.extend([
        labelled("wrong", &reported.wrong),
        labelled("misses", &reported.misses),
        labelled("by hand", &reported.by_hand),
    ]);
    lines
}

/// A text with its label before the first line, and with as many words on each line as fit. A word that is too long
/// for a line, such as an address, isn't cut.
fn labelled(label: &str, text: &str) -> String {
    let (mut reported, mut line) = (String::new(), format!("{label:LABEL$}"));
    let mut is_begun = false;
    for word in text.split_whitespace() {
        if is_begun && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            reported += &format!("{line}\n");
            line = format!("{:LABEL$}{word}", "");
        } else {
            line += if is_begun { " " } else { "" };
            line += word;
        }
        is_begun = true;
    }
    reported + &line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_reported_within_the_columns() {
        for check in CHECKS {
            let reported = text(check);
            for part in ["looks at  ", "wrong     ", "misses    ", "by hand   ", "source    "] {
                assert!(reported.contains(&format!("\n{part}")), "{part}: {reported}");
            }
            assert!(reported.contains("\nformula   ") || reported.contains("\nrule      "), "{reported}");
            let long =
                reported.lines().skip(1).find(|line| line.chars().count() > COLUMNS && !line.contains("://"));
            assert_eq!(long, None, "{}", check.name);
        }
    }

    #[test]
    fn shared_formulas_are_reported_with_their_sources() {
        let reported = text(named("window-vs-bdp").unwrap());
        assert!(
            reported.contains("\nformula   window = ") && reported.contains("\nwhere     bandwidth-delay: "),
            "{reported}"
        );
        assert!(!text(named("container").unwrap()).contains("\nwhere     "));
    }

    #[test]
    fn near_names_are_proposed() {
        assert_eq!(nearest("rx-rng")[0], "rx-ring");
        assert_eq!(nearest("RX-RING")[0], "rx-ring");
        let of_mtu = nearest("mtu");
        assert!(
            ["mtu-mismatch", "mtu-probing", "path-mtu"].iter().all(|name| of_mtu.contains(name)),
            "{of_mtu:?}"
        );
        assert!(nearest("irqbalance").contains(&"irq-one-cpu"));
        for odd in ["nosuch", "", "\u{e9}", "-", &"x".repeat(10_000)] {
            assert_eq!(nearest(odd).len(), NEAREST, "{odd}");
        }
    }
}
