//! Reads a study's figures, and the values that papers printed.

use super::error::FileError;
use super::expression::matches;
use super::section::Section;
use super::study::CaseSpec;
use crate::metric::Metric;
use crate::record::{Figure, FigureKind, Layer, Printed};

const KINDS: [(&str, FigureKind); 7] = [
    ("bars", FigureKind::Bars),
    ("scaling", FigureKind::Scaling),
    ("differences", FigureKind::Differences),
    ("time-series", FigureKind::TimeSeries),
    ("response-times", FigureKind::ResponseTimes),
    ("interrupts", FigureKind::Interrupts),
    ("ladder", FigureKind::Ladder),
];

/// Reads a `[[figure]]`. The figure's factors must be factors of each of its cases; a table of differences
/// needs a baseline.
pub(crate) fn read_figure(
    section: &Section,
    cases: &[CaseSpec],
    has_baseline: bool,
) -> Result<Figure, FileError> {
    let kind = section.maybe_choice("kind", &KINDS)?.ok_or_else(|| section.missing("kind"))?;
    let ids: Vec<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    let chosen = read_ids(section, "cases", &ids)?;
    let shown: Vec<&CaseSpec> =
        cases.iter().filter(|case| chosen.is_empty() || chosen.contains(&case.id)).collect();
    let figure = Figure {
        kind,
        title: section.text("title")?.to_owned(),
        quantity: section.maybe_choice("quantity", &Metric::quantities())?.unwrap_or_default(),
        x: read_factor(section, "x", &shown)?,
        series: read_factor(section, "series", &shown)?,
        cases: chosen,
    };
    if kind == FigureKind::Scaling && figure.x.is_none() {
        return Err(section.missing("x"));
    }
    if kind == FigureKind::Differences && !has_baseline {
        return Err(
            section.error("kind", "shows differences to the `baseline`, but the study has no `baseline`")
        );
    }
    Ok(figure)
}

/// Reads a `[[printed]]` number.
pub(crate) fn read_printed(section: &Section, ids: &[&str]) -> Result<Printed, FileError> {
    let case = section.text("case")?;
    if !ids.contains(&case) {
        return Err(section
            .error("case", format!("{case:?} is not a case"))
            .suggest(case, ids.iter().copied()));
    }
    let quantity = section.maybe_choice("quantity", &Metric::quantities())?.unwrap_or_default();
    let layers = [("payload", Layer::Payload), ("wire", Layer::Wire)];
    let layer = section.maybe_choice("layer", &layers)?.unwrap_or_default();
    if quantity != Metric::PayloadRate && layer == Layer::Wire {
        return Err(section.error("layer", "is only for rates"));
    }
    Ok(Printed {
        case: case.to_owned(),
        quantity,
        layer,
        value: section.maybe_number("value")?.ok_or_else(|| section.missing("value"))?,
        source: section.text("source")?.to_owned(),
    })
}

/// Reads ids of cases. A pattern stands for all matching ids.
pub(crate) fn read_ids(section: &Section, key: &'static str, ids: &[&str]) -> Result<Vec<String>, FileError> {
    let mut found: Vec<String> = Vec::new();
    for pattern in section.texts(key)? {
        let before = found.len();
        let known = found.clone();
        let matching = ids.iter().filter(|id| matches(pattern, id));
        found
            .extend(matching.clone().filter(|id| !known.iter().any(|k| k == *id)).map(|id| (*id).to_owned()));
        if found.len() == before && matching.count() == 0 {
            let problem = format!("{pattern:?} is not a case");
            return Err(section.error(key, problem).suggest(pattern, ids.iter().copied()));
        }
    }
    Ok(found)
}

fn read_factor(
    section: &Section,
    key: &'static str,
    cases: &[&CaseSpec],
) -> Result<Option<String>, FileError> {
    let Some(name) = section.maybe_text(key)? else { return Ok(None) };
    let lacking = cases.iter().find(|case| !case.factors().contains_key(name));
    let Some(case) = lacking else { return Ok(Some(name.to_owned())) };
    let factors = case.factors();
    let problem = format!("{name:?} is not a factor of case {:?}", case.id);
    Err(section.error(key, problem).suggest(name, factors.keys().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<T: serde::Serialize>(all: &[(&str, T)]) -> Vec<(String, String)> {
        let stored = |value| serde_json::to_value(value).unwrap().as_str().unwrap().to_owned();
        all.iter().map(|(name, value)| ((*name).to_owned(), stored(value))).collect()
    }

    #[test]
    fn files_and_records_use_the_same_names() {
        assert!(names(&KINDS).iter().all(|(read, stored)| read == stored));
    }
}
