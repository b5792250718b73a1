//! End-to-end tests of `linerate cp` and other commands, with two hosts made of network namespaces and a real
//! ssh server on the far host.
//!
//! The tests need root and the distribution's ssh; without these, each prints a line and passes.

#[path = "../support/mod.rs"]
mod support;

mod archive;
mod archives;
mod bed;
mod between;
mod causes;
mod compared;
mod compressed;
mod deltas;
mod failures;
mod fakes;
mod fan;
mod fleet;
mod itemized;
mod json;
mod jump;
mod killed;
mod links;
mod listed;
mod measure;
mod mounts;
mod mscp_cases;
mod network;
mod one_host;
mod paths;
mod planted;
mod proofs;
mod public_lines;
mod restricted;
mod resumed;
mod routes;
mod rsync_charsets;
mod rsync_details;
mod rsync_dirlinks;
mod rsync_growing;
mod rsync_kept;
mod rsync_lines;
mod rsync_paths;
mod rsync_places;
mod rsync_reports;
mod rsync_runs;
mod rsync_scripts;
mod rsync_spared;
mod rsync_words;
mod scp_lines;
mod scp_shapes;
mod slow;
mod stalled;
mod surroundings;
mod sync_contents;
mod sync_kinds;
mod syncs;
mod treated;
mod tree;
mod trees;
mod units;
mod unstated;
mod versions;
