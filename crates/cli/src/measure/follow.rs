//! The live view of a measurement (`--follow`). On a terminal it is a table with a line for each host, which is redrawn
//! in each interval; elsewhere it is a new line for each host and interval.

use linerate_host::sample::{Cost, Recording};
use std::io::{IsTerminal, stderr};
use std::time::Instant;

use super::host::Host;
use super::table::percent_of_steal;
use crate::print::instead;

/// The columns for a host's name. Lines have fewer than 80 columns, because the table can't be redrawn over lines that
/// the terminal wraps.
const HOST: usize = 12;

/// The live view of a measurement.
pub struct Follow {
    begun: Instant,
    redraws: bool,
    lines: usize,
}

impl Follow {
    pub fn new() -> Self {
        Self { begun: Instant::now(), redraws: stderr().is_terminal(), lines: 0 }
    }

    /// Shows the last interval of each host.
    pub fn show(&mut self, hosts: &mut [Host]) {
        let seconds = self.begun.elapsed().as_secs_f64();
        let rows: Vec<String> = hosts.iter_mut().map(|host| row(seconds, host)).collect();
        if self.redraws && self.lines > 0 {
            instead(self.lines, &table(&rows));
        } else if self.lines == 0 {
            message!("{}", table(&rows));
        } else {
            message!("{}", rows.join("\n"));
        }
        self.lines = rows.len() + 1;
    }
}

fn table(rows: &[String]) -> String {
    let head = format!(
        "{:>8}  {:<HOST$} {:>6} {:>6} {:>11} {:>11} {:>9} {:>8}",
        "seconds", "host", "busy %", "steal", "in Gbit/s", "out Gbit/s", "retrans", "drops"
    );
    [&[head][..], rows].concat().join("\n")
}

fn row(seconds: f64, host: &mut Host) -> String {
    let name: String = host.name().chars().take(HOST).collect();
    let cost = Cost::of(&last_interval(host.look()));
    let rate = |bytes: u64| if cost.seconds > 0.0 { bytes as f64 * 8e-9 / cost.seconds } else { 0.0 };
    let ports = || cost.ports.iter().filter(|port| port.name != "lo");
    let received = ports().map(|port| port.received.bytes).sum();
    let sent = ports().map(|port| port.sent.bytes).sum();
    let dropped: u64 = ports().map(|port| port.received.drops + port.sent.drops).sum();
    let shown = |percent: Option<f64>| percent.map_or("-".to_owned(), |percent| format!("{percent:.1}"));
    format!(
        "{seconds:>8.1}  {name:<HOST$} {:>6} {:>6} {:>11.3} {:>11.3} {:>9} {:>8}",
        shown(cost.busy_percent()),
        shown(percent_of_steal(&cost)),
        rate(received),
        rate(sent),
        cost.tcp.retransmits,
        dropped + cost.softnet.dropped,
    )
}

/// A recording of only the last two samples.
fn last_interval(recording: &Recording) -> Recording {
    let from = recording.samples.len().saturating_sub(2);
    let samples = recording.samples[from..].to_vec();
    Recording { about: recording.about.clone(), samples, missing: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn no_line_is_broken_by_a_terminal_of_80_columns() {
        let Ok(mut host) = Host::here(Duration::from_millis(20), &[]) else {
            panic!("this host can be sampled")
        };
        std::thread::sleep(Duration::from_millis(60));
        let shown = table(&[row(12345.6, &mut host)]);
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 79), "{shown}");
    }
}
