//! Prints descriptions of labs.

use std::path::Path;
use std::time::Duration;

use linerate_lab::{Description, End, Lab, LabSite, SegmentCounts, Status};

use crate::units::show_count;

/// Instructions for using a lab that stays, as lines.
pub fn usage(lab: &Lab) -> Vec<String> {
    let (name, description) = (lab.name(), lab.description());
    let (near, config) = (&description.a.namespace, lab.ssh_config().display().to_string());
    let mut lines = vec![format!("lab {name} is up: {}", describe_link(description))];
    let mut add = |what: &str, text: String| lines.push(format!("  {:<16} {text}", format!("{what}:")));
    if lab.sites().is_empty() {
        add("a command on a", format!("ip netns exec {near} COMMAND"));
        add("from a to b", format!("ip netns exec {near} ssh -F {config} b"));
        add("addresses", format!("a {}, b {}", description.a.address, description.b.address));
    } else {
        add("a shell on s1h1", format!("ip netns exec {near} ssh -t -F {config} s1h1"));
        lab.sites().iter().for_each(|site| add(&site.name, describe_site(site)));
        if let Some(cluster) = &description.slurm {
            add("slurm", format!("{}, SLURM_CONF={}", cluster.version, cluster.conf.display()));
        }
    }
    if !description.b.further.is_empty() {
        add("further links", listed(lab.addresses(End::B).iter().skip(1)));
    }
    if !lab.guests().is_empty() {
        add("guests", listed(lab.guests().iter().map(|guest| guest.address)));
    }
    add("data directory", lab.scratch().display().to_string());
    add("when done", format!("linerate lab down {name}"));
    lines
}

/// The description of a lab, as text.
pub fn describe(lab: &Status) -> String {
    let Status { description, holder, kept, alive, left, ssh_config, counts } = lab;
    if let Some(left) = left {
        return format!("{}: only partly removed: {left}", description.name);
    }
    let held = match (alive, kept) {
        (false, _) => format!("stale: process {holder} is gone"),
        (true, true) => format!("kept until: linerate lab down {}", description.name),
        (true, false) => format!("until process {holder} ends"),
    };
    let counts = counts.iter().enumerate().map(|(link, counts)| describe_counts(link, counts));
    format!(
        "{}: {}, {held}{}{}",
        description.name,
        describe_link(description),
        describe_hosts(description, ssh_config),
        counts.collect::<String>()
    )
}

fn describe_hosts(lab: &Description, config: &Path) -> String {
    let config = config.display();
    if lab.sites.is_empty() {
        let (a, b) = (&lab.a, &lab.b);
        return format!(
            "\n  a {} in {}, b {} in {}\n  ssh -F {config} b",
            a.address, a.namespace, b.address, b.namespace
        );
    }
    let sites = lab.sites.iter().map(|site| format!("\n  {}: {}", site.name, describe_site(site)));
    let cluster = lab.slurm.iter().map(|cluster| format!("\n  SLURM_CONF={}", cluster.conf.display()));
    let shell = format!("\n  ip netns exec {} ssh -t -F {config} s1h1", lab.a.namespace);
    sites.chain([shell]).chain(cluster).collect()
}

fn describe_site(site: &LabSite) -> String {
    let hosts = site.hosts.iter().map(|host| format!("{} {}", host.name, host.host.address));
    format!("{}; {}", listed(hosts), site.directory.display())
}

fn describe_counts(link: usize, counts: &[SegmentCounts; 2]) -> String {
    let way = |(way, counts): (&str, &SegmentCounts)| {
        let SegmentCounts { segments, lost, dropped, latest_ns } = counts;
        let late = Duration::from_nanos(*latest_ns).as_secs_f64() * 1e3;
        format!(
            "\n  link {link}, {way}: {} segments, {} lost, {} dropped by the queue, delayed by up to {late:.1} ms",
            show_count(*segments),
            show_count(*lost),
            show_count(*dropped)
        )
    };
    ["a to b", "b to a"].into_iter().zip(counts).map(way).collect()
}

fn listed<T: std::fmt::Display>(words: impl Iterator<Item = T>) -> String {
    words.map(|word| word.to_string()).collect::<Vec<_>>().join(", ")
}

fn describe_link(lab: &Description) -> String {
    let link = lab.link.map_or_else(|| "an open link".into(), |rate| format!("a link of {rate}"));
    let Some(wan) = lab.wan else { return link };
    format!("{link} with a round trip of {} and a loss of {}", wan.rtt, wan.loss)
}
