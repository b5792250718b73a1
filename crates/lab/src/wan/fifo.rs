//! Packets in flight, in a ring buffer, so that no memory is allocated or copied for each packet.

use std::collections::VecDeque;

/// The length of the longest packet with its header, in bytes, rounded up.
pub(crate) const LONGEST: usize = 65_600;

/// Packets that leave in the order of their arrival, each at its own time.
#[derive(Debug)]
pub(crate) struct Fifo {
    bytes: Vec<u8>,
    /// The position in `bytes` at which the next packet is written.
    head: usize,
    packets: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    start: usize,
    length: usize,
    release: u64,
}

impl Fifo {
    /// A ring buffer for at least this number of bytes. The kernel allocates its memory on first use.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes + 4 * LONGEST], head: 0, packets: VecDeque::new() }
    }

    /// The memory for the next packet; `None` while the ring is full.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        let Some(first) = self.packets.front() else {
            // The ring is empty: continue at its start, which is in the processor's cache.
            self.head = 0;
            return Some(&mut self.bytes[..LONGEST]);
        };
        // The head never reaches the first packet, or a full ring would look like an empty ring.
        let free = if self.head > first.start { self.bytes.len() } else { first.start.saturating_sub(1) };
        if free - self.head < LONGEST {
            if self.head <= first.start || first.start <= LONGEST {
                return None;
            }
            self.head = 0;
        }
        Some(&mut self.bytes[self.head..][..LONGEST])
    }

    /// The bytes that were last written to [`Fifo::room`].
    pub(crate) fn written(&self, length: usize) -> &[u8] {
        &self.bytes[self.head..][..length.min(LONGEST)]
    }

    /// Keeps these bytes as a packet that leaves at this time.
    pub(crate) fn push(&mut self, length: usize, release: u64) {
        let length = length.min(LONGEST);
        self.packets.push_back(Waiting { start: self.head, length, release });
        self.head += length;
    }

    /// The time at which the first packet leaves.
    pub(crate) fn next_release(&self) -> Option<u64> {
        self.packets.front().map(|packet| packet.release)
    }

    /// The first packet.
    pub(crate) fn first(&self) -> Option<&[u8]> {
        self.packets.front().map(|packet| &self.bytes[packet.start..][..packet.length])
    }

    /// Removes the first packet.
    pub(crate) fn pop(&mut self) {
        self.packets.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push(usize),
        Pop,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (1..2000usize).prop_map(Step::Push),
            (60_000..LONGEST).prop_map(Step::Push),
            Just(Step::Pop)
        ];
        proptest::collection::vec(step, 0..400)
    }

    proptest! {
        #[test]
        fn what_comes_out_is_what_went_in(steps in steps(), size in 0..500_000usize) {
            let mut fifo = Fifo::new(size);
            let mut expected = VecDeque::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push(length) => {
                        let Some(room) = fifo.room() else { continue };
                        room[..length].fill(number as u8);
                        prop_assert_eq!(fifo.written(length)[0], number as u8);
                        fifo.push(length, number as u64);
                        expected.push_back((number, length));
                    }
                    Step::Pop => {
                        let Some((number, length)) = expected.pop_front() else { continue };
                        prop_assert_eq!(fifo.next_release(), Some(number as u64));
                        let whole = vec![number as u8; length];
                        prop_assert!(fifo.first() == Some(&whole[..]));
                        fifo.pop();
                    }
                }
            }
            let held: usize = expected.iter().map(|(_, length)| length).sum();
            prop_assert!(held + LONGEST > size || fifo.room().is_some(), "{} of {} bytes held", held, size);
        }
    }
}
