//! Detached jobs: the processes in which they run, and their records.

mod attach;
mod background;
mod folder;
mod here;
mod log;
mod record;
mod status;

pub use attach::{AttachArgs, run as attach};
pub use background::run as go_on;
pub use here::{attend, forget, records, start};
pub use record::JobRecord;
pub use status::{JobStatusArgs, clean, run as status};
