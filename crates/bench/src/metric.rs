//! The metrics of a run. [`ABOUT`] is the table of their properties, which is used by expressions, tables,
//! comparisons, the page and its figures.

use linerate_quantity::{Bytes, plain};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::record::{Cpu, Latency, Measures};

/// A metric of a run, in the order in which tables show the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// The payload rate in Gbit/s over the payload time that the tool reports; if the tool reports none, over
    /// the whole command.
    #[default]
    PayloadRate,
    /// The payload rate in Gbit/s over the whole command.
    CommandRate,
    /// The number of transactions per second.
    TransactionRate,
    /// The median response time in microseconds.
    P50,
    /// The 99th percentile of the response times in microseconds.
    P99,
    /// The score that the tool computes.
    Score,
    /// The level of a parameter that a search has found.
    Found,
    /// The wall-clock time of the whole command in seconds.
    Seconds,
    /// The busy share, in percent, of the processors of host a, which sends files or makes requests. If both ends share
    /// the processors, the busy share includes the work of both ends.
    BusyPercent,
    /// The busy share, in percent, of the processors of host b, which receives files or answers requests.
    FarBusyPercent,
    /// The processor seconds of both ends per 10^9 payload bytes.
    CpuPerGb,
    /// The peak resident memory, in bytes, at the end where it is larger.
    PeakRss,
    /// The number of payload bytes.
    Bytes,
}

/// The properties of a metric.
#[derive(Debug)]
pub struct About {
    /// The metric that has these properties.
    pub metric: Metric,
    /// The metric's name in expressions and in JSON.
    pub name: &'static str,
    /// The metric's name as the quantity of a figure, in study files and records; empty if no figure can show
    /// it.
    pub quantity: &'static str,
    /// The metric's name on an axis.
    pub label: &'static str,
    /// A description of the metric's median, for a figure's caption.
    pub meaning: &'static str,
    /// The heading of the metric's column on the page.
    pub heading: &'static str,
    /// The metric's unit; empty if it has none.
    pub unit: &'static str,
    /// The heading of the metric's column on a terminal, including the unit.
    pub column: &'static str,
    /// The words for a better and for a worse value, such as "faster" and "slower".
    pub words: [&'static str; 2],
    /// True if a larger value is better.
    pub more_is_better: bool,
    /// True if the metric is used when two results of a study are compared.
    pub is_compared: bool,
    /// The smallest number of payload bytes of a run for which the metric is meaningful. With only a few
    /// bytes, only the time is meaningful.
    pub least_bytes: u64,
}

/// The payload in bytes below which neither a rate nor a cost per gigabyte is meaningful.
const LEAST_PAYLOAD: u64 = 1_000_000;
const SPEED: [&str; 2] = ["faster", "slower"];
const CPU: [&str; 2] = ["less CPU", "more CPU"];

/// The properties of every metric, in the order of [`Metric`].
#[rustfmt::skip]
pub const ABOUT: [About; 13] = [
    About { metric: Metric::PayloadRate, name: "payload_rate", quantity: "payload-rate", label: "Payload throughput",
        meaning: "median TCP payload delivered per second",
        heading: "Payload", unit: "Gbit/s", column: "Gbit/s payload",
        words: SPEED, more_is_better: true, is_compared: true, least_bytes: LEAST_PAYLOAD },
    About { metric: Metric::CommandRate, name: "command_rate", quantity: "", label: "Payload throughput of the whole command", meaning: "",
        heading: "Whole command", unit: "Gbit/s", column: "Gbit/s whole command",
        words: SPEED, more_is_better: true, is_compared: false, least_bytes: LEAST_PAYLOAD },
    About { metric: Metric::TransactionRate, name: "transaction_rate", quantity: "transaction-rate", label: "Transactions",
        meaning: "median of transactions a second (a request with its whole reply)",
        heading: "Transactions", unit: "1/s", column: "transactions/s",
        words: SPEED, more_is_better: true, is_compared: true, least_bytes: 0 },
    About { metric: Metric::P50, name: "p50_us", quantity: "response-time", label: "Median response time",
        meaning: "median over blocks of a run’s median response time, from a request’s first byte to its reply’s last",
        heading: "Response p50", unit: "µs", column: "p50 µs",
        words: SPEED, more_is_better: false, is_compared: true, least_bytes: 0 },
    About { metric: Metric::P99, name: "p99_us", quantity: "", label: "99th percentile of the response times", meaning: "",
        heading: "Response p99", unit: "µs", column: "p99 µs",
        words: SPEED, more_is_better: false, is_compared: false, least_bytes: 0 },
    About { metric: Metric::Score, name: "score", quantity: "score", label: "Score",
        meaning: "median of the tool’s own score",
        heading: "Score", unit: "", column: "score",
        words: ["higher", "lower"], more_is_better: true, is_compared: true, least_bytes: 0 },
    About { metric: Metric::Found, name: "found", quantity: "", label: "Best, by search", meaning: "",
        heading: "Best, by", unit: "search", column: "found",
        words: ["more", "fewer"], more_is_better: true, is_compared: false, least_bytes: 0 },
    About { metric: Metric::Seconds, name: "seconds", quantity: "", label: "Time of the whole command", meaning: "",
        heading: "Time", unit: "s", column: "seconds",
        words: SPEED, more_is_better: false, is_compared: false, least_bytes: 0 },
    About { metric: Metric::BusyPercent, name: "busy_percent", quantity: "", label: "CPU of host a", meaning: "",
        heading: "CPU a", unit: "% busy", column: "CPU % a",
        words: CPU, more_is_better: false, is_compared: false, least_bytes: 0 },
    About { metric: Metric::FarBusyPercent, name: "far_busy_percent", quantity: "busy-percent", label: "CPU of host b",
        meaning: "median busy share of all processors of host b, which receives files and answers requests",
        heading: "CPU b", unit: "% busy", column: "CPU % b",
        words: CPU, more_is_better: false, is_compared: false, least_bytes: 0 },
    About { metric: Metric::CpuPerGb, name: "cpu_per_gb", quantity: "", label: "CPU-seconds per GB, both ends", meaning: "",
        heading: "CPU-s", unit: "per GB", column: "CPU-s/GB",
        words: CPU, more_is_better: false, is_compared: true, least_bytes: LEAST_PAYLOAD },
    About { metric: Metric::PeakRss, name: "peak_rss", quantity: "", label: "Peak memory of the larger end", meaning: "",
        heading: "Peak", unit: "memory", column: "peak memory",
        words: ["less memory", "more memory"], more_is_better: false, is_compared: false, least_bytes: 0 },
    About { metric: Metric::Bytes, name: "bytes", quantity: "", label: "Payload bytes", meaning: "",
        heading: "Bytes", unit: "", column: "bytes",
        words: ["more", "fewer"], more_is_better: true, is_compared: false, least_bytes: 0 },
];

impl Metric {
    /// The main metric of a case is the first of these that the case has.
    pub const MAIN: [Metric; 3] = [Metric::Score, Metric::TransactionRate, Metric::PayloadRate];

