//! The test beds of a study: a lab for each link, or two existing hosts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use linerate_bench::run::{Bed, HostBed, Hosts, LabBed, Stop};
use linerate_bench::spec::study::Study;

/// Test beds, by the names of their links.
pub(super) type Beds<'a> = BTreeMap<String, Box<dyn Bed + 'a>>;

/// Makes a test bed of the two hosts for each link that a case names. All these beds use the same path between the
/// hosts. The output of commands is stored in a directory on this host, which is removed at the end. `prepare` is
/// called once, with the first bed and this directory.
pub(super) fn host_beds<'a>(
    study: &Study,
    hosts: &Hosts,
    linerate: &Path,
    stop: &Stop,
    prepare: impl Fn(&HostBed, &Path) -> anyhow::Result<()>,
) -> anyhow::Result<(Beds<'a>, Work)> {
    let work = tempfile::tempdir().context("making a directory for outputs")?;
    let mut beds: Beds = BTreeMap::new();
    for link in &study.links {
        if study.cases.iter().any(|case| case.link == link.name) {
            let bed = HostBed::up(hosts, linerate, stop, &|text| message!("linerate: {text}"));
            let bed = bed.context("making a test bed of these hosts")?;
            if beds.is_empty() {
                prepare(&bed, work.path())?;
            }
            let bed = bed.standing_for(link, &study.links);
            beds.insert(link.name.clone(), Box::new(bed));
        }
    }
    Ok((beds, Work::Own(work)))
}

/// The directory for the output of commands: that of a lab, which is removed with the lab, or one of its own.
pub(super) enum Work {
    Lab(PathBuf),
    Own(tempfile::TempDir),
}

impl Work {
    pub(super) fn path(&self) -> &Path {
        match self {
            Work::Lab(path) => path,
            Work::Own(directory) => directory.path(),
        }
    }
}

/// Makes a lab for each link that a case uses. The output of commands is stored in the scratch directory of the first
/// lab, and is removed with this lab.
pub(super) fn make_beds<'a>(study: &Study, linerate: &Path) -> anyhow::Result<(Beds<'a>, Work)> {
    let mut beds: BTreeMap<String, Box<dyn Bed>> = BTreeMap::new();
    let mut work = None;
    for link in &study.links {
        if study.cases.iter().any(|case| case.link == link.name) {
            let bed = LabBed::up(link, linerate)?;
            work.get_or_insert_with(|| bed.scratch());
            beds.insert(link.name.clone(), Box::new(bed));
        }
    }
    Ok((beds, Work::Lab(work.context("the study has no link")?)))
}
