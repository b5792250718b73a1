//! The doctor's findings about the hosts, with the runs that show their effect.

use linerate_bench::record::Record;
use linerate_doctor::formula::{gbit, percent};
use linerate_doctor::{Finding, Host, Need, examine_host, ordered};
use maud::{Markup, html};

use super::scrolling;

/// The findings of all hosts, the costliest first; empty if the record lacks facts of a host.
pub(crate) fn section(record: &Record) -> Markup {
    let need = need(record);
    let hosts: Vec<Host<'_>> = record
        .hosts
        .iter()
        .filter_map(|host| Some(Host::alone(&host.name, host.whole.as_deref()?, need)))
        .collect();
    if hosts.is_empty() {
        return html! {};
    }
    let findings = ordered(hosts.iter().flat_map(examine_host).collect());
    html! {
        section {
            h2 id="findings" { "Findings about the hosts" }
            p class="lead" { (lead(&findings, need)) }
            @if !findings.is_empty() { (scrolling("Findings about the hosts", &table(&findings))) }
        }
    }
}

/// The task for which the doctor judges the hosts: the link's rate, if it is known.
fn need(record: &Record) -> Need {
    let rates = record.links.iter().map(|named| &named.link).chain(&record.link);
    let fastest = rates.filter_map(|link| link.bits_per_second).max();
    fastest.map_or(Need::OfPorts, |bits| Need::Target(bits as f64))
}

fn lead(findings: &[Finding], need: Need) -> String {
    let of = match need {
        Need::Target(rate) => gbit(rate),
        Need::OfPorts => "the ports’ rate".to_owned(),
    };
    match findings.len() {
        0 => format!("No finding keeps the hosts below {of}."),
        1 => format!("One finding may keep the hosts below {of}."),
        many => format!("{many} findings may keep the hosts below {of}, the costliest first."),
    }
}

fn table(findings: &[Finding]) -> Markup {
    html! {
        table {
            thead {
                tr {
                    th scope="col" { "Host" }
                    th scope="col" { "Finding" }
                    th scope="col" { "Severity" }
                    th scope="col" class="number" { "Ceiling" }
                    th scope="col" { "Fix" }
                }
            }
            tbody { @for finding in findings { (line(finding)) } }
        }
    }
}

fn line(finding: &Finding) -> Markup {
    html! {
        tr {
            th scope="row" { (finding.host) }
            td { (finding.title) span class="interval wrap" { (finding.check) ": " (finding.evidence.join("; ")) } }
            td { (finding.severity) }
            td class="number" {
                @if let Some(ceiling) = finding.ceiling { (gbit(ceiling)) }
                @if let Some(loss) = finding.loss.filter(|loss| *loss > 0.0) {
                    span class="interval" { (percent(loss)) " lost" }
                }
            }
            td { (finding.fix.as_deref().unwrap_or_default()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_bench::record;
    use linerate_host::{Fact, Facts, Profile};

    use super::*;

    fn with(facts: Option<Facts>) -> Record {
        let profile = Profile::from(&Facts::default());
        let host = record::Host { name: "a".into(), facts: profile, whole: facts.map(Box::new) };
        Record { hosts: vec![host], ..Record::default() }
    }

    #[test]
    fn what_the_doctor_finds_is_shown() {
        let mut facts = Facts::default();
        facts.cpu.turbo = Fact::Known(false);
        let shown = section(&with(Some(facts))).into_string();
        assert!(shown.contains("turbo-off") && shown.contains("One finding"), "{shown}");
    }

    #[test]
    fn records_without_facts_say_nothing() {
        assert_eq!(section(&with(None)).into_string(), "");
        assert!(section(&with(Some(Facts::default()))).into_string().contains("No finding keeps"));
    }
}
