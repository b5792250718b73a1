//! The cause of a path's measured rate: the limiter that the measurement itself found at an end, or the findings whose
//! ceilings are near the rate.

use crate::finding::Way;
use crate::limiter::Limiter;
use crate::{Finding, Path, Severity};

/// The check that reports how fast a path was.
pub(crate) const RATE: &str = "path-rate";
const UNEXPLAINED: &str = "none of the other findings explains the rate, and the ends can't see the devices between them. Ask the owners of \
    the path about shapers, policers and full lines; linerate stream --streams 8 shows whether more streams help";
/// A ceiling explains a measured rate only if it is at most the rate times this factor. A short measurement counts as
/// all of a ceiling from 0.9 of the ceiling on (`path-rate`), and ceilings are exact to about a tenth: 1 / 0.9 / 0.9.
const MOST_CEILING_RATIO: f64 = 1.25;
/// A measured rate that is above a ceiling times this factor refutes the ceiling. The factor is 2 because the ceiling
/// of a core is the lower end of a band of 1 to 2.
const REFUTED: f64 = 2.0;
/// Checks of storage, through which the data of a measurement from memory to memory doesn't pass.
const STORAGE: [&str; 10] = [
    "disk-slower-than-link",
    "disk-link",
    "disk-encryption",
    "io-limit",
    "file-system-full",
    "tmpfs-room",
    "network-file-system",
    "mount-sync",
    "write-back",
    "memory-limit",
];
/// Checks of windows and buffers.
const WINDOWS: [&str; 5] =
    ["tcp-window-scaling", "tcp-autotuning", "window-vs-bdp", "tcp-buffers", "core-buffers"];
/// Checks that report fewer processors than the host has.
const WITHHELD: [&str; 2] = ["cpuset", "cpu-quota"];
/// Other checks of what processors can do.
const PROCESSORS: [&str; 17] = [
    "cipher-slow",
    "no-aes",
    "no-vaes",
    "queues-vs-cores",
    "irq-one-cpu",
    "irq-smt-siblings",
    "irq-far-node",
    "rps-off-one-queue",
    "virtio-one-queue",
    "vmxnet3-one-queue",
    "offload-off",
    "numa-remote",
    "governor",
    "frequency-cap",
    "turbo-off",
    "steal",
    "pressure-cpu",
];

/// Adds the cause of the rate to the finding about a path's rate, or the statement that no finding explains the rate.
/// Findings that limit only the other direction get a remark.
pub(crate) fn explained(mut findings: Vec<Finding>, path: &Path<'_>) -> Vec<Finding> {
    for finding in findings.iter_mut().filter(|finding| is_against(finding, path)) {
        let (from, to) = (path.from.name, path.to.name);
        finding
            .evidence
            .insert(0, format!("the limit applies to {to} -> {from}; {from} -> {to} was measured"));
    }
    let rate = findings.iter().find(|finding| finding.check == RATE).and_then(|rate| rate.ceiling);
    if let Some(rate) = rate {
        let fix = Measured { findings: &findings, rate, path }.fix();
        findings.iter_mut().filter(|finding| finding.check == RATE).for_each(|it| it.fix = Some(fix.clone()));
    }
    findings
}

/// True if the finding limits only packets that travel against the measured direction.
pub(crate) fn is_against(finding: &Finding, path: &Path<'_>) -> bool {
    let measured = if finding.host == path.from.name { Way::Sends } else { Way::Receives };
    finding.way.is_some_and(|way| way != measured)
}

/// True if a ceiling explains a measured rate.
pub(crate) fn is_close(ceiling: f64, rate: f64) -> bool {
    (rate / REFUTED..=rate * MOST_CEILING_RATIO).contains(&ceiling)
}

/// A path's findings, and its measured rate on the wire.
struct Measured<'a> {
    findings: &'a [Finding],
    rate: f64,
    path: &'a Path<'a>,
}

