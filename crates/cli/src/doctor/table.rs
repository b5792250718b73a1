//! Prints findings as text, the costliest first. Findings that cost much are printed in full, and minor findings of
//! unknown cost in one or two lines. Notes are printed only if the user asks for them.

use linerate_doctor::formula::{gbit, percent};
use linerate_doctor::{Finding, Severity};
use linerate_wire::path::printable;
use std::borrow::Cow;
use std::fmt::Write;

use super::{Needed, Report, brief};
use crate::units::show_counted;

/// The largest number of lines of evidence for each finding without `-v`.
const SHORT: usize = 2;
/// The largest number of lines of evidence for each finding with `-v`.
const LONG: usize = 8;

/// The rows of a terminal that the report should take; one or two more rows are for the changes that linerate can make.
/// If the report takes more rows, minor findings are shown in a shorter form.
const SCREEN: usize = 28;
/// The assumed columns of a terminal.
const COLUMNS: usize = 100;

/// The last line of a report that doesn't show all findings in full.
const MORE: &str = "in full, with undo and drawbacks: -v; about a check: linerate doctor explain CHECK";

/// The amount of detail.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail {
    /// Show notes too, more evidence, and the sources.
    pub verbose: bool,
    /// Show one line for each finding.
    pub brief: bool,
    /// Show notes too, because the user named their checks.
    pub notes: bool,
}

/// The form in which a finding is shown. Each form shows more than the one before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FindingForm {
    /// A single line.
    Line,
    /// The line, and the finding's fix if it is a command.
    Short,
    /// The line, and the finding's ceiling, facts, fix and undo.
    Costed,
    /// Everything of `Costed`, and the drawbacks of the fix.
    Full,
}

impl FindingForm {
    /// True if there are blank lines before and after the finding.
    fn is_paragraph(self) -> bool {
        self >= Self::Costed
    }
}

/// A finding, the hosts that have it, and the form in which it is shown.
struct Shown<'a> {
    finding: &'a Finding,
    hosts: Vec<&'a str>,
    form: FindingForm,
}

impl Shown<'_> {
    /// True if the form leaves out something that a user should know before the fix, and that `-v` shows.
    fn is_cut(&self) -> bool {
        match self.form {
            FindingForm::Line | FindingForm::Short => true,
            FindingForm::Costed => self.finding.conflict.is_some(),
            FindingForm::Full => false,
        }
    }
}

/// The whole report as text, without a newline at the end.
pub fn text(report: &Report, detail: Detail) -> String {
    let longer = [FindingForm::Costed, FindingForm::Short].into_iter();
    let mut longer = longer.map(|form| with_minor(report, detail, form));
    let fits = longer.find(|text| rows(text) <= SCREEN);
    fits.unwrap_or_else(|| with_minor(report, detail, FindingForm::Line))
}

/// The number of rows that a text takes on a terminal of [`COLUMNS`] columns.
pub fn rows(text: &str) -> usize {
    text.lines().map(|line| line.chars().count().div_ceil(COLUMNS).max(1)).sum()
}

/// The report. Minor findings are shown in the form `most` or in a shorter one.
fn with_minor(report: &Report, detail: Detail, most: FindingForm) -> String {
    let mut out = String::new();
    report.hosts.iter().for_each(|host| line(&mut out, &needed(host)));
    if let Some(measured) = &report.measured {
        line(&mut out, &super::path::reported(measured));
        super::path::ports(report).iter().for_each(|ports| line(&mut out, ports));
    }
    let with_notes = detail.verbose || detail.notes;
    let all = merged(&report.findings, detail, most);
    let (shown, hidden): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|each| with_notes || each.finding.severity > Severity::Note);
    let several = report.hosts.len() > 1;
    let mut before = FindingForm::Full;
    for (number, each) in (1..).zip(&shown) {
        if before.is_paragraph() || each.form.is_paragraph() {
            line(&mut out, "");
        }
        numbered(&mut out, number, each, several, detail);
        before = each.form;
    }
    line(&mut out, "");
    line(&mut out, &sum(report, &shown, &hidden));
    if !detail.brief && shown.iter().any(Shown::is_cut) {
        line(&mut out, MORE);
    }
    out.truncate(out.trim_end().len());
    out
}

