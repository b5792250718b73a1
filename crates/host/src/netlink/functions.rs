//! Reads the rate limits of virtual functions (IFLA_VFINFO_LIST, linux/if_link.h). Only the host that owns
//! the port can read them; a guest to which a function was assigned can't.

use std::fmt::Write as _;
use std::io;

use super::link::{GET_LINK, HEADER};
use super::{DUMP, FLAGS, MOST_LINES, NetlinkQuestions, attribute, attributes, find, number, request};

/// IFLA_EXT_MASK, and its flags RTEXT_FILTER_VF and RTEXT_FILTER_SKIP_STATS. Without statistics, the answer about 250
/// functions fits into one attribute.
const MASK: u16 = 29;
const FUNCTIONS_WITHOUT_COUNTERS: u32 = 1 | 8;
/// IFLA_VFINFO_LIST, and IFLA_VF_INFO, which it contains for each function.
const LIST: u16 = 22;
const FUNCTION: u16 = 1;
/// IFLA_VF_TX_RATE (the function's number and its highest rate) and IFLA_VF_RATE (the function's number, its
/// lowest and its highest rate), in Mbit/s. 0 means no limit.
const OLD_RATE: u16 = 3;
const RATE: u16 = 6;

/// Returns a line for each function with a rate limit: `eth0 3 min 0 max 1000`, in Mbit/s.
pub(crate) fn rates() -> io::Result<String> {
    let asked = NetlinkQuestions::open()?;
    let reported = asked.dump(&question(), |message| {
        let name = asked.name(number(message, 4, 4)? as u32)?;
        Some(written(&name, message))
    })?;
    Ok(reported.concat().split_inclusive('\n').take(MOST_LINES).collect())
}

fn question() -> Vec<u8> {
    let mask = attribute(MASK, &FUNCTIONS_WITHOUT_COUNTERS.to_ne_bytes());
    request(GET_LINK, DUMP, &[&[0; HEADER][..], &mask].concat())
}

fn written(port: &str, message: &[u8]) -> String {
    let list = message.get(HEADER..).and_then(|inside| find(inside, LIST)).unwrap_or_default();
    let functions = attributes(list).filter(|(kind, _)| kind & !FLAGS == FUNCTION);
    functions.filter_map(|(_, about)| rate(about)).fold(String::new(), |mut text, [function, least, most]| {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{port} {function} min {least} max {most}");
        text
    })
}

/// The function's number, its lowest and its highest rate in Mbit/s; `None` if neither rate is set.
fn rate(about: &[u8]) -> Option<[u64; 3]> {
    let three = |value: &[u8]| Some([number(value, 0, 4)?, number(value, 4, 4)?, number(value, 8, 4)?]);
    let old = |value: &[u8]| Some([number(value, 0, 4)?, 0, number(value, 4, 4)?]);
    let reported = find(about, RATE).and_then(three).or_else(|| find(about, OLD_RATE).and_then(old))?;
    (reported[1] > 0 || reported[2] > 0).then_some(reported)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(all: &[u32]) -> Vec<u8> {
        all.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn message(functions: &[Vec<u8>]) -> Vec<u8> {
        let list: Vec<u8> = functions.iter().flat_map(|inside| attribute(FUNCTION, inside)).collect();
        [vec![0; HEADER], attribute(4, &words(&[1500])), attribute(LIST, &list)].concat()
    }

    /// This test builds the bytes as the kernel's rtnl_fill_vfinfo() does, because we have no machine with virtual
    /// functions. The values are those of a ConnectX-5 with two functions, as `ip link show` prints them
    /// (<https://github.com/ironcore-dev/dpservice/pull/722>): `vf 0 ... tx rate 5000 (Mbps), max_tx_rate 5000Mbps`,
    /// and nothing about vf 1.
    #[test]
    fn a_function_with_a_rate_is_reported_and_one_without_is_not() {
        let function = |number: u32, least: u32, most: u32| {
            [
                // IFLA_VF_MAC, IFLA_VF_VLAN.
                attribute(1, &[&words(&[number])[..], &[0; 32]].concat()),
                attribute(2, &words(&[number, 0, 0])),
                attribute(RATE, &words(&[number, least, most])),
                attribute(OLD_RATE, &words(&[number, most])),
                // IFLA_VF_SPOOFCHK, IFLA_VF_LINK_STATE.
                attribute(4, &words(&[number, 0])),
                attribute(5, &words(&[number, 0])),
            ]
            .concat()
        };
        let two = message(&[function(0, 0, 5000), function(1, 0, 0)]);
        assert_eq!(written("enp59s0f0np0", &two), "enp59s0f0np0 0 min 0 max 5000\n");
        let reserved = message(&[function(0, 25_000, 30_000), function(1, 35_000, 0)]);
        assert_eq!(written("e", &reserved), "e 0 min 25000 max 30000\ne 1 min 35000 max 0\n");
        // This is the form of the answer before Linux 3.16.
        let old = message(&[attribute(OLD_RATE, &words(&[2, 500]))]);
        assert_eq!(written("e", &old), "e 2 min 0 max 500\n");
        assert_eq!(written("e", &message(&[])), "");
    }

    #[test]
    fn the_kernel_takes_the_question() {
        let asked = rates();
        assert!(asked.is_ok(), "{asked:?}");
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (written("e", &bytes), rate(&bytes));
        }
    }
}
