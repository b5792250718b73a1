//! Makes records for tests.

use crate::record::{Case, Cpu, Measures, Outcome, Record, Run, SCHEMA};

/// A record with cases that have these IDs.
pub(crate) fn record(cases: &[&str], blocks: u32, runs: Vec<Run>) -> Record {
    Record {
        schema: SCHEMA,
        linerate: "0".into(),
        study: "test".into(),
        title: "Test".into(),
        started: "2026-01-01T00:00:00Z".into(),
        seed: 1,
        blocks,
        shared_processors: true,
        cases: cases.iter().map(|id| case(id)).collect(),
        runs,
        ..Record::default()
    }
}

/// A run of a case with this outcome.
pub(crate) fn run(case: &str, block: u32, outcome: Outcome) -> Run {
    Run { case: case.into(), block, order: 0, started: "2026-01-01T00:00:00Z".into(), outcome }
}

/// A good run with this rate in Gbit/s and this duration in seconds.
pub(crate) fn measured(gbit: f64, seconds: f64) -> Outcome {
    let cpu = Cpu { processors: 2, user: seconds, idle: seconds, ..Cpu::default() };
    let bytes = (gbit * 1.25e8 * seconds) as u64;
    Outcome::Measured(Measures { bytes, seconds, cpu_a: cpu, cpu_b: cpu, ..Measures::default() })
}

fn case(id: &str) -> Case {
    Case {
        id: id.into(),
        label: id.into(),
        group: id.into(),
        tool: id.into(),
        streams: Some(1),
        link: "10gbit".into(),
        ..Case::default()
    }
}
