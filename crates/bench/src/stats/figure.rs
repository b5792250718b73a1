//! The figures of one run.

use crate::record::{Measures, Outcome, Quantity, Record};
use crate::spec::expression::Metric;

/// What a good run of a case in a block measured; `None` where there is none.
pub fn measures<'r>(record: &'r Record, case: &str, block: u32) -> Option<&'r Measures> {
    let run = record.runs.iter().find(|run| run.case == case && run.block == block)?;
    match &run.outcome {
        Outcome::Measured(measures) => Some(measures),
        _ => None,
    }
}

/// A figure of a case in a block; `None` where the run isn't good, or doesn't have it.
pub fn figure(record: &Record, metric: Metric, case: &str, block: u32) -> Option<f64> {
    let run = measures(record, case, block)?;
    let value = match metric {
        Metric::PayloadRate => run.payload_gbit_per_second(),
        Metric::CommandRate => run.gbit_per_second(),
        Metric::Seconds => run.seconds,
        Metric::CpuPerGb => cpu_per_gb(run, record.shared_processors)?,
        Metric::BusyPercent => run.cpu_a.busy_percent(),
        Metric::PeakRss => run.peak_rss_bytes? as f64,
        Metric::Bytes => run.bytes as f64,
        Metric::TransactionRate => run.quantity(Quantity::TransactionRate)?,
        Metric::P50 => run.quantity(Quantity::ResponseTime)?,
        Metric::P99 => run.latency.as_ref()?.p99_us,
        Metric::Score => run.score?,
        Metric::Found => f64::from(run.found.as_ref()?.level),
    };
    value.is_finite().then_some(value)
}

/// CPU-seconds per 10^9 payload bytes, both ends together; ends that share their processors are counted once.
/// `None` where nothing was moved.
pub fn cpu_per_gb(run: &Measures, shared_processors: bool) -> Option<f64> {
    let far = if shared_processors { 0.0 } else { run.cpu_b.busy() };
    (run.bytes > 0).then(|| (run.cpu_a.busy() + far) / (run.bytes as f64 * 1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Cpu;

    #[test]
    fn shared_processors_count_once() {
        let cpu = Cpu { user: 1.0, system: 0.5, irq: 0.25, softirq: 0.25, ..Cpu::default() };
        let run =
            Measures { bytes: 2_000_000_000, seconds: 2.0, cpu_a: cpu, cpu_b: cpu, ..Measures::default() };
        assert_eq!(cpu_per_gb(&run, true), Some(1.0));
        assert_eq!(cpu_per_gb(&run, false), Some(2.0));
        assert_eq!(cpu_per_gb(&Measures::default(), true), None);
    }
}
