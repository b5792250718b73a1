//! The plan of a treatment: the remedies of the findings that this host can apply, each with its present value.

use std::collections::BTreeMap;

use linerate_doctor::remedy::{Remedy, Setting};
use linerate_doctor::{Finding, Severity};
use serde::{Deserialize, Serialize};

use crate::Controls;
use crate::journal::PlannedStep;
use crate::persist::System;

/// The changes that a treatment would make, and the remedies that it leaves out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TreatmentPlan {
    /// The changes, in the order in which they are made.
    pub steps: Vec<PlannedStep>,
    /// Remedies that aren't applied.
    pub left: Vec<LeftOut>,
    /// Findings whose advice only a person can follow.
    pub advice: Vec<String>,
}

/// A remedy that isn't applied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The check that proposes the remedy.
    pub check: String,
    /// The setting, for people.
    pub setting: String,
    /// The reason, as the end of a sentence.
    pub why: String,
}

/// The remedies that the user allows.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// The names of the checks whose remedies are applied. If there are none, the remedies of all findings except notes
    /// are applied; those of a note are applied only if its check is named.
    pub only: Vec<String>,
    /// True if MTUs may be raised.
    pub mtu: bool,
}

impl TreatmentPlan {
    /// The plan for a host's findings, checked against the host.
    pub fn of(findings: &[Finding], allowed: &Allowed, controls: &mut dyn Controls) -> Self {
        Self::asked(findings, allowed).looked(controls)
    }

    /// The plan for a host's findings, before the host is checked.
    pub fn asked(findings: &[Finding], allowed: &Allowed) -> Self {
        let mut plan = Self::default();
        let mut wanted: Vec<PlannedStep> = Vec::new();
        for finding in findings {
            if finding.remedies.is_empty() && finding.fix.is_some() && allowed.has(finding) {
                plan.advice.push(finding.check.into());
            }
            for remedy in &finding.remedies {
                match allowed.refuses(finding, &remedy.setting) {
                    Some(why) => plan.leave(finding.check, &remedy.setting, why),
                    None => add(&mut wanted, finding.check, remedy),
                }
            }
        }
        plan.advice.dedup();
        wanted.sort_by_key(|step| order(&step.setting));
        plan.prefer_queues(&mut wanted);
        // A setting that is left out for one check may be changed for another check.
        plan.left.retain(|left| wanted.iter().all(|step| step.setting.to_string() != left.setting));
        plan.steps = wanted;
        plan
    }

    /// Leaves out spreading packets in software (RPS) for a port that gets more queues.
    fn prefer_queues(&mut self, wanted: &mut Vec<PlannedStep>) {
        let is_channels = |step: &PlannedStep| matches!(step.setting, Setting::Channels { .. });
        let ports: Vec<_> = wanted
            .iter()
            .filter(|step| is_channels(step))
            .filter_map(|step| step.setting.port())
            .map(str::to_owned)
            .collect();
        let is_needless =
            |step: &PlannedStep| matches!(&step.setting, Setting::Rps { port, .. } if ports.contains(port));
        for step in wanted.iter().filter(|step| is_needless(step)) {
            self.leave(
                &step.checks.join(", "),
                &step.setting,
                "the port gets more queues instead, which are better",
            );
        }
        wanted.retain(|step| !is_needless(step));
    }

    /// The plan with the steps of an earlier plan, checked against the host. A setting that has changed since the
    /// earlier plan is left out; if a step has no former value, such a change can't be seen.
    pub fn again(steps: Vec<PlannedStep>, controls: &mut dyn Controls) -> Self {
        let (mut plan, mut once) = (Self::default(), Vec::<PlannedStep>::new());
        for step in steps {
            match once.iter().any(|other| other.setting == step.setting) {
                true => plan.leave(&step.checks.join(", "), &step.setting, "the plan has this setting twice"),
                false => once.push(step),
            }
        }
        let (mut plan, steps) = (Self { steps: once.clone(), ..plan }.looked(controls), once);
        for step in std::mem::take(&mut plan.steps) {
            let was = steps.iter().find(|was| was.setting == step.setting).map(|was| was.before.as_str());
            match was.filter(|was| !was.is_empty() && !step.setting.holds(&step.before, was)) {
                Some(was) => {
                    let why = format!("it is {} now, and was {was} when the plan was made", step.before);
                    plan.leave(&step.checks.join(", "), &step.setting, why);
                }
                None if !step.setting.is_proposed() => {
                    plan.leave(
                        &step.checks.join(", "),
                        &step.setting,
                        "no check proposes to change this setting",
                    );
                }
                None => match step.setting.judge(&step.before, &step.new, &controls.bounds()) {
                    Ok(()) => plan.steps.push(step),
                    Err(why) => plan.leave(&step.checks.join(", "), &step.setting, why),
                },
            }
        }
        plan.steps.sort_by_key(|step| order(&step.setting));
        plan
    }

