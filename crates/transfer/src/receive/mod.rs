//! The receiver: turns the frames of the streams into files on stable storage.

mod across;
pub mod admission;
pub mod again;
pub mod backup;
pub mod changes;
pub mod commit;
pub mod delayed;
pub mod deliveries;
pub mod divided;
pub mod journal;
pub mod land;
pub mod leftovers;
pub mod near;
pub mod partial_directory;
pub mod proof;
pub mod read_back;
pub mod receiver;
pub mod reception;
pub mod remove;
pub mod resume;
pub mod sink;
pub mod sources;
pub mod spool;
pub mod wanted;
