//! `linerate doctor --apply --path`: changes both ends of a path, measures the path with and without the changes, and
//! keeps the changes only if they make the path faster.

use linerate_bench::stats::Estimate;
use linerate_doctor::Finding;
use linerate_doctor::formula::gbit;
use linerate_treat::LiveControls;
use linerate_treat::persist::System;
use linerate_treat::plan::{LeftOut, TreatmentPlan};
use linerate_treat::undo_timer;
use serde::Serialize;
use std::ffi::OsStr;

use super::{PlanReport, TreatmentReport, confirming, far, here, print, show, sweep};
use crate::common::failure::Failure;
use crate::doctor::{DoctorArgs, path};
use crate::exit::Code;
use crate::facts::HERE;
use crate::stream::probe;

/// The number of blocks. In each block, the path is measured once in each case. Five is the smallest number that gives
/// an interval.
const BLOCKS: usize = 5;
/// With --each, linerate leaves out a change unless it certainly makes the path faster by this factor.
const WORTH: f64 = 1.02;
/// The seed of the bootstrap. It is fixed so that the same rates give the same interval.
const SEED: u64 = 1;

/// The gain by the changes, as --json prints it. All rates are in bits a second.
#[derive(Debug, Serialize)]
pub struct GainReport {
    r#type: &'static str,
    schema: u32,
    /// The rates without the changes, one for each block.
    before: Vec<f64>,
    /// The rates with the changes, one for each block.
    after: Vec<f64>,
    /// The median over the blocks of the rate with the changes divided by the rate without them.
    ratio: f64,
    /// The 95 % interval of the ratio.
    interval: Option<(f64, f64)>,
    /// True if the path became faster, so that the changes were applied in the end.
    gained: bool,
    /// The number of settings that these changes concern.
    settings: usize,
    /// With --each: changes that weren't kept, because the path isn't clearly slower without them.
    needless: Vec<LeftOut>,
    /// The changes that were applied in the end, on each host.
    treatments: Vec<TreatmentReport>,
}

/// Treats a path; this host must be one of its ends.
///
/// # Errors
/// If this host is no end of the path, or an end can't be reached.
pub fn run(args: &DoctorArgs, from: &OsStr, to: &OsStr) -> Result<Code, Failure> {
    let other = match (from == HERE, to == HERE) {
        (true, false) => to,
        (false, true) => from,
        _ => {
            return Err(Failure::usage(
                "--apply --path needs one end to be this host: write it as 'local'".into(),
            ));
        }
    };
    if !args.treatment.plan {
        here::needs_root()?;
    }
    sweep::sweep(&args.treatment);
    let report = path::examine(from, to, args.need(), &args.places())?;
    let plans = [near_plan(args, &report.findings), far_plan(args, other, &report.findings)?];
    if args.treatment.plan {
        plans.iter().for_each(|plan| print(args, plan, show::plan));
        return Ok(Code::Done);
    }
    let count = plans.iter().map(|plan| plan.steps.len()).sum();
    if !args.json {
        plans.iter().for_each(|plan| output!("{}\n", show::plan(plan)));
    }
    if count == 0 {
        output!("nothing was changed");
        return Ok(Code::Done);
    }
    if !args.treatment.yes && !show::agrees(count)? {
        output!("nothing was changed");
        return Ok(Code::Done);
    }
    let gain = TreatedPath { args, other }.treat(plans)?;
    print(args, &gain, |gain| text(args, gain));
    Ok(Code::Done)
}

fn near_plan(args: &DoctorArgs, findings: &[Finding]) -> PlanReport {
    let plan = TreatmentPlan::asked(&of_host(findings, HERE, true), &here::allowed(&args.treatment));
    let plan = plan.looked(&mut LiveControls).with_owners(&System::below(&args.treatment.system));
    PlanReport::of(plan)
}

fn far_plan(args: &DoctorArgs, other: &OsStr, findings: &[Finding]) -> Result<PlanReport, Failure> {
    let found = of_host(findings, &other.to_string_lossy(), false);
    let asked = PlanReport::of(TreatmentPlan::asked(&found, &here::allowed(&args.treatment)));
    if asked.steps.is_empty() {
        return Ok(PlanReport { host: far::name(other), ..asked });
    }
    let left = asked.left.clone();
    let mut looked = far::look(args, other, asked)?;
    looked.left.splice(0..0, left);
    Ok(looked)
}

/// The findings that concern the host, with only its own remedies. Findings without remedies are advice; they are
/// included only if `with_advice` is set, so that the advice is printed for one of the two hosts.
fn of_host(findings: &[Finding], host: &str, with_advice: bool) -> Vec<Finding> {
    let one = |finding: &Finding| {
        let is_advice = finding.remedies.is_empty();
        let remedies: Vec<_> =
            finding.remedies.iter().filter(|remedy| remedy.host == host).cloned().collect();
        let is_wanted = if is_advice { with_advice } else { !remedies.is_empty() };
        is_wanted.then(|| Finding { remedies, ..finding.clone() })
    };
    findings.iter().filter_map(one).collect()
}

