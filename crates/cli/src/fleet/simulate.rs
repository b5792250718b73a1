//! `linerate fleet simulate`: computes how long a fleet would take.

use clap::Args;
use linerate_fleet::plan::PlanDirectory;
use linerate_fleet::planner::MAX_NAMES;
use linerate_fleet::shards::MAX_SHARDS;
use linerate_fleet::simulate::{FleetModel, NodeCosts, SimulatedFleet};
use linerate_fleet::status::FleetStatus;
use linerate_quantity::{BitRate, Bytes, Seconds, bit_rate, bytes, seconds};
use serde::Serialize;
use std::path::PathBuf;

use crate::common::failure::Failure;
use crate::exit::Code;
use crate::units::show_count;

/// The number of shards per node, if the user doesn't give the number of shards. It is so large that the work is
/// distributed well even if some nodes are slower.
const SHARDS_OF_A_NODE: u32 = 16;
/// The assumed size of a file in bytes, if the user doesn't give the number of bytes.
const BYTES_OF_A_FILE: f64 = 1e6;

/// Arguments of `linerate fleet simulate`.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// Number of pairs of nodes; each pair runs one task at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: u32,
    /// Rate of a node's link: 100gbit
    #[arg(long, value_name = "RATE", value_parser = rate)]
    link: u64,
    /// Number of files to move, for example 1e9
    #[arg(long, value_name = "N", value_parser = number, required_unless_present = "plan")]
    files: Option<f64>,
    /// Bytes to move: 1PB [default: the plan's, or 1 MB for each file]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bytes: Option<f64>,
    /// Take files, bytes, shards and processor time from the plan in DIR
    #[arg(long, value_name = "DIR")]
    plan: Option<PathBuf>,
    /// Number of shards [default: the plan's, or 16 for each node]
    ///
    /// A shard has at most a million files.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    shards: Option<u32>,
    /// Size of the largest file that isn't divided among shards
    #[arg(long, value_name = "SIZE", value_parser = size)]
    largest: Option<f64>,
    /// Rate of the link between the sites, for all nodes
    #[arg(long, value_name = "RATE", value_parser = rate)]
    between: Option<u64>,
    /// Bytes a second of the slower site's storage, for all nodes: 200GB
    #[arg(long, value_name = "SIZE", value_parser = positive_size)]
    storage: Option<f64>,
    /// Operations a second of the slower site's metadata servers
    #[arg(long, value_name = "N", value_parser = positive)]
    metadata: Option<f64>,
    /// Metadata operations (create, rename, ...) for each file
    #[arg(long, value_name = "N", value_parser = number, default_value = "4", requires = "metadata")]
    operations: f64,
    /// Processor seconds of a node for each GB [default: the plan's, or 0.7]
    #[arg(long, value_name = "SECONDS", value_parser = number)]
    cpu_per_gb: Option<f64>,
    /// Number of processors of a node
    #[arg(long, value_name = "N", value_parser = positive, default_value = "16")]
    processors: f64,
    /// Most files that a node can copy in a second
    ///
    /// A node copies no more files a second than this, even if the files are empty.
    #[arg(long, value_name = "N", value_parser = positive, default_value = "10000")]
    files_per_second: f64,
    /// Time that the start and the end of a task take together
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "3s")]
    per_task: f64,
    /// Print the result as a line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct SimulatedFields {
    schema: u32,
    r#type: &'static str,
    nodes: u32,
    shards: u32,
    files: f64,
    bytes: f64,
    /// True if the number of bytes was assumed.
    bytes_assumed: bool,
    #[serde(flatten)]
    run: SimulatedFleet,
}

/// Computes and prints the result.
pub fn run(args: &SimulateArgs) -> Result<Code, Failure> {
    let (model, wanted) = args.model()?;
    let run = model.run();
    if args.json {
        let FleetModel { nodes, shards, files, bytes, .. } = model;
        let bytes_assumed = args.assumes_bytes();
        let r#type = "simulation";
        crate::print::json(&SimulatedFields {
            schema: 1,
            r#type,
            nodes,
            shards,
            files,
            bytes,
            bytes_assumed,
            run,
        });
    } else {
        let assumed = args.assumptions(&model, wanted);
        assumed.iter().chain(&lines(&model, &run)).for_each(|line| output!("{line}"));
    }
    Ok(Code::Done)
}

