//! Forward error correction of ports (ETHTOOL_MSG_FEC_GET, linux/ethtool_netlink.h; Linux 5.13).

use std::fmt::Write as _;
use std::io;

use super::generic::{ABOUT, HEADER, PORT, all_ports};
use super::{FLAGS, attributes, find, number, string};

/// ETHTOOL_MSG_FEC_GET.
const GET_FEC: u8 = 29;
/// The flags ETHTOOL_FLAG_COMPACT_BITSETS and ETHTOOL_FLAG_STATS.
const COMPACT_WITH_COUNTERS: u32 = 1 | 4;
/// The attributes ETHTOOL_A_FEC_MODES, ETHTOOL_A_FEC_AUTO, ETHTOOL_A_FEC_ACTIVE and ETHTOOL_A_FEC_STATS.
const MODES: u16 = 2;
const AUTO: u16 = 3;
const ACTIVE: u16 = 4;
const COUNTERS: u16 = 5;
/// ETHTOOL_A_BITSET_VALUE.
const BITS: u16 = 4;
/// ETHTOOL_A_FEC_STAT_CORRECTED and ETHTOOL_A_FEC_STAT_UNCORR: arrays of 64-bit numbers. The first number of an array
/// is the total of the port.
const CORRECTED: u16 = 2;
const UNCORRECTABLE: u16 = 3;
/// Link modes that stand for error correction (ETHTOOL_LINK_MODE_FEC_..._BIT), with ethtool's names.
const NAMES: [(u32, &str); 4] = [(49, "off"), (50, "rs"), (51, "baser"), (74, "llrs")];

/// Returns a line for each interface whose driver answers:
/// `eth0 auto 1 configured rs active rs corrected 256 uncorrectable 0`. The line has no `active` if the interface has
/// no link, and has no counters if the driver has none.
pub(crate) fn ports() -> io::Result<String> {
    all_ports(GET_FEC, COMPACT_WITH_COUNTERS, port)
}

fn port(message: &[u8]) -> Option<String> {
    let (mut line, mut corrected, mut uncorrectable) = (String::new(), None, None);
    for (attribute, value) in attributes(message.get(HEADER..)?) {
        let reported = match attribute & !FLAGS {
            ABOUT => find(value, PORT).map(string),
            AUTO => number(value, 0, 1).map(|auto| format!(" auto {auto}")),
            MODES => find(value, BITS).map(|bits| format!(" configured {}", configured(bits))),
            // If the link is down, the value is 0, which has no name.
            ACTIVE => number(value, 0, 4).and_then(|mode| Some(format!(" active {}", name(mode as u32)?))),
            COUNTERS => {
                let first = |kind| find(value, kind).and_then(|counts| number(counts, 0, 8));
                (corrected, uncorrectable) = (first(CORRECTED), first(UNCORRECTABLE));
                None
            }
            _ => None,
        };
        line.extend(reported);
    }
    // Writing to a string can't fail.
    let _ = corrected.map(|count| write!(line, " corrected {count}"));
    let _ = uncorrectable.map(|count| write!(line, " uncorrectable {count}"));
    line.push('\n');
    Some(line).filter(|line| !line.starts_with([' ', '\n']))
}

/// The names of the modes that are set in a bit set of link modes, joined by commas; `-` if none is set.
fn configured(bits: &[u8]) -> String {
    let is_set = |mode: u32| {
        number(bits, (mode / 32 * 4) as usize, 4).is_some_and(|word| word >> (mode % 32) & 1 == 1)
    };
    let names: Vec<&str> = NAMES.iter().filter(|(mode, _)| is_set(*mode)).map(|(_, name)| *name).collect();
    if names.is_empty() { "-".into() } else { names.join(",") }
}

fn name(mode: u32) -> Option<&'static str> {
    NAMES.iter().find(|(number, _)| *number == mode).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute;
    use proptest::prelude::*;

    fn counts(all: &[u64]) -> Vec<u8> {
        all.iter().flat_map(|count| count.to_ne_bytes()).collect()
    }

    fn modes(set: &[u32]) -> Vec<u8> {
        let mut words = [0_u32; 4];
        set.iter().for_each(|mode| words[(mode / 32) as usize] |= 1 << (mode % 32));
        let bits: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        // ETHTOOL_A_BITSET_NOMASK, ETHTOOL_A_BITSET_SIZE.
        [attribute(1, &[]), attribute(2, &93_u32.to_ne_bytes()), attribute(BITS, &bits)].concat()
    }

    fn reported(name: &[u8], auto: u8, set: &[u32], active: Option<u32>, counters: &[u8]) -> String {
        // ETHTOOL_A_HEADER_DEV_INDEX.
        let about = [attribute(1, &2_u32.to_ne_bytes()), attribute(PORT, name)].concat();
        let parts = [
            attribute(ABOUT, &about),
            attribute(MODES, &modes(set)),
            attribute(AUTO, &[auto]),
            active.map_or_else(Vec::new, |mode| attribute(ACTIVE, &mode.to_ne_bytes())),
            attribute(COUNTERS, counters),
        ];
        port(&[vec![0; HEADER], parts.concat()].concat()).unwrap()
    }

    /// This test builds the bytes as the kernel's fec_fill_reply() does, because we have no machine with such a port.
    /// The values are from output of `ethtool -I --show-fec` in the kernel's patches "ethtool: add standard FEC
    /// statistics" (2021; a sum and two lanes) and in the patches of 2024 that add counters to the ice driver.
    #[test]
    fn modes_and_counters_are_reported() {
        let lanes = [
            attribute(CORRECTED, &counts(&[256, 255, 1])),
            attribute(UNCORRECTABLE, &counts(&[145, 128, 17])),
        ];
        assert_eq!(
            reported(b"eth0\0", 0, &[49], Some(49), &lanes.concat()),
            "eth0 configured off auto 0 active off corrected 256 uncorrectable 145\n"
        );
        let ice = [attribute(CORRECTED, &counts(&[0])), attribute(UNCORRECTABLE, &counts(&[0]))];
        assert_eq!(
            reported(b"ens21f0np0\0", 1, &[50, 51], Some(50), &ice.concat()),
            "ens21f0np0 configured rs,baser auto 1 active rs corrected 0 uncorrectable 0\n"
        );
        // A driver without counters answers with empty arrays; if there is no link, no encoding is active.
        let empty = [attribute(CORRECTED, &[]), attribute(UNCORRECTABLE, &[])];
        assert_eq!(reported(b"e\0", 1, &[], None, &empty.concat()), "e configured - auto 1\n");
    }

    #[test]
    fn the_kernel_knows_the_family() {
        match ports() {
            Ok(text) => assert!(text.lines().all(|line| line.split(' ').count() >= 2), "{text}"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}"),
        }
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (port(&bytes), configured(&bytes));
        }
    }
}
