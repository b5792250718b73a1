//! Parts that several checks share.

pub mod control_group;
pub mod lost_packets;
pub mod pauses;
pub mod processors;
pub mod ring;
pub mod shell;
