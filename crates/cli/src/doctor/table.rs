//! Findings for people: short, the costliest first.

use linerate_doctor::formula::{gbit, percent};
use linerate_doctor::{Finding, Severity};
use linerate_wire::path::printable;
use std::fmt::Write;

use super::{Needed, Report};

/// The whole report as text, without a newline at the end.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    report.hosts.iter().for_each(|host| line(&mut out, &needed(host)));
    if let Some(measured) = &report.measured {
        line(&mut out, &super::path::told(measured));
    }
    let several = report.hosts.len() > 1;
    for (number, finding) in (1..).zip(&report.findings) {
        line(&mut out, "");
        tell(&mut out, number, finding, several);
    }
    line(&mut out, "");
    line(&mut out, &sum(report));
    out.truncate(out.trim_end().len());
    out
}

fn needed(host: &Needed) -> String {
    let unknown = match host.unreadable {
        0 => String::new(),
        count => format!("; {count} of its facts can't be read, as linerate facts shows"),
    };
    format!("{}: needed {} ({}){unknown}", host.host, gbit(host.rate), host.because)
}

fn tell(out: &mut String, number: u32, finding: &Finding, several: bool) {
    let place = if several { format!("{}: ", finding.host) } else { String::new() };
    line(out, &format!("{number}. {:8} {place}{}  [{}]", finding.severity, finding.title, finding.check));
    if let (Some(ceiling), Some(loss)) = (finding.ceiling, finding.loss) {
        row(out, "ceiling", &format!("{}{}", gbit(ceiling), lost(loss)));
    }
    let evidence = if finding.severity == Severity::Note { 3 } else { 8 };
    finding.evidence.iter().take(evidence).for_each(|fact| row(out, "because", fact));
    finding.fix.iter().for_each(|fix| row(out, "fix", fix));
    finding.undo.iter().for_each(|undo| row(out, "undo", undo));
    finding.conflict.iter().for_each(|note| row(out, "but", note));
    finding
        .sources
        .iter()
        .take(1)
        .for_each(|source| row(out, "see", &format!("{} <{}>", source.name, source.url)));
}

fn lost(share: f64) -> String {
    if share > 0.0 { format!(": {} of the need is lost", percent(share)) } else { ", above the need".into() }
}

fn sum(report: &Report) -> String {
    if report.findings.is_empty() {
        return format!("{} checks, nothing found", report.checks);
    }
    let count = |severity: &Severity| {
        let count = report.findings.iter().filter(|finding| finding.severity == *severity).count();
        (count > 0).then(|| format!("{count} {severity}"))
    };
    let counts: Vec<String> = Severity::ALL.iter().filter_map(count).collect();
    format!("{} checks: {}", report.checks, counts.join(", "))
}

fn row(out: &mut String, label: &str, text: &str) {
    line(out, &format!("   {label:8} {text}"));
}

fn line(out: &mut String, text: &str) {
    // Names of ports, drivers and hosts are foreign text. Writing to a String doesn't fail.
    let _ = writeln!(out, "{}", printable(text.as_bytes()));
}
