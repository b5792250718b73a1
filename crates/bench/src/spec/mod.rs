//! Study and tool files: what they may say, read into types that can't say anything else.

mod case_reader;
mod error;
mod figure_reader;
mod nearest;
mod quick;
pub(crate) mod search;
mod section;
mod study_reader;
pub(crate) mod template;
mod tool_reader;

pub mod expression;
pub mod papers;
pub mod study;
pub mod tool;

pub use error::FileError;
pub use nearest::nearest;
pub use study_reader::MOST_BLOCKS;
pub use template::{Value, Values, Word};
