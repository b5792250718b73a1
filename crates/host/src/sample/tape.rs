//! Stores the samples that a recorder has taken until its user reads them.

/// The most bytes that are stored. If the samples take more, only every second sample is kept, then only every fourth,
/// and so on.
pub const MOST_BYTES: usize = 64 << 20;

/// The stored samples in the order in which they were taken.
#[derive(Default)]
pub(crate) struct Tape {
    heading: Vec<u8>,
    samples: Vec<Vec<u8>>,
    bytes: usize,
    /// The number of intervals between two samples that are kept.
    stride: u32,
}

impl Tape {
    pub fn new(heading: Vec<u8>) -> Self {
        Self { heading, stride: 1, ..Self::default() }
    }

    pub fn push(&mut self, sample: Vec<u8>) {
        self.bytes += sample.len();
        self.samples.push(sample);
        if self.bytes > MOST_BYTES {
            self.thin();
        }
    }

    pub fn stride(&self) -> u32 {
        self.stride
    }

    /// Removes and returns all stored samples, in the format of a recording or of its continuation.
    pub fn take(&mut self) -> Vec<u8> {
        let mut taken = std::mem::take(&mut self.heading);
        taken.extend(self.samples.drain(..).flatten());
        self.bytes = 0;
        taken
    }

    /// Removes every second sample. Because counters only increase, no growth between two kept samples is lost.
    fn thin(&mut self) {
        let mut place = 0;
        self.samples.retain(|_| {
            place += 1;
            place % 2 == 1
        });
        self.bytes = self.samples.iter().map(Vec::len).sum();
        self.stride = self.stride.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_recording_keeps_its_first_sample_and_is_bounded() {
        let mut tape = Tape::new(b"head ".to_vec());
        for place in 0..40u8 {
            tape.push(vec![place; 4 << 20]);
            assert!(tape.bytes <= MOST_BYTES + (4 << 20));
        }
        assert!(tape.stride() >= 4, "{}", tape.stride());
        let taken = tape.take();
        assert!(taken.starts_with(b"head \0") && taken.len() <= MOST_BYTES + 5);
        tape.push(vec![1]);
        assert_eq!(tape.take(), [1], "the heading and what was taken don't come again");
    }
}
