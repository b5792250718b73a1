//! The sender: from the sources to the streams.

pub mod again;
pub mod ahead;
pub mod offer;
pub mod orphans;
pub mod plan;
pub mod sender;
pub mod source;
pub mod under_way;
