//! The ground floor: what every other room uses and knows none of them.

pub mod lock;
pub mod problem;
pub mod several;
pub mod totals;
