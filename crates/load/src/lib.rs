//! Traffic generators and their servers: request/response, bulk transfer between endpoint pairs, HTTP users,
//! and tiles that mix these loads. Each generator counts only within its time window, and reports its
//! failures.

pub mod error;
pub mod http;
pub mod latency;
pub mod pace;
pub mod pair;
pub mod report;
pub mod serve;
pub mod tile;

pub mod window;
