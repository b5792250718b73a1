//! Decides whether a sender searches for an older version's blocks at every offset, or only at their old offsets. The
//! decision depends on the cost of both: if sending new bytes takes less time than searching them at every offset, they
//! are sent without this search. This module has no clock of its own, so it can be tested in simulated time.

use linerate_wire::control::BlockSearch;
use std::time::Duration;

/// The number of new bytes between two decisions. It exceeds what the kernel can buffer on any path.
const WINDOW: u64 = 16 << 20;
/// The decision changes only if the other way is faster by this factor.
const CLEARLY: f64 = 2.0;

/// How long a stream's worker takes for searching and for sending, and the decision that follows from these
/// times.
#[derive(Debug)]
pub struct Thoroughness {
    mode: BlockSearch,
    everywhere: bool,
    /// The seconds that searching one byte at every offset has taken in the last windows.
    searching: Option<f64>,
    searched: Spell,
    sent: Spell,
}

/// A number of bytes, and the time that they took.
#[derive(Clone, Copy, Debug, Default)]
struct Spell {
    bytes: u64,
    time: Duration,
}

impl Spell {
    fn add(&mut self, bytes: u64, time: Duration) {
        self.bytes += bytes;
        self.time += time;
    }

    fn each(self) -> Option<f64> {
        (self.bytes > 0).then(|| self.time.as_secs_f64() / self.bytes as f64)
    }
}

impl Thoroughness {
    /// The initial decision for the user's option `mode`. If the decision depends on measurements, blocks are
    /// searched at every offset at first.
    pub fn new(mode: BlockSearch) -> Self {
        let everywhere = mode != BlockSearch::SamePlaces;
        Self { mode, everywhere, searching: None, searched: Spell::default(), sent: Spell::default() }
    }

    /// Whether blocks are searched at every offset.
    pub fn is_everywhere(&self) -> bool {
        self.everywhere
    }

    /// Records that searching `bytes` bytes took `time`, and found that they are new.
    pub fn searched(&mut self, bytes: u64, time: Duration) {
        if self.everywhere {
            self.searched.add(bytes, time);
        }
    }

    /// Records that sending `bytes` new bytes took `time`.
    pub fn sent(&mut self, bytes: u64, time: Duration) {
        self.sent.add(bytes, time);
        if self.sent.bytes >= WINDOW {
            self.decide();
        }
    }

    fn decide(&mut self) {
        let (searched, sent) = (std::mem::take(&mut self.searched), std::mem::take(&mut self.sent));
        self.searching = searched.each().or(self.searching);
        let (Some(searching), Some(sending)) = (self.searching, sent.each()) else { return };
        if self.mode != BlockSearch::Measured {
            return;
        }
        match self.everywhere {
            true if searching > CLEARLY * sending => self.everywhere = false,
            false if sending > CLEARLY * searching => self.everywhere = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: u64 = 64 << 10;

    /// Simulates sending `bytes` bytes over a path of `path` bytes per second, with a search of `search`
    /// bytes per second. Returns the number of bytes that were searched at every offset.
    fn simulate(thorough: &mut Thoroughness, bytes: u64, path: f64, search: f64) -> u64 {
        let (mut everywhere, mut sent) = (0, 0);
        while sent < bytes {
            let looking = Duration::from_secs_f64(PIECE as f64 / search);
            // The path also sends data during the search.
            let rest = (PIECE as f64 / path
                - if thorough.is_everywhere() { looking.as_secs_f64() } else { 0.0 })
            .max(0.0);
            if thorough.is_everywhere() {
                everywhere += PIECE;
                thorough.searched(PIECE, looking);
            }
            thorough.sent(PIECE, Duration::from_secs_f64(rest.max(PIECE as f64 / 3e9)));
            sent += PIECE;
        }
        everywhere
    }

    #[test]
    fn a_slow_path_is_searched_for_and_a_fast_one_is_not() {
        let mut slow = Thoroughness::new(BlockSearch::Measured);
        assert_eq!(simulate(&mut slow, 1 << 30, 12.5e6, 400e6), 1 << 30, "100 Mbit/s");
        let mut fast = Thoroughness::new(BlockSearch::Measured);
        assert!(simulate(&mut fast, 1 << 30, 1.25e9, 400e6) <= WINDOW, "10 Gbit/s");
    }

    #[test]
    fn a_path_that_changes_is_noticed_and_one_about_as_fast_changes_nothing() {
        let mut thorough = Thoroughness::new(BlockSearch::Measured);
        simulate(&mut thorough, 64 << 20, 1.25e9, 400e6);
        assert!(!thorough.is_everywhere());
        simulate(&mut thorough, 64 << 20, 300e6, 400e6);
        assert!(!thorough.is_everywhere(), "not clearly slower");
        simulate(&mut thorough, 64 << 20, 12.5e6, 400e6);
        assert!(thorough.is_everywhere());
        simulate(&mut thorough, 64 << 20, 250e6, 400e6);
        assert!(thorough.is_everywhere());
    }

    #[test]
    fn what_the_user_says_stays() {
        let mut always = Thoroughness::new(BlockSearch::Everywhere);
        assert_eq!(simulate(&mut always, 64 << 20, 1.25e10, 100e6), 64 << 20);
        let mut never = Thoroughness::new(BlockSearch::SamePlaces);
        assert_eq!(simulate(&mut never, 64 << 20, 1e6, 400e6), 0);
    }
}
