//! The time that a fleet would take, and its limiter, computed from the costs of a node and a schedule of shards.
//!
//! A node moves at the least of these rates: its link, its processors, its end's storage, its share of the path. Files
//! cost additional time at either end, which several workers of a node share. The two sites' storage and the link between them are limits of
//! all nodes together.

use serde::Serialize;

/// The load, and the fleet that moves it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FleetModel {
    /// Pairs of nodes.
    pub nodes: u32,
    /// Shards.
    pub shards: u32,
    /// Files.
    pub files: f64,
    /// Bytes.
    pub bytes: f64,
    /// Bytes of the largest file that is in one shard.
    pub largest: f64,
    /// Bits a second of a node's link.
    pub link: f64,
    /// Bits a second of the link between the sites; 0 for no limit.
    pub between: f64,
    /// Bytes a second that all nodes together can read or write; 0 for no limit.
    pub storage: f64,
    /// Operations on names a second that each site's metadata servers do for all nodes; 0 for no limit.
    pub metadata: f64,
    /// The costs of a node.
    pub costs: NodeCosts,
}

/// The cost of moving for a node, as `linerate` prints it at the end of a copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeCosts {
    /// Processor seconds for each GB, at the end that needs more.
    pub cpu_per_gb: f64,
    /// Processors of a node.
    pub processors: f64,
    /// Seconds of a node for each file, in addition to its bytes: 1 / its files a second.
    pub per_file: f64,
    /// Seconds for a task's start and end.
    pub per_task: f64,
    /// Operations on names for each file, at the end that needs more.
    pub operations: f64,
    /// The share of the link that payload gets.
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

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimulatedFleet {
    /// From the first task's start to the last one's end.
    pub seconds: f64,
    /// The payload rate of all nodes.
    pub bits_per_second: f64,
    /// Files a second of all nodes.
    pub files_per_second: f64,
    /// The limiter.
    pub bottleneck: Bottleneck,
    /// The time with only one of the limits, for each.
    pub limits: Vec<(Bottleneck, f64)>,
    /// The most shards that a node takes.
    pub turns: u32,
    /// The largest shard as a multiple of the mean one.
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
    /// One file that is larger than a mean shard.
    LargestFile,
    /// The starts and ends of tasks, and nodes that have nothing left to do.
    Scheduling,
}

impl Bottleneck {
    /// A name for people.
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
    /// Computes the result.
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
        // A node's share is a number of whole shards: in the last turn some nodes are idle.
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
