//! The set of chunks of a file that have arrived.

use std::collections::HashSet;

/// A set of chunks, stored as one bit for each chunk. The first chunk has the lowest bit of the first byte. Bytes after
/// the last added chunk aren't stored.
#[derive(Clone, Debug, Default)]
pub struct Chunks(Vec<u8>);

impl Chunks {
    /// Adds a chunk, unless the set would grow by more than `room` bytes. Subtracts the growth from `room`.
    pub fn insert(&mut self, number: u32, room: &mut usize) {
        if self.grow(number as usize / 8 + 1, room) {
            self.0[number as usize / 8] |= 1 << (number % 8);
        }
    }

    /// Adds each of the first `count` chunks that is set in `bits`. Adds none if the set would grow by more than `room`
    /// bytes; otherwise subtracts the growth from `room`.
    pub fn merge(&mut self, bits: &[u8], count: u32, room: &mut usize) {
        let bits = &bits[..bits.len().min(count.div_ceil(8) as usize)];
        if self.grow(bits.len(), room) {
            self.0.iter_mut().zip(bits).for_each(|(to, from)| *to |= from);
        }
        // The last byte may have bits for chunks beyond the file's end.
        if !count.is_multiple_of(8)
            && let Some(last) = self.0.get_mut(count as usize / 8)
        {
            *last &= (1 << (count % 8)) - 1;
        }
    }

    /// Removes all chunks.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The numbers of the chunks.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        let bytes = (0..).step_by(8).zip(&self.0);
        bytes.flat_map(|(first, byte)| {
            (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| first + bit)
        })
    }

    /// The memory that the set takes, in bytes.
    pub fn size(&self) -> usize {
        self.0.len()
    }

    fn grow(&mut self, length: usize, room: &mut usize) -> bool {
        let more = length.saturating_sub(self.0.len());
        let fits = more <= *room;
        if fits && more > 0 {
            *room -= more;
            self.0.resize(length, 0);
        }
        fits
    }
}

/// A bit set with one bit for each chunk, in the form of [`linerate_wire::control::Want::Missing`].
pub fn bits(chunks: &HashSet<u32>) -> Vec<u8> {
    let length = chunks.iter().max().map_or(0, |last| *last as usize / 8 + 1);
    let mut bits = vec![0; length];
    chunks.iter().for_each(|number| bits[*number as usize / 8] |= 1 << (number % 8));
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(chunks: &Chunks) -> Vec<u32> {
        chunks.numbers().collect()
    }

    #[test]
    fn what_is_added_is_there_and_nothing_else() {
        let (mut chunks, mut room) = (Chunks::default(), 100);
        [9, 0, 7].into_iter().for_each(|number| chunks.insert(number, &mut room));
        assert_eq!((numbers(&chunks), room), (vec![0, 7, 9], 98));
        chunks.merge(&[0b10, 0xff, 0xff], 12, &mut room);
        assert_eq!(numbers(&chunks), [0, 1, 7, 8, 9, 10, 11]);
        assert_eq!(bits(&chunks.numbers().collect()), chunks.0);
        chunks.clear();
        assert_eq!(numbers(&chunks), []);
    }

    #[test]
    fn without_room_it_does_not_grow() {
        let (mut chunks, mut room) = (Chunks::default(), 2);
        chunks.insert(15, &mut room);
        chunks.insert(16, &mut room);
        chunks.merge(&[0, 0, 1], 24, &mut room);
        assert_eq!((numbers(&chunks), room, chunks.size()), (vec![15], 0, 2));
        chunks.merge(&[1, 0], 16, &mut room);
        assert_eq!(numbers(&chunks), [0, 15]);
    }
}
