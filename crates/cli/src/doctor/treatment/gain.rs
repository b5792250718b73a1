//! `linerate doctor --apply --path`: changes both ends of a path, measures it with and without, and keeps the changes only
//! if it gained.

use linerate_bench::stats::Estimate;
use linerate_doctor::Finding;
use linerate_doctor::formula::gbit;
use linerate_treat::LiveControls;
use linerate_treat::keep::System;
use linerate_treat::plan::TreatmentPlan;
use serde::Serialize;
use std::ffi::OsStr;

use super::{PlanReport, TreatmentReport, far, here, print, show};
use crate::common::failure::Failure;
use crate::doctor::{DoctorArgs, path};
use crate::exit::Code;
use crate::facts::HERE;
use crate::stream::probe;

/// Pairs of measurements, without and with the changes: the fewest that give an interval.
const BLOCKS: usize = 5;
/// The bootstrap's seed: the same rates give the same interval.
const SEED: u64 = 1;

/// What the changes gained, as --json prints it. Rates are bits a second.
#[derive(Debug, Serialize)]
pub struct GainReport {
    r#type: &'static str,
    schema: u32,
    /// The rates without the changes, one a block.
    before: Vec<f64>,
    /// The rates with them.
    after: Vec<f64>,
    /// The median of the blocks' ratios.
    ratio: f64,
    /// Its interval of 95 %.
    interval: Option<(f64, f64)>,
    /// True if the changes were applied in the end.
    gained: bool,
    /// The settings that were changed.
    settings: usize,
    /// What was applied in the end, on each host.
    treatments: Vec<TreatmentReport>,
}

/// Treats a path, of which this host is an end.
///
/// # Errors
/// If it isn't, or an end can't be reached.
pub fn run(args: &DoctorArgs, from: &OsStr, to: &OsStr) -> Result<Code, Failure> {
    let other = match (from == HERE, to == HERE) {
        (true, false) => to,
        (false, true) => from,
        _ => {
            return Err(Failure::usage(
                "--apply --path changes a path from this host: one end is 'local'".into(),
            ));
        }
    };
    if !args.treatment.plan {
        here::needs_root()?;
    }
    here::sweep(&args.treatment.state);
    let report = path::examine(from, to, args.need(), &args.reach)?;
    let plans = [near_plan(args, &report.findings), far_plan(args, other, &report.findings)?];
    if args.treatment.plan {
        plans.iter().for_each(|plan| print(args, plan, show::plan));
        return Ok(Code::Done);
    }
    let count = plans.iter().map(|plan| plan.steps.len()).sum();
    if !args.json {
        plans.iter().for_each(|plan| say!("{}\n", show::plan(plan)));
    }
    if count == 0 {
        say!("nothing was changed");
        return Ok(Code::Done);
    }
    if !args.treatment.yes && !show::agrees(count)? {
        say!("nothing was changed");
        return Ok(Code::Done);
    }
    let gain = TreatedPath { args, other, plans }.treat(count)?;
    print(args, &gain, text);
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
    let mut looked = far::look(args, other, &asked)?;
    looked.left.splice(0..0, asked.left);
    Ok(looked)
}

/// The findings with only those of their remedies that are this host's; the advice is given once.
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
    /// Of this host, and of the other one.
    plans: [PlanReport; 2],
}

impl TreatedPath<'_> {
    fn treat(&self, settings: usize) -> Result<GainReport, Failure> {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for block in 1..=BLOCKS {
            before.push(self.rate()?);
            let applied = self.apply()?;
            let rate = self.rate();
            // Whether or not it could be measured.
            self.undo(&applied)?;
            after.push(rate?);
            tell!(
                "linerate: block {block} of {BLOCKS}: {} -> {}",
                gbit(before[block - 1]),
                gbit(after[block - 1])
            );
        }
        let ratios: Vec<f64> = before.iter().zip(&after).map(|(before, after)| after / before).collect();
        let estimate = Estimate::of(&ratios, SEED);
        let interval = estimate.and_then(|estimate| estimate.interval.ends());
        let gained = interval.is_some_and(|(low, _)| low > 1.0);
        let treatments = if gained { self.apply()? } else { Vec::new() };
        Ok(GainReport {
            r#type: "doctor-gain",
            schema: 1,
            ratio: estimate.map_or(1.0, |estimate| estimate.median),
            before,
            after,
            interval,
            gained,
            settings,
            treatments,
        })
    }

    /// Bits of payload a second.
    fn rate(&self) -> Result<f64, Failure> {
        let summary = probe(self.other, &self.args.reach)?;
        if summary.payload_seconds > 0.0 {
            return Ok((summary.landed.bytes as f64 * 8.0 / summary.payload_seconds).max(1.0));
        }
        Err(Failure("nothing could be measured".into(), Code::FarEnd))
    }

    /// The far end first: the way to it is still as it was.
    fn apply(&self) -> Result<Vec<TreatmentReport>, Failure> {
        let [near, far] = &self.plans;
        let mut applied = Vec::new();
        if !far.steps.is_empty() {
            applied.push(far::apply(self.args, self.other, far)?);
        }
        if !near.steps.is_empty() {
            match here::apply(&self.args.treatment, near.clone()) {
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

fn text(gain: &GainReport) -> String {
    let middle = |rates: &[f64]| Estimate::of(rates, SEED).map_or(0.0, |estimate| estimate.median);
    let interval = gain.interval.map(|(low, high)| format!(", {low:.2} to {high:.2}")).unwrap_or_default();
    let rates = format!(
        "{} -> {} ({:.2} times as fast{interval})",
        gbit(middle(&gain.before)),
        gbit(middle(&gain.after)),
        gain.ratio
    );
    if !gain.gained {
        return format!("{rates}: that is no gain for certain, and all was taken back");
    }
    let changes =
        if gain.settings == 1 { "this change" } else { &format!("these {} changes", gain.settings) };
    let shown: Vec<String> = gain.treatments.iter().map(show::treatment).collect();
    format!("{rates} by {changes}\n{}", shown.join("\n"))
}
