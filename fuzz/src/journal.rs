//! What a receiver finds where an earlier run may have left its journal.

/// As it lies there, or its records.
pub fn journal(data: &[u8]) {
    linerate_transfer::foreign::journal(data);
}
