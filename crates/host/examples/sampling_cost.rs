//! Measures the cost of sampling: takes samples for some seconds, and prints the processor time that this
//! took.
//!
//! `cargo run --release -p linerate-host --example sampling_cost -- 20`

use std::time::Duration;

use linerate_host::sample::{DEFAULT_INTERVAL, Recorder, Recording, SamplerOptions};
use linerate_sys::usage::{UsageOf, usage};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds: u64 = std::env::args().nth(1).map_or(Ok(20), |text| text.parse())?;
    let options = SamplerOptions { processes: vec![1], ..SamplerOptions::default() };
    let recorder = Recorder::start(&options)?;
    let before = usage(UsageOf::Process).cpu_seconds;
    std::thread::sleep(Duration::from_secs(seconds));
    let bytes = recorder.stop();
    let used = usage(UsageOf::Process).cpu_seconds - before;
    let recording = Recording::parse(&bytes)?;
    println!(
        "{} samples, one every {DEFAULT_INTERVAL:?}: {:.1} kB each, {:.2} % of one processor",
        recording.samples.len(),
        bytes.len() as f64 / recording.samples.len() as f64 / 1000.0,
        100.0 * used / recording.seconds(),
    );
    for (kind, reason) in recording.missing {
        println!("without {kind}: {reason}");
    }
    Ok(())
}