/// The findings in their forms. Findings that differ only in their host become one.
fn merged(findings: &[Finding], detail: Detail, most: FindingForm) -> Vec<Shown<'_>> {
    let mut all: Vec<Shown<'_>> = Vec::new();
    for finding in findings {
        let is_same = |other: &&mut Shown<'_>| {
            let other = other.finding;
            (other.check, other.severity, &other.place, &other.title, &other.fix)
                == (finding.check, finding.severity, &finding.place, &finding.title, &finding.fix)
        };
        match all.iter_mut().find(is_same) {
            Some(same) => same.hosts.push(&finding.host),
            None => {
                let form = form(finding, &all, detail, most);
                all.push(Shown { finding, hosts: vec![&finding.host], form });
            }
        }
    }
    all
}

/// The form for a finding. A finding that costs much is shown in full. A minor finding whose cost is known is shown
/// with its facts, if `most` allows this form. If a check has several minor findings, for example one for each port,
/// they resemble each other, so only the costliest of them, which comes first, is shown with its facts.
fn form(finding: &Finding, costlier: &[Shown<'_>], detail: Detail, most: FindingForm) -> FindingForm {
    let is_first = || costlier.iter().all(|other| other.finding.check != finding.check);
    match detail {
        Detail { brief: true, .. } => FindingForm::Line,
        Detail { verbose: true, .. } | Detail { notes: true, .. } => FindingForm::Full,
        _ if finding.severity >= Severity::Major => FindingForm::Full,
        _ if finding.loss.is_some() && is_first() => FindingForm::Costed.min(most),
        _ => FindingForm::Short.min(most),
    }
}

fn needed(host: &Needed) -> String {
    let unknown = match host.unreadable {
        0 => String::new(),
        count => format!("; {count} of its facts can't be read: linerate facts"),
    };
    format!("{}: needed {} ({}){unknown}", host.host, gbit(host.rate), host.because)
}

fn numbered(out: &mut String, number: u32, each: &Shown<'_>, several: bool, detail: Detail) {
    let finding = each.finding;
    let place = if several { format!("{}: ", each.hosts.join(", ")) } else { String::new() };
    line(out, &format!("{number}. {:8} {place}{}  [{}]", finding.severity, finding.title, finding.check));
    match each.form {
        FindingForm::Line => {}
        FindingForm::Short => command(finding).iter().for_each(|command| row(out, "fix", command)),
        FindingForm::Costed | FindingForm::Full => details(out, each, detail),
    }
}

/// The fix, if it is a command. A fix is a command if the finding has an undo.
fn command(finding: &Finding) -> Option<Cow<'_, str>> {
    finding.undo.as_ref().and_then(|_| brief::fix(finding))
}

fn details(out: &mut String, &Shown { finding, form, .. }: &Shown<'_>, detail: Detail) {
    if let Some(ceiling) = finding.ceiling {
        row(out, "ceiling", &format!("{}{}", gbit(ceiling), finding.loss.map_or_else(String::new, lost)));
    }
    let evidence = if detail.verbose { LONG } else { SHORT };
    finding.evidence.iter().take(evidence).for_each(|fact| row(out, "because", fact));
    brief::fix(finding).iter().for_each(|fix| row(out, "fix", fix));
    brief::undo(finding).iter().for_each(|undo| row(out, "undo", undo));
    let conflict = finding.conflict.iter().filter(|_| form == FindingForm::Full);
    conflict.for_each(|note| row(out, "but", note));
    let sources = if detail.verbose { finding.sources } else { &[] };
    sources.iter().for_each(|source| row(out, "see", &format!("{} <{}>", source.name, source.url)));
}

fn lost(share: f64) -> String {
    if share > 0.0 {
        format!(": {} of the needed rate is lost", percent(share))
    } else {
        ", above the needed rate".into()
    }
}

/// The line with the number of checks, the number of findings of each severity, and the notes that aren't shown.
fn sum(report: &Report, shown: &[Shown<'_>], hidden: &[Shown<'_>]) -> String {
    let count = |severity: &Severity| {
        let count = shown.iter().filter(|each| each.finding.severity == *severity).count();
        (count > 0).then(|| format!("{count} {severity}"))
    };
    let counts: Vec<String> = Severity::ALL.iter().filter_map(count).collect();
    let found = match counts.as_slice() {
        [] if report.findings.is_empty() => "nothing found".to_owned(),
        [] => "nothing that costs anything".to_owned(),
        counts => counts.join(", "),
    };
    let mut names: Vec<&str> = hidden.iter().map(|each| each.finding.check).collect();
    names.dedup();
    let notes = match hidden.len() {
        0 => String::new(),
        1 => format!(", and a note (-v shows it): {}", names.join(", ")),
        count => format!(", and {count} notes (-v shows them): {}", names.join(", ")),
    };
    format!("{}: {found}{notes}", show_counted(report.checks as u64, "check", "checks"))
}

