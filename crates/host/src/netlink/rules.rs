//! Reads the rules of nftables that limit bytes (linux/netfilter/nf_tables.h).

use std::io;

use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink, socket_with};

use super::{NetlinkQuestions, attributes, find, request_all, string};

/// NFNL_SUBSYS_NFTABLES and NFT_MSG_GETRULE, and the size of struct nfgenmsg.
const GET_RULE: u16 = 10 << 8 | 7;
const HEADER: usize = 4;
/// NFTA_RULE_EXPRESSIONS; each of its elements contains NFTA_EXPR_NAME and NFTA_EXPR_DATA.
const EXPRESSIONS: u16 = 4;
const NAME: u16 = 1;
const DATA: u16 = 2;
/// NFTA_LIMIT_RATE, NFTA_LIMIT_UNIT (in seconds) and NFTA_LIMIT_TYPE (1 means that bytes are limited).
const RATE: u16 = 1;
const UNIT: u16 = 2;
const TYPE: u16 = 4;
const BYTES: u64 = 1;

/// The limit in bits per second of each rule that limits bytes. Only root may send this request.
pub(crate) fn rates() -> io::Result<String> {
    let protocol = Some(netlink::NETFILTER);
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
    let asked = NetlinkQuestions { socket, ..NetlinkQuestions::open()? };
    let rates = match asked.dump(&request_all(GET_RULE, HEADER), rate) {
        // A kernel without nftables has no such rules.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => Vec::new(),
        rates => rates?,
    };
    Ok(rates.into_iter().map(|rate| format!("{rate}\n")).collect())
}

fn rate(message: &[u8]) -> Option<u64> {
    let all = find(message.get(HEADER..)?, EXPRESSIONS)?;
    attributes(all).find_map(|(_, expression)| {
        let is_limit = find(expression, NAME).is_some_and(|name| string(name) == "limit");
        limit(find(expression, DATA).filter(|_| is_limit)?)
    })
}

/// Parses a limit, and returns it in bits per second. The numbers in `data` are in network byte order.
fn limit(data: &[u8]) -> Option<u64> {
    let value = |at: u16| {
        find(data, at).map(|bytes| bytes.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    let is_bytes = value(TYPE) == Some(BYTES);
    let (rate, unit) = (value(RATE).filter(|_| is_bytes)?, value(UNIT)?);
    Some(rate.saturating_mul(8) / unit.max(1))
}

#[cfg(test)]
mod tests {
    use super::super::attribute;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_limit_of_bytes_is_reported_and_one_of_packets_is_not() {
        let rule = |kind: u32| {
            let data = [
                attribute(RATE, &12_500_000_u64.to_be_bytes()),
                attribute(UNIT, &1_u64.to_be_bytes()),
                attribute(TYPE, &kind.to_be_bytes()),
            ];
            let limit = [attribute(NAME, b"limit\0"), attribute(DATA, &data.concat())].concat();
            let other = attribute(1, &attribute(NAME, b"meta\0"));
            let all = attribute(EXPRESSIONS, &[other, attribute(1, &limit)].concat());
            rate(&[vec![0; HEADER], all].concat())
        };
        assert_eq!((rule(1), rule(0)), (Some(100_000_000), None));
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = rate(&bytes);
        }
    }
}