    /// Checks the steps: keeps those that the host can make, each with its present value, and leaves out the
    /// others.
    pub fn looked(mut self, controls: &mut dyn Controls) -> Self {
        for step in std::mem::take(&mut self.steps) {
            self.consider(step, controls);
        }
        self
    }

    fn consider(&mut self, step: PlannedStep, controls: &mut dyn Controls) {
        let check = step.checks.join(", ");
        let now = match controls.read(&step.setting) {
            Ok(now) => now,
            Err(why) => return self.leave(&check, &step.setting, why),
        };
        // Another check may have proposed the same change, or somebody has already made it.
        if step.setting.holds(&now, &step.new) {
            return self.leave(&check, &step.setting, format!("it is {now} already"));
        }
        if step.setting.lowers(&now, &step.new) {
            return self.leave(&check, &step.setting, format!("it is {now} now, and {} is less", step.new));
        }
        match controls.look(&step.setting, &step.new) {
            Ok(()) => self.steps.push(PlannedStep { before: now, ..step }),
            Err(why) => self.leave(&check, &step.setting, why),
        }
    }

    /// Adds the owner of each value, and the file that could keep it.
    pub fn with_owners(mut self, system: &System) -> Self {
        let owners = system.owners();
        for step in &mut self.steps {
            step.owner = owners.of(&step.setting);
            step.kept = system.place(&step.setting, &owners).ok();
        }
        self
    }

    fn leave(&mut self, check: &str, setting: &Setting, why: impl Into<String>) {
        self.left.push(LeftOut { check: check.into(), setting: setting.to_string(), why: why.into() });
    }
}

impl Allowed {
    fn has(&self, finding: &Finding) -> bool {
        match self.only.as_slice() {
            [] => finding.severity > Severity::Note,
            only => only.iter().any(|name| name == finding.check),
        }
    }

    fn refuses(&self, finding: &Finding, setting: &Setting) -> Option<String> {
        match setting {
            _ if !self.has(finding) && self.only.is_empty() => {
                Some(format!("a note costs nothing at the needed rate; --only {} applies it", finding.check))
            }
            _ if !self.has(finding) => Some("--only doesn't name its check".into()),
            Setting::Mtu { .. } if !self.mtu => {
                Some("every switch and host on the path must accept such packets; --mtu applies it".into())
            }
            _ => None,
        }
    }
}

/// Adds a remedy to the steps. If two findings propose the same setting, the larger value serves both.
fn add(steps: &mut Vec<PlannedStep>, check: &str, remedy: &Remedy) {
    let Some(step) = steps.iter_mut().find(|step| step.setting == remedy.setting) else {
        steps.push(PlannedStep {
            checks: vec![check.into()],
            setting: remedy.setting.clone(),
            before: remedy.now.clone(),
            new: remedy.new.clone(),
            owner: None,
            kept: None,
        });
        return;
    };
    if step.setting.lowers(&remedy.new, &step.new) {
        step.new.clone_from(&remedy.new);
    }
    if step.checks.iter().all(|name| name != check) {
        step.checks.push(check.into());
    }
}

/// The place of a setting in the order of changes: settings of the whole host come before those of ports, and queues
/// come before their masks.
fn order(setting: &Setting) -> u8 {
    match setting {
        Setting::Sysctl { .. } | Setting::Governor | Setting::EnergyPreference | Setting::Tunable { .. } => 0,
        // The kernel computes a discipline's options from the MTU.
        Setting::Mtu { .. } | Setting::Link { .. } => 1,
        Setting::Qdisc { .. } | Setting::Quantum { .. } | Setting::Feature { .. } | Setting::Ring { .. } => 2,
        Setting::Channels { .. } => 3,
        // Some drivers forget their coalescing with the queues.
        Setting::Coalescing { .. }
        | Setting::Rss { .. }
        | Setting::Rps { .. }
        | Setting::Xps { .. }
        | Setting::IrqAffinity { .. } => 4,
    }
}

