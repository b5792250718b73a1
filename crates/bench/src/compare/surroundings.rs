//! Differences between two results other than the compared values.

use std::fmt::Display;

use linerate_host::{Fact, Interface, Profile};

use crate::record::{Case, Link, Outcome, Record};

/// One line for each difference that may explain changes of the values.
pub(crate) fn warnings(base: &Record, new: &Record) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(differ("studies", &base.study, &new.study));
    warnings.extend(differ("versions of linerate", &base.linerate, &new.linerate));
    warnings.extend(hosts(base, new));
    warnings.extend(datasets(base, new));
    warnings.extend(links(base, new));
    warnings.extend(base.cases.iter().filter_map(|case| tool(case, new)));
    warnings.extend([("BASE", base), ("NEW", new)].into_iter().flat_map(|(name, record)| runs(name, record)));
    warnings
}

fn differ<T: Display + PartialEq>(what: &str, base: T, new: T) -> Option<String> {
    (base != new).then(|| format!("{what} differ: {base} in BASE, {new} in NEW"))
}

fn hosts(base: &Record, new: &Record) -> Vec<String> {
    let mut all = Vec::new();
    for host in &base.hosts {
        let Some(other) = new.hosts.iter().find(|other| other.name == host.name) else { continue };
        let differing: Vec<String> =
            facts(&host.facts).into_iter().zip(facts(&other.facts)).filter_map(one_fact).collect();
        if !differing.is_empty() {
            all.push(format!("host {} differs: {}", host.name, differing.join("; ")));
        }
    }
    // If both ends are on one machine, both have the same differences, which are shown only once.
    all.dedup_by(|a, b| a.split_once(':').map(|(_, rest)| rest) == b.split_once(':').map(|(_, rest)| rest));
    all.extend(differ(
        "the sharing of processors by both ends",
        base.shared_processors,
        new.shared_processors,
    ));
    all
}

fn one_fact(((name, base), (_, new)): ((&str, String), (&str, String))) -> Option<String> {
    (base != new).then(|| format!("{name} {base} in BASE, {new} in NEW"))
}

/// The facts that determine a host's speed, each with its name.
fn facts(facts: &Profile) -> Vec<(&'static str, String)> {
    vec![
        ("name", show(&facts.hostname)),
        ("processor", show(&facts.cpu_model)),
        ("processors", show(&facts.processors)),
        ("kernel", show(&facts.kernel)),
        ("distribution", show(&facts.distribution)),
        ("governor", show(&facts.governor)),
        ("hypervisor", show(&facts.hypervisor)),
        ("congestion control", show(&facts.congestion_control)),
        // The value is rounded, because the kernel reserves a slightly different amount of memory at each boot.
        (
            "memory in GB",
            facts
                .memory_bytes
                .known()
                .map_or("unknown".into(), |bytes| format!("{:.0}", *bytes as f64 * 1e-9)),
        ),
        ("ports", ports(&facts.interfaces)),
    ]
}

fn show<T: Display>(fact: &Fact<T>) -> String {
    fact.known().map_or("unknown".into(), ToString::to_string)
}

/// The physical ports, each by its driver and speed.
fn ports(interfaces: &[Interface]) -> String {
    let is_virtual = |driver: &str| ["veth", "bridge", "tun", "bonding", "dummy"].contains(&driver);
    let mut ports: Vec<String> = interfaces
        .iter()
        .filter_map(|port| {
            let driver = port.driver.known().filter(|driver| !is_virtual(driver))?;
            Some(format!("{driver} {} Mbit/s", show(&port.speed_mbps)))
        })
        .collect();
    ports.sort();
    if ports.is_empty() { "none".into() } else { ports.join(", ") }
}

fn datasets(base: &Record, new: &Record) -> Vec<String> {
    let pairs = base.datasets.iter().filter_map(|set| {
        let other = new.datasets.iter().find(|other| other.name == set.name)?;
        let describe =
            |files: u64, bytes: u64, origin: &str| format!("{files} files, {bytes} bytes ({origin})");
        differ(
            &format!("data sets {}", set.name),
            describe(set.files, set.bytes, &set.origin),
            describe(other.files, other.bytes, &other.origin),
        )
    });
    pairs.collect()
}

