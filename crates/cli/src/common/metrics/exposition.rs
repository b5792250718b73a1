//! The text of metrics: version 0.0.4 of Prometheus' exposition format
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>, without timestamps, which the collector refuses.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::gauge::Gauge;

/// A value of a metric, with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct ExposedSample {
    gauge: Gauge,
    labels: Vec<(&'static str, String)>,
    value: f64,
}

impl ExposedSample {
    pub fn new(gauge: Gauge, labels: &[(&'static str, &str)], value: f64) -> Self {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self { gauge, labels, value }
    }

    fn labels(&self, task: &str) -> String {
        let own = self.labels.iter().map(|(name, value)| (*name, value.as_str()));
        let labels = [("task", task)].into_iter().chain(own);
        let labels: Vec<_> = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        labels.join(",")
    }
}

/// The text of all samples, grouped by gauge. If several samples have the same labels, the last one is used.
pub fn text(task: &str, samples: &[ExposedSample]) -> String {
    let mut gauges: BTreeMap<Gauge, BTreeMap<String, f64>> = BTreeMap::new();
    // A value that isn't finite has no meaning, and would make every sum that includes it useless.
    for sample in samples.iter().filter(|sample| sample.value.is_finite()) {
        gauges.entry(sample.gauge).or_default().insert(sample.labels(task), sample.value);
    }
    let mut text = String::new();
    for (gauge, values) in gauges {
        let name = gauge.name();
        // Writing to a String can't fail.
        let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} gauge", gauge.help());
        for (labels, value) in values {
            let _ = writeln!(text, "{name}{{{labels}}} {value}");
        }
    }
    text
}

/// True if `beginning` is the beginning of a text of metrics.
pub fn has_metrics(beginning: &[u8]) -> bool {
    beginning.starts_with(b"# HELP linerate_")
}

/// The first value of a gauge in the text of an earlier run; `None` if no value can be read.
pub fn earlier_value(text: &str, gauge: Gauge) -> Option<f64> {
    let begin = format!("{}{{", gauge.name());
    let line = text.lines().find(|line| line.starts_with(&begin))?;
    line.rsplit_once(' ')?.1.parse().ok().filter(|value: &f64| value.is_finite())
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_each_gauge_has_its_lines_together() {
        let samples = [
            ExposedSample::new(Gauge::TransferProblems, &[("kind", "failed")], 2.0),
            ExposedSample::new(Gauge::RunExitCode, &[], 3.0),
            ExposedSample::new(Gauge::TransferProblems, &[("kind", "a\"b\\c\nd")], 0.25),
            ExposedSample::new(Gauge::TransferStreams, &[], f64::NAN),
            ExposedSample::new(Gauge::RunExitCode, &[], 4.0),
        ];
        let text = text("t", &samples);
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                r#"linerate_run_exit_code{task="t"} 4"#,
                r#"linerate_transfer_problems{task="t",kind="a\"b\\c\nd"} 0.25"#,
                r#"linerate_transfer_problems{task="t",kind="failed"} 2"#,
            ]
        );
        assert_eq!(text.lines().count(), 7, "{text}");
        assert_eq!(earlier_value(&text, Gauge::RunExitCode), Some(4.0));
        assert_eq!(earlier_value("linerate_run_exit_code{} x", Gauge::RunExitCode), None);
    }

    #[test]
    fn numbers_have_no_exponents_and_lose_nothing() {
        let written = |value| text("t", &[ExposedSample::new(Gauge::TransferBytes, &[], value)]);
        for value in [0.0, 1e-9, 1_764_000_000.123, 1e15] {
            let text = written(value);
            assert_eq!(earlier_value(&text, Gauge::TransferBytes), Some(value), "{text}");
            assert!(!text.lines().last().unwrap().contains(" e"), "{text}");
        }
    }
}
