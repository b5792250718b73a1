//! `linerate load http`: a load of HTTP users.

use clap::Args;
use linerate_load::error::LoadError;
use linerate_load::http::{self, Crowd, Optimum, Url, fewest_best};
use linerate_load::pace::interval;
use linerate_load::report::{LoadReport, per_second};
use linerate_load::window::{StopFlag, Window};
use std::thread::available_parallelism;
use std::time::Duration;

use super::{ReportForm, parse_count, parse_seconds};

/// The default of `--max-users`.
const MOST_USERS: u32 = 4096;
/// The default of `--step`.
const STEP: Duration = Duration::from_secs(2);
/// The largest default number of threads. More threads would only take processors from the server that is measured.
const MOST_THREADS: usize = 4;

/// Arguments of `linerate load http`.
#[derive(Debug, Args)]
pub struct HttpArgs {
    /// An object to fetch; if repeated, the users are spread over all objects
    #[arg(long, value_name = "URL", required = true)]
    url: Vec<String>,
    /// Number of concurrent users, or auto
    ///
    /// auto searches for the smallest number of users whose rate is within 1 % of the best rate.
    #[arg(long, value_name = "N", default_value = "240", value_parser = parse_count)]
    users: std::option::Option<u32>,
    /// With auto: at most N users [default: 4096]
    #[arg(long, value_name = "N")]
    max_users: Option<u32>,
    /// With auto: try each number for SECONDS [default: 2]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    step: Option<Duration>,
    /// Measure for SECONDS
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds)]
    seconds: Duration,
    /// Before the measurement, start the users evenly over SECONDS
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    ramp: Duration,
    /// Let each user pause for TIME after a reply, such as 200ms
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_pause)]
    think: Duration,
    /// Let each user begin at most R requests a second
    #[arg(long, value_name = "R", value_parser = parse_rate)]
    rate_per_user: Option<f64>,
    /// Open a connection for each request
    #[arg(long)]
    new_connections: bool,
    /// Give up a request after SECONDS
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_seconds)]
    timeout: Duration,
    /// Threads that run the users [default: one per processor, at most 4]
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    #[command(flatten)]
    pub(super) form: ReportForm,
}

/// Parses a time with its unit, up to an hour.
fn parse_pause(text: &str) -> Result<Duration, String> {
    let seconds = linerate_quantity::seconds(text)?;
    let fits = Some(seconds).filter(|seconds| (0.0..=3600.0).contains(seconds));
    fits.map(Duration::from_secs_f64).ok_or_else(|| format!("'{text}' is too long; write at most an hour"))
}

/// Parses a rate in requests per second.
fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.001..=1e6).contains(rate));
    rate.ok_or_else(|| format!("'{text}' isn't a rate; write requests a second, 0.001 to 1000000"))
}

impl HttpArgs {
    pub(super) fn run(&self, stop: &StopFlag) -> Result<LoadReport, LoadError> {
        if self.users.is_some() && (self.max_users.is_some() || self.step.is_some()) {
            return Err(LoadError::Arguments("--max-users and --step need --users auto".into()));
        }
        let mut crowd = self.crowd()?;
        let size = crowd.probe(stop)?;
        if size == 0 {
            return Err(LoadError::Arguments(format!(
                "{} is empty; give the URL of an object that isn't empty",
                self.url[0]
            )));
        }
        let found = match self.users {
            Some(_) => None,
            None => Some(self.search(&crowd, stop)?),
        };
        crowd.users = found.as_ref().map_or(crowd.users, |found| found.users);
        let tally = crowd.run(stop)?;
        let mut report = http::report(&crowd, &tally);
        report.found = found.as_ref().map(|found| found.users);
        report.steps = found.map_or_else(Vec::new, |found| found.steps);
        Ok(report)
    }

    fn crowd(&self) -> Result<Crowd, LoadError> {
        let processors = available_parallelism().map_or(1, usize::from).min(MOST_THREADS) as u32;
        Ok(Crowd {
            urls: self.url.iter().map(|url| url.parse()).collect::<Result<Vec<Url>, _>>()?,
            users: self.users.unwrap_or(1),
            window: Window { ramp: self.ramp, measured: self.seconds },
            new_connections: self.new_connections,
            threads: self.threads.unwrap_or(processors),
            timeout: self.timeout,
            pace: self.rate_per_user.map(interval),
            think: self.think,
        })
    }

    fn search(&self, crowd: &Crowd, stop: &StopFlag) -> Result<Optimum, LoadError> {
        // If users pause, their starts are distributed over one pause. Otherwise all of them would send at the same
        // time.
        let step = self.step.unwrap_or(STEP);
        let window = Window { ramp: (step / 4).max(self.think), measured: step };
        fewest_best(self.max_users.unwrap_or(MOST_USERS).min(http::MOST_USERS), |users| {
            let tally = Crowd { users, window, ..crowd.clone() }.run(stop)?;
            let bits = per_second(tally.counts.payload as f64 * 8.0, window.measured.as_secs_f64());
            let mean = tally.latency.mean_seconds() * 1e3;
            message!("  {users:>6} users  {:>10.1} Mbit/s  mean response {mean:.2} ms", bits * 1e-6);
            Ok(bits)
        })
    }
}
