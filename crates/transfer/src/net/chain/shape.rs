//! The shape of a chain or tree: which host forwards to which hosts.

use linerate_wire::control::MAX_NEXT;
use std::iter;
use std::ops::Range;

/// The shape of a chain or a tree of hosts, by their positions from 0. The source sends to the host at position 0.
///
/// In a chain, each host forwards to the host at the next position. In a tree, the host at position p forwards to those
/// at 2p + 1 and 2p + 2. The methods work in the same way for any number of branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainShape {
    hosts: usize,
    branches: usize,
}

impl ChainShape {
    /// A shape of `hosts` hosts, each of which forwards to at most `branches` hosts, 1 to [`MAX_NEXT`].
    pub fn new(hosts: usize, branches: usize) -> Self {
        Self { hosts, branches: branches.clamp(1, MAX_NEXT) }
    }

    /// The number of hosts.
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// The position of the host that forwards to the host at this position; `None` for the first host.
    pub fn before(&self, place: usize) -> Option<usize> {
        place.checked_sub(1).map(|place| place / self.branches)
    }

    /// The positions of the hosts to which the host at this position forwards.
    pub fn next(&self, place: usize) -> Range<usize> {
        let first = place.saturating_mul(self.branches).saturating_add(1);
        first.min(self.hosts)..first.saturating_add(self.branches).min(self.hosts)
    }

    /// True if the host at `place` is the host at `top`, or gets its data through that host.
    pub fn is_below(&self, top: usize, place: usize) -> bool {
        iter::successors(Some(place), |place| self.before(*place)).any(|above| above == top)
    }

    /// The largest number of hosts that get their data, one after the other, through the host at this
    /// position.
    pub fn behind(&self, place: usize) -> usize {
        // The path through the first next host of each host is at least as long as any other path.
        iter::successors(self.next(place).next(), |place| self.next(*place).next()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_chain_is_a_line_and_a_tree_has_two_branches() {
        let (chain, tree) = (ChainShape::new(7, 1), ChainShape::new(7, 2));
        let next =
            |shape: ChainShape| (0..7).map(|place| shape.next(place).collect()).collect::<Vec<Vec<_>>>();
        assert_eq!(next(chain), [vec![1], vec![2], vec![3], vec![4], vec![5], vec![6], vec![]]);
        assert_eq!(next(tree), [vec![1, 2], vec![3, 4], vec![5, 6], vec![], vec![], vec![], vec![]]);
        let behind = |shape: ChainShape| (0..7).map(|place| shape.behind(place)).collect::<Vec<_>>();
        assert_eq!(behind(chain), [6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(behind(tree), [2, 1, 1, 0, 0, 0, 0]);
        assert_eq!(ChainShape::new(4, 2).next(1), 3..4, "the last host that forwards may have one");
    }

    #[test]
    fn a_host_of_a_tree_takes_only_its_own_branch_with_it() {
        let (chain, tree) = (ChainShape::new(7, 1), ChainShape::new(7, 2));
        let below =
            |shape: ChainShape, top| (0..7).filter(|place| shape.is_below(top, *place)).collect::<Vec<_>>();
        assert_eq!(below(chain, 1), [1, 2, 3, 4, 5, 6]);
        assert_eq!((below(tree, 1), below(tree, 2), below(tree, 6)), (vec![1, 3, 4], vec![2, 5, 6], vec![6]));
        assert_eq!(below(tree, 0).len(), 7);
    }

    proptest! {
        #[test]
        fn each_host_gets_the_data_once(hosts in 1_usize..=64, branches in 0_usize..5) {
            let shape = ChainShape::new(hosts, branches);
            let mut got = vec![0];
            for place in 0..hosts {
                for next in shape.next(place) {
                    prop_assert_eq!(shape.before(next), Some(place));
                    prop_assert!(shape.behind(next) < shape.behind(place), "patience grows towards the source");
                    got.push(next);
                }
                prop_assert!(shape.next(place).len() <= MAX_NEXT);
            }
            prop_assert_eq!(got, (0..hosts).collect::<Vec<_>>());
        }

        #[test]
        fn no_place_is_too_far(hosts: usize, branches: usize, place: usize) {
            let shape = ChainShape::new(hosts, branches);
            prop_assert!(shape.next(place).all(|next| next < hosts));
        }
    }
}
