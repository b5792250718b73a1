//! Forward error correction of a port.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Fact;
use crate::netlink;
use crate::root::Root;

/// A driver's answer about the forward error correction of its port. The encodings have ethtool's names: `off`, `rs`,
/// `baser`, `llrs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fec {
    /// True if the driver chooses the encoding.
    pub is_auto: bool,
    /// The encodings that the port may use.
    pub configured: Vec<String>,
    /// The encoding in use; `None` if the link is down.
    pub active: Option<String>,
    /// The number of received blocks whose errors were corrected.
    pub corrected: Option<u64>,
    /// The number of received blocks with more errors than can be corrected. The frames in these blocks are lost.
    pub uncorrectable: Option<u64>,
}

/// The forward error correction of all interfaces whose drivers report it, by interface.
pub(super) fn read(root: &Root) -> Fact<BTreeMap<String, Fec>> {
    root.answer("live/fec", netlink::fec::ports).map(|text| text.lines().filter_map(line).collect())
}

/// Parses a line such as `eth0 configured rs,baser auto 1 active rs corrected 256 uncorrectable 0`.
fn line(line: &str) -> Option<(String, Fec)> {
    let mut words = line.split_whitespace();
    let (port, mut fec) = (words.next()?.to_owned(), Fec::default());
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        match key {
            "auto" => fec.is_auto = value == "1",
            "configured" => {
                let names = value.split(',').filter(|name| *name != "-");
                fec.configured = names.map(str::to_owned).collect();
            }
            "active" => fec.active = Some(value.to_owned()),
            "corrected" => fec.corrected = value.parse().ok(),
            "uncorrectable" => fec.uncorrectable = value.parse().ok(),
            _ => {}
        }
    }
    Some((port, fec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart() {
        let (port, fec) = line("eth0 configured rs,baser auto 1 active rs corrected 256 later 1").unwrap();
        assert_eq!((port.as_str(), fec.is_auto, fec.active.as_deref()), ("eth0", true, Some("rs")));
        assert_eq!(fec.configured, ["rs", "baser"]);
        assert_eq!((fec.corrected, fec.uncorrectable), (Some(256), None));
        assert!(line("eth0 configured -").unwrap().1.configured.is_empty() && line("").is_none());
    }
}