impl SimulateArgs {
    /// The model, and the number of shards that the user requested.
    fn model(&self) -> Result<(FleetModel, u32), Failure> {
        let planned = self.plan.as_ref().map(|plan| PlanDirectory::open(plan)).transpose()?;
        let burden = planned.as_ref().map(|planned| planned.plan.burden()).unwrap_or_default();
        let of_plan = planned.as_ref().map(|planned| planned.plan.shards.len() as u32);
        let measured = planned.as_ref().map(measured).transpose()?.flatten();
        let usual = NodeCosts::default();
        // If the plan divides files, the files that it doesn't divide are small compared with a shard, so they don't
        // matter.
        let whole = planned.as_ref().filter(|planned| planned.plan.divided.is_empty());
        let largest = whole.map_or(0.0, |planned| planned.plan.found.largest as f64);
        let files = self.files.unwrap_or(burden.files as f64);
        let assumed = if self.assumes_bytes() { files * BYTES_OF_A_FILE } else { burden.bytes as f64 };
        let wanted = self.shards.or(of_plan).unwrap_or(self.nodes.saturating_mul(SHARDS_OF_A_NODE));
        let model = FleetModel {
            nodes: self.nodes,
            shards: wanted.max(least_shards(files)?),
            files,
            bytes: self.bytes.unwrap_or(assumed),
            largest: self.largest.unwrap_or(largest),
            link: self.link as f64,
            between: self.between.unwrap_or(0) as f64,
            storage: self.storage.unwrap_or(0.0),
            metadata: self.metadata.unwrap_or(0.0),
            costs: NodeCosts {
                cpu_per_gb: self.cpu_per_gb.or(measured).unwrap_or(usual.cpu_per_gb),
                processors: self.processors,
                per_file: 1.0 / self.files_per_second,
                per_task: self.per_task,
                operations: self.operations,
                ..usual
            },
        };
        Ok((model, wanted))
    }

    fn assumes_bytes(&self) -> bool {
        self.bytes.is_none() && self.plan.is_none()
    }

    /// Lines about the assumptions that were made for values that the user hasn't given.
    fn assumptions(&self, model: &FleetModel, wanted: u32) -> Vec<String> {
        let mut lines = Vec::new();
        if self.assumes_bytes() {
            let of_file = Bytes(BYTES_OF_A_FILE);
            lines.push(format!(
                "assumed: {of_file} for each file, {} in all; --bytes sets another sum",
                Bytes(model.bytes)
            ));
        }
        if model.shards > wanted {
            let (shards, most) = (show_count(model.shards.into()), show_count(MAX_NAMES));
            lines.push(format!("assumed: {shards} shards, because a shard has at most {most} files"));
        }
        if model.shards > MAX_SHARDS {
            let most = show_count(MAX_SHARDS.into());
            lines.push(format!("assumed: several plans, because a plan has at most {most} shards"));
        }
        lines
    }
}

/// The smallest number of shards that a plan of this number of files has.
fn least_shards(files: f64) -> Result<u32, Failure> {
    let shards = (files / MAX_NAMES as f64).ceil();
    match shards <= f64::from(u32::MAX) {
        true => Ok(shards as u32),
        false => {
            Err(Failure::usage(format!("{files:e} files are more than 'simulate' can divide into shards")))
        }
    }
}

/// The processor seconds per GB of a plan's tasks. They are those of both ends together, so they are more than one node
/// needs. `None` if the tasks have moved less than 1 GB.
fn measured(directory: &PlanDirectory) -> Result<Option<f64>, Failure> {
    let status = FleetStatus::read(directory)?;
    let progress = status.parts().filter_map(|(_, _, attempt, _)| attempt.map(|it| &it.progress));
    let ended = progress.filter(|progress| progress.cpu_seconds > 0.0);
    let (seconds, bytes) = ended.fold((0.0, 0), |(seconds, bytes), progress| {
        (seconds + progress.cpu_seconds, progress.sent_bytes.saturating_add(bytes))
    });
    Ok((bytes >= 1_000_000_000).then(|| seconds / (bytes as f64 * 1e-9)))
}

