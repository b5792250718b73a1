//! The lowest layer of this crate: all other modules use it, and it uses none of them.

pub mod lock;
pub mod problem;
pub mod several;
pub mod totals;
