//! Compares the rate that the doctor predicts from a path's TCP windows with the rate that iperf3 reaches,
//! for several buffer sizes, round-trip times and congestion controls.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::built_release;

/// The script that measures a path with several buffer sizes, with both programs.
const SCRIPT: &str = include_str!("point.sh");
/// The rate of the link: fast enough that the windows limit the transfer, and slow enough that two processors
/// can carry it.
const LINK: &str = "1gbit";
/// Round-trip times in milliseconds: long enough that the delay of a busy machine is small in comparison.
const ROUND_TRIPS: [u64; 3] = [20, 40, 80];
/// The congestion controls that are tested, if the kernel has them.
const CONTROLS: [&str; 3] = ["cubic", "reno", "bbr"];
/// Pairs of receive and send buffers, in units of [`UNIT`] per millisecond of the round-trip time. In each pair, the
/// first buffer limits the rate, or the second, or both equally.
const BUFFERS: [(u64, u64); 4] = [(1, 16), (2, 16), (2, 2), (16, 1)];
/// A buffer of this number of bytes for each millisecond of the round-trip time allows 210 Mbit/s, if the whole buffer
/// is window.
const UNIT: u64 = 26_214;
/// These three bounds are the least number of points, the largest tolerated difference, and the least share of points
/// that must be within this difference.
const LEAST_POINTS: usize = 24;
const DIFFERENCE: f64 = 0.15;
const BOUND: f64 = 0.95;
/// The seconds for which iperf3 sends, and the seconds over which it averages each of its rates.
const SECONDS: (&str, &str) = ("5", "2");
/// The number of results for each point: one of the doctor and two of iperf3, because a single early loss slows down a
/// whole run of iperf3.
const OBJECTS: usize = 3;

/// The options `--program FILE`, `--congestion NAME,NAME` and `--rtt MS,MS`.
#[derive(Default)]
struct GridOptions {
    program: Option<PathBuf>,
    controls: Vec<String>,
    round_trips: Vec<u64>,
}

/// A point of the grid; rates are in bit/s.
struct Point {
    control: String,
    round_trip: u64,
    buffers: (u64, u64),
    predicted: f64,
    measured: f64,
    /// The limiting factor that the doctor named.
    limiter: String,
}

/// Measures the points, and prints them; returns an error if too many predictions are wrong.
///
/// # Errors
/// If no lab can be made, a measurement fails, or the bound doesn't hold.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let options = GridOptions::parse(arguments)?;
    let program = options.program.clone().map_or_else(built_release, Ok)?;
    println!("TCP's buffers in bytes, the round trip, and the rates of one stream in Mbit/s.");
    println!("congestion    rtt    receive       send  predicted  measured  ratio  limiter");
    let mut points = Vec::new();
    for control in &options.controls {
        for round_trip in &options.round_trips {
            let of_path = measure(&program, control, *round_trip)?;
            of_path.iter().for_each(Point::print);
            points.extend(of_path);
        }
    }
    judge(&points)
}

fn judge(points: &[Point]) -> anyhow::Result<()> {
    let right = points.iter().filter(|point| point.is_right()).count();
    let share = right as f64 / points.len().max(1) as f64;
    let percent = |share: f64| (100.0 * share).round();
    let within = percent(DIFFERENCE);
    println!("{right} of {} points are within {within} %: {:.1} %", points.len(), 100.0 * share);
    if points.len() < LEAST_POINTS {
        println!("A whole grid has {LEAST_POINTS} points or more.");
    }
    ensure!(share >= BOUND, "less than {} % of the predictions are within {within} %", percent(BOUND));
    Ok(())
}

