//! The settings of a quick run, which is smaller than the whole study.

use std::collections::BTreeSet;

use super::error::FileError;
use super::figure_reader::read_ids;
use super::search::check_levels;
use super::section::{FreeLevels, Section};
use super::study::{CaseSpec, QuickSpec, Study};
use super::study_reader::some_bytes;
use super::tool::{Tool, Toolbox};
use crate::record::FigureKind;

/// Reads the table `[quick]`.
pub(crate) fn read_quick(
    section: &Section,
    cases: &[CaseSpec],
    tools: &Toolbox,
) -> Result<QuickSpec, FileError> {
    let ids: Vec<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    let mut quick = QuickSpec {
        size: section.maybe_parsed("size", some_bytes)?,
        cases: read_ids(section, "cases", &ids)?,
        ..QuickSpec::default()
    };
    for entry in section.free_values("parameters")? {
        let takers = takers(section, &entry, cases, tools)?;
        quick.takers.insert(entry.name.clone(), takers);
        quick.parameters.insert(entry.name.clone(), entry.levels.concat());
    }
    Ok(quick)
}

/// The tools of the study that have the parameter, except those for which it is a factor: a factor keeps its
/// levels in quick runs.
fn takers(
    section: &Section,
    entry: &FreeLevels,
    cases: &[CaseSpec],
    tools: &Toolbox,
) -> Result<Vec<String>, FileError> {
    let used: BTreeSet<&str> = cases.iter().map(|case| case.tool.as_str()).collect();
    let used: Vec<&Tool> = used.into_iter().filter_map(|name| tools.get(name)).collect();
    let taking = || used.iter().filter(|tool| tool.parameters.contains_key(&entry.name));
    taking().try_for_each(|tool| check_levels(section, entry, tool))?;
    let takers: Vec<String> = taking().map(|tool| tool.name.clone()).collect();
    if takers.is_empty() {
        let names: BTreeSet<&str> =
            used.iter().flat_map(|tool| tool.parameters.keys()).map(String::as_str).collect();
        let error = section.error_of(entry, "isn't a parameter of any tool of this study");
        return Err(error.suggest(&entry.name, names));
    }
    let levels: BTreeSet<&str> =
        cases.iter().filter_map(|case| case.parameters.get(&entry.name)).map(String::as_str).collect();
    if levels.len() > 1 {
        let problem = "is a factor of this study; choose its levels for a quick run by `cases`";
        return Err(section.error_of(entry, problem));
    }
    Ok(takers)
}

impl Study {
    /// Applies [`Study::quick`]: its sizes, its parameters and its cases. No run is repeated. Bounds, figures and
    /// printed numbers are left out if their cases are left out.
    pub fn apply_quick(&mut self) {
        self.repeats = 0;
        if let Some(size) = self.quick.size {
            self.set_size(size);
            for case in self.cases.iter_mut().filter(|case| case.dataset.is_none()) {
                case.bytes = Some(size);
            }
        }
        for (name, value) in &self.quick.parameters {
            let takes = |case: &&mut CaseSpec| {
                self.quick.takers.get(name).is_some_and(|takers| takers.contains(&case.tool))
            };
            for case in self.cases.iter_mut().filter(takes) {
                case.parameters.insert(name.clone(), value.clone());
            }
        }
        if !self.quick.cases.is_empty() {
            self.keep(&self.quick.cases.clone());
        }
    }

    fn keep(&mut self, ids: &[String]) {
        let kept = |id: &str| ids.iter().any(|kept| kept == id);
        self.cases.retain(|case| kept(&case.id));
        self.baseline = self.baseline.take().filter(|id| kept(id));
        self.bounds.retain(|bound| bound.expression.cases().into_iter().all(kept));
        self.printed.retain(|printed| kept(&printed.case));
        self.figures.retain_mut(|figure| {
            let was_all = figure.cases.is_empty();
            figure.cases.retain(|id| kept(id));
            was_all || !figure.cases.is_empty()
        });
        let has_baseline = self.baseline.is_some();
        self.figures.retain(|figure| has_baseline || figure.kind != FigureKind::Differences);
        let used: BTreeSet<&str> = self.cases.iter().filter_map(|case| case.dataset.as_deref()).collect();
        let sized_by_first = self.cases.iter().any(|case| case.dataset.is_none() && case.bytes.is_none());
        let first = self.datasets.first().map(|set| set.name.clone()).filter(|_| sized_by_first);
        self.datasets.retain(|set| used.contains(set.name.as_str()) || first.as_ref() == Some(&set.name));
        self.links.retain(|link| self.cases.iter().any(|case| case.link == link.name));
        self.settings
            .retain(|setting| self.cases.iter().any(|case| case.settings.contains_key(&setting.name)));
    }
}
