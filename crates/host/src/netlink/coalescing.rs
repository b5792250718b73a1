//! The settings of interrupt coalescing that drivers have (ETHTOOL_MSG_COALESCE_GET, linux/ethtool_netlink.h;
//! Linux 5.7).

use std::io;

use super::generic::{ABOUT, HEADER, PORT, all_ports};
use super::{FLAGS, attributes, find, string};

/// ETHTOOL_MSG_COALESCE_GET.
const GET_COALESCING: u8 = 19;
/// The attributes ETHTOOL_A_COALESCE_..., with ethtool's names.
const NAMES: [(u16, &str); 6] = [
    (2, "rx-usecs"),
    (3, "rx-frames"),
    (6, "tx-usecs"),
    (7, "tx-frames"),
    (11, "adaptive-rx"),
    (12, "adaptive-tx"),
];

/// Returns a line for each interface whose driver answers: `eth0 rx-usecs adaptive-rx`. The kernel omits the
/// settings that the driver doesn't have, which `ethtool -c` shows as `n/a` (coalesce_put_u32() and
/// coalesce_put_bool() in net/ethtool/coalesce.c).
pub(crate) fn ports() -> io::Result<String> {
    all_ports(GET_COALESCING, 0, port)
}

fn port(message: &[u8]) -> Option<String> {
    let inside = message.get(HEADER..)?;
    let mut line = string(find(find(inside, ABOUT)?, PORT)?);
    for (attribute, _) in attributes(inside) {
        let name = NAMES.iter().find(|(number, _)| *number == attribute & !FLAGS);
        line.extend(name.into_iter().flat_map(|(_, name)| [" ", name]));
    }
    line.push('\n');
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute;
    use proptest::prelude::*;

    /// The bytes are built as the kernel's coalesce_fill_reply() builds them, for stmmac's
    /// supported_coalesce_params.
    #[test]
    fn what_a_driver_has_is_reported() {
        let about = attribute(ABOUT, &attribute(PORT, b"eth0\0"));
        let numbers = [2, 3, 6, 7].map(|kind| attribute(kind, &0_u32.to_ne_bytes()));
        let message = [vec![0; HEADER], about, numbers.concat()].concat();
        assert_eq!(port(&message).unwrap(), "eth0 rx-usecs rx-frames tx-usecs tx-frames\n");
        let adapts = [message, attribute(11, &[0])].concat();
        assert!(port(&adapts).unwrap().ends_with(" adaptive-rx\n"));
        assert!(port(&[0; HEADER]).is_none());
    }

    #[test]
    fn the_kernel_knows_the_question() {
        match ports() {
            Ok(text) => assert!(text.lines().all(|line| !line.starts_with(' ')), "{text}"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}"),
        }
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = port(&bytes);
        }
    }
}