/// Measures the points with this round-trip time, in a separate lab.
fn measure(program: &Path, control: &str, round_trip: u64) -> anyhow::Result<Vec<Point>> {
    let buffers = BUFFERS.map(|(receive, send)| (receive * UNIT * round_trip, send * UNIT * round_trip));
    let lines: Vec<String> = buffers.iter().map(|(receive, send)| format!("{receive} {send}")).collect();
    let delay = format!("{round_trip}ms");
    let mut lab = Command::new(program);
    lab.args([
        "lab",
        "run",
        "--link",
        LINK,
        "--rtt",
        &delay,
        "--congestion",
        control,
        "--",
        "sh",
        "-c",
        SCRIPT,
    ]);
    lab.env("PROGRAM", program)
        .env("BUFFERS", lines.join("\n"))
        .env("SECONDS_EACH", SECONDS.0)
        .env("INTERVAL", SECONDS.1);
    let output = lab.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("running the lab")?;
    ensure!(output.status.success(), "measuring {control} over {delay}: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let objects = text.lines().filter(|line| line.starts_with('{')).map(serde_json::from_str);
    let objects: Vec<Value> = objects.collect::<Result<_, _>>().context("reading what was measured")?;
    ensure!(
        objects.len() == OBJECTS * buffers.len(),
        "{control} over {delay}: there are {} measurements",
        objects.len()
    );
    let all = buffers.iter().zip(objects.chunks(OBJECTS));
    all.map(|(buffers, all)| Point::of(control, round_trip, *buffers, all)).collect()
}

impl Point {
    /// Makes a point from `all`, which holds the JSON results of the doctor and of iperf3.
    fn of(control: &str, round_trip: u64, buffers: (u64, u64), all: &[Value]) -> anyhow::Result<Self> {
        let Some((doctor, runs)) = all.split_first() else { bail!("a point has measurements") };
        let predicted =
            predicted(doctor).with_context(|| format!("the doctor predicts nothing: {doctor}"))?;
        let measured = runs.iter().filter_map(reached).max_by(f64::total_cmp);
        let measured = measured.with_context(|| {
            format!("iperf3 measured nothing: {}", runs.first().map_or(&Value::Null, |run| &run["error"]))
        })?;
        let limiter = doctor["measured"]["limiter"].as_str().unwrap_or("-").to_owned();
        Ok(Self { control: control.to_owned(), round_trip, buffers, predicted, measured, limiter })
    }

    fn ratio(&self) -> f64 {
        self.predicted / self.measured.max(1.0)
    }

    fn is_right(&self) -> bool {
        (self.ratio() - 1.0).abs() <= DIFFERENCE
    }

    fn print(&self) {
        let (receive, send) = self.buffers;
        let mark = if self.is_right() { "" } else { "  outside" };
        println!(
            "{:<10} {:>3} ms {receive:>10} {send:>10} {:>10.0} {:>9.0} {:>6.2}  {}{mark}",
            self.control,
            self.round_trip,
            self.predicted * 1e-6,
            self.measured * 1e-6,
            self.ratio(),
            self.limiter
        );
    }
}

/// The predicted limit of one stream, from the doctor's finding about windows.
fn predicted(doctor: &Value) -> Option<f64> {
    let findings = doctor["findings"].as_array()?;
    let windows = findings.iter().find(|finding| finding["check"] == "window-vs-bdp")?;
    Some(windows["ceiling"].as_f64()? / doctor["measured"]["streams"].as_f64()?.max(1.0))
}

/// The mean of iperf3's rates without the first interval, in which the window grows, and without the last,
/// which is short.
fn reached(iperf: &Value) -> Option<f64> {
    let [_, steady @ .., _] = iperf["server_output_json"]["intervals"].as_array()?.as_slice() else {
        return None;
    };
    let rates: Vec<f64> =
        steady.iter().filter_map(|interval| interval["sum"]["bits_per_second"].as_f64()).collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

impl GridOptions {
    fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut options = Self::default();
        for pair in arguments.chunks(2) {
            match pair {
                [option, value] if option == "--program" => {
                    options.program = Some(std::path::absolute(value)?)
                }
                [option, value] if option == "--congestion" => {
                    options.controls = value.split(',').map(str::to_owned).collect();
                }
                [option, value] if option == "--rtt" => {
                    let all = value.split(',').map(str::parse).collect::<Result<_, _>>();
                    options.round_trips = all.with_context(|| format!("'{value}' isn't milliseconds"))?;
                }
                _ => bail!("grid takes --program, --congestion and --rtt, not '{}'", pair.join(" ")),
            }
        }
        if options.round_trips.is_empty() {
            options.round_trips = ROUND_TRIPS.to_vec();
        }
        if options.controls.is_empty() {
            options.controls = available()?;
        }
        Ok(options)
    }
}

/// The congestion controls of the grid that this kernel has.
fn available() -> anyhow::Result<Vec<String>> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let text = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    let has = |name: &&str| text.split_whitespace().any(|word| word == *name);
    Ok(CONTROLS.iter().filter(|name| has(name)).map(|name| (*name).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn point(predicted: f64, measured: f64) -> Point {
        let doctor = json!({
            "measured": {"streams": 4, "limiter": "window"},
            "findings": [{"check": "path-rate", "ceiling": 1.0}, {"check": "window-vs-bdp", "ceiling": 4.0 * predicted}],
        });
        let interval = |rate: f64| json!({"sum": {"bits_per_second": rate}});
        let rest = interval(2.0 * measured);
        let intervals =
            [interval(0.5 * measured), interval(1.25 * measured), interval(0.75 * measured), rest];
        let fast = json!({"server_output_json": {"intervals": intervals}});
        let slow = json!({"server_output_json": {"intervals": [interval(9e9), interval(0.4 * measured), interval(9e9)]}});
        Point::of("cubic", 20, (1, 2), &[doctor, fast, slow]).unwrap()
    }

    #[test]
    fn a_point_is_the_ceiling_of_one_stream_beside_the_faster_run() {
        let point = point(274e6, 272e6);
        assert_eq!((point.predicted, point.measured, point.limiter.as_str()), (274e6, 272e6, "window"));
        assert!(Point::of("cubic", 20, (1, 2), &[json!({}), json!({})]).is_err());
        assert!(Point::of("cubic", 20, (1, 2), &[]).is_err());
    }

    #[test]
    fn one_wrong_prediction_of_twenty_is_allowed() {
        let of = |wrong: usize| -> Vec<Point> {
            (0..40).map(|place| point(if place < wrong { 116e6 } else { 114e6 }, 100e6)).collect()
        };
        assert!(judge(&of(2)).is_ok() && judge(&of(3)).is_err() && judge(&[]).is_err());
    }
}
