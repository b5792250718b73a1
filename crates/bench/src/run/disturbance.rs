//! Whether something else than the run was at work.

use linerate_host::CpuSeconds;

/// A host on which more than this many processors work while the study is idle isn't quiet.
const FOREIGN_PROCESSORS: f64 = 0.25;

/// A run from which the hypervisor took more than this share of the processors is disturbed.
const STOLEN_SHARE: f64 = 0.03;

/// The kernel counts in ticks of 10 ms; that much of each processor's count says nothing.
const TICK: f64 = 0.01;

/// Processors that were busy over a window in which the study did nothing.
pub(crate) fn foreign(idle: &CpuSeconds, seconds: f64) -> f64 {
    let counted = idle.busy() - TICK * f64::from(idle.processors);
    if seconds > 0.0 { counted.max(0.0) / seconds } else { 0.0 }
}

/// True if a window without work of the study was quiet.
pub(crate) fn is_quiet(foreign: f64) -> bool {
    foreign <= FOREIGN_PROCESSORS
}

/// Why a run counts as disturbed, for people. `pressure.rs` adds the pressure that samplers recorded.
pub(crate) fn disturbed(run: &CpuSeconds, foreign_before: f64) -> Option<String> {
    let mut reasons = Vec::new();
    let stolen = if run.total() > 0.0 { run.steal / run.total() } else { 0.0 };
    if stolen > STOLEN_SHARE {
        reasons.push(format!("the hypervisor took {:.0} % of the processors", 100.0 * stolen));
    }
    if !is_quiet(foreign_before) {
        reasons.push(format!("other work kept {foreign_before:.1} processors busy just before"));
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_and_foreign_work_disturb_and_the_runs_own_work_does_not() {
        let busy = CpuSeconds { processors: 2, user: 4.0, ..CpuSeconds::default() };
        assert_eq!(disturbed(&busy, 0.1), None);
        let stolen = CpuSeconds { steal: 0.4, ..busy };
        assert_eq!(disturbed(&stolen, 0.1).unwrap(), "the hypervisor took 9 % of the processors");
        assert!(disturbed(&busy, 0.6).unwrap().contains("0.6 processors"));
        assert_eq!(disturbed(&CpuSeconds::default(), 0.0), None);
        let idle = |busy| CpuSeconds { processors: 2, system: busy, ..CpuSeconds::default() };
        assert!((foreign(&idle(0.12), 0.2) - 0.5).abs() < 1e-9);
        assert_eq!(foreign(&idle(0.02), 0.01), 0.0);
    }
}