    /// All metrics, in the order of the enum.
    pub fn all() -> impl Iterator<Item = Metric> + Clone {
        ABOUT.iter().map(|about| about.metric)
    }

    /// The properties of this metric.
    pub fn about(self) -> &'static About {
        &ABOUT[self as usize]
    }

    /// The quantities that a figure can show: their names and metrics.
    pub(crate) fn quantities() -> Vec<(&'static str, Metric)> {
        let named = ABOUT.iter().filter(|about| !about.quantity.is_empty());
        named.map(|about| (about.quantity, about.metric)).collect()
    }

    /// The value of this metric for a run, even if the run moved few bytes. `counted_once` is true if host a's
    /// processor time includes the work of both ends ([`crate::record::Record::counts_cpu_once`]). `None` if the run
    /// has no such value.
    pub fn of(self, run: &Measures, counted_once: bool) -> Option<f64> {
        let latency = |of: fn(&Latency) -> f64| run.latency.as_ref().map(of);
        let value = match self {
            Metric::PayloadRate => run.payload_gbit_per_second(),
            // Bytes that moved during the ramp weren't counted, so the rate over the whole command is
            // unknown.
            Metric::CommandRate if run.window.is_some() => return None,
            Metric::CommandRate => run.gbit_per_second(),
            Metric::TransactionRate => {
                let seconds = run.payload_seconds.unwrap_or(run.seconds);
                run.transactions.filter(|_| seconds > 0.0)? as f64 / seconds
            }
            Metric::P50 => latency(|latency| latency.p50_us)?,
            Metric::P99 => latency(|latency| latency.p99_us)?,
            Metric::Score => run.score?,
            Metric::Found => f64::from(run.found.as_ref()?.level),
            Metric::Seconds => run.seconds,
            Metric::BusyPercent => run.sender_cpu().busy_percent()?,
            Metric::FarBusyPercent => run.receiver_cpu().busy_percent()?,
            Metric::CpuPerGb => {
                let far = if counted_once { 0.0 } else { run.receiver_cpu().busy() };
                (run.sender_cpu().busy() + far) * run.seconds_of_bytes_by_cpu() / (run.bytes as f64 * 1e-9)
            }
            Metric::PeakRss => run.peak_rss_bytes? as f64,
            Metric::Bytes => run.bytes as f64,
        };
        value.is_finite().then_some(value)
    }

    /// The value of this metric that is shown for a run; `None` if the run moved too few bytes for a
    /// meaningful value, or if the value is negative.
    pub fn shown(self, run: &Measures, counted_once: bool) -> Option<f64> {
        let value = self.of(run, counted_once)?;
        (value >= 0.0 && run.bytes >= self.about().least_bytes).then_some(value)
    }

    /// Formats a value as all tables show it, without its unit.
    pub fn text(self, value: f64) -> String {
        match self {
            Metric::BusyPercent | Metric::FarBusyPercent => format!("{value:.0}"),
            Metric::Found => value.to_string(),
            Metric::PeakRss | Metric::Bytes => Bytes(value).to_string(),
            _ => plain(value),
        }
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.about().name)
    }
}

