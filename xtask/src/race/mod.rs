//! The race compares the times of linerate and of other programs for the same task. The runs are in shuffled blocks, so
//! that disturbances of the machine affect all programs alike. Ratios are computed within each block.

mod bed;
mod cases;
mod fan;
mod fleet;
mod quota;
mod switched;

use anyhow::{Context, bail, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use self::bed::{RaceBed, RaceTime};
use self::cases::{CASES, FIXED, RaceBound, RaceCase, RaceFigure, Racer};
use crate::built_release;

/// The name of the racer with which each of the others is compared.
const OURS: &str = "linerate";

/// A run is repeated, at most this number of times, if the hypervisor gave more than the share `STOLEN` of the machine's
/// processor time to others.
const REPEATS: usize = 2;
const STOLEN: f64 = 0.03;

/// The arguments of the command.
struct RaceOptions {
    blocks: usize,
    program: Option<PathBuf>,
    cases: Vec<&'static RaceCase>,
    /// Whether the race with several receiving hosts is run.
    fan_out: bool,
    /// Whether the race of a fleet with one pair of hosts is run.
    fleet: bool,
    /// The rate of the links in these two races.
    rate: Option<String>,
}

impl RaceOptions {
    fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut options =
            Self { blocks: 7, program: None, cases: Vec::new(), fan_out: false, fleet: false, rate: None };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--blocks" => options.blocks = value()?.parse::<usize>().context("--blocks")?.max(1),
                "--program" => options.program = Some(Path::new(value()?).canonicalize()?),
                "--rate" => options.rate = Some(value()?.clone()),
                fan::NAME => options.fan_out = true,
                fleet::NAME => options.fleet = true,
                name => options.cases.push(case(name)?),
            }
        }
        if options.cases.is_empty() && !options.fan_out && !options.fleet {
            options.cases = CASES.iter().collect();
            (options.fan_out, options.fleet) = (true, true);
        }
        Ok(options)
    }
}

fn case(name: &str) -> anyhow::Result<&'static RaceCase> {
    let names = || CASES.iter().map(|case| case.name).collect::<Vec<_>>().join(", ");
    let found = CASES.iter().find(|case| case.name == name);
    found.with_context(|| {
        format!(
            "{name} is no option and no case: --blocks N, --program FILE, {}, {} and {} (with --rate)",
            names(),
            fan::NAME,
            fleet::NAME
        )
    })
}

/// Runs the cases one after the other, as root.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let options = RaceOptions::parse(arguments)?;
    let program = options.program.clone().map_or_else(built_release, Ok)?;
    let mut missed = 0;
    for case in &options.cases {
        println!("{}: {}", case.name, case.about);
        let bed = RaceBed::up(case, &program)?;
        let times = blocks(case, &bed, options.blocks)?;
        bed.down()?;
        print_figures(case, &times);
        missed += case.bounds.iter().filter(|bound| !holds(case, bound, &times)).count();
    }
    let rate = |usual| options.rate.as_deref().unwrap_or(usual);
    if options.fan_out {
        fan::run(&program, options.blocks, rate(fan::RATE))?;
    }
    if options.fleet {
        fleet::run(&program, options.blocks, rate(fleet::RATE))?;
    }
    ensure!(missed == 0, "{missed} bounds are missed");
    Ok(())
}

/// Prints a bound with the measured ratio, and returns whether the median is within it. A bound on a racer that isn't
/// installed is left out.
fn holds(case: &RaceCase, bound: &RaceBound, times: &RaceTimes) -> bool {
    let RaceBound { figure, other, at_most } = *bound;
    let value = |time: &RaceTime| match figure {
        RaceFigure::Whole => Some(time.seconds),
        RaceFigure::Own => time.own_seconds,
        RaceFigure::Processors => Some(time.cpu_seconds),
        RaceFigure::Bytes => Some(time.bytes as f64),
    };
    let all = |name: &str| times.get(name)?.iter().map(value).collect::<Option<Vec<f64>>>();
    let fixed = case.racers.iter().map(|racer| racer.name).filter(|name| name.starts_with("--streams"));
    let median = |values: &Vec<f64>| Spread::of(values.iter().copied()).median;
    let theirs = match other {
        FIXED => fixed.filter_map(all).min_by(|one, two| median(one).total_cmp(&median(two))),
        other => all(other),
    };
    let Some((ours, theirs)) = all(OURS).zip(theirs) else { return true };
    let ratio = Spread::of(ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs));
    let is_held = ratio.median <= at_most;
    let verdict = if is_held { "holds" } else { "MISSED" };
    println!("  bound: {OURS} / {other}, {figure:?}: {ratio:.3} <= {at_most:.3}: {verdict}");
    is_held
}

/// The times of each racer, in the order of the blocks.
type RaceTimes = BTreeMap<&'static str, Vec<RaceTime>>;

