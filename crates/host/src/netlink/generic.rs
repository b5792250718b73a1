//! Sends requests about interfaces to ethtool's family of generic netlink (linux/ethtool_netlink.h; Linux
//! 5.6).

use std::io;

use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink, socket_with};

use super::{DUMP, MOST_LINES, NetlinkQuestions, attribute, find, number, request, string};

/// NLA_F_NESTED, which this netlink family requires.
const NESTED: u16 = 0x8000;
/// The netlink family GENL_ID_CTRL and its command CTRL_CMD_GETFAMILY.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
/// CTRL_ATTR_FAMILY_ID and CTRL_ATTR_FAMILY_NAME.
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const FAMILY: &str = "ethtool";
/// ETHTOOL_A_HEADER_FLAGS, in the header of a request.
const ASKED: u16 = 3;

/// The size of struct genlmsghdr, with which each message begins.
pub(super) const HEADER: usize = 4;
/// ETHTOOL_A_..._HEADER, the first attribute of each message, and ETHTOOL_A_HEADER_DEV_NAME, which it contains.
pub(super) const ABOUT: u16 = 1;
pub(super) const PORT: u16 = 2;

/// Sends a request about all interfaces. Returns, for each interface whose driver answers, the line that
/// `line` makes of the answer.
pub(super) fn all_ports(command: u8, flags: u32, line: fn(&[u8]) -> Option<String>) -> io::Result<String> {
    let generic = Some(netlink::GENERIC);
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, generic)?;
    let asked = NetlinkQuestions { socket, ..NetlinkQuestions::open()? };
    let family = asked.dump(&question(CONTROL, GET_FAMILY, &[]), family)?.into_iter().next();
    // Before Linux 5.6, the kernel doesn't have the netlink family "ethtool".
    let family = family.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
    let flags = attribute(ASKED, &flags.to_ne_bytes());
    let reported = asked.dump(&question(family, command, &attribute(ABOUT | NESTED, &flags)), line)?;
    Ok(reported.into_iter().take(MOST_LINES).collect())
}

fn question(family: u16, command: u8, attributes: &[u8]) -> Vec<u8> {
    request(family, DUMP, &[&[command, 1, 0, 0], attributes].concat())
}

/// The number of ethtool's netlink family, if the message describes that family.
fn family(message: &[u8]) -> Option<u16> {
    let inside = message.get(HEADER..)?;
    let is_it = find(inside, FAMILY_NAME).is_some_and(|name| string(name) == FAMILY);
    number(find(inside, FAMILY_ID).filter(|_| is_it)?, 0, 2).map(|id| id as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_family_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = family(&bytes);
        }
    }
}