/// Serializes a metric as the name of the quantity, as records contain it.
pub(crate) mod quantity {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(metric: &Metric, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(metric.about().quantity)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Metric, D::Error> {
        let name = String::deserialize(deserializer)?;
        let found = Metric::quantities().into_iter().find(|(known, _)| *known == name);
        let unknown = || serde::de::Error::custom(format!("{name:?} isn't a quantity of a figure"));
        found.map(|(_, metric)| metric).ok_or_else(unknown)
    }
}

impl Cpu {
    /// The busy share of all processors, in percent; `None` if no time was counted, because the share is then unknown,
    /// not 0.
    pub fn busy_percent(&self) -> Option<f64> {
        let all = self.busy() + self.steal + self.idle + self.iowait;
        // The division comes first, so that a share of 1 is exactly 100.
        (all > 0.0).then(|| 100.0 * (self.busy() / all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::CountedWindow;

    #[test]
    fn each_metric_stands_at_its_place() {
        assert!(Metric::all().enumerate().all(|(at, metric)| metric as usize == at));
    }

    #[test]
    fn shared_processors_count_once() {
        let cpu = Cpu { user: 1.0, system: 0.5, irq: 0.25, softirq: 0.25, ..Cpu::default() };
        let run =
            Measures { bytes: 2_000_000_000, seconds: 2.0, cpu_a: cpu, cpu_b: cpu, ..Measures::default() };
        assert_eq!(Metric::CpuPerGb.of(&run, true), Some(1.0));
        assert_eq!(Metric::CpuPerGb.of(&run, false), Some(2.0));
        assert_eq!(Metric::CpuPerGb.of(&Measures { cpu_a: cpu, ..Measures::default() }, true), None);
    }

    #[test]
    fn a_counted_window_has_cpu_of_its_own_and_no_rate_over_the_ramp() {
        let cpu = |user| Cpu { user, idle: 4.0 - user, ..Cpu::default() };
        let window = CountedWindow { begin: 6.0, end: 8.0, cpu_a: cpu(1.0), cpu_b: cpu(2.0) };
        let whole = Measures {
            bytes: 1_000_000_000,
            seconds: 8.0,
            cpu_a: cpu(3.0),
            cpu_b: cpu(4.0),
            ..Measures::default()
        };
        let run = Measures { window: Some(window), ..whole.clone() };
        let of = |run: &Measures| {
            [Metric::CpuPerGb, Metric::BusyPercent, Metric::FarBusyPercent].map(|m| m.of(run, false))
        };
        assert_eq!(of(&whole), [Some(7.0), Some(75.0), Some(100.0)]);
        assert_eq!(of(&run), [Some(3.0), Some(25.0), Some(50.0)]);
        assert_eq!(
            (Metric::CommandRate.of(&whole, false), Metric::CommandRate.of(&run, false)),
            (Some(1.0), None)
        );
        // The receiver counted until half a second after the end of the window.
        let late = Measures { bytes: 1_250_000_000, payload_seconds: Some(2.5), ..run };
        assert_eq!(Metric::CpuPerGb.of(&late, false), Some(3.0));
    }

    #[test]
    fn a_handful_of_bytes_has_a_time_and_no_rate() {
        let cpu = Cpu { user: 1.0, idle: 3.0, ..Cpu::default() };
        let run = |bytes| Measures { bytes, seconds: 0.5, cpu_a: cpu, ..Measures::default() };
        let shown = |bytes, metric: Metric| metric.shown(&run(bytes), true);
        assert_eq!(shown(999_999, Metric::PayloadRate), None);
        assert_eq!(shown(1, Metric::CpuPerGb), None);
        assert_eq!((shown(1, Metric::Seconds), shown(1, Metric::BusyPercent)), (Some(0.5), Some(25.0)));
        assert_eq!(shown(1_000_000, Metric::PayloadRate), Some(0.016));
        assert!(Metric::PayloadRate.of(&run(1), true).is_some(), "a bound may still ask for it");
    }

    #[test]
    fn an_uncounted_host_is_not_an_idle_one() {
        assert_eq!(Metric::FarBusyPercent.of(&Measures::default(), false), None);
        assert_eq!(Cpu { user: 1.0, idle: 3.0, ..Cpu::default() }.busy_percent(), Some(25.0));
    }

    #[test]
    fn records_name_quantities_as_study_files_do() {
        let figure = r#"{"kind":"bars","title":"t","quantity":"response-time"}"#;
        let figure: crate::record::Figure = serde_json::from_str(figure).unwrap();
        assert_eq!(figure.quantity, Metric::P50);
        assert!(serde_json::to_string(&figure).unwrap().contains("\"quantity\":\"response-time\""));
        let wrong =
            serde_json::from_str::<crate::record::Figure>(r#"{"kind":"bars","title":"t","quantity":"x"}"#);
        assert!(wrong.unwrap_err().to_string().contains("isn't a quantity of a figure"));
    }
}