fn blocks(case: &RaceCase, bed: &RaceBed, blocks: usize) -> anyhow::Result<RaceTimes> {
    let (mut order, missing): (Vec<_>, Vec<_>) = case.racers.iter().partition(|racer| racer.is_here());
    missing.iter().for_each(|racer| println!("  {:16} isn't installed", racer.name));
    // One run of each program before the first block does the work that is only needed once: it copies the program to
    // the far end, and warms the caches.
    for racer in &order {
        bed.race(racer)?;
        bed.check(racer)?;
    }
    let mut times = RaceTimes::new();
    for _ in 0..blocks {
        fastrand::shuffle(&mut order);
        for racer in &order {
            times.entry(racer.name).or_default().push(quiet(bed, racer)?);
        }
    }
    if times.values().any(Vec::is_empty) {
        bail!("nothing was measured");
    }
    Ok(times)
}

/// A run of the racer, which is repeated if it was disturbed.
fn quiet(bed: &RaceBed, racer: &Racer) -> anyhow::Result<RaceTime> {
    let mut time = bed.race(racer)?;
    for _ in 0..REPEATS {
        if time.stolen <= STOLEN {
            break;
        }
        time = bed.race(racer)?;
    }
    Ok(time)
}

fn print_figures(case: &RaceCase, times: &RaceTimes) {
    let raced = || case.racers.iter().filter(|racer| times.contains_key(racer.name));
    for racer in raced() {
        let taken = &times[racer.name];
        let of = |value: fn(&RaceTime) -> f64| Spread::of(taken.iter().map(value));
        print!("  {:16} {:.3} s", racer.name, of(|time| time.seconds));
        if let Some(own) = own(taken) {
            print!(", {own:.3} s by its own clock");
        }
        print!(", {:.2} CPU-s", of(|time| time.cpu_seconds));
        let memory = taken.iter().map(|time| time.memory).max().unwrap_or(0) as f64 / 1e6;
        let bytes = of(|time| time.bytes as f64 / 1e6);
        match bytes.greatest > 0.0 {
            true => println!(
                ", {:.2} MB on the link, the first after {:.1} s, memory at most {memory:.0} MB",
                bytes.median,
                of(|time| time.first_seconds).median
            ),
            false => println!(),
        }
    }
    let ours = &times[OURS];
    for racer in raced().filter(|racer| racer.name != OURS) {
        let theirs = &times[racer.name];
        let ratio = |of: fn(&RaceTime) -> f64| {
            Spread::of(ours.iter().zip(theirs).map(|(ours, theirs)| of(ours) / of(theirs)))
        };
        print!("  {OURS} / {}: time {:.2}", racer.name, ratio(|time| time.seconds));
        if own(ours).is_some() && own(theirs).is_some() {
            print!(", by their own clocks {:.2}", ratio(|time| time.own_seconds.unwrap_or(time.seconds)));
        }
        print!(", CPU {:.2}", ratio(|time| time.cpu_seconds));
        match theirs.iter().all(|time| time.bytes > 0) {
            true => println!(", bytes {:.3}", ratio(|time| time.bytes as f64)),
            false => println!(),
        }
    }
}

/// The times by the program's own measurement, if it printed a time in each run.
fn own(taken: &[RaceTime]) -> Option<Spread> {
    let own: Option<Vec<f64>> = taken.iter().map(|time| time.own_seconds).collect();
    own.map(|own| Spread::of(own.into_iter()))
}

/// The median of several values, and the least and the greatest.
struct Spread {
    least: f64,
    median: f64,
    greatest: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<_> = values.collect();
        values.sort_by(f64::total_cmp);
        let (half, even) = (values.len() / 2, values.len().is_multiple_of(2));
        let median = if even { (values[half - 1] + values[half]) / 2.0 } else { values[half] };
        Self { least: values[0], median, greatest: values[values.len() - 1] }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = formatter.precision().unwrap_or(2);
        let Self { least, median, greatest } = self;
        write!(formatter, "{median:.digits$} ({least:.digits$} to {greatest:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_its_median_in_the_middle() {
        assert_eq!(format!("{:.1}", Spread::of([3.0, 1.0, 2.0].into_iter())), "2.0 (1.0 to 3.0)");
        assert_eq!(format!("{:.1}", Spread::of([4.0, 1.0, 2.0, 3.0].into_iter())), "2.5 (1.0 to 4.0)");
    }

    #[test]
    fn every_case_has_ours_and_another() {
        for case in &CASES {
            assert!(
                case.racers.len() > 1 && case.racers.iter().any(|racer| racer.name == OURS),
                "{}",
                case.name
            );
        }
    }

    #[test]
    fn a_name_that_is_none_is_answered_by_those_that_are() {
        let error = RaceOptions::parse(&["--block".into()]).err().unwrap().to_string();
        assert!(error.contains("--blocks N") && error.contains("inserted"), "{error}");
    }
}
