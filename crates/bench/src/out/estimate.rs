//! Estimates how long a study will take, without knowledge of the hosts.

use std::time::Duration;

use crate::spec::study::{CaseSpec, LinkSpec, Sizes, Study};
use crate::spec::tool::{Moves, Tool, Toolbox};

/// Seconds that each run takes in addition to its transfer: for flushing disks, starting a server, logging
/// in, and reading counters.
const RUN_OVERHEAD: f64 = 0.7;
/// Seconds that it takes to create a lab, in addition for virtual machines, and for each of them.
const LAB: f64 = 1.0;
const MACHINES: f64 = 3.0;
const MACHINE: f64 = 2.0;
/// The assumed rates, in bits per second, of virtual machines without KVM: of memory, and of files, which are encrypted.
const MACHINE_MEMORY: f64 = 2e9;
const MACHINE_FILES: f64 = 1e8;
/// The assumed rates, in bytes per second, of generating data, of clearing and counting a destination, and of comparing
/// contents.
const MAKING: f64 = 4e8;
const CLEARING: f64 = 3e9;
const COMPARING: f64 = 1e9;
/// The time of a search, as a multiple of a run's time: ten tries, each of which takes a quarter longer than a run
/// because of its start.
const TRIES: f64 = 12.5;
/// The assumed rate of an unshaped link, in bits per second.
const OPEN: f64 = 2e10;

/// An estimate of the study's total time: labs, data, warm-ups and blocks. The assumption is that each tool is
/// installed, and reaches the rate in its tool file or, without such a rate, the link's rate. For a tool that runs for
/// a fixed time, the estimate uses this time.
pub fn estimate(study: &Study, tools: &Toolbox, blocks: u32) -> Duration {
    let labs: f64 = study.links.iter().map(lab).sum();
    let data: f64 = study.datasets.iter().map(|set| total(&set.sizes) / MAKING).sum();
    let runs: f64 = study
        .cases
        .iter()
        .filter_map(|case| Some((case, tools.get(&case.tool)?)))
        .map(|(case, tool)| {
            let compared = if tool.moves == Moves::Files { amount(study, case) / COMPARING } else { 0.0 };
            run(study, case, tool) * (1.0 + f64::from(blocks)) + compared
        })
        .sum();
    Duration::try_from_secs_f64(labs + data + runs).unwrap_or(Duration::MAX)
}

/// The estimated seconds of one run, including its preparation and checks.
fn run(study: &Study, case: &CaseSpec, tool: &Tool) -> f64 {
    let parameter = |name: &str| {
        let value = case.level(tool, name).and_then(|value| value.parse::<f64>().ok());
        value.filter(|seconds| seconds.is_finite())
    };
    let bytes = amount(study, case);
    let own = match (parameter("seconds"), tool.moves) {
        (Some(seconds), _) => {
            let window = seconds + parameter("ramp").unwrap_or(0.0);
            let step = parameter("step").unwrap_or(window);
            window + case.search(tool).map_or(0.0, |_| step * TRIES)
        }
        (None, Moves::Files | Moves::Memory) => bytes * 8.0 / pace(study.link(&case.link), tool),
        (None, Moves::Requests | Moves::Nothing) => 0.0,
    };
    let clearing = if tool.moves == Moves::Files { bytes / CLEARING } else { 0.0 };
    study.settle + RUN_OVERHEAD + clearing + own.max(0.0)
}

/// The estimated seconds of creating the lab of a link.
fn lab(link: &LinkSpec) -> f64 {
    let machines = || MACHINES + f64::from(link.guests) * MACHINE;
    LAB + link.machine.as_ref().map_or(0.0, |_| machines())
}

