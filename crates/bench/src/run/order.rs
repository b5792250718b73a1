//! The order of runs: each block holds every case once, shuffled.

/// For each block, the indices of the cases in the order in which they run. The same seed gives the same
/// order.
pub(crate) fn blocks(cases: usize, blocks: u32, seed: u64) -> Vec<Vec<usize>> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let shuffled = |rng: &mut fastrand::Rng| {
        let mut order: Vec<usize> = (0..cases).collect();
        rng.shuffle(&mut order);
        order
    };
    (0..blocks).map(|_| shuffled(&mut rng)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_holds_every_case_once_in_an_order_of_its_own() {
        let made = blocks(16, 5, 3);
        for block in &made {
            let mut sorted = block.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..16).collect::<Vec<_>>());
        }
        assert_ne!(made[0], made[1]);
        assert_eq!(made, blocks(16, 5, 3));
        assert_ne!(made, blocks(16, 5, 4));
    }
}
