//! Displays the progress of all copies together, on a terminal.

use linerate_transfer::lock::lock;
use linerate_transfer::session::Meters;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::FanTarget;
use crate::common::output::Output;
use crate::copying::showing::Showing;
use crate::units::{show_bytes, show_rate};

/// The progress of one copy.
struct FanShare {
    name: String,
    done: u64,
    found: u64,
}

/// On a terminal, displays the total progress of the copies, and the copy that has progressed least, until
/// the result is dropped.
pub fn show(output: &Arc<Output>, targets: &[FanTarget], begun: Instant) -> Option<Showing> {
    if output.bar().is_hidden() {
        return None;
    }
    let output = output.clone();
    let watched: Vec<(String, Arc<Mutex<Meters>>)> =
        targets.iter().map(|target| (target.written.clone(), target.meters.clone())).collect();
    Some(Showing::draw(move || draw(&output, &watched, begun)))
}

fn draw(output: &Output, watched: &[(String, Arc<Mutex<Meters>>)], begun: Instant) {
    let shares: Vec<FanShare> = watched.iter().map(|(name, meters)| share(name, &lock(meters))).collect();
    let sum = |of: fn(&FanShare) -> u64| shares.iter().map(of).fold(0, u64::saturating_add);
    let (done, found) = (sum(|share| share.done), sum(|share| share.found));
    let bar = output.bar();
    bar.set_length(found.max(1));
    bar.set_position(done);
    let least = shares.iter().filter(|share| share.done < share.found).min_by_key(|share| share.done);
    let least = least.map_or_else(String::new, |share| {
        format!(", slowest {}: {} of {}", share.name, show_bytes(share.done), show_bytes(share.found))
    });
    let rate = show_rate(done, begun.elapsed().as_secs_f64());
    bar.set_message(format!(
        "{} of {} for {} destinations, {rate} in all{least}",
        show_bytes(done),
        show_bytes(found),
        shares.len(),
    ));
}

fn share(name: &str, meters: &Meters) -> FanShare {
    let found = meters.local.found.get().bytes;
    let came = lock(&meters.remote).stages.bytes.saturating_add(meters.local.unchanged.get().bytes);
    FanShare { name: name.to_owned(), done: came.min(found), found }
}
