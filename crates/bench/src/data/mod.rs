//! The files that cases move: generates them, divides them into slices, and compares them with the files at
//! the destination.

mod destination;
mod generate;
mod import;
mod set;
mod sizes;
mod slices;
mod task;
mod tree;

pub(crate) use destination::Destination;
pub use set::{DataError, DataSet, Library, read_own_tree};
pub use task::{Answer, Shape, Task, answer};
pub use tree::{Kind, Tree};
