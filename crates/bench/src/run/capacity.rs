//! The limits of the test bed, measured before the study: the path alone, and each load generator alone.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use linerate_host::{CpuTimes, Facts};
use linerate_remote::place::Place;

use crate::record::{Capacity, Link, Measures};
use crate::spec::study::{CaseSpec, Streams};
use crate::spec::tool::{Moves, Tool, Toolbox};
use crate::stats::payload_ceiling;

use super::attempt::{Attempt, Failure, Log};
use super::bed::{Bed, End};
use super::setup::Setup;

/// If a run's result reaches this share of a limit of the test bed, the run doesn't measure its tool.
const LEAST_LIMIT_SHARE: f64 = 0.9;

/// The tool that measures a path.
const PAIRS: &str = "linerate-pairs";

/// The name, in the record, of the study's path.
const PATH: &str = "path";

/// The name, in the record, of a path like the study's but without its rate limit, delay and loss.
const UNSHAPED: &str = "path, unshaped";

/// The name, in the record, of a tool that makes requests.
const GENERATOR: &str = "generator";

/// The ramp and the measured time of each measurement of a path, in seconds.
const LENGTH: [(&str, &str); 2] = [("ramp", "0.2"), ("seconds", "1")];

/// The first TCP port of these measurements. The study's own runs use 1,000 ports from 5201.
const PORT: u16 = 6301;

/// Measures the rates of a link's path and of the generators on it, each by itself.
///
/// # Errors
/// If a run fails; the error names the tested part.
pub(crate) fn measure(setup: &Setup, link: &str, bed: &mut dyn Bed) -> Result<Vec<Capacity>, Failure> {
    let unshaped = bed.unshaped().map_err(|e| format!("making an unshaped bed: {e}"))?;
    let path = match unshaped {
        Some(mut other) => path(setup, link, UNSHAPED, other.as_mut()),
        None => path(setup, link, PATH, bed),
    };
    let mut found = vec![path.map_err(|failure| named("the path alone", failure))?];
    for (number, case) in generators(setup, link).into_iter().enumerate() {
        let tool = setup.tools.get(&case.tool).expect("it was found there just now");
        if super::programs::unavailable(tool, bed).is_some() {
            continue;
        }
        let port = PORT + 10 + (number % 500) as u16;
        let measures = attempt(setup, &mut Inside(bed), tool, case, port);
        let measures = measures.map_err(|failure| named(&format!("{} alone", case.tool), failure))?;
        found.push(capacity(link, GENERATOR, Some(&case.tool), measures.one_way_gbit_per_second()));
    }
    Ok(found)
}

/// A message with the part of the test bed of whose limit a run reached at least 90 %; `None` if there is no such part.
///
/// If a path was measured with the link's own rate limit, and reached at least 90 % of the link's ceiling, the path
/// isn't a limit of the bed, because then the study is about the link.
pub(crate) fn limit(
    capacities: &[Capacity],
    case: &CaseSpec,
    measures: &Measures,
    link: &Link,
) -> Option<String> {
    let rate = measures.one_way_gbit_per_second();
    let ceiling = payload_ceiling(link).map(|bits| bits * 1e-9);
    let bounds = |capacity: &&Capacity| {
        let most = capacity.gbit_per_second;
        let applies = match capacity.tool.as_deref() {
            Some(tool) => tool == case.tool,
            None if capacity.part == PATH => ceiling.is_none_or(|ceiling| most < LEAST_LIMIT_SHARE * ceiling),
            None => true,
        };
        capacity.link == case.link && applies && most > 0.0 && rate >= LEAST_LIMIT_SHARE * most
    };
    let found = capacities.iter().find(bounds)?;
    let most = found.gbit_per_second;
    let what = found.tool.as_deref().map_or(found.part.clone(), |tool| format!("{} {tool}", found.part));
    Some(format!("{what}: {most:.2} Gbit/s alone, and {rate:.2} in the run"))
}

/// The rate of one endpoint pair or of eight, whichever is higher. Endpoint pairs are unencrypted streams, which cost
/// less processor time than any other streams.
fn path(setup: &Setup, link: &str, part: &str, bed: &mut dyn Bed) -> Result<Capacity, Failure> {
    let tools = Toolbox::built_in().map_err(|e| e.to_string())?;
    let tool = tools.get(PAIRS).ok_or_else(|| format!("there is no {PAIRS}"))?;
    let on = setup.study.cases.iter().find(|case| case.link == link);
    let on = on.ok_or_else(|| "no case is on this link".to_owned())?;
    let mut run = |streams, port| {
        let case = pairs(on, streams);
        attempt(setup, bed, tool, &case, port).map(|measures| measures.payload_gbit_per_second())
    };
    let best = run(1, PORT)?.max(run(8, PORT + 1)?);
    Ok(capacity(link, part, None, best))
}

/// A case of endpoint pairs on the link of another case.
fn pairs(on: &CaseSpec, streams: u32) -> CaseSpec {
    CaseSpec {
        id: "capacity".into(),
        tool: PAIRS.into(),
        variant: None,
        streams: Streams::Fixed(streams),
        dataset: None,
        bytes: None,
        beside: false,
        parameters: LENGTH.map(|(name, level)| (name.to_owned(), level.to_owned())).into(),
        ..on.clone()
    }
}

