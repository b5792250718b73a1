//! The numbers that papers printed, together with the measured numbers.

use serde::Serialize;

use super::bootstrap::Estimate;
use super::summary::CaseSummary;
use crate::metric::Metric;
use crate::record::{Printed, Record};

/// A printed number, and the measured number of its case.
#[derive(Clone, Debug, Serialize)]
pub struct PrintedRow {
    /// The printed number.
    #[serde(flatten)]
    pub printed: Printed,
    /// The measured number; `None` if there is none, or if the printed number is a wire rate, because all
    /// measured rates are payload rates.
    pub measured: Option<Estimate>,
}

impl PrintedRow {
    /// All printed numbers whose cases the record has, in the study's order.
    pub fn all(record: &Record, summaries: &[CaseSummary]) -> Vec<PrintedRow> {
        let row = |printed: &Printed| {
            let summary = summaries.iter().find(|summary| summary.case.id == printed.case)?;
            let measured = summary.quantity(printed.quantity).filter(|_| printed.layer.is_payload());
            Some(PrintedRow { printed: printed.clone(), measured })
        };
        record.printed.iter().filter_map(row).collect()
    }

    /// The printed number with its unit.
    pub fn text(&self) -> String {
        let wire = if self.printed.layer.is_payload() { "" } else { " on the wire" };
        let unit = Some(self.printed.quantity.about().unit).filter(|unit| !unit.is_empty());
        let unit = unit.map_or(String::new(), |unit| format!(" {unit}"));
        format!("{}{unit}{wire}", linerate_quantity::exact(self.printed.value))
    }

    /// The measured number with its interval, in the unit of the printed number; a dash if there is none.
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
    /// The case's estimate of a figure's quantity. For the receiver's CPU, if only one host was measured, that of
    /// this host.
    pub fn quantity(&self, quantity: Metric) -> Option<Estimate> {
        let only = || self.of(Metric::BusyPercent).filter(|_| quantity == Metric::FarBusyPercent);
        self.of(quantity).or_else(only)
    }
}