/// A path whose ends are treated.
struct TreatedPath<'a> {
    args: &'a DoctorArgs,
    other: &'a OsStr,
}

/// The changes on this host, and those on the other host.
type Plans = [PlanReport; 2];

impl TreatedPath<'_> {
    fn treat(&self, all: Plans) -> Result<GainReport, Failure> {
        // The cases: no changes, all changes, and with --each all changes except one.
        let each = if self.args.treatment.each { all_but_one(&all) } else { Vec::new() };
        let cases = [vec![nothing(&all), all.clone()], each.iter().map(|(plans, _)| plans.clone()).collect()]
            .concat();
        let rates = self.measure(&cases)?;
        let needless = |case: usize| !is_above(&ratios(&rates[case], &rates[1]), WORTH);
        let left: Vec<StepPlace> = each
            .iter()
            .enumerate()
            .filter(|(at, _)| needless(at + 2))
            .map(|(_, (_, place))| *place)
            .collect();
        let (mut before, mut after, mut chosen) = (rates[0].clone(), rates[1].clone(), all.clone());
        let mut needless = Vec::new();
        if is_above(&ratios(&before, &after), 1.0) && !left.is_empty() {
            // Two changes may each be enough by itself: then the path isn't slower without the first or without the
            // second, but slower without both. So the path is measured without all of these changes.
            let fewer = without(&all, &left);
            let again = self.measure(&[nothing(&all), fewer.clone(), all.clone()])?;
            let is_enough = !is_above(&ratios(&again[1], &again[2]), WORTH);
            if is_above(&ratios(&again[0], &again[1]), 1.0) && is_enough {
                needless = left.iter().map(|place| left_out(&all, *place)).collect();
                chosen = fewer;
                (before, after) = (again[0].clone(), again[1].clone());
            }
        }
        let estimate = Estimate::of(&ratios(&before, &after), SEED);
        let gained = is_above(&ratios(&before, &after), 1.0);
        let within = self.args.treatment.confirm_within;
        let treatments = if gained { self.apply(&chosen, within)? } else { Vec::new() };
        Ok(GainReport {
            r#type: "doctor-gain",
            schema: 1,
            ratio: estimate.map_or(1.0, |estimate| estimate.median),
            interval: estimate.and_then(|estimate| estimate.interval.ends()),
            settings: chosen.iter().map(|plan| plan.steps.len()).sum(),
            before,
            after,
            gained,
            needless,
            treatments,
        })
    }

    /// Measures the path with the changes of each case. Returns the rates of each case, one for each block.
    fn measure(&self, cases: &[Plans]) -> Result<Vec<Vec<f64>>, Failure> {
        let mut rates = vec![Vec::new(); cases.len()];
        for block in 1..=BLOCKS {
            for (case, plans) in cases.iter().enumerate() {
                // The undo timer must not undo the changes while they are measured.
                let applied =
                    self.apply(plans, self.args.treatment.confirm_within.max(undo_timer::DEFAULT_SECONDS))?;
                let rate = self.rate();
                // The changes are undone even if the measurement failed.
                self.undo(&applied)?;
                rates[case].push(rate?);
            }
            let shown: Vec<String> =
                rates.iter().filter_map(|rates| rates.last()).map(|rate| gbit(*rate)).collect();
            message!("linerate: block {block} of {BLOCKS}: {}", shown.join(", "));
        }
        Ok(rates)
    }

    /// Measures the rate of the path once, in bits of payload a second.
    fn rate(&self) -> Result<f64, Failure> {
        let (summary, _) = probe(self.other, &self.args.login)?;
        if summary.payload_seconds > 0.0 {
            return Ok((summary.landed.bytes as f64 * 8.0 / summary.payload_seconds).max(1.0));
        }
        Err(Failure("nothing could be measured".into(), Code::FarEnd))
    }

    /// Makes the changes at both ends: first at the far end, as long as the path to it is unchanged.
    fn apply(&self, plans: &Plans, within: u64) -> Result<Vec<TreatmentReport>, Failure> {
        let [near, far] = plans;
        let mut applied = Vec::new();
        if !far.steps.is_empty() {
            applied.push(far::apply(self.args, self.other, far, within)?);
        }
        if !near.steps.is_empty() {
            match here::apply(&self.args.treatment, near.clone(), within) {
                Ok(report) => applied.push(report),
                Err(failure) => {
                    self.undo(&applied)?;
                    return Err(failure);
                }
            }
        }
        Ok(applied)
    }

    fn undo(&self, applied: &[TreatmentReport]) -> Result<(), Failure> {
        for (report, id) in applied.iter().filter_map(|report| Some((report, report.id.as_ref()?))).rev() {
            match report.host == HERE {
                true => here::undo(&self.args.treatment, id)?,
                false => far::undo(self.args, self.other, id)?,
            };
        }
        Ok(())
    }
}

