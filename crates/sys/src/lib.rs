//! The system calls that no safe library offers, what procfs alone says of a process, and private directories. This is the only room with
//! `unsafe`.

pub mod ethtool;
pub mod limits;
pub mod local_time;
pub mod netns;
pub mod private;
pub mod process;
pub mod replace;
pub mod tcp;
pub mod tun;
pub mod usage;
pub mod xattr;
