//! Traffic generators and their servers: request/response, bulk between endpoint pairs, HTTP users, and tiles
//! that mix them. Each generator counts only in its window, and reports its failures.

pub mod error;
pub mod http;
pub mod latency;
pub mod pace;
pub mod pair;
pub mod report;
pub mod serve;
pub mod tile;

pub mod window;