fn pace(link: Option<&LinkSpec>, tool: &Tool) -> f64 {
    let rate = link.and_then(|link| Some(link.rate? as f64 * f64::from(link.count))).unwrap_or(OPEN);
    let most = match (link.and_then(|link| link.machine.as_ref()), tool.moves) {
        (None, _) => rate,
        (Some(_), Moves::Files) => rate.min(MACHINE_FILES),
        (Some(_), _) => rate.min(MACHINE_MEMORY),
    };
    tool.pace.map_or(most, |pace| most.min(pace as f64)).max(1.0)
}

/// The number of bytes that a run of the case moves.
fn amount(study: &Study, case: &CaseSpec) -> f64 {
    let named = |name: &str| study.datasets.iter().find(|set| set.name == name);
    let set = case.dataset.as_deref().map_or(study.datasets.first(), named);
    match case.bytes {
        Some(bytes) => bytes as f64,
        None => set.map_or(1e9, |set| total(&set.sizes)),
    }
}

fn total(sizes: &Sizes) -> f64 {
    match sizes {
        Sizes::LogNormal { total, .. } => *total as f64,
        Sizes::Fixed { files, size } => *files as f64 * *size as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(case: &str) -> Study {
        let text = format!(
            "name = \"x\"\ntitle = \"X\"\nsettle = \"0.3 s\"\n[[link]]\nname = \"l\"\nrate = \"1gbit\"\ncount = 2\n\
             [[dataset]]\nname = \"d\"\nkind = \"fixed\"\nfiles = 4\neach = \"250 MB\"\n[[case]]\nid = \"c\"\n{case}\n"
        );
        Study::parse("x", &text, &Toolbox::built_in().unwrap()).unwrap()
    }

    fn seconds(case: &str, blocks: u32) -> f64 {
        estimate(&study(case), &Toolbox::built_in().unwrap(), blocks).as_secs_f64()
    }

    #[test]
    fn a_window_takes_as_long_as_was_requested() {
        let case = "tool = \"linerate-http\"\n[case.with]\nseconds = 240\nramp = 10";
        assert!((seconds(case, 5) - seconds(case, 4) - 251.0).abs() < 0.01);
    }

    #[test]
    fn virtual_machines_take_longer_to_make_and_to_fill() {
        let text = |guest: &str| {
            format!(
                "name = \"x\"\ntitle = \"X\"\n[[link]]\nname = \"l\"\nrate = \"open\"\nguests = 8\n{guest}\n[[dataset]]\n\
                 name = \"d\"\nkind = \"fixed\"\nfiles = 4\neach = \"5 MB\"\n[[case]]\nid = \"c\"\ntool = \"linerate-cp\"\n"
            )
        };
        let tools = Toolbox::built_in().unwrap();
        let seconds = |guest: &str| {
            estimate(&Study::parse("x", &text(guest), &tools).unwrap(), &tools, 1).as_secs_f64()
        };
        let (namespaces, machines) = (seconds(""), seconds("guest = { kind = \"qemu\" }"));
        // 19 s for the machines, and twice 1.6 s for 20 MB.
        assert!((machines - namespaces - 22.2).abs() < 0.1, "{machines} {namespaces}");
    }

    #[test]
    fn a_search_takes_its_tries() {
        let case = |users: &str| {
            let with = format!("tool = \"linerate-http\"\n[case.with]\nusers = {users}\nstep = 2");
            seconds(&with, 1)
        };
        assert!((case("\"auto\"") - case("240") - 50.0).abs() < 0.01, "a warm-up and a run");
    }

    #[test]
    fn bytes_take_what_link_and_tool_allow() {
        // 1 GB over two links of 1 Gbit/s takes 4 s, and clearing the destination takes a third of a second.
        let copy = "tool = \"linerate-cp\"";
        assert!((seconds(copy, 2) - seconds(copy, 1) - 5.333).abs() < 0.01);
        let first = seconds(copy, 1) - 2.0 * (seconds(copy, 2) - seconds(copy, 1));
        assert!(first > 1.0, "the contents of the warm-up are compared, too: {first}");
        assert!(seconds("tool = \"ssh-true\"", 1000) < 1100.0);
    }
}
