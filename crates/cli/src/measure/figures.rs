//! The metrics of `linerate measure`, for `--metrics`.

use linerate_host::sample::Cost;

use super::export::Measured;
use super::limiter::limiter;
use crate::common::metrics::{Gauge, RunMetrics};

impl RunMetrics {
    /// Sets the metrics of a measurement.
    pub fn measured(&self, measured: &Measured<'_>) {
        if let Some(ended) = &measured.ended {
            self.set(Gauge::MeasureSeconds, &[], ended.time.as_secs_f64());
            self.set(Gauge::MeasureCpu, &[], ended.cpu_seconds);
        }
        if let Some(verdict) = limiter(measured) {
            self.set(Gauge::MeasureLimiter, &[("limiter", verdict.limiter.name())], verdict.share);
        }
        for host in &measured.hosts {
            self.host(&host.name, &Cost::of(&host.recording));
        }
    }

    fn host(&self, host: &str, cost: &Cost) {
        self.set(Gauge::MeasureHostSeconds, &[("host", host)], cost.seconds);
        self.set(Gauge::MeasureHostCarried, &[("host", host)], cost.carried() as f64);
        let Some(cpu) = &cost.cpu else { return };
        let modes = [
            ("user", cpu.user),
            ("nice", cpu.nice),
            ("system", cpu.system),
            ("idle", cpu.idle),
            ("iowait", cpu.iowait),
            ("irq", cpu.irq),
            ("softirq", cpu.softirq),
            ("steal", cpu.steal),
            ("guest", cpu.guest),
        ];
        for (mode, seconds) in modes {
            self.set(Gauge::MeasureHostCpu, &[("host", host), ("mode", mode)], seconds);
        }
    }
}