fn row(out: &mut String, label: &str, text: &str) {
    line(out, &format!("   {label:8} {text}"));
}

fn line(out: &mut String, text: &str) {
    // The names of ports, drivers and hosts come from outside this program, so they are escaped. Writing to a String
    // doesn't fail.
    let _ = writeln!(out, "{}", printable(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(host: &str, check: &'static str, severity: Severity) -> Finding {
        let finding = Finding::new(severity, "a title").evidence("one").evidence("two").evidence("three");
        Finding { check, host: host.into(), ..finding.fix("do it") }
    }

    fn report(findings: Vec<Finding>) -> Report {
        let needed = |name: &str| Needed {
            host: name.into(),
            rate: 1e10,
            route: None,
            because: "as asked for",
            unreadable: 0,
            kernel: None,
            up_seconds: None,
        };
        Report { hosts: vec![needed("a"), needed("b")], findings, ..Report::of(&[], Vec::new()) }
    }

    #[test]
    fn the_same_of_several_hosts_is_shown_once_and_notes_are_named() {
        let all = report(vec![
            finding("a", "rx-ring", Severity::Major),
            finding("b", "rx-ring", Severity::Major),
            finding("a", "governor", Severity::Note),
            finding("b", "governor", Severity::Note),
            finding("b", "smt-off", Severity::Note),
        ]);
        let short = text(&all, Detail::default());
        assert!(short.contains("1. major    a, b: a title  [rx-ring]\n"), "{short}");
        assert!(short.contains("because  two") && !short.contains("three"), "{short}");
        assert!(short.ends_with("1 major, and 2 notes (-v shows them): governor, smt-off"), "{short}");
        let long = text(&all, Detail { verbose: true, ..Detail::default() });
        assert!(
            long.contains("[smt-off]") && long.contains("three") && long.ends_with("1 major, 2 note"),
            "{long}"
        );
        let brief = text(&all, Detail { brief: true, ..Detail::default() });
        assert_eq!(brief.lines().count(), 2 + 1 + 1 + 2, "{brief}");
    }

    #[test]
    fn small_costs_are_short_and_more_of_them_get_shorter() {
        let minor = |check, loss| Finding {
            loss,
            undo: Some("undo it".into()),
            conflict: Some("a risk".into()),
            ..finding("a", check, Severity::Minor)
        };
        let (known, other) = (minor("jumbo-frames", Some(0.04)), minor("rx-ring", None));
        let words = Finding { undo: None, ..minor("steal", None) };
        let again = Finding { title: "another port".into(), ..known.clone() };
        let all = report(vec![finding("a", "fec", Severity::Major), known, again, other, words]);
        let short = text(&all, Detail::default());
        let reported = |text: &str, word: &str| text.matches(word).count();
        assert_eq!(
            (reported(&short, "because"), reported(&short, "fix      do it"), reported(&short, "   undo  ")),
            (4, 4, 1)
        );
        assert!(
            short.contains("[rx-ring]\n   fix      do it\n5. minor    a: a title  [steal]\n\n"),
            "{short}"
        );
        assert!(!short.contains("a risk") && short.ends_with(MORE), "{short}");
        let whole = text(&all, Detail { verbose: true, ..Detail::default() });
        assert_eq!(
            (reported(&whole, "because"), reported(&whole, "a risk"), reported(&whole, MORE)),
            (15, 4, 0),
            "{whole}"
        );
        let many = |count| {
            let severe = vec![finding("a", "fec", Severity::Major)];
            let minor =
                (0..count).map(|n| Finding { title: n.to_string(), ..minor("jumbo-frames", Some(0.04)) });
            text(&report(severe.into_iter().chain(minor).collect()), Detail::default())
        };
        let (some, more) = (many(7), many(20));
        assert!(!some.contains("   undo") && reported(&some, "fix") == 8 && rows(&some) <= SCREEN, "{some}");
        assert!(reported(&more, "fix") == 1 && more.contains("21. minor") && more.ends_with(MORE), "{more}");
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        assert!(text(&report(Vec::new()), Detail::default()).ends_with("nothing found"));
        let notes = text(&report(vec![finding("a", "governor", Severity::Note)]), Detail::default());
        assert!(
            notes.ends_with("nothing that costs anything, and a note (-v shows it): governor"),
            "{notes}"
        );
    }
}
