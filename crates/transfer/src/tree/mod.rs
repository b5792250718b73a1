//! Files and directories of one host: their locations, names and properties.

pub mod blocks;
pub mod bounds;
pub mod charsets;
pub mod copying;
pub mod digest;
pub mod entered;
pub mod filter;
pub mod identity;
pub mod itemize;
pub mod landing;
pub mod metadata;
pub mod modes;
pub mod own_files;
pub mod pattern;
pub mod places;
pub mod prune;
pub mod reading;
pub mod reported;
pub mod root;
pub mod safe_link;
pub mod scan;
pub mod selection;
pub mod source_root;
pub mod stamp;
pub mod temporary;
pub mod ways;