/// The remedies that aren't applied, grouped by the reason.
pub fn reasons(left: &[LeftOut]) -> BTreeMap<&str, Vec<&LeftOut>> {
    let mut reasons: BTreeMap<&str, Vec<&LeftOut>> = BTreeMap::new();
    left.iter().for_each(|one| reasons.entry(&one.why).or_default().push(one));
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Pretended, sysctl};

    fn finding(check: &'static str, severity: Severity, remedies: Vec<Option<Remedy>>) -> Finding {
        let finding = Finding::new(severity, "x").remedied(remedies.into_iter().flatten());
        Finding { check, ..finding }
    }

    fn host(values: &[(Setting, &str)]) -> Pretended {
        let values = values.iter().map(|(setting, value)| (setting.clone(), (*value).to_owned())).collect();
        Pretended { values, ..Pretended::default() }
    }

    fn rmem(most: u64) -> Option<Remedy> {
        Remedy::sysctl("net.ipv4.tcp_rmem", "4096 131072 6291456", format!("4096 131072 {most}"))
    }

    #[test]
    fn the_larger_of_two_values_serves_both() {
        let findings = [
            finding("tcp-buffers", Severity::Minor, vec![rmem(16 << 20)]),
            finding("window-vs-bdp", Severity::Major, vec![rmem(64 << 20)]),
            finding("receive-queue", Severity::Minor, vec![rmem(32 << 20)]),
        ];
        let mut host = host(&[(sysctl("net.ipv4.tcp_rmem"), "4096 131072 6291456")]);
        let plan = TreatmentPlan::of(&findings, &Allowed::default(), &mut host);
        assert_eq!(plan.steps.len(), 1);
        assert_eq!(plan.steps[0].new, "4096 131072 67108864");
        assert_eq!(plan.steps[0].checks, ["tcp-buffers", "window-vs-bdp", "receive-queue"]);
    }

    #[test]
    fn the_host_is_looked_at_and_never_lowered() {
        let ecn = || Remedy::sysctl("net.ipv4.tcp_ecn", 0, 2);
        let findings = [
            finding("tcp-buffers", Severity::Minor, vec![rmem(16 << 20), ecn()]),
            finding("tcp-sack", Severity::Minor, vec![Remedy::sysctl("net.ipv4.tcp_sack", 0, 1)]),
            finding("optmem", Severity::Minor, vec![Remedy::sysctl("net.core.optmem_max", 1, 2)]),
        ];
        let mut host = host(&[
            (sysctl("net.ipv4.tcp_rmem"), "4096 131072 268435456"),
            (sysctl("net.ipv4.tcp_ecn"), "2"),
            (sysctl("net.ipv4.tcp_sack"), "0"),
        ]);
        host.impossible.insert(sysctl("net.ipv4.tcp_sack"), "/proc/sys is read-only".into());
        let before = host.values.clone();
        let plan = TreatmentPlan::of(&findings, &Allowed::default(), &mut host);
        assert!(plan.steps.is_empty(), "{plan:?}");
        let whys: Vec<_> = plan.left.iter().map(|left| left.why.as_str()).collect();
        assert!(whys[0].ends_with("is less") && whys[1] == "it is 2 already", "{whys:?}");
        assert_eq!(whys[2..], ["/proc/sys is read-only", "there is no such setting"]);
        assert_eq!(host.values, before);
    }

    #[test]
    fn a_setting_that_was_changed_after_the_plan_is_left() {
        let findings = [finding("tcp-buffers", Severity::Minor, vec![rmem(16 << 20)])];
        let key = || sysctl("net.ipv4.tcp_rmem");
        let plan =
            TreatmentPlan::of(&findings, &Allowed::default(), &mut host(&[(key(), "4096 131072 6291456")]));
        let again = |now: &str| {
            let plan = TreatmentPlan::again(plan.steps.clone(), &mut host(&[(key(), now)]));
            (plan.steps.len(), plan.left.first().map(|left| left.why.clone()).unwrap_or_default())
        };
        assert_eq!(again("4096\t131072\t6291456").0, 1, "as the kernel writes it");
        let (steps, why) = again("4096 65536 8388608");
        assert!(steps == 0 && why.ends_with("and was 4096 131072 6291456 when the plan was made"), "{why}");
        assert!(again("4096 131072 16777216").1.ends_with("already"));
    }

    #[test]
    fn a_plan_changes_only_what_checks_may_propose() {
        let step = |key: &str| PlannedStep {
            checks: vec!["x".into()],
            setting: sysctl(key),
            before: "0".into(),
            new: "1".into(),
            owner: None,
            kept: None,
        };
        let steps = vec![step("net.ipv4.ip_forward"), step("net.ipv4.tcp_sack")];
        let plan = TreatmentPlan::again(steps.clone(), &mut Pretended::of(&steps));
        assert_eq!(plan.steps, steps[1..]);
        assert_eq!(plan.left[0].why, "no check proposes to change this setting");
    }

    #[test]
    fn a_plan_s_values_are_judged_as_proposals_are() {
        let step = |setting: Setting, before: &str, new: &str| PlannedStep {
            checks: vec!["x".into()],
            setting,
            before: before.into(),
            new: new.into(),
            owner: None,
            kept: None,
        };
        let rmem = |new: &str| step(sysctl("net.ipv4.tcp_rmem"), "4096 131072 6291456", new);
        let sack = |new: &str| step(sysctl("net.ipv4.tcp_sack"), "0", new);
        let why = |steps: Vec<PlannedStep>| {
            let plan = TreatmentPlan::again(steps.clone(), &mut Pretended::of(&steps));
            let left: Vec<_> =
                plan.left.iter().map(|left| format!("{}: {}", left.setting, left.why)).collect();
            (plan.steps.len(), left.join("; "))
        };
        assert_eq!(why(vec![rmem("4096 131072 16777216"), sack("1")]), (2, String::new()));
        // This value comes from a host with more memory: the simulated host has 1 GiB.
        let large = why(vec![rmem("4096 131072 1073741824")]);
        assert!(large.0 == 0 && large.1.contains("net.ipv4.tcp_rmem: 1073741824 is too large"), "{large:?}");
        let ring = |new: &str| {
            let setting = Setting::Ring { port: "eth0".into(), way: linerate_doctor::remedy::RingWay::Rx };
            step(setting, "256", new)
        };
        assert_eq!(why(vec![ring("1024")]), (1, String::new()));
        let million = why(vec![ring("1048576")]);
        assert!(million.0 == 0 && million.1.contains("checks propose at most 1024"), "{million:?}");
        let isolated = why(vec![step(Setting::Rps { port: "eth0".into(), queue: 0 }, "0", "ff")]);
        assert!(isolated.0 == 0 && isolated.1.contains("processor 7 is isolated"), "{isolated:?}");
        let odd = why(vec![sack("7"), rmem("4096 131072 64M")]);
        assert!(
            odd.0 == 0
                && odd.1.contains("tcp_sack: \"7\" isn't among")
                && odd.1.contains("\"64M\" is no number"),
            "{odd:?}"
        );
        assert_eq!(
            why(vec![sack("1"), sack("1")]),
            (1, "net.ipv4.tcp_sack: the plan has this setting twice".into())
        );
    }

    #[test]
    fn notes_and_mtus_wait_for_the_users_word() {
        let mtu = || Remedy::of(Setting::Mtu { port: "eth0".into() }, 1500, 9000);
        let findings = [
            finding("jumbo-frames", Severity::Minor, vec![mtu()]),
            finding("tcp-ecn", Severity::Note, vec![Remedy::sysctl("net.ipv4.tcp_ecn", 0, 2)]),
            Finding { check: "governor", ..Finding::new(Severity::Minor, "x").fix("another slot") },
        ];
        let mut host =
            host(&[(Setting::Mtu { port: "eth0".into() }, "1500"), (sysctl("net.ipv4.tcp_ecn"), "0")]);
        let mut of = |only: &[&str], mtu| {
            let only = only.iter().map(|name| (*name).to_owned()).collect();
            let plan = TreatmentPlan::of(&findings, &Allowed { only, mtu }, &mut host);
            (plan.steps.iter().flat_map(|step| step.checks.clone()).collect::<Vec<_>>(), plan.advice)
        };
        assert_eq!(of(&[], false), (vec![], vec!["governor".to_owned()]));
        assert_eq!(of(&[], true).0, ["jumbo-frames"]);
        assert_eq!(of(&["tcp-ecn"], true), (vec!["tcp-ecn".to_owned()], vec![]));
    }

    #[test]
    fn more_queues_are_better_than_spreading_one() {
        let setting = |queue| Setting::Rps { port: "eth0".into(), queue };
        let channels = Setting::Channels { port: "eth0".into(), queues: linerate_doctor::remedy::Queues::Rx };
        let both = [Remedy::of(channels, 1, 2), Remedy::of(setting(0), 0, 3)];
        let plan = TreatmentPlan::asked(&[finding("x", Severity::Minor, both.to_vec())], &Allowed::default());
        assert!(plan.steps.len() == 1 && plan.left[0].why.contains("more queues"), "{plan:?}");
    }

    #[test]
    fn queues_come_before_their_masks_and_ports_after_the_rest() {
        let eth0 = || "eth0".to_owned();
        let xps = Remedy::of(Setting::Xps { port: eth0(), queue: 0 }, 0, 3);
        let channels = Setting::Channels { port: eth0(), queues: linerate_doctor::remedy::Queues::Rx };
        let findings =
            [finding("x", Severity::Minor, vec![xps, Remedy::of(channels.clone(), 1, 2), rmem(16 << 20)])];
        let mut host = host(&[
            (Setting::Xps { port: eth0(), queue: 0 }, "0"),
            (channels, "1"),
            (sysctl("net.ipv4.tcp_rmem"), "4096 131072 6291456"),
        ]);
        let plan = TreatmentPlan::of(&findings, &Allowed::default(), &mut host);
        let kinds: Vec<_> = plan.steps.iter().map(|step| order(&step.setting)).collect();
        assert_eq!(kinds, [0, 3, 4]);
    }
}
