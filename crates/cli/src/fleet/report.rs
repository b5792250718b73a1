//! `linerate fleet report`: a report on a run.

use clap::Args;
use linerate_fleet::plan::PlanDirectory;
use linerate_fleet::report::{FleetReport, HostShare, STRAGGLES};
use linerate_fleet::status::FleetStatus;
use linerate_quantity::{Bytes, Seconds};
use linerate_wire::path::printable;
use serde::Serialize;
use std::path::PathBuf;

use crate::common::failure::Failure;
use crate::exit::Code;

/// Arguments of `linerate fleet report`.
#[derive(Debug, Args)]
pub struct FleetReportArgs {
    /// Print the report as a line of JSON
    #[arg(long)]
    json: bool,
    /// The plan's directory
    plan: PathBuf,
}

#[derive(Serialize)]
struct ReportFields {
    schema: u32,
    r#type: &'static str,
    round: u32,
    #[serde(flatten)]
    report: FleetReport,
}

/// Prints the report.
pub fn run(args: &FleetReportArgs) -> Result<Code, Failure> {
    let directory = PlanDirectory::open(&args.plan)?;
    let report = FleetReport::of(&FleetStatus::read(&directory)?);
    if args.json {
        crate::say::json(&ReportFields { schema: 1, r#type: "report", round: directory.plan.round, report });
    } else {
        lines(&report).iter().for_each(|line| say!("{line}"));
    }
    Ok(Code::Done)
}

fn lines(report: &FleetReport) -> Vec<String> {
    let mut lines = vec![
        format!(
            "{} in {}: {:.3} Gbit/s; {} parts done, {} attempts lost",
            Bytes::of(report.sent_bytes),
            Seconds(report.seconds as f64),
            report.gbit_per_second,
            report.done,
            report.lost
        ),
        String::new(),
        format!(
            "{:<24} {:>8} {:>6} {:>10} {:>12} {:>9}",
            "host", "does", "parts", "bytes", "Gbit/s/task", "CPU"
        ),
    ];
    lines.extend(report.hosts.iter().map(host_line));
    lines.push(String::new());
    for share in &report.limiters {
        let parts = if share.parts == 1 { "part" } else { "parts" };
        let limiter = printable(share.limiter.as_bytes());
        lines.push(format!("limited by {limiter}: {} {parts}, {}", share.parts, Bytes::of(share.sent_bytes)));
    }
    for late in &report.stragglers {
        lines.push(format!(
            "shard {} took {}, more than {STRAGGLES} times the median ({}): {} on {} to {}, limited by {}",
            late.part,
            Seconds(late.seconds as f64),
            Seconds(report.median_seconds),
            Bytes::of(late.sent_bytes),
            printable(late.host.as_bytes()),
            printable(late.to.as_bytes()),
            printable(late.limiter.as_bytes()),
        ));
    }
    lines
}

fn host_line(share: &HostShare) -> String {
    format!(
        "{:<24} {:>8} {:>6} {:>10} {:>12.3} {:>7.1} s",
        printable(share.host.as_bytes()),
        if share.receives { "receives" } else { "sends" },
        share.parts,
        Bytes::of(share.sent_bytes).to_string(),
        share.gbit_per_second,
        share.cpu_seconds,
    )
}
