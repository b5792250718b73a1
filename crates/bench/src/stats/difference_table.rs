//! The table of differences: every case compared with the baseline, in percent.

use serde::Serialize;

use super::bootstrap::{Estimate, LEAST_BLOCKS};
use super::difference::{Called, Difference};
use super::figure::{figures, ratios};
use super::repeats::{REPEAT, Repeats};
use super::summary::has_its_files;
use crate::metric::Metric;
use crate::record::{Case, Record};

/// A case compared with the baseline.
#[derive(Clone, Debug, Serialize)]
pub struct DifferenceRow {
    /// The ID of the case, [`Case::id`].
    pub case: String,
    /// The label of the case, [`Case::label`].
    pub label: String,
    /// The median over blocks, in the quantity's unit; `None` if no run gave a value.
    pub value: Option<f64>,
    /// The difference to the baseline's value; `None` if the case or the baseline has no value.
    pub difference: Option<Difference>,
}

/// Every case compared with the baseline.
#[derive(Clone, Debug, Serialize)]
pub struct Differences {
    /// The label of the baseline case.
    pub baseline: String,
    /// The median of the baseline case.
    pub base: Option<f64>,
    /// The other cases that move the same files as the baseline or no files, in the study's order.
    pub rows: Vec<DifferenceRow>,
    /// The noise of single runs, on which the verdicts are based if the record has fewer than five blocks and has
    /// repeated runs; otherwise `None`.
    pub repeats: Option<Repeats>,
}

impl Differences {
    /// The differences of a quantity; `None` if the record names no baseline. With five or more blocks,
    /// ratios are computed within each block. With fewer blocks, cases that differ only in their factor `run`
    /// give the noise of a run.
    pub fn of(record: &Record, quantity: Metric) -> Option<Differences> {
        Self::to(record, quantity, record.baseline.as_deref()?)
    }

    /// The differences to the case with this id; `None` if there is no such case. The links may differ,
    /// because such a table often compares links.
    pub fn to(record: &Record, quantity: Metric, base: &str) -> Option<Differences> {
        let base = record.cases.iter().find(|case| case.id == base)?;
        let repeats = if (record.blocks as usize) < LEAST_BLOCKS { repeats(record, quantity) } else { None };
        let others = record.cases.iter().filter(|case| case.id != base.id && has_its_files(case, base));
        let row = |case: &Case| DifferenceRow {
            case: case.id.clone(),
            label: case.label.clone(),
            value: value(record, quantity, &case.id),
            difference: difference(record, quantity, case, base, repeats),
        };
        Some(Differences {
            baseline: base.label.clone(),
            base: value(record, quantity, &base.id),
            rows: others.map(row).collect(),
            repeats,
        })
    }

    /// The number of cases that differ from the baseline.
    pub fn different(&self) -> usize {
        self.rows.iter().filter(|row| row.difference.is_some_and(|d| d.called.is_different())).count()
    }

    /// The number of cases that can't be compared with the baseline, because blocks or values are missing.
    pub fn unreported(&self) -> usize {
        let reported =
            |row: &&DifferenceRow| row.difference.is_some_and(|d| d.called != Called::Insufficient);
        self.rows.len() - self.rows.iter().filter(reported).count()
    }

    /// The result of the comparison as a sentence.
    pub fn conclusion(&self) -> String {
        let (different, unreported, all) = (self.different(), self.unreported(), self.rows.len());
        if unreported == all {
            return format!("No row can be compared with {}: there are too few blocks.", self.baseline);
        }
        let unreported =
            if unreported > 0 { format!("; {unreported} rows can't be compared") } else { String::new() };
        let noise = self.repeats.map_or(String::new(), |repeats| {
            format!(
                ": two runs of the same configuration differ by up to {:.2} in 95 % of cases (standard deviation of the repeated runs \
                 {:.4}, {} degrees of freedom)",
                repeats.range(),
                repeats.standard_deviation,
                repeats.freedom
            )
        });
        match different {
            0 => format!("No row differs significantly from {}{noise}{unreported}.", self.baseline),
            n => format!("{n} of {all} rows differ significantly from {}{noise}{unreported}.", self.baseline),
        }
    }
}

fn difference(
    record: &Record,
    quantity: Metric,
    case: &Case,
    base: &Case,
    repeats: Option<Repeats>,
) -> Option<Difference> {
    if let Some(repeats) = repeats {
        return repeats.difference(value(record, quantity, &base.id)?, value(record, quantity, &case.id)?);
    }
    Difference::paired(&ratios(record, quantity, &case.id, &base.id), record.seed)
}

/// The median of a case's values over blocks.
fn value(record: &Record, quantity: Metric, case: &str) -> Option<f64> {
    let values: Vec<f64> = figures(record, quantity, case).into_iter().map(|(_, value)| value).collect();
    Estimate::of(&values, record.seed).map(|estimate| estimate.median)
}

