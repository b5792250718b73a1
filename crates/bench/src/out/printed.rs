//! Prints the numbers of papers beside the measured ones.

use super::grid::wrap;
use super::table::column;
use crate::metric::Metric;
use crate::record::Record;
use crate::stats::{PrintedRow, summaries};

/// A line for each quantity of a case, with the measured number and all numbers that papers printed; `None`
/// if papers printed no numbers for the cases.
pub fn printed_table(record: &Record) -> Option<String> {
    let rows = PrintedRow::all(record, &summaries(record, None));
    let mut groups: Vec<((&str, Metric), Vec<&PrintedRow>)> = Vec::new();
    for row in &rows {
        let key = (row.printed.case.as_str(), row.printed.quantity);
        match groups.iter_mut().find(|(of, _)| *of == key) {
            Some((_, group)) => group.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    let lines = groups.iter().flat_map(|((case, quantity), group)| {
        let all = group.iter().map(|row| format!("{} ({})", row.text(), row.printed.source));
        let measured = group.iter().map(|row| row.measured_text()).find(|text| text != "-");
        let (measured, all) = (measured.unwrap_or("-".into()), all.collect::<Vec<_>>().join("; "));
        wrap(&format!("{case}: {} {measured}; printed {all}", column(record, *quantity)), 2)
    });
    let head = "Printed in papers, beside the measured numbers:".to_owned();
    (!rows.is_empty()).then(|| std::iter::once(head).chain(lines).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Layer, Printed};
    use crate::testing::{measured, record, run};

    #[test]
    fn every_printed_number_has_its_source() {
        let mut record = record(&["scp"], 1, vec![run("scp", 0, measured(3.0, 1.0))]);
        assert_eq!(printed_table(&record), None);
        let mut add = |quantity, value, source: &str, layer| {
            record.printed.push(Printed {
                case: "scp".into(),
                quantity,
                value,
                source: source.into(),
                layer,
            });
        };
        add(Metric::PayloadRate, 0.4, "lower end", Layer::Payload);
        add(Metric::FarBusyPercent, 45.92, "CPU", Layer::Payload);
        add(Metric::PayloadRate, 0.964, "figure 6", Layer::Wire);
        let text = printed_table(&record).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1],
            "scp: Gbit/s payload 3.00; printed 0.4 Gbit/s (lower end); 0.964 Gbit/s on the wire (figure 6)"
        );
        assert_eq!(lines[2], "scp: CPU % a+b 50; printed 45.92 % busy (CPU)");
        record.shared_processors = false;
        assert!(printed_table(&record).unwrap().contains("scp: CPU % b 50"));
    }
}
