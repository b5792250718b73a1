//! Output for terminals: plain text with lines of at most 100 characters.

mod bounds_table;
mod compare_table;
mod estimate;
mod grid;
mod head;
mod plan;
mod printed;
mod progress;
mod table;

pub use bounds_table::bounds_table;
pub use compare_table::{compare_table, equal_table};
pub use estimate::estimate;
#[cfg(test)]
pub(crate) use head::about;
pub use head::headline;
pub use plan::{checked, plan};
pub(crate) use plan::{describe_link, of_machines};
pub use printed::printed_table;
pub use progress::{Line, Progress};
pub use table::table;
