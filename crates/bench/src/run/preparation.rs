//! The preparation before the first run: beds, settings, data, and missing tools.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::bed::Bed;
use super::commands::copies;
use super::programs;
use super::settings::HostSettings;
use super::setup::{Event, RunnerError, Setup};
use super::stock::Stock;
use crate::record::Outcome;
use crate::spec::study::CaseSpec;
use crate::spec::tool::Tool;

/// Checks that every link that a case names has a bed.
///
/// # Errors
/// If a link has no bed.
pub(super) fn check_beds(
    setup: &Setup,
    beds: &BTreeMap<String, Box<dyn Bed + '_>>,
) -> Result<(), RunnerError> {
    match setup.study.cases.iter().find(|case| !beds.contains_key(&case.link)) {
        Some(case) => Err(RunnerError::Bed {
            link: case.link.clone(),
            reason: "the study has no bed for this link".into(),
        }),
        None => Ok(()),
    }
}

/// Reads the settings of each link's hosts before the study, by link.
///
/// # Errors
/// If a setting can't be read.
pub(super) fn read_settings(
    setup: &Setup,
    beds: &BTreeMap<String, Box<dyn Bed + '_>>,
) -> Result<BTreeMap<String, HostSettings>, RunnerError> {
    let mut found = BTreeMap::new();
    for (link, bed) in beds {
        let read = HostSettings::read(setup.study, link, bed.as_ref(), setup.work, &setup.stop);
        let read = read.map_err(|reason| RunnerError::Bed { link: link.clone(), reason })?;
        found.insert(link.clone(), read);
    }
    Ok(found)
}

/// Makes the data sets at the first bed, and reports each to `watch`.
///
/// # Errors
/// If a data set can't be made.
pub(super) fn make_data(
    setup: &Setup,
    beds: &BTreeMap<String, Box<dyn Bed + '_>>,
    watch: &mut dyn FnMut(Event),
) -> Result<Stock, RunnerError> {
    let first = beds.values().next();
    let work = first.and_then(|bed| bed.work()).unwrap_or_else(|| setup.work.to_owned());
    let mut stock = Stock::new(&work, setup.seed);
    for spec in &setup.study.datasets {
        watch(Event::Preparing(&spec.name));
        let tree = setup.tree.filter(|_| spec.is_replaceable());
        if let Some(bed) = first {
            stock.make(bed.as_ref(), spec, tree)?;
        }
    }
    Ok(stock)
}

/// The data that each copy of a case's tool moves: the data set or a slice of it.
///
/// # Errors
/// If the slices can't be made.
pub(super) fn sources(
    stock: &mut Stock,
    bed: &dyn Bed,
    tool: &Tool,
    spec: &CaseSpec,
) -> std::io::Result<Vec<PathBuf>> {
    let Some(dataset) = &spec.dataset else { return Ok(Vec::new()) };
    stock.slices(bed, dataset, copies(tool, spec, bed))
}

/// The cases that can't run, each with the reason: the link or the tool is missing, or a host lacks a
/// setting.
pub(super) fn barred(
    setup: &Setup,
    beds: &BTreeMap<String, Box<dyn Bed + '_>>,
    settings: &BTreeMap<String, HostSettings>,
) -> Vec<Option<Outcome>> {
    let one = |case: &CaseSpec| {
        let tool = setup.tools.get(&case.tool)?;
        let bed = beds.get(&case.link)?;
        let lacking = || settings.get(&case.link)?.unavailable(case);
        let missing = || programs::unavailable(tool, bed.as_ref());
        let reason = bed.lacks().or_else(missing).or_else(lacking);
        reason.map(|reason| Outcome::Unavailable { reason })
    };
    setup.study.cases.iter().map(one).collect()
}
