//! The ssh that is installed.

use serde::{Deserialize, Serialize};

use super::Fact;

/// ssh of a host, as its programs name themselves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ssh {
    /// The client: `OpenSSH_9.2p1`.
    pub client: Fact<String>,
    /// The server's program, whether it runs or not.
    pub server: Fact<String>,
    /// Ciphers that the client knows, in its order.
    pub ciphers: Fact<Vec<String>>,
}

impl Ssh {
    /// Whether a version is one with the patches for high-performance networks.
    pub fn is_hpn(version: &str) -> bool {
        version.to_ascii_lowercase().contains("hpn")
    }
}
