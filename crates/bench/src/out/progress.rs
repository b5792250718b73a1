//! Prints the progress of a study.

use std::time::Duration;

use linerate_quantity::plain;

use super::plan::about;
use crate::metric::Metric;
use crate::record::Outcome;
use crate::run::{Event, Phase};

/// Converts events to lines.
#[derive(Debug, Default)]
pub struct Progress {
    begun: String,
    left: Option<Duration>,
}

/// A line to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A line about a step in progress, which the next line replaces.
    Passing(String),
    /// A line that isn't replaced.
    Lasting(String),
}

impl Progress {
    /// The line for an event.
    pub fn line(&mut self, event: &Event) -> Line {
        match event {
            Event::Preparing(name) => Line::Passing(format!("making data set {name} ...")),
            Event::Testing(link) => {
                Line::Passing(format!("testing the capacity of the bed of link {link} ..."))
            }
            Event::Starting { number, of, phase, case, left } => {
                self.left = *left;
                let width = of.to_string().len();
                self.begun = format!("[{number:width$}/{of}] {}  {}", phase_name(*phase), case.id);
                Line::Passing(format!("{} ...{}", self.begun, self.remaining()))
            }
            Event::NotPutBack(reason) => Line::Lasting(format!("warning: {reason}")),
            Event::Ended(_, outcome) => Line::Lasting(format!("{:<44}  {}", self.begun, ending(outcome))),
        }
    }

    fn remaining(&self) -> String {
        self.left.map_or(String::new(), |left| format!("  about {} left", about(left)))
    }
}

fn phase_name(phase: Phase) -> String {
    match phase {
        Phase::WarmUp => "warm-up".into(),
        Phase::Block(block) => format!("block {}", block + 1),
    }
}

fn ending(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Measured(run) => {
            let Some(rate) = Metric::PayloadRate.shown(run, true) else {
                return format!("{} s", plain(run.seconds));
            };
            let disturbed = if run.disturbed.is_some() { "  (disturbed)" } else { "" };
            format!("{:>6} Gbit/s  {:>5} s{disturbed}", plain(rate), plain(run.seconds))
        }
        Outcome::Failed { reason } => format!("FAILED: {reason}"),
        Outcome::Unavailable { reason } => format!("not run: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{measured, record};

    #[test]
    fn a_run_has_a_passing_and_a_lasting_line() {
        let record = record(&["cp-8"], 5, vec![]);
        let case = &record.cases[0];
        let mut progress = Progress::default();
        let left = Some(Duration::from_secs(130));
        let starting = Event::Starting { number: 7, of: 96, phase: Phase::Block(0), case, left };
        assert_eq!(
            progress.line(&starting),
            Line::Passing("[ 7/96] block 1  cp-8 ...  about 2 min left".into())
        );
        let Line::Lasting(text) = progress.line(&Event::Ended(case, &measured(9.0, 1.0))) else { panic!() };
        assert!(text.starts_with("[ 7/96] block 1  cp-8 ") && text.contains("9.00 Gbit/s"), "{text}");
        let failed = Outcome::Failed { reason: "no room".into() };
        let Line::Lasting(text) = progress.line(&Event::Ended(case, &failed)) else { panic!() };
        assert!(text.contains("FAILED: no room"), "{text}");
    }
}
