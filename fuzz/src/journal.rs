//! Fuzz target for the journal that a receiver may find from an earlier run.

/// Reads the input as a journal file, or as its records.
pub fn journal(data: &[u8]) {
    linerate_transfer::foreign::journal(data);
}