fn lines(model: &FleetModel, run: &SimulatedFleet) -> Vec<String> {
    let mut lines = vec![
        format!(
            "estimated for {} in {} files by {} pairs of nodes: {}, {}, {:.0} files/s",
            Bytes(model.bytes),
            if model.files < 1e6 { format!("{:.0}", model.files) } else { format!("{:.3e}", model.files) },
            model.nodes,
            Seconds(run.seconds),
            BitRate(run.bits_per_second),
            run.files_per_second
        ),
        format!("limited by {}", run.bottleneck.named()),
        format!(
            "{} shards of {} and {:.0} files, up to {} for each node",
            model.shards,
            Bytes(model.bytes / f64::from(model.shards)),
            model.files / f64::from(model.shards),
            run.turns
        ),
    ];
    if run.evenness > 1.1 {
        lines.push(format!("the largest file that isn't divided is {:.1} times a mean shard", run.evenness));
    }
    lines.push("each limit alone:".to_owned());
    let limits = run.limits.iter().filter(|(_, seconds)| *seconds > 0.0);
    lines.extend(
        limits.map(|(limit, seconds)| format!("  {:>14}  {}", Seconds(*seconds).to_string(), limit.named())),
    );
    lines
}

/// Parses a count, which may be written as 1e9.
fn number(text: &str) -> Result<f64, String> {
    let number = text.replace(['_', ','], "").parse::<f64>().ok();
    let number = number.filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("'{text}' isn't a number; write 1000000 or 1e6"))
}

fn positive(text: &str) -> Result<f64, String> {
    number(text).and_then(above_zero)
}

fn size(text: &str) -> Result<f64, String> {
    bytes(text).map(|bytes| bytes as f64)
}

fn positive_size(text: &str) -> Result<f64, String> {
    size(text).and_then(above_zero)
}

fn rate(text: &str) -> Result<u64, String> {
    bit_rate(text).map_err(str::to_owned).and_then(above_zero)
}

/// Returns an error unless the number is above zero. At a rate of zero, a copy would never end.
fn above_zero<T: PartialOrd + Default>(number: T) -> Result<T, String> {
    if number > T::default() { Ok(number) } else { Err("it must be more than 0".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: SimulateArgs,
    }

    /// The model for a command line, and the assumptions that are printed.
    fn model(words: &str) -> (FleetModel, Vec<String>) {
        let words = ["simulate", "--link", "100gbit"].into_iter().chain(words.split_whitespace());
        let args = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).args;
        let (model, wanted) = args.model().unwrap();
        let assumed = args.assumptions(&model, wanted);
        (model, assumed)
    }

    #[test]
    fn bytes_that_nobody_names_are_a_megabyte_for_each_file() {
        let (of_files, assumed) = model("--nodes 64 --files 1e9");
        assert_eq!((of_files.bytes, of_files.shards), (1e15, 1024));
        assert!(
            matches!(&*assumed, [line] if line.contains("1.00 MB for each file, 1.00 PB in all")),
            "{assumed:?}"
        );
        let (given, assumed) = model("--nodes 64 --files 1e9 --bytes 3PB");
        assert_eq!((given.bytes, assumed), (3e15, Vec::new()));
    }

    #[test]
    fn no_shard_has_more_files_than_a_plan_allows() {
        for (words, shards) in [
            ("--nodes 1 --files 1e9", 1000),
            ("--nodes 4 --files 1000000001 --shards 64", 1001),
            ("--nodes 4 --files 64e6 --shards 64", 64),
            ("--nodes 4 --files 1e12", 1_000_000),
        ] {
            let (model, assumed) = model(words);
            assert_eq!(model.shards, shards, "{words}");
            assert!(model.files / f64::from(model.shards) <= 1e6, "{words}");
            let is_said = assumed.iter().any(|line| line.contains("at most 1,000,000 files"));
            assert_eq!(is_said, !words.contains("64e6"), "{assumed:?}");
        }
        let (_, assumed) = model("--nodes 4 --files 1e12");
        assert!(assumed.iter().any(|line| line.contains("several plans")), "{assumed:?}");
        assert!(least_shards(1e300).is_err());
    }

    #[test]
    fn nothing_in_a_second_is_no_rate() {
        let words = [("--files-per-second", "0"), ("--metadata", "0"), ("--processors", "0")];
        for (word, value) in words.into_iter().chain([("--storage", "0B"), ("--between", "0gbit")]) {
            let words = ["simulate", "--link", "100gbit", "--nodes", "4", "--files", "1e9", word, value];
            let error = Line::try_parse_from(words).unwrap_err().to_string();
            assert!(error.contains("it must be more than 0"), "{word}: {error}");
        }
    }
}
