//! Traffic generators and the servers that they need: request/response, bulk between endpoint pairs, HTTP users, and
//! tiles that mix them. Each generator counts only in its window, and says what it could not do.

pub mod error;
pub mod http;
pub mod latency;
pub mod pace;
pub mod pair;
pub mod report;
pub mod serve;
pub mod tile;

pub mod window;