/// The end to which a step belongs, and the step's number in the plan of that end.
type StepPlace = (usize, usize);

fn nothing(all: &Plans) -> Plans {
    all.clone().map(|plan| PlanReport { steps: Vec::new(), ..plan })
}

fn all_but_one(all: &Plans) -> Vec<(Plans, StepPlace)> {
    let places =
        all.iter().enumerate().flat_map(|(end, plan)| (0..plan.steps.len()).map(move |step| (end, step)));
    places.map(|place| (without(all, &[place]), place)).collect()
}

fn without(all: &Plans, places: &[StepPlace]) -> Plans {
    let mut plans = all.clone();
    for (end, plan) in plans.iter_mut().enumerate() {
        let mut step = 0..;
        plan.steps.retain(|_| !places.contains(&(end, step.next().unwrap_or_default())));
    }
    plans
}

fn left_out(all: &Plans, (end, step): StepPlace) -> LeftOut {
    let (plan, step) = (&all[end], &all[end].steps[step]);
    let why = "the measurements don't show that this change makes the path at least 2 % faster".to_owned();
    LeftOut { check: step.checks.join(", "), setting: format!("{}: {}", plan.host, step.setting), why }
}

/// For each block, the rate `after` divided by the rate `before`.
fn ratios(before: &[f64], after: &[f64]) -> Vec<f64> {
    before.iter().zip(after).map(|(before, after)| after / before).collect()
}

/// True if the whole 95 % interval of the median of `ratios` lies above `least`.
fn is_above(ratios: &[f64], least: f64) -> bool {
    let interval = Estimate::of(ratios, SEED).and_then(|estimate| estimate.interval.ends());
    interval.is_some_and(|(low, _)| low > least)
}

fn text(args: &DoctorArgs, gain: &GainReport) -> String {
    let middle = |rates: &[f64]| Estimate::of(rates, SEED).map_or(0.0, |estimate| estimate.median);
    let interval = gain.interval.map(|(low, high)| format!(", {low:.2} to {high:.2}")).unwrap_or_default();
    let rates = format!(
        "{} -> {} ({:.2} times as fast{interval})",
        gbit(middle(&gain.before)),
        gbit(middle(&gain.after)),
        gain.ratio
    );
    if !gain.gained {
        return format!("{rates}: a gain isn't certain, and all changes were undone");
    }
    let changes =
        if gain.settings == 1 { "this change" } else { &format!("these {} changes", gain.settings) };
    let needless = gain.needless.iter().map(|left| format!("not made: {}: {}\n", left.setting, left.why));
    let shown = |treatment| show::treatment(treatment, &[], &confirming(args, treatment));
    let shown: Vec<String> = gain.treatments.iter().map(shown).collect();
    format!("{rates} by {changes}\n{}{}", needless.collect::<String>(), shown.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plans(steps: [usize; 2]) -> Plans {
        let step = |number: usize| {
            serde_json::from_value(serde_json::json!({
                "checks": ["x"], "setting": {"kind": "irq-affinity", "irq": number}, "before": "0", "new": "1"
            }))
            .expect("a step")
        };
        steps.map(|count| {
            PlanReport::of(TreatmentPlan {
                steps: (0..count).map(step).collect(),
                ..TreatmentPlan::default()
            })
        })
    }

    fn counts(plans: &Plans) -> [usize; 2] {
        [plans[0].steps.len(), plans[1].steps.len()]
    }

    #[test]
    fn each_step_is_left_out_once() {
        let all = plans([2, 1]);
        let cases = all_but_one(&all);
        assert_eq!(cases.iter().map(|(case, _)| counts(case)).collect::<Vec<_>>(), [[1, 1], [1, 1], [2, 0]]);
        assert_eq!(cases[0].0[0].steps[0], all[0].steps[1]);
        assert_eq!((counts(&nothing(&all)), counts(&without(&all, &[(0, 1), (1, 0)]))), ([0, 0], [1, 0]));
    }

    #[test]
    fn a_gain_is_one_for_certain() {
        assert!(is_above(&ratios(&[1.0, 1.1, 0.9, 1.0, 1.0], &[2.0, 2.1, 1.9, 2.0, 2.0]), 1.0));
        assert!(!is_above(&ratios(&[1.0, 1.1, 0.9, 1.0, 1.0], &[1.0, 1.0, 1.0, 1.1, 0.9]), 1.0));
        assert!(!is_above(&[2.0, 2.0], 1.0), "too few blocks");
    }
}
