//! Reads study and tool files into types that can't hold an invalid study.

/// The names and texts of the files in a directory at the top of the repository. The crate has a symbolic
/// link to the directory, because only the crate's own files are published.
macro_rules! built_in {
    ($folder:literal: $($name:literal)*) => {
        &[$((
            concat!($folder, "/", $name, ".toml"),
            include_str!(concat!("../../", $folder, "/", $name, ".toml")),
        )),*]
    };
}

mod case_reader;
mod error;
mod figure_reader;
mod nearest;
mod quick;
pub(crate) mod ready;
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
