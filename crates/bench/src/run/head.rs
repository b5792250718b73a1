//! The part of a record that is known before the first run.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use linerate_host::Profile;

use crate::record::{Bound, Case, Host, NamedLink, Record, SCHEMA};
use crate::spec::study::{BoundSpec, CaseSpec};
use crate::spec::template::{expand, one};
use crate::spec::tool::{Tool, Toolbox};

use super::bed::{self, Bed, End};
use super::runner::now;
use super::setup::{RunnerError, Setup};
use super::stock::Stock;
use super::{process, programs};

/// Makes a record without runs: hosts with their facts, links, data sets, cases with their tools' versions,
/// bounds.
///
/// # Errors
/// If a host's facts can't be read.
pub(crate) fn make(
    setup: &Setup,
    beds: &mut BTreeMap<String, Box<dyn Bed + '_>>,
    stock: &Stock,
) -> Result<Record, RunnerError> {
    let study = setup.study;
    let links: Vec<NamedLink> = study
        .links
        .iter()
        .filter_map(|link| Some(NamedLink { name: link.name.clone(), link: beds.get(&link.name)?.link() }))
        .collect();
    let first = study.links.iter().find(|link| beds.contains_key(&link.name));
    let (hosts, shared_processors, b_is_guest_of_a) = match first.and_then(|link| beds.get_mut(&link.name)) {
        Some(bed) => (hosts(&links[0].name, bed.as_mut())?, bed.shares_processors(), bed.far_is_guest()),
        None => (Vec::new(), false, false),
    };
    let versions = versions(setup, beds);
    Ok(Record {
        schema: SCHEMA,
        linerate: env!("CARGO_PKG_VERSION").into(),
        study: study.name.clone(),
        title: study.title.clone(),
        about: study.about.split_whitespace().collect::<Vec<_>>().join(" "),
        started: now(),
        seed: setup.seed,
        blocks: setup.blocks,
        hosts,
        shared_processors,
        b_is_guest_of_a,
        link: links.first().map(|named| named.link.clone()),
        links,
        baseline: study.baseline.clone(),
        datasets: study.datasets.iter().filter_map(|set| Some(stock.get(&set.name)?.clone())).collect(),
        cases: study.cases.iter().map(|case| recorded_case(case, setup.tools, &versions)).collect(),
        bounds: study.bounds.iter().map(recorded_bound).collect(),
        rows: study.rows.clone(),
        figures: study.figures.clone(),
        printed: study.printed.clone(),
        capacity: Vec::new(),
        runs: Vec::new(),
    })
}

/// The reason why runs of `now` can't continue the interrupted study `then`; `None` if they can.
pub(crate) fn difference(then: &Record, now: &Record) -> Option<String> {
    let other = |what: &str, then: &str, now: &str| {
        (then != now).then(|| format!("{what} was {then:?} but is now {now:?}"))
    };
    let ids = |record: &Record| record.cases.iter().map(|case| case.id.clone()).collect::<Vec<_>>().join(" ");
    let sets = |record: &Record| {
        let one =
            |set: &crate::record::Dataset| format!("{} ({} files, {} bytes)", set.name, set.files, set.bytes);
        record.datasets.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    other("the program", &then.linerate, &now.linerate)
        .or_else(|| other("the study", &then.study, &now.study))
        .or_else(|| other("its list of cases", &ids(then), &ids(now)))
        .or_else(|| other("its data", &sets(then), &sets(now)))
        .or_else(|| other("its seed", &then.seed.to_string(), &now.seed.to_string()))
        .or_else(|| other("its number of blocks", &then.blocks.to_string(), &now.blocks.to_string()))
}

fn hosts(link: &str, bed: &mut dyn Bed) -> Result<Vec<Host>, RunnerError> {
    let mut host = |name: &str, end| match bed.facts(end) {
        Ok(facts) => {
            Ok(Host { name: name.into(), facts: Profile::from(&facts), whole: Some(Box::new(facts)) })
        }
        Err(e) => Err(RunnerError::Bed {
            link: link.into(),
            reason: format!("asking host {name} for its facts: {e}"),
        }),
    };
    let mut hosts = vec![host("a", End::A)?, host("b", End::B)?];
    let watched = bed.watched_facts().map_err(|e| RunnerError::Bed {
        link: link.into(),
        reason: format!("asking the watched hosts for their facts: {e}"),
    })?;
    hosts.extend(watched.into_iter().map(|(name, facts)| Host {
        name,
        facts: Profile::from(&facts),
        whole: Some(Box::new(facts)),
    }));
    Ok(hosts)
}

fn recorded_case(case: &CaseSpec, tools: &Toolbox, versions: &BTreeMap<String, String>) -> Case {
    let tool = tools.get(&case.tool);
    let variant = tool.and_then(|tool| tool.variant(case.variant.as_deref()?));
    let cipher = match variant {
        Some(variant) => variant.cipher.clone(),
        None => tool.and_then(|tool| tool.cipher.clone()),
    };
    Case {
        id: case.id.clone(),
        label: case.label.clone(),
        group: case.group.clone(),
        tool: case.tool.clone(),
        version: versions.get(&case.tool).cloned(),
        streams: case.streams.number(),
        cipher,
        dataset: case.dataset.clone(),
        link: case.link.clone(),
        factors: case.factors(),
    }
}

fn recorded_bound(bound: &BoundSpec) -> Bound {
    Bound {
        name: bound.name.clone(),
        expression: bound.text.clone(),
        limit: bound.limit,
        unit: bound.unit.clone(),
        every_block: bound.every_block,
    }
}

/// The versions of the installed tools, as the tools print them.
fn versions(setup: &Setup, beds: &BTreeMap<String, Box<dyn Bed + '_>>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for case in &setup.study.cases {
        let (Some(tool), Some(bed)) = (setup.tools.get(&case.tool), beds.get(&case.link)) else { continue };
        if found.contains_key(&tool.name) || programs::unavailable(tool, bed.as_ref()).is_some() {
            continue;
        }
        if let Some(version) = version(tool, bed.as_ref(), setup) {
            found.insert(tool.name.clone(), version);
        }
    }
    found
}

/// The first line that the version command prints, on stdout or else on stderr; `None` if the tool has no
/// version command, or if the command fails.
fn version(tool: &Tool, bed: &dyn Bed, setup: &Setup) -> Option<String> {
    if tool.version.is_empty() {
        return None;
    }
    let mut values = bed::values(bed, 0);
    values.insert("linerate", one(setup.linerate));
    let argv = expand(&tool.version, &values).ok()?;
    let command: Command = bed.command(End::A, &argv).ok()?;
    let finished = process::run(vec![command], setup.work, Duration::from_secs(10), &setup.stop).ok()?;
    let output = finished.outputs.first()?;
    let text = [output.stdout.as_slice(), b"\n", output.stderr.as_slice()].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).take(80).collect())
}
