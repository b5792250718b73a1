//! Records which ranges of a large file have arrived.

/// The most separate ranges, with gaps between them, that are recorded. Parts arrive approximately in order,
/// so honest ends leave only a few gaps for each stream. The limit bounds the memory that a far end can make
/// this end use.
const MOST_RANGES: usize = 4096;

/// The parts of a file that have arrived, and the total number of parts.
#[derive(Debug, Default)]
pub struct Parts {
    covered: Covered,
    came: u32,
    count: u32,
}

/// Disjoint ranges (start and end), in order; adjacent ranges are merged.
#[derive(Debug, Default)]
pub struct Covered(Vec<(u64, u64)>);

impl Parts {
    /// A state in which none of `count` parts has arrived.
    pub fn new(count: u32) -> Self {
        Self { count, ..Self::default() }
    }

    /// Records that a frame states a total of `count` parts. If a part was split meanwhile, this number is
    /// higher than that of earlier frames.
    pub fn expect(&mut self, count: u32) {
        self.count = self.count.max(count);
    }

    /// Adds a part; `Some(true)` if it was the last one, `None` if some of it had arrived before, or there are too many
    /// gaps.
    pub fn add(&mut self, offset: u64, length: u64) -> Option<bool> {
        self.came += 1;
        self.covered.add(offset, length).then_some(self.came == self.count)
    }

    /// Adds the beginning of a part whose rest won't arrive. The range counts as arrived, but the number of arrived
    /// parts doesn't change.
    pub fn add_beginning(&mut self, offset: u64, length: u64) {
        self.covered.add(offset, length);
    }

    /// The end of the arrived range that contains the offset `start`; `start` itself if that byte hasn't
    /// arrived.
    pub fn end_of(&self, start: u64) -> u64 {
        let range = self.covered.0.iter().find(|(from, to)| *from <= start && start < *to);
        range.map_or(start, |(_, end)| *end)
    }

    /// True if the parts cover every byte of a file of `size` bytes. `size` must not be 0.
    pub fn are_all_of(&self, size: u64) -> bool {
        self.covered.is_all_of(size)
    }
}

impl Covered {
    /// Adds `length` bytes from `offset` on; false if some of them had arrived before, or there are too many gaps.
    pub fn add(&mut self, offset: u64, length: u64) -> bool {
        let Some(end) = offset.checked_add(length).filter(|_| length > 0) else { return false };
        let at = self.0.partition_point(|(start, _)| *start < offset);
        let before = at.checked_sub(1).and_then(|before| self.0.get(before)).map(|(_, end)| *end);
        let after = self.0.get(at).map(|(start, _)| *start);
        if before.is_some_and(|before| before > offset) || after.is_some_and(|after| after < end) {
            return false;
        }
        match (before == Some(offset), after == Some(end)) {
            (true, true) => {
                let (_, end) = self.0.remove(at);
                self.0[at - 1].1 = end;
            }
            (true, false) => self.0[at - 1].1 = end,
            (false, true) => self.0[at].0 = offset,
            (false, false) => self.0.insert(at, (offset, end)),
        }
        self.0.len() <= MOST_RANGES
    }

    /// True if the ranges cover every byte of a file of `size` bytes. `size` must not be 0.
    pub fn is_all_of(&self, size: u64) -> bool {
        self.0 == [(0, size)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_twice_is_refused_and_so_are_gaps_without_end() {
        let mut covered = Covered::default();
        assert!(covered.add(10, 10) && covered.add(0, 10) && covered.is_all_of(20));
        for (offset, length) in [(0, 1), (19, 2), (5, 30), (0, 20), (30, 0), (u64::MAX, 2)] {
            assert!(!covered.add(offset, length), "{offset} {length}");
        }
        let mut covered = Covered::default();
        let added = (0..).take_while(|number| covered.add(number * 2, 1)).count();
        assert_eq!(added, MOST_RANGES);
    }

    #[test]
    fn a_part_that_is_split_makes_the_file_wait_for_its_rest() {
        // In the real transfer, the rest of a split part may arrive before the frame that announces the
        // split.
        for early in [true, false] {
            let mut parts = Parts::new(2);
            assert_eq!(parts.add(0, 8), Some(false));
            parts.expect(3);
            let (first, second) = if early { ((12, 4), (8, 4)) } else { ((8, 4), (12, 4)) };
            parts.expect(2);
            assert_eq!(parts.add(first.0, first.1), Some(false));
            assert!(!parts.are_all_of(16));
            assert_eq!(parts.add(second.0, second.1), Some(true));
            assert!(parts.are_all_of(16));
        }
    }

    #[test]
    fn a_part_that_is_cut_off_is_none_that_came() {
        let mut parts = Parts::new(3);
        assert_eq!(parts.add(0, 8), Some(false));
        parts.add_beginning(8, 2);
        assert_eq!(parts.add(16, 8), Some(false));
        assert_eq!(parts.end_of(0), 10);
    }

    #[test]
    fn parts_in_any_order_are_the_whole() {
        for step in [1, 7, 11, 59] {
            let mut covered = Covered::default();
            for number in 0..60 {
                assert!(!covered.is_all_of(600), "{number} of them");
                assert!(covered.add(number * step % 60 * 10, 10));
            }
            assert!(covered.is_all_of(600));
        }
    }
}
