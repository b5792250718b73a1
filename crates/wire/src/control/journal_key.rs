//! The key by which receivers on several hosts recognize each other's journals.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A secret of the client: 32 random bytes. A receiver with this key can resume from the journal of every earlier
/// receiver that had the same key.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalKey(pub [u8; 32]);

/// The debug output doesn't contain the secret.
impl fmt::Debug for JournalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JournalKey(..)")
    }
}
