//! Decides if other work disturbed a run.

use linerate_host::CpuSeconds;

use super::pressure::CPU_SHARE;
use crate::record::{Cpu, Measures};

/// The greatest number of processors that may be busy on a quiet host while the study is idle.
const FOREIGN_PROCESSORS: f64 = 0.25;

/// The greatest share of processor time that a hypervisor may take during a run; if it takes more, the run counts as
/// disturbed.
const STOLEN_SHARE: f64 = 0.03;

/// The possible error of a processor's time, in seconds, because the kernel counts in ticks of 10 ms.
const TICK: f64 = 0.01;

/// The mean number of busy processors in an interval in which the study did nothing.
pub(crate) fn foreign(idle: &CpuSeconds, seconds: f64) -> f64 {
    let counted = idle.busy() - TICK * f64::from(idle.processors);
    if seconds > 0.0 { counted.max(0.0) / seconds } else { 0.0 }
}

/// Whether a host was quiet in an interval in which the study did nothing.
pub(crate) fn is_quiet(foreign: f64) -> bool {
    foreign <= FOREIGN_PROCESSORS
}

/// The reasons why a run counts as disturbed, as text. `pressure.rs` adds reasons from the pressure that
/// samplers recorded.
pub(crate) fn disturbed(run: &CpuSeconds, foreign_before: f64) -> Option<String> {
    let mut reasons = Vec::new();
    let stolen = if run.total() > 0.0 { run.steal / run.total() } else { 0.0 };
    if stolen > STOLEN_SHARE {
        reasons.push(format!("the hypervisor took {:.0} % of the processors", 100.0 * stolen));
    }
    if !is_quiet(foreign_before) {
        reasons.push(format!("other work kept {foreign_before:.1} processors busy just before the run"));
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// How much a run was disturbed, so that the least disturbed of several runs can be chosen. 0 means a quiet run; 1
/// means that one kind of disturbance is at its bound.
pub(crate) fn degree(run: &Measures) -> f64 {
    if run.disturbed.is_none() {
        return 0.0;
    }
    let stolen = |cpu: &Cpu| {
        let all = cpu.busy() + cpu.steal + cpu.idle + cpu.iowait;
        if all > 0.0 { cpu.steal / all } else { 0.0 }
    };
    let waiting = run.pressure_seconds.unwrap_or(0.0) / run.seconds.max(TICK);
    run.foreign_processors.unwrap_or(0.0) / FOREIGN_PROCESSORS
        + stolen(&run.cpu_a).max(stolen(&run.cpu_b)) / STOLEN_SHARE
        + waiting / CPU_SHARE
        + f64::MIN_POSITIVE
}

/// The reasons why a run between two hosts counts as disturbed, as text, for each disturbed host.
pub(crate) fn of_hosts(runs: &[CpuSeconds; 2], foreign_before: [f64; 2]) -> Option<String> {
    let one = |host: usize| {
        let reason = disturbed(&runs[host], foreign_before[host])?;
        Some(format!("host {}: {reason}", ["a", "b"][host]))
    };
    let all: Vec<String> = [one(0), one(1)].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_disturbed_has_the_smallest_degree() {
        let cpu = |steal| Cpu { user: 1.0, steal, ..Cpu::default() };
        let run = |foreign, steal| Measures {
            seconds: 2.0,
            disturbed: Some("so".into()),
            foreign_processors: Some(foreign),
            cpu_a: cpu(0.0),
            cpu_b: cpu(steal),
            ..Measures::default()
        };
        assert_eq!(degree(&Measures { disturbed: None, ..run(0.2, 0.01) }), 0.0);
        assert!(degree(&run(0.3, 0.0)) < degree(&run(0.5, 0.0)));
        assert!(degree(&run(0.3, 0.01)) < degree(&run(0.3, 0.02)));
        let waiting = Measures { pressure_seconds: Some(1.0), ..run(0.3, 0.0) };
        assert!(degree(&run(0.3, 0.0)) < degree(&waiting));
    }

    #[test]
    fn steal_and_foreign_work_disturb_and_the_runs_own_work_does_not() {
        let busy = CpuSeconds { processors: 2, user: 4.0, ..CpuSeconds::default() };
        assert_eq!(disturbed(&busy, 0.1), None);
        let stolen = CpuSeconds { steal: 0.4, ..busy };
        assert_eq!(disturbed(&stolen, 0.1).unwrap(), "the hypervisor took 9 % of the processors");
        assert!(disturbed(&busy, 0.6).unwrap().contains("0.6 processors"));
        assert_eq!(disturbed(&CpuSeconds::default(), 0.0), None);
        let two = |foreign| of_hosts(&[busy, stolen], foreign).unwrap();
        assert_eq!(two([0.0, 0.0]), "host b: the hypervisor took 9 % of the processors");
        assert_eq!(
            of_hosts(&[busy, busy], [0.0, 0.6]).unwrap(),
            "host b: other work kept 0.6 processors busy just before the run"
        );
        assert!(
            two([0.7, 0.0])
                .starts_with("host a: other work kept 0.7 processors busy just before the run; host b: ")
        );
        assert_eq!(of_hosts(&[busy, busy], [0.1, 0.1]), None);
        let idle = |busy| CpuSeconds { processors: 2, system: busy, ..CpuSeconds::default() };
        assert!((foreign(&idle(0.12), 0.2) - 0.5).abs() < 1e-9);
        assert_eq!(foreign(&idle(0.02), 0.01), 0.0);
    }
}
