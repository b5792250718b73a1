//! From one far host to another: the client logs in to both, and the data goes from the one to the other.

mod ground;

use crate::bed::args;
use crate::tree::{assert_alike, make_mixed};
use ground::trio;

#[test]
fn a_tree_goes_from_one_host_to_another() {
    let Some(trio) = trio() else { return };
    let (tree, to) = trio.trees();
    make_mixed(&tree);
    let run = trio.cp(args!["-v", "-r", trio.src("tree"), trio.dst("to")]).exits(0);
    eprintln!("{run}");
    assert_alike(&tree, &to);
    trio.assert_all_gone();
}
