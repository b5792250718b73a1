//! The values that papers printed, beside the measured values.

use serde::Serialize;

use super::bootstrap::Estimate;
use super::summary::CaseSummary;
use crate::metric::Metric;
use crate::record::{Printed, Record};

/// A value that a paper printed, with the measured value of the same case.
#[derive(Clone, Debug, Serialize)]
pub struct PrintedRow {
    /// The value that a paper printed.
    #[serde(flatten)]
    pub printed: Printed,
    /// The measured value; `None` if there is none, or if the printed value is a wire rate, because all
    /// measured rates are payload rates.
    pub measured: Option<Estimate>,
}

impl PrintedRow {
    /// The values that papers printed for cases of the record, each beside the measured value, in the study's order.
    pub fn all(record: &Record, summaries: &[CaseSummary]) -> Vec<PrintedRow> {
        let row = |printed: &Printed| {
            let summary = summaries.iter().find(|summary| summary.case.id == printed.case)?;
            let measured = summary.quantity(printed.quantity).filter(|_| printed.layer.is_payload());
            Some(PrintedRow { printed: printed.clone(), measured })
        };
        record.printed.iter().filter_map(row).collect()
    }

    /// The printed value with its unit.
    pub fn text(&self) -> String {
        let wire = if self.printed.layer.is_payload() { "" } else { " on the wire" };
        let unit = Some(self.printed.quantity.about().unit).filter(|unit| !unit.is_empty());
        let unit = unit.map_or(String::new(), |unit| format!(" {unit}"));
        format!("{}{unit}{wire}", linerate_quantity::exact(self.printed.value))
    }

    /// The measured value with its interval, in the unit of the printed value; a dash if there is none.
    pub fn measured_text(&self) -> String {
        let text = |value| self.printed.quantity.text(value);
        match self.measured.map(|measured| (measured.median, measured.interval.ends())) {
            None => "-".into(),
            Some((median, None)) => text(median),
            Some((median, Some((low, high)))) => format!("{} [{}, {}]", text(median), text(low), text(high)),
        }
    }
}

impl CaseSummary {
    /// The case's estimate of a figure's quantity. If only one host was measured, its CPU is used for the
    /// receiver's CPU.
    pub fn quantity(&self, quantity: Metric) -> Option<Estimate> {
        let only = || self.of(Metric::BusyPercent).filter(|_| quantity == Metric::FarBusyPercent);
        self.of(quantity).or_else(only)
    }
}
