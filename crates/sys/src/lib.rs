//! System calls that no safe library offers, and helpers beside them: facts from procfs, private directories, and files
//! that are replaced as a whole. This is the only crate that contains `unsafe`.

mod bound;
pub mod child;
pub mod ethtool;
pub mod limits;
pub mod local_time;
pub mod mounts;
pub mod netns;
pub mod private;
pub mod process;
pub mod replace;
mod socket_option;
pub mod tcp;
pub mod tun;
pub mod usage;
pub mod xattr;

pub use bound::bound_device;
