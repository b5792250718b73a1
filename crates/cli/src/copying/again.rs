//! Repeats a command after the far end was lost.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::copy::Copy;
use crate::common::failure::Failure;
use crate::exit::Code;
use linerate_transfer::problem::Observer;
use linerate_transfer::session::Meters;

/// The pause before the first repetition. Each further pause is twice as long as the one before, up to
/// `LONGEST_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl Copy {
    /// Runs the command. If the far end is lost, repeats it as often as the user allows.
    ///
    /// # Errors
    /// The failure of the last try.
    pub fn run(mut self) -> Result<Code, Failure> {
        self.run_as(&mut Self::once)
    }

    /// Runs the command as [`Copy::run`] does. `once` is called for each try.
    ///
    /// # Errors
    /// The failure of the last try.
    pub fn run_as(&mut self, once: &mut dyn FnMut(&Self) -> Result<Code, Failure>) -> Result<Code, Failure> {
        let (mut pause, mut retries) = (FIRST_PAUSE, self.task.retries);
        loop {
            let failure = match once(self) {
                Err(failure) if retries > 0 && self.can_try_again(&failure) => failure,
                other => {
                    self.output.metrics().problems(&self.meters);
                    return other;
                }
            };
            let Failure(message, _) = failure;
            retries -= 1;
            self.output.note(&format!("{message}; trying again in {} s", pause.as_secs()));
            self.wait(pause)?;
            pause = (pause * 2).min(LONGEST_PAUSE);
            self.meters = Meters::default();
        }
    }

    /// True if a repetition may succeed. If not even the first login has succeeded, the next one would fail too.
    fn can_try_again(&self, failure: &Failure) -> bool {
        may_pass(failure.1) && self.was_connected.load(Ordering::Relaxed)
    }

    fn wait(&self, pause: Duration) -> Result<(), Failure> {
        let begun = Instant::now();
        while begun.elapsed() < pause {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(Failure("interrupted".into(), Code::Interrupted));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// True if the reason of a failure may disappear within seconds: the far end was lost, or the far end of an
/// earlier try still holds the destination because it hasn't noticed the loss yet.
fn may_pass(code: Code) -> bool {
    matches!(code, Code::FarEnd | Code::Shell(_) | Code::Busy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_transfer::problem::TransferError;
    use linerate_wire::control::AbortKind;

    #[test]
    fn another_try_is_made_where_it_may_help() {
        let code = |kind| Code::from(&TransferError::from_abort("because".into(), kind));
        assert!(may_pass(code(AbortKind::Lost)) && may_pass(code(AbortKind::Busy)));
        let lasting = [AbortKind::Failed, AbortKind::Arguments, AbortKind::Interrupted];
        assert!(lasting.iter().all(|kind| !may_pass(code(*kind))));
        assert_eq!(code(AbortKind::Busy).number(), 1);
    }
}
