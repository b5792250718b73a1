//! The rates to which a port limits its virtual functions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Fact;
use crate::netlink;
use crate::root::Root;

/// The rate limits of one virtual function, as the kernel reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FunctionRate {
    /// The function's number.
    pub number: u32,
    /// The function's PCI address.
    pub address: Option<String>,
    /// The rate that the port reserves for the function, in Mbit/s.
    pub min_mbps: Option<u64>,
    /// The highest rate at which the function may send, in Mbit/s.
    pub max_mbps: Option<u64>,
}

/// The rate limits of the virtual functions of all interfaces, by interface.
pub(super) fn read(root: &Root) -> Fact<BTreeMap<String, Vec<FunctionRate>>> {
    root.answer("live/function_rates", netlink::functions::rates).map(|text| {
        let mut all: BTreeMap<String, Vec<FunctionRate>> = BTreeMap::new();
        for (port, rate) in text.lines().filter_map(line) {
            let place = format!("sys/class/net/{port}/device/virtfn{}", rate.number);
            let address = root.link_name(&place).known().cloned();
            all.entry(port.to_owned()).or_default().push(FunctionRate { address, ..rate });
        }
        all
    })
}

/// Parses a line such as `eth0 3 min 0 max 1000` (function 3, rates in Mbit/s); 0 means no limit.
fn line(line: &str) -> Option<(&str, FunctionRate)> {
    let mut words = line.split_whitespace();
    let port = words.next().filter(|port| super::ports::is_plain(port))?;
    let mut rate = FunctionRate { number: words.next()?.parse().ok()?, ..FunctionRate::default() };
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        let value = value.parse().ok().filter(|mbps| *mbps > 0);
        match key {
            "min" => rate.min_mbps = value,
            "max" => rate.max_mbps = value,
            _ => {}
        }
    }
    Some((port, rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart() {
        let (port, rate) = line("eth0 3 min 0 max 1000 later 7").unwrap();
        assert_eq!((port, rate.number, rate.min_mbps, rate.max_mbps), ("eth0", 3, None, Some(1000)));
        assert!(line("../../x 3 max 1").is_none() && line("eth0 x").is_none() && line("").is_none());
    }
}
