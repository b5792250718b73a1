//! Estimates the time that a fleet would take and the factor that would limit it, from the costs of a node
//! and a schedule of shards.
//!
//! Each node is limited by its link, by its processors, and by the time that each file costs; the workers of a node
//! share this time. The storage and the metadata servers of each site and the link between the sites limit all nodes
//! together. Only the limit that takes the longest time counts.

use serde::Serialize;

/// The load, and the fleet that moves it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FleetModel {
    /// The number of pairs of nodes, a sender and a receiver each.
    pub nodes: u32,
    /// The number of shards.
    pub shards: u32,
    /// The number of files.
    pub files: f64,
    /// The total number of bytes.
    pub bytes: f64,
    /// The size of the largest file that one shard moves, in bytes.
    pub largest: f64,
    /// The rate of a node's link, in bits per second.
    pub link: f64,
    /// The rate of the link between the sites, in bits per second; 0 for no limit.
    pub between: f64,
    /// The rate of a site's storage for all nodes together, in bytes per second; 0 for no limit.
    pub storage: f64,
    /// The metadata operations per second that each site's servers perform for all nodes; 0 for no limit.
    pub metadata: f64,
    /// The costs of moving data for one node.
    pub costs: NodeCosts,
}

/// The costs of moving data for one node, as `linerate` prints them at the end of a copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeCosts {
    /// The processor time per GB in seconds, at the end that needs more.
    pub cpu_per_gb: f64,
    /// The number of processors of a node.
    pub processors: f64,
    /// The seconds that a node needs for each file, without the time for the file's bytes: the inverse of the files per
    /// second of a node.
    pub per_file: f64,
    /// The seconds that the start and the end of a task take.
    pub per_task: f64,
    /// The number of metadata operations per file, at the end that needs more.
    pub operations: f64,
    /// The share of the link's rate that is payload, 0 to 1.
    pub payload: f64,
}

impl Default for NodeCosts {
    fn default() -> Self {
        Self {
            cpu_per_gb: 0.7,
            processors: 16.0,
            per_file: 100e-6,
            per_task: 3.0,
            operations: 4.0,
            payload: 0.94,
        }
    }
}

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimulatedFleet {
    /// The time from the start of the first task to the end of the last, in seconds.
    pub seconds: f64,
    /// The payload rate of all nodes together, in bits per second.
    pub bits_per_second: f64,
    /// The files per second of all nodes together.
    pub files_per_second: f64,
    /// The limit that determines the time.
    pub bottleneck: Bottleneck,
    /// For each limit, the seconds that the fleet would need if only this limit existed.
    pub limits: Vec<(Bottleneck, f64)>,
    /// The greatest number of shards that one node moves.
    pub turns: u32,
    /// The ratio of the largest shard to the mean shard.
    pub evenness: f64,
}

/// The limits of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bottleneck {
    /// The nodes' links.
    NodeLinks,
    /// The nodes' processors.
    Processors,
    /// The cost of each file for a node.
    Files,
    /// The link between the sites.
    LinkBetween,
    /// The storage of a site.
    Storage,
    /// The metadata servers of a site.
    Metadata,
    /// A file that is larger than a mean shard.
    LargestFile,
    /// The start and end of tasks, and nodes that are idle at the end.
    Scheduling,
}

impl Bottleneck {
    /// A description of the limit for users.
    pub fn named(self) -> &'static str {
        match self {
            Self::NodeLinks => "the nodes' links",
            Self::Processors => "the nodes' processors",
            Self::Files => "the cost of each file for a node",
            Self::LinkBetween => "the link between the sites",
            Self::Storage => "the storage of a site",
            Self::Metadata => "the metadata servers of a site",
            Self::LargestFile => "the largest file that isn't divided",
            Self::Scheduling => "starts and ends of tasks, and nodes without work at the end",
        }
    }
}

