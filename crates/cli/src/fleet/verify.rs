//! `linerate fleet verify`: compares the files of a plan's shards at both ends, by hashes.

use clap::Args;
use linerate_fleet::plan::{FleetPart, PlanDirectory};
use std::path::PathBuf;
use std::sync::Arc;

use super::figures::VerifySums;
use super::part::{Purpose, task};
use super::run::worse;
use crate::common::failure::Failure;
use crate::common::log;
use crate::common::member::MemberOutput;
use crate::common::output::{Output, Style};
use crate::common::recording::logging;
use crate::common::signals::interrupted;
use crate::copying::args::CopyingArgs;
use crate::copying::watched::WatchedTask;
use crate::exit::Code;

/// Arguments of `linerate fleet verify`.
#[derive(Debug, Args)]
pub struct VerifyShardArgs {
    /// Compare shard K (the first is 0); without it, the whole plan
    ///
    /// Without this option, all shards and the directories are compared.
    #[arg(long, value_name = "K")]
    shard: Option<u32>,
    /// Not used: it exists because other options conflict with it. The command never changes anything
    #[arg(long, hide = true)]
    dry_run: bool,
    #[command(flatten)]
    common: CopyingArgs,
    /// The plan's directory
    plan: PathBuf,
}

/// Carries out the comparison.
pub fn run(args: &VerifyShardArgs) -> Result<Code, Failure> {
    let (log, figures) = args.common.written();
    let names = args.common.names("fleet verify", (vec![args.plan.clone().into()], Vec::new()));
    logging(log.as_deref(), names, figures.as_deref(), |metrics| {
        let output = Output::new(args.common.style()).itemizing(true).measured(metrics);
        output.metrics().check()?;
        args.compare(&output).inspect_err(|failure| output.failed(failure))
    })
}

impl VerifyShardArgs {
    fn compare(&self, output: &Output) -> Result<Code, Failure> {
        let (directory, interrupted) = (PlanDirectory::open(&self.plan)?, interrupted()?);
        let wanted = self.shard.map(FleetPart::Shard);
        if let Some(part) = wanted.filter(|part| directory.plan.part(*part).is_none()) {
            return Err(Failure::usage(format!("the plan has no {part}")));
        }
        let (mut worst, mut sums) = (Code::Done, VerifySums::default());
        for part in directory.plan.parts().filter(|part| wanted.is_none_or(|wanted| wanted == *part)) {
            if directory.plan.is_empty(part) {
                continue;
            }
            let to = directory.plan.destination_of(part, 1);
            let task = task(&directory, part, (&to, 1), &self.common, Purpose::Compare)?;
            let output = Arc::new(output.of_member(MemberOutput::of_compared(part)));
            worst = worse(worst, WatchedTask::new(interrupted.clone()).perform(&output, task)?);
            if let Some((done, member)) = output.member().and_then(|member| Some((member.done()?, member))) {
                sums.add(part, &done, member.changes());
            }
        }
        sums.record(output.metrics());
        if matches!(output.style(), Style::Plain | Style::Verbose) && !log::takes_result() {
            message!("{}", sums.text());
        }
        Ok(if sums.is_same() { worst } else { worse(worst, Code::Partial) })
    }
}
