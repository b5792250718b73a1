//! The files that cases move: made, cut into slices, and compared with what arrived.

mod generate;
mod import;
mod set;
mod sizes;
mod slices;
mod tree;

pub use set::{DataError, DataSet, Library, read_own_tree};
pub use tree::{Kind, Tree};
