//! `linerate fleet report`: prints a report about a run.

use anyhow::Context;
use clap::Args;
use linerate_doctor::limiter::Limiter;
use linerate_fleet::history::HostRates;
use linerate_fleet::plan::PlanDirectory;
use linerate_fleet::report::{FleetReport, HostShare, LimiterShare, STRAGGLES, Straggler};
use linerate_fleet::status::FleetStatus;
use linerate_quantity::{Bytes, Seconds};
use linerate_sys::replace::replace_readable;
use linerate_wire::path::printable;
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::page;
use crate::common::failure::Failure;
use crate::common::spared::ReplacedKind;
use crate::exit::Code;
use crate::units::named_file;

/// Characters for rates, from the lowest to the highest.
const SIGNS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// HTML reports, as a kind of files that runs may replace.
const PAGES: ReplacedKind = ReplacedKind { name: "a page of a fleet's report", begins: page::begins };

/// Arguments of `linerate fleet report`.
#[derive(Debug, Args)]
pub struct FleetReportArgs {
    /// Print the report as a line of JSON
    #[arg(long)]
    json: bool,
    /// Also write the report as an HTML page to FILE
    ///
    /// The page shows the rate of each host over time, tables of the hosts and limiters, and the shards that took much
    /// longer than others. The page loads nothing from elsewhere.
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    page: Option<PathBuf>,
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
    if let Some(file) = &args.page {
        if let Some(why) = PAGES.refusal(file) {
            return Err(Failure::usage(format!("--page {}: {why}", printable(file.as_os_str().as_bytes()))));
        }
        let page = page::page(&report, directory.plan.round);
        replace_readable(file, page.as_bytes())
            .with_context(|| format!("writing the page {}", file.display()))?;
    }
    if args.json {
        crate::print::json(&ReportFields {
            schema: 1,
            r#type: "report",
            round: directory.plan.round,
            report,
        });
    } else {
        lines(&report).iter().for_each(|line| output!("{line}"));
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
    lines.extend(rate_lines(report));
    lines.extend(report.limiters.iter().map(|share| format!("limited by {}", limiter_text(share))));
    lines.extend(report.stragglers.iter().map(|late| straggler_line(report, late)));
    lines
}

/// The verb in the line of a host: `receives` or `sends`.
pub fn does(receives: bool) -> &'static str {
    if receives { "receives" } else { "sends" }
}

/// A limiter as text, with the number of parts and of bytes that it limited.
pub fn limiter_text(share: &LimiterShare) -> String {
    let parts = if share.parts == 1 { "part" } else { "parts" };
    let limiter = limiter_name(&share.limiter);
    format!("{limiter}: {} {parts}, {}", share.parts, Bytes::of(share.sent_bytes))
}

/// The name of a limiter. If a copy was too short to have a limiter, the words that copies then print.
fn limiter_name(limiter: &str) -> String {
    match limiter == Limiter::TooShort.name() {
        true => Limiter::TooShort.to_string(),
        false => printable(limiter.as_bytes()),
    }
}

/// A line about a shard that took much longer than others.
pub fn straggler_line(report: &FleetReport, late: &Straggler) -> String {
    format!(
        "shard {} took {}, more than {STRAGGLES} times the median ({}): {} on {} to {}, limited by {}",
        late.part,
        Seconds(late.seconds as f64),
        Seconds(report.median_seconds),
        Bytes::of(late.sent_bytes),
        printable(late.host.as_bytes()),
        printable(late.to.as_bytes()),
        limiter_name(&late.limiter),
    )
}

/// The rates over time, with one character for each interval.
fn rate_lines(report: &FleetReport) -> Vec<String> {
    let most = most(report);
    if most <= 0.0 {
        return Vec::new();
    }
    let head = format!(
        "rates over time: one character for each {}; {} means {most:.3} Gbit/s:",
        Seconds(report.rates.interval_seconds as f64),
        SIGNS[SIGNS.len() - 1]
    );
    let line = |host: &HostRates| {
        let signs: String = host.gbit_per_second.iter().map(|rate| sign(*rate, most)).collect();
        format!("{:<24} {:>8}  {signs}", printable(host.host.as_bytes()), does(host.receives))
    };
    let lines = report.rates.hosts.iter().map(line);
    [head].into_iter().chain(lines).chain([String::new()]).collect()
}

/// The highest rate of any host in any interval, in Gbit/s.
pub fn most(report: &FleetReport) -> f64 {
    report.rates.hosts.iter().flat_map(|host| &host.gbit_per_second).copied().fold(0.0, f64::max)
}

/// A rate as one character, relative to the rate `most`. The character is a blank only for the rate 0.
fn sign(rate: f64, most: f64) -> char {
    let step = (rate / most * SIGNS.len() as f64).ceil();
    // `step` is at most the number of characters, so the index is valid.
    if step >= 1.0 { SIGNS[(step as usize).min(SIGNS.len()) - 1] } else { ' ' }
}

fn host_line(share: &HostShare) -> String {
    format!(
        "{:<24} {:>8} {:>6} {:>10} {:>12.3} {:>7.1} s",
        printable(share.host.as_bytes()),
        does(share.receives),
        share.parts,
        Bytes::of(share.sent_bytes).to_string(),
        share.gbit_per_second,
        share.cpu_seconds,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_sign_and_only_nothing_is_a_blank() {
        assert_eq!((sign(0.0, 2.0), sign(0.001, 2.0), sign(1.0, 2.0), sign(2.0, 2.0)), (' ', '▁', '▄', '█'));
        assert_eq!(sign(f64::NAN, 1.0), ' ');
    }
}
