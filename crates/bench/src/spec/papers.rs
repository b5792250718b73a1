//! The experiments of the five papers, with their numbers in `docs/papers.md`.

/// An experiment of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// The number of the experiment, as in [`Study::rows`](super::study::Study::rows).
    pub row: u32,
    /// The paper, as an index of [`PAPERS`].
    pub paper: usize,
    /// The place of the experiment in the paper: "figure 5".
    pub place: &'static str,
    /// A description of the experiment.
    pub what: &'static str,
}

/// The papers' titles.
pub const PAPERS: [&str; 5] = [
    "Maximizing File Transfer Performance Using 10Gb Ethernet and Virtualization",
    "The same, page 7",
    "Networking technologies on IBM System x servers running VMware ESX 4.0",
    "1Gbps and 10Gbps Ethernet Server Scalability",
    "Network Performance in ESX 4.0 Update 1",
];

/// Every experiment, by number from 1.
pub const EXPERIMENTS: [Experiment; 30] = [
    one(1, 0, "text", "Eight ports of 1 Gbit/s against two of 10"),
    one(2, 0, "text", "Kinds of 10 Gbit/s ports, their power and reach"),
    one(3, 0, "figure 3", "Two hosts back to back, with all of their settings listed"),
    one(4, 0, "text", "A RAM disk with some 8 GB in 5,000 files, part of a Linux tree"),
    one(5, 0, "text", "Receive throughput and CPU as sar and esxtop saw them"),
    one(6, 0, "figure 4", "netperf in a slot of four lanes and of eight"),
    one(7, 0, "figure 5", "Eight tools with one stream"),
    one(8, 0, "figure 6", "The same with eight streams, and what these bring over one"),
    one(9, 0, "figures 7 to 9", "One virtual machine of eight processors against the bare host"),
    one(10, 0, "figures 10 and 11", "A device passed through to the guest, and what is lost by it"),
    one(11, 0, "figures 12 and 13", "Eight virtual machines with one stream each"),
    one(12, 0, "figure 14", "Multiple receive queues for guests, on and off"),
    one(13, 0, "text", "Advice for bare hosts: slot, Turbo, SMT, NUMA, queues, streams, cryptography"),
    one(14, 0, "text", "Advice for hypervisors: slot, queues, kind of device, several guests"),
    one(15, 0, "text", "A synthetic stream isn't a real transfer"),
    one(16, 1, "its figure", "Throughput as bars, CPU as dots, in eight categories"),
    one(17, 2, "figure 1", "Seventeen tiles of mixed load, as differences to a baseline in nine rows"),
    one(18, 2, "text", "Switching queues on, and checking that they are"),
    one(19, 2, "figure 1", "Sixteen, eight and four queues on one port and on two"),
    one(20, 2, "text", "Storage over Ethernet needs jumbo packets and pauses"),
    one(21, 2, "text", "What SR-IOV is"),
    one(
        22,
        3,
        "method",
        "240 users who fetch 512 kB, after a ramp of 10 s, for 4 min; the best number of users",
    ),
    one(23, 3, "method", "Bits in and out, response times, connections attempted, made and failed"),
    one(24, 3, "method", "The server's memory, CPU, interrupts, packets and bits by port"),
    one(25, 3, "figure 6", "One to eight ports of 1 Gbit/s"),
    one(26, 3, "figures 7 and 8", "Two drivers; one card against two"),
    one(27, 3, "figures 3 to 5", "The test gear, tested first"),
    one(28, 3, "text", "Web server workers, and interrupts on two processors"),
    one(29, 4, "its charts", "1, 4 and 8 endpoint pairs, one queue or several, 4 x 1 Gbit/s against 10"),
    one(30, 4, "comments", "Two to four threads and a window of 512 KB"),
];

const fn one(row: u32, paper: usize, place: &'static str, what: &'static str) -> Experiment {
    Experiment { row, paper, place, what }
}

/// The experiment with this number.
pub fn experiment(row: u32) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.row == row)
}