/// The noise of single runs, from the cases that have the factor `run`. Cases whose other factors are equal
/// are runs of one configuration.
fn repeats(record: &Record, quantity: Metric) -> Option<Repeats> {
    let repeated = record.cases.iter().filter(|case| case.factors.contains_key(REPEAT));
    Repeats::of(repeated.filter_map(|case| {
        let mut configuration = case.factors.clone();
        configuration.remove(REPEAT);
        Some((configuration, value(record, quantity, &case.id)?))
    }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::store;
    use crate::testing::{measured, record, run};

    /// The values of figure 1 of the VMmark paper, as the study's report shows them.
    fn vmmark() -> Differences {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/papers/vmmark-netqueue");
        let loaded = store::load(&dir).unwrap();
        Differences::of(&loaded.record, Metric::Score).unwrap()
    }

    #[test]
    fn the_papers_nine_differences_are_recomputed_to_every_digit_that_it_printed() {
        let printed = [
            ("23.52", "-0.01549"),
            ("23.17", "-0.03014"),
            ("23.40", "-0.02051"),
            ("23.08", "-0.03391"),
            ("23.57", "-0.01339"),
            ("22.78", "-0.04646"),
            ("23.09", "-0.03349"),
            ("23.02", "-0.03642"),
            ("22.86", "-0.04311"),
        ];
        let made = vmmark();
        assert_eq!(made.base, Some(23.89));
        let rows: Vec<(String, String)> = made
            .rows
            .iter()
            .map(|row| {
                let difference = row.difference.unwrap().percent / 100.0;
                (format!("{:.2}", row.value.unwrap()), format!("{difference:.5}"))
            })
            .collect();
        let rows: Vec<(&str, &str)> = rows.iter().map(|(value, by)| (value.as_str(), by.as_str())).collect();
        assert_eq!(rows, printed);
    }

    /// The pairs 23.17 and 23.40, 23.08 and 23.57, 22.78 and 23.09 differ by 0.23, 0.49 and 0.31. Pooled,
    /// with three degrees of freedom: s^2 = (0.23^2 + 0.49^2 + 0.31^2) / 2 / 3 = 0.06485, s = 0.25466. Two
    /// runs of one configuration differ by up to t(3; 0.975) * s * sqrt(2) = 3.1824 * 0.25466 * 1.41421 =
    /// 1.1461 in 95 % of cases. The largest difference to the baseline is 23.89 - 22.78 = 1.11.
    #[test]
    fn none_of_the_papers_rows_differs_significantly_from_its_baseline() {
        let made = vmmark();
        let repeats = made.repeats.unwrap();
        assert_eq!(repeats.freedom, 3);
        assert!((repeats.standard_deviation - 0.25466).abs() < 1e-5, "{repeats:?}");
        assert!((repeats.range() - 1.1461).abs() < 1e-4, "{repeats:?}");
        assert!(made.rows.iter().all(|row| row.difference.unwrap().called == Called::Same));
        assert!(made.conclusion().starts_with("No row differs significantly from"), "{}", made.conclusion());
        // If the difference is larger than the range, the verdict is "different".
        assert_eq!(repeats.difference(23.89, 22.70).unwrap().called, Called::Different);
    }

    #[test]
    fn with_blocks_ratios_are_taken_inside_them() {
        let runs = (0..5).flat_map(|block| {
            let weather = 1.0 + f64::from(block);
            let noise = 1.0 + f64::from(block % 2) / 1000.0;
            [
                run("base", block, measured(3.0 * weather, 1.0)),
                run("more", block, measured(3.3 * weather * noise, 1.0)),
                run("same", block, measured(3.0 * weather * (noise + 1.0 / noise) / 2.0, 1.0)),
            ]
        });
        let mut record = record(&["base", "more", "same"], 5, runs.collect());
        assert!(Differences::of(&record, Metric::PayloadRate).is_none(), "there is no baseline");
        record.baseline = Some("base".into());
        let made = Differences::of(&record, Metric::PayloadRate).unwrap();
        let row = made.rows[0].difference.unwrap();
        assert!((row.percent - 10.0).abs() < 0.2 && row.called == Called::Different, "{row:?}");
        assert_eq!(made.rows[1].difference.unwrap().called, Called::Same);
        assert!(made.conclusion().starts_with("1 of 2 rows differ"), "{}", made.conclusion());
        assert!(Differences::of(&record, Metric::Score).unwrap().rows[0].difference.is_none());
        record.blocks = 4;
        let few = Differences::of(&record, Metric::PayloadRate).unwrap();
        assert_eq!(few.rows[0].difference.unwrap().called, Called::Insufficient);
        assert!(few.conclusion().starts_with("No row can be compared with base"), "{}", few.conclusion());
        record.cases[2].dataset = Some("other".into());
        assert_eq!(Differences::of(&record, Metric::PayloadRate).unwrap().rows.len(), 1);
    }
}
