//! HTTP/1.1 (RFC 9112): users who fetch objects in a closed loop (`crowd.rs`, on the threads of `worker.rs`), and a
//! server with one object in memory.

mod body;
mod chunks;
mod crowd;
mod head;
mod optimum;
mod probe;
mod reply;
mod report;
mod server;
mod tally;
mod url;
mod user;
mod worker;

pub use crowd::{Crowd, MOST_THREADS, MOST_USERS};
pub use optimum::{Optimum, fewest_best};
pub use report::{little, report};
pub use server::{HttpService, LARGEST_OBJECT};
pub use tally::{ByteCounts, UserTally};
pub use url::Url;