impl FleetModel {
    /// Runs the simulation.
    pub fn run(&self) -> SimulatedFleet {
        let nodes = f64::from(self.nodes.min(self.shards).max(1));
        let (shards, costs) = (f64::from(self.shards.max(1)), self.costs);
        let rate = costs.payload * self.link / 8.0;
        let by_cpu = costs.processors / costs.cpu_per_gb.max(1e-12) * 1e9;
        let divided = |sum: f64, by: f64| if by > 0.0 { sum / by } else { 0.0 };
        let mut limits = vec![
            (Bottleneck::NodeLinks, self.bytes / rate / nodes),
            (Bottleneck::Processors, self.bytes / by_cpu / nodes),
            (Bottleneck::Files, self.files * costs.per_file / nodes),
            (Bottleneck::LinkBetween, divided(self.bytes * 8.0, self.between * costs.payload)),
            (Bottleneck::Storage, divided(self.bytes, self.storage)),
            (Bottleneck::Metadata, divided(self.files * costs.operations, self.metadata)),
            (Bottleneck::LargestFile, self.largest / rate.min(by_cpu)),
        ];
        let (common, slowest) = self.longest(&limits);
        // Each node moves whole shards, so in the last turn some nodes may be idle.
        let turns = (shards / nodes).ceil();
        let of_nodes = |limit: &(Bottleneck, f64)| limit.1 * nodes / shards;
        let own = limits[..3].iter().map(of_nodes).fold(0.0, f64::max);
        let evenness = (self.largest / (self.bytes / shards).max(1.0)).max(1.0);
        let (by_turns, starts) = (turns * (own + costs.per_task), turns * costs.per_task);
        let seconds = (slowest + costs.per_task).max(by_turns);
        let is_scheduling = starts > slowest || by_turns > (slowest + costs.per_task) * 1.1;
        let bottleneck = if is_scheduling { Bottleneck::Scheduling } else { common };
        limits.push((Bottleneck::Scheduling, starts));
        SimulatedFleet {
            seconds,
            bits_per_second: self.bytes * 8.0 / seconds,
            files_per_second: self.files / seconds,
            bottleneck,
            limits,
            turns: turns as u32,
            evenness,
        }
    }

    fn longest(&self, limits: &[(Bottleneck, f64)]) -> (Bottleneck, f64) {
        let longest = limits.iter().copied().max_by(|one, other| one.1.total_cmp(&other.1));
        longest.unwrap_or((Bottleneck::Scheduling, 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> FleetModel {
        FleetModel {
            nodes: 64,
            shards: 64 * 16,
            files: 1e6,
            bytes: 1e15,
            largest: 1e9,
            link: 100e9,
            between: 0.0,
            storage: 0.0,
            metadata: 0.0,
            costs: NodeCosts { processors: 64.0, ..NodeCosts::default() },
        }
    }

    #[test]
    fn a_petabyte_over_64_links_of_100_gbit_takes_as_long_as_the_links_do() {
        let run = model().run();
        assert_eq!(run.bottleneck, Bottleneck::NodeLinks);
        let links = 1e15 * 8.0 / (64.0 * 100e9 * 0.94);
        assert!((links..links * 1.05).contains(&run.seconds), "{} and {links}", run.seconds);
    }

    #[test]
    fn each_limit_is_named_where_it_is_the_least() {
        let of = |model: FleetModel| model.run().bottleneck;
        assert_eq!(of(FleetModel { between: 400e9, ..model() }), Bottleneck::LinkBetween);
        assert_eq!(of(FleetModel { storage: 50e9, ..model() }), Bottleneck::Storage);
        assert_eq!(of(FleetModel { files: 1e12, ..model() }), Bottleneck::Files);
        assert_eq!(of(FleetModel { metadata: 100.0, ..model() }), Bottleneck::Metadata);
        assert_eq!(of(FleetModel { largest: 5e13, ..model() }), Bottleneck::LargestFile);
        let weak = NodeCosts { processors: 2.0, ..NodeCosts::default() };
        assert_eq!(of(FleetModel { costs: weak, ..model() }), Bottleneck::Processors);
        assert_eq!(of(FleetModel { shards: 65, ..model() }), Bottleneck::Scheduling);
        let small = FleetModel { bytes: 1e9, files: 100.0, largest: 0.0, shards: 10_000, ..model() };
        assert_eq!(of(small), Bottleneck::Scheduling);
        let tiny = FleetModel { bytes: 4e7, files: 50.0, largest: 0.0, shards: 2, ..model() };
        assert_eq!(of(tiny), Bottleneck::Scheduling, "its one turn takes longer than all else");
    }

    #[test]
    fn more_nodes_never_take_longer() {
        let of = |nodes| FleetModel { nodes, shards: 1024, files: 1e9, ..model() }.run().seconds;
        let times: Vec<_> = [1, 2, 4, 8, 16, 32, 64].map(of).into();
        assert!(times.windows(2).all(|pair| pair[1] <= pair[0]), "{times:?}");
        assert!((1.9..2.1).contains(&(times[0] / times[1])), "{times:?}");
    }
}