impl Measured<'_> {
    fn fix(&self) -> String {
        let (from, to) = (self.path.from.name, self.path.to.name);
        let name = self.path.measured.limiter;
        match Limiter::ALL.into_iter().find(|limiter| Some(limiter.name()) == name) {
            Some(Limiter::SenderCpu) => self.processors(from),
            Some(Limiter::ReceiverCpu) => self.processors(to),
            Some(Limiter::CpuQuota) => {
                format!("a CPU quota limited the rate, not the path: {}", self.withheld(|_| true).unwrap_or_else(|| "see cpu-quota".into()))
            }
            Some(Limiter::OneThread) => {
                "one thread at an end limited the rate, not the path: linerate stream --streams 8 shows whether more streams help".into()
            }
            Some(Limiter::Window) => self.buffer(&format!("{to}'s receive window"), "tcp_rmem", to),
            Some(Limiter::SendBuffer) => self.buffer(&format!("{from}'s send buffer"), "tcp_wmem", from),
            _ => self.near().or_else(|| self.paused()).unwrap_or_else(|| UNEXPLAINED.into()),
        }
    }

    /// The advice if the processors of an end are the limit.
    fn processors(&self, end: &str) -> String {
        let of_end = |finding: &Finding| finding.host == end;
        let cause = self.withheld(of_end).or_else(|| self.slow(end));
        let help = cause.unwrap_or_else(|| {
            "end other programs there, or use faster processors; in a trusted network --no-encrypt saves the cipher's work".into()
        });
        format!("{end}'s processors limited the rate, not the path: {help}")
    }

    /// The titles of the findings that linerate may use fewer processors than there are.
    fn withheld(&self, is_wanted: impl Fn(&Finding) -> bool) -> Option<String> {
        let all = self.findings.iter().filter(|it| WITHHELD.contains(&it.check) && is_wanted(it));
        let titles: Vec<String> =
            all.map(|finding| format!("{}: {} ({})", finding.host, finding.title, finding.check)).collect();
        (!titles.is_empty()).then(|| titles.join("; "))
    }

    /// A text with the names of the findings on an end that explain why its processors are slow.
    fn slow(&self, end: &str) -> Option<String> {
        let is_felt = |finding: &Finding| match finding.ceiling {
            Some(_) => self.is_near(finding),
            None => finding.severity >= Severity::Minor,
        };
        let names = self.names(|it| it.host == end && PROCESSORS.contains(&it.check) && is_felt(it));
        (!names.is_empty()).then(|| format!("see {}", names.join(", ")))
    }

    fn buffer(&self, what: &str, sysctl: &str, end: &str) -> String {
        let names = self.names(|it| WINDOWS.contains(&it.check));
        let help = match names.as_slice() {
            [] => format!("raise the maximum of net.ipv4.{sysctl} on {end}, or use more streams"),
            names => format!("see {}", names.join(", ")),
        };
        format!("{what} limited the rate: {help}")
    }

    /// A text with the names of the findings whose ceilings are near the measured rate.
    fn near(&self) -> Option<String> {
        let names = self.names(|finding| self.is_near(finding));
        (!names.is_empty())
            .then(|| format!("see {}, whose limit is close to the measured rate", names.join(", ")))
    }

    /// A text about the finding that the sender's port had to wait during the measurement.
    fn paused(&self) -> Option<String> {
        let is_counted = self.path.from.facts.counted_seconds.known().is_some();
        let names = self.names(|it| {
            it.check == "paused" && it.host == self.path.from.name && it.severity > Severity::Note
        });
        (is_counted && !names.is_empty()).then(|| {
            "see paused: the other end of the sender's cable stopped it during the measurement".into()
        })
    }

    fn is_near(&self, finding: &Finding) -> bool {
        finding.check != RATE
            && !STORAGE.contains(&finding.check)
            && !is_against(finding, self.path)
            && finding.loss.is_some()
            && finding.ceiling.is_some_and(|ceiling| is_close(ceiling, self.rate))
    }

    fn names(&self, is_wanted: impl Fn(&Finding) -> bool) -> Vec<&'static str> {
        let mut names: Vec<&str> =
            self.findings.iter().filter(|it| is_wanted(it)).map(|finding| finding.check).collect();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use linerate_host::facts::{Pause, Policers, Qdisc};
    use linerate_host::{Fact, Facts};

    use super::*;
    use crate::testing::{changed, edited, fixture};
    use crate::{Host, Need, PathMeasurements, examine_path_and_ends};

    fn all(from: &Facts, to: &Facts, rate: f64, limiter: Option<&'static str>) -> Vec<Finding> {
        let host = |name, facts| Host::alone(name, facts, Need::OfPorts);
        let measured = PathMeasurements {
            rate: Some(rate),
            rtt: Some(1e-4),
            streams: Some(4),
            limiter,
            ..PathMeasurements::default()
        };
        examine_path_and_ends(&Path { from: host("a", from), to: host("b", to), measured })
    }

    fn fix(from: &Facts, to: &Facts, rate: f64, limiter: Option<&'static str>) -> String {
        let all = all(from, to, rate, limiter);
        all.into_iter().find(|finding| finding.check == RATE).unwrap().fix.unwrap()
    }

    fn shaped(rate: Option<u64>) -> Facts {
        edited("stock-10g", "eno1", |port| {
            let tbf = Qdisc { kind: "tbf".into(), root: true, rate, ..Qdisc::default() };
            port.qdiscs = Fact::Known(vec![tbf]);
        })
    }

    #[test]
    fn a_paths_rate_points_at_what_explains_it() {
        let other = fixture("stock-10g");
        let of = |limit, rate| fix(&shaped(limit), &other, rate, None);
        assert!(of(Some(1_000_000_000), 0.95e9).starts_with("see rate-limit, whose"));
        assert!(of(None, 0.95e9).starts_with("none of the other findings explains the rate"));
        let far_above = of(Some(9_400_000_000), 6.42e9);
        assert!(!far_above.contains("rate-limit"), "{far_above}");
        let far_below = of(Some(1_000_000_000), 4e9);
        assert!(!far_below.contains("rate-limit"), "{far_below}");
    }

    #[test]
    fn pauses_during_the_measurement_are_a_cause() {
        let paused = |seconds| {
            let mut facts = edited("stock-10g", "eno1", |port| {
                port.pause = Fact::Known(Pause { rx: true, ..Pause::default() });
                port.counters.tx_packets = Fact::Known(1_000_000);
                port.statistics = Fact::Known([("rx_flow_control_xoff".to_owned(), 5_000)].into());
            });
            facts.counted_seconds = seconds;
            facts
        };
        let (other, during) = (fixture("stock-10g"), paused(Fact::Known(3.0)));
        let of = |from: &Facts, to: &Facts| fix(from, to, 4e9, Some("network"));
        assert!(of(&during, &other).starts_with("see paused:"));
        assert!(of(&paused(Fact::NotApplicable), &other).contains("owners"), "since boot");
        assert!(of(&other, &during).contains("owners"), "the receiver's own sending was stopped");
    }

    #[test]
    fn an_ends_processors_are_reported_and_not_the_paths_owners() {
        let host = fixture("stock-10g");
        let of = |limiter| fix(&host, &host, 2e9, Some(limiter));
        assert!(of("sender-cpu").starts_with("a's processors limited the rate, not the path: "));
        let tuned = fixture("mlx5-25g-tuned");
        assert!(
            fix(&tuned, &tuned, 5e9, Some("sender-cpu")).contains("not the path: end other programs there")
        );
        assert!(of("receiver-cpu").starts_with("b's processors limited the rate"));
        assert!(of("window").starts_with("b's receive window limited the rate"));
        assert!(of("send-buffer").starts_with("a's send buffer limited the rate"));
        for limiter in ["sender-cpu", "receiver-cpu", "cpu-quota", "one-thread", "window", "send-buffer"] {
            assert!(!of(limiter).contains("owners"), "{limiter}");
        }
        assert!(of("network").contains("owners") && of("not-explained").contains("owners"));
    }

    #[test]
    fn processors_that_are_kept_from_linerate_are_the_cause() {
        let host = fixture("stock-10g");
        let few = changed("stock-10g", |facts| {
            (facts.groups.allowed, facts.groups.cpuset) = (Fact::Known(vec![0]), Fact::Known(vec![0]));
        });
        let cause = "b: linerate may run on 1 of ";
        let of = |from, to, limiter| fix(from, to, 2e9, Some(limiter));
        assert!(of(&host, &few, "receiver-cpu").contains(cause));
        assert!(!of(&host, &few, "sender-cpu").contains("linerate may run"), "the other end's");
    }

    /// A limit on receiving doesn't slow sending, nor the other way round.
    #[test]
    fn limits_of_one_direction_are_known_as_such() {
        let against = |from: &str, to: &str, check: &str| {
            let all = all(&fixture(from), &fixture(to), 1e9, None);
            let of = all.iter().filter(|finding| finding.check == check);
            let reported =
                |finding: &Finding| finding.evidence.iter().any(|line| line.contains("was measured"));
            of.map(|finding| (finding.host.clone(), reported(finding))).collect::<Vec<_>>()
        };
        let ends = |a: bool, b: bool| vec![("a".to_owned(), a), ("b".to_owned(), b)];
        assert_eq!(against("bond-layer2", "bond-layer2", "bond-hash"), ends(false, true));
        let queue = "virtio-one-queue";
        assert_eq!(against(queue, "stock-10g", queue), [("a".to_owned(), true)]);
        assert_eq!(against("stock-10g", queue, queue), [("b".to_owned(), false)]);
        let segments = against(queue, queue, "offload-off");
        assert!(segments.contains(&("b".to_owned(), true)) && segments.contains(&("a".to_owned(), false)));
    }

    /// A shaper delays only packets that its port sends. At the far end these travel against the measured direction.
    #[test]
    fn limits_of_the_other_direction_are_no_cause_and_say_so() {
        let host = fixture("stock-10g");
        let against = "the limit applies to b -> a; a -> b was measured";
        let reported = |from: &Facts, to: &Facts| {
            let all = all(from, to, 0.95e9, None);
            let limit = all.iter().find(|finding| finding.check == "rate-limit").unwrap();
            let rate = all.iter().find(|finding| finding.check == RATE).unwrap();
            (
                limit.evidence.iter().any(|line| line == against),
                rate.fix.as_ref().unwrap().contains("rate-limit"),
            )
        };
        assert_eq!(reported(&shaped(Some(1_000_000_000)), &host), (false, true));
        assert_eq!(reported(&host, &shaped(Some(1_000_000_000))), (true, false));
        let policed = |policers| edited("stock-10g", "eno1", |port| port.policers = Fact::Known(policers));
        let inwards = policed(Policers { inwards: Some(1_000_000_000), ..Policers::default() });
        assert_eq!(reported(&host, &inwards), (false, true));
        let outwards = policed(Policers { outwards: Some(1_000_000_000), ..Policers::default() });
        assert_eq!(reported(&host, &outwards), (true, false));
    }
}