/// For each tool that makes requests over the link, the case with the highest load.
fn generators<'s>(setup: &Setup<'s>, link: &str) -> Vec<&'s CaseSpec> {
    let mut found: Vec<&CaseSpec> = Vec::new();
    for case in setup.study.cases.iter().filter(|case| case.link == link) {
        if setup.tools.get(&case.tool).is_none_or(|tool| tool.moves != Moves::Requests) {
            continue;
        }
        match found.iter_mut().find(|other| other.tool == case.tool) {
            Some(other) if load(other) < load(case) => *other = case,
            Some(_) => {}
            None => found.push(case),
        }
    }
    found
}

/// The load that a case requests from its generator: the number of users or tiles, and the number of streams.
fn load(case: &CaseSpec) -> (u64, Option<u32>) {
    let level = |name: &str| case.parameters.get(name)?.parse().ok();
    (level("users").or_else(|| level("tiles")).unwrap_or(0), case.streams.number())
}

fn attempt(
    setup: &Setup,
    bed: &mut dyn Bed,
    tool: &Tool,
    case: &CaseSpec,
    port: u16,
) -> Result<Measures, Failure> {
    let attempt = Attempt {
        bed,
        tool,
        case,
        sources: Vec::new(),
        expected: (0, 0),
        compare: false,
        work: setup.work,
        linerate: setup.linerate,
        port,
        settle: setup.study.settle,
        timeout: setup.study.timeout,
        stop: &setup.stop,
        found: None,
    };
    attempt.run(&mut Log::default())
}

fn capacity(link: &str, part: &str, tool: Option<&str>, gbit_per_second: f64) -> Capacity {
    Capacity { link: link.into(), part: part.into(), tool: tool.map(str::to_owned), gbit_per_second }
}

fn named(what: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Failed(reason) => Failure::Failed(format!("testing {what}: {reason}")),
        other => other,
    }
}

/// A bed within the sending host: both ends are the sending host, and the path is its loopback.
struct Inside<'a>(&'a mut dyn Bed);

impl Bed for Inside<'_> {
    fn command(&self, _end: End, argv: &[OsString]) -> io::Result<Command> {
        self.0.command(End::A, argv)
    }

    fn ssh_config(&self) -> PathBuf {
        self.0.ssh_config()
    }

    fn host(&self) -> String {
        self.0.host()
    }

    fn address(&self) -> String {
        "127.0.0.1".into()
    }

    fn place(&self, _end: End) -> Place {
        self.0.place(End::A)
    }

    fn linerate(&self, _end: End) -> Option<PathBuf> {
        self.0.linerate(End::A)
    }

    fn work(&self) -> Option<PathBuf> {
        self.0.work()
    }

    fn link(&self) -> Link {
        Link { bits_per_second: None, kind: "loopback".into(), ..self.0.link() }
    }

    fn shares_processors(&self) -> bool {
        true
    }

    fn has(&self, end: End, program: &str) -> bool {
        self.0.has(end, program)
    }

    fn facts(&mut self, _end: End) -> io::Result<Facts> {
        self.0.facts(End::A)
    }

    fn cpu(&mut self, _end: End) -> io::Result<CpuTimes> {
        self.0.cpu(End::A)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::study::Study;

    const STUDY: &str = "name = \"s\"\ntitle = \"S\"\n[[link]]\nname = \"x\"\nrate = \"open\"\n\
                         [[case]]\nid = \"c\"\ntool = \"iperf3\"\n";

    fn reported(rate: f64, capacity: &Capacity, link_gbit: Option<f64>) -> Option<String> {
        let link = Link {
            bits_per_second: link_gbit.map(|gbit| (gbit * 1e9) as u64),
            mtu: 1500,
            kind: String::new(),
            frame_overhead_bytes: 38,
            burst_bytes: 0,
        };
        let measures = Measures { bytes: (rate * 1.25e8) as u64, seconds: 1.0, ..Measures::default() };
        let study = Study::parse("s.toml", STUDY, &Toolbox::built_in().unwrap()).unwrap();
        limit(std::slice::from_ref(capacity), &pairs(&study.cases[0], 1), &measures, &link)
    }

    #[test]
    fn a_run_near_the_beds_limit_is_marked_and_one_near_the_links_is_not() {
        let path = |part, most| capacity("x", part, None, most);
        // For a link without a rate limit, the path's measured rate is a limit of the bed.
        assert!(reported(9.5, &path(PATH, 10.0), None).unwrap().contains("10.00 Gbit/s alone"));
        assert_eq!(reported(8.5, &path(PATH, 10.0), None), None);
        // Here the unshaped bed carries first twice the rate of the shaped link, and then hardly more than that rate.
        assert_eq!(reported(9.4, &path(UNSHAPED, 20.0), Some(10.0)), None);
        assert!(
            reported(9.4, &path(UNSHAPED, 10.2), Some(10.0))
                .unwrap()
                .starts_with("path, unshaped: 10.20 Gbit/s alone")
        );
        // A measured path either reaches the ceiling of its link, or is limited by something else.
        assert_eq!(reported(9.4, &path(PATH, 9.41), Some(10.0)), None);
        assert!(reported(6.5, &path(PATH, 7.0), Some(10.0)).is_some());
    }

    #[test]
    fn a_generators_limit_counts_for_its_own_cases() {
        let own = capacity("x", GENERATOR, Some(PAIRS), 5.0);
        assert!(reported(4.9, &own, Some(10.0)).unwrap().starts_with("generator linerate-pairs"));
        assert_eq!(reported(4.9, &capacity("x", GENERATOR, Some("other"), 5.0), None), None);
        assert_eq!(reported(4.9, &Capacity { link: "y".into(), ..own }, None), None);
    }
}
