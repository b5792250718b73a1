//! The sender: from the sources to the streams.

pub mod again;
pub mod ahead;
mod batches;
pub mod chain;
mod compressing;
mod delta;
pub mod fan;
pub mod offer;
pub mod orphans;
mod packed;
mod part_reading;
pub mod plan;
mod ranges;
pub mod reading;
mod removable;
pub mod search;
pub mod sender;
mod speed;
pub mod streams;
pub mod survey;
mod thorough;
pub mod transmission;
pub mod under_way;
mod unstated;
pub mod work;
pub mod worker;
mod worker_links;