fn links(base: &Record, new: &Record) -> Vec<String> {
    let pairs = base.links.iter().filter_map(|named| {
        let other = new.links.iter().find(|other| other.name == named.name)?;
        differ(&format!("links {}", named.name), describe(&named.link), describe(&other.link))
    });
    pairs.collect()
}

fn describe(link: &Link) -> String {
    let rate = link.bits_per_second.map_or("open".into(), |rate| format!("{:.3} Gbit/s", rate as f64 * 1e-9));
    format!("{rate} ({}), MTU {}", link.kind, link.mtu)
}

/// A line about a case if its tool, the tool's version or one of its settings differs.
fn tool(case: &Case, new: &Record) -> Option<String> {
    let other = new.cases.iter().find(|other| other.id == case.id)?;
    let describe = |case: &Case| {
        let version = case.version.as_deref().unwrap_or("of unknown version");
        let cipher = case.cipher.as_deref().unwrap_or("no cipher");
        let streams = case.streams.map_or("auto".into(), |streams| streams.to_string());
        let factors: Vec<String> =
            case.factors.iter().map(|(name, level)| format!("{name} {level}")).collect();
        format!("{} {version}, streams {streams}, {cipher} {}", case.tool, factors.join(" "))
    };
    // The version of linerate itself is reported on another line.
    if case.tool.starts_with("linerate") && case.version != other.version {
        return None;
    }
    differ(&format!("tools of {}", case.id), describe(case).trim_end(), describe(other).trim_end())
}

/// Lines that state that a result is incomplete, or that its runs were disturbed.
fn runs(name: &str, record: &Record) -> Vec<String> {
    let expected = record.cases.len() * record.blocks as usize;
    let made = record.runs.len();
    let disturbed = record
        .runs
        .iter()
        .filter(|run| matches!(&run.outcome, Outcome::Measured(measures) if measures.disturbed.is_some()))
        .count();
    let missing = (made < expected)
        .then(|| format!("{name} has only {made} of {expected} runs: the study was interrupted"));
    let disturbed = (disturbed > 0).then(|| {
        format!("{disturbed} of {made} runs of {name} were disturbed by other work or by the hypervisor")
    });
    missing.into_iter().chain(disturbed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Dataset, Host, NamedLink};
    use crate::testing::{measured, record, run};

    fn sample() -> Record {
        let mut sample = record(&["cp"], 1, vec![run("cp", 0, measured(9.0, 1.0))]);
        let facts = Profile::read(std::path::Path::new("/"));
        sample.hosts =
            ["a", "b"].map(|name| Host { name: name.into(), facts: facts.clone(), whole: None }).to_vec();
        sample.datasets =
            vec![Dataset { name: "tree".into(), files: 10, bytes: 100, origin: "generated, seed 1".into() }];
        let link = Link {
            bits_per_second: Some(10_000_000_000),
            mtu: 1500,
            kind: "veth".into(),
            frame_overhead_bytes: 14,
            burst_bytes: 0,
        };
        sample.links = vec![NamedLink { name: "10gbit".into(), link }];
        sample
    }

    #[test]
    fn nothing_is_said_of_equal_surroundings() {
        assert_eq!(warnings(&sample(), &sample()), Vec::<String>::new());
    }

    #[test]
    fn each_difference_is_one_line() {
        let mut other = sample();
        other.linerate = "9".into();
        for host in &mut other.hosts {
            host.facts.kernel = Fact::Known("9.9".into());
        }
        other.datasets[0].bytes = 101;
        other.links[0].link.mtu = 9000;
        other.cases[0].version = Some("rsync 4".into());
        other.blocks = 2;
        let text = warnings(&sample(), &other);
        assert_eq!(text.len(), 6, "{text:#?}");
        let has = |words: &str| text.iter().any(|line| line.contains(words));
        assert!(has("versions of linerate differ: 0 in BASE, 9 in NEW"), "{text:#?}");
        assert!(has("host a differs: kernel ") && !has("host b"), "{text:#?}");
        assert!(has("10 files, 101 bytes") && has("MTU 9000") && has("rsync 4"), "{text:#?}");
        assert!(has("NEW has only 1 of 2 runs"), "{text:#?}");
    }
}
