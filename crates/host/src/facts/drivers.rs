//! Sends requests to network drivers, and parses their answers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use linerate_sys::ethtool::{self, Ethtool, Question};

use super::module;
use super::read::pairs;
use super::{Channels, Coalescing, Fact, LinkModes, Media, Module, Offload, Pause, Rings, Rss};
use crate::root::Root;

/// Sends requests to drivers. Each answer is a text of lines `KEY VALUE`.
pub(super) struct Drivers {
    // `None` if the facts don't come from the live host, or if no socket can be opened.
    ethtool: Option<RefCell<Ethtool>>,
}

/// A driver's description of itself.
pub(super) struct DriverIdentity {
    pub name: Fact<String>,
    pub version: Fact<String>,
    pub firmware: Fact<String>,
}

/// A driver's statistics about a port.
pub(super) struct Statistics {
    /// The statistics whose values aren't 0. Counters of single queues are included only if they count losses.
    pub all: Fact<BTreeMap<String, u64>>,
    /// The number of packets by receive queue.
    pub by_queue: Fact<BTreeMap<u32, u64>>,
}

impl Drivers {
    pub(super) fn new(root: &Root) -> Self {
        let ethtool = root.is_live().then(Ethtool::open).and_then(Result::ok);
        Self { ethtool: ethtool.map(RefCell::new) }
    }

    pub(super) fn about(&self, root: &Root, port: &str) -> DriverIdentity {
        let text = self.answer(root, port, "driver", |ethtool| {
            let driver = ethtool.driver(port)?;
            Ok(format!("driver {}\nversion {}\nfirmware {}", driver.name, driver.version, driver.firmware))
        });
        let value = |key: &str| {
            text.clone().and_then(|text| match pairs(&text).get(key) {
                // If drivers have no value, they answer with one of several texts.
                None | Some(&("" | "N/A" | "n/a")) => Fact::NotApplicable,
                Some(value) => Fact::Known((*value).to_owned()),
            })
        };
        DriverIdentity { name: value("driver"), version: value("version"), firmware: value("firmware") }
    }

    pub(super) fn channels(&self, root: &Root, port: &str) -> Fact<Channels> {
        self.numbers(root, port, "channels", ethtool::CHANNELS).map(|of| Channels {
            rx: of.get("rx"),
            max_rx: of.get("max_rx"),
            tx: of.get("tx"),
            max_tx: of.get("max_tx"),
            combined: of.get("combined"),
            max_combined: of.get("max_combined"),
        })
    }

    pub(super) fn rings(&self, root: &Root, port: &str) -> Fact<Rings> {
        self.numbers(root, port, "rings", ethtool::RINGS).map(|of| Rings {
            rx: of.get("rx"),
            max_rx: of.get("max_rx"),
            tx: of.get("tx"),
            max_tx: of.get("max_tx"),
        })
    }

    pub(super) fn coalescing(&self, root: &Root, port: &str) -> Fact<Coalescing> {
        self.numbers(root, port, "coalescing", ethtool::COALESCING).map(|of| Coalescing {
            rx_usecs: of.get("rx_usecs"),
            rx_frames: of.get("rx_frames"),
            tx_usecs: of.get("tx_usecs"),
            tx_frames: of.get("tx_frames"),
            adaptive_rx: of.get("adaptive_rx") != 0,
            adaptive_tx: of.get("adaptive_tx") != 0,
        })
    }

    pub(super) fn pause(&self, root: &Root, port: &str) -> Fact<Pause> {
        self.numbers(root, port, "pause", ethtool::PAUSE).map(|of| Pause {
            autoneg: of.get("autoneg") != 0,
            rx: of.get("rx") != 0,
            tx: of.get("tx") != 0,
        })
    }

    pub(super) fn offloads(&self, root: &Root, port: &str) -> Fact<BTreeMap<String, Offload>> {
        let text = self.answer(root, port, "features", |ethtool| {
            Ok(ethtool.features(port)?.into_iter().fold(String::new(), |mut text, feature| {
                let (on, fixed) =
                    (if feature.on { "on" } else { "off" }, if feature.fixed { " fixed" } else { "" });
                // Writing to a string can't fail.
                let _ = writeln!(text, "{} {on}{fixed}", feature.name);
                text
            }))
        });
        let offload = |value: &str| Offload { on: value.starts_with("on"), fixed: value.ends_with("fixed") };
        text.map(|text| {
            pairs(&text).into_iter().map(|(name, value)| (name.to_owned(), offload(value))).collect()
        })
    }

    pub(super) fn rss(&self, root: &Root, port: &str) -> Fact<Rss> {
        let text = self.answer(root, port, "rss", |ethtool| {
            let spread = ethtool.spread(port)?;
            let slots: Vec<String> = spread.slots.iter().map(u32::to_string).collect();
            Ok(format!("rings {}\nslots {}", spread.rings, slots.join(" ")))
        });
        text.and_then(|text| match rss(&text) {
            Some(rss) => Fact::Known(rss),
            None => Fact::Unreadable(format!(
                "the answer of {port}'s driver about its receive rings is malformed"
            )),
        })
    }

    pub(super) fn media(&self, root: &Root, port: &str) -> Fact<Media> {
        let text = self.answer(root, port, "media", |ethtool| Ok(ethtool.link(port)?.media.to_string()));
        text.map(|text| match text.as_str() {
            "0" => Media::TwistedPair,
            "1" | "2" | "4" => Media::Old,
            "3" => Media::Fibre,
            "5" => Media::DirectAttach,
            "239" => Media::Nothing,
            _ => Media::Other,
        })
    }

    pub(super) fn modes(&self, root: &Root, port: &str) -> Fact<LinkModes> {
        let text = self.answer(root, port, "modes", |ethtool| {
            let link = ethtool.link(port)?;
            let numbers = |modes: &[u32]| modes.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
            Ok(format!(
                "autoneg {}\nsupported {}\noffered {}\npartner {}",
                u8::from(link.autoneg),
                numbers(&link.supported),
                numbers(&link.offered),
                numbers(&link.partner)
            ))
        });
        text.and_then(|text| LinkModes::parse(port, &text))
    }

    pub(super) fn module(&self, root: &Root, port: &str) -> Fact<Module> {
        let text = self.answer(root, port, "module", |ethtool| Ok(module::lines(&ethtool.module(port)?)));
        text.and_then(|text| Module::parse(&text))
    }

    pub(super) fn statistics(&self, root: &Root, port: &str) -> Statistics {
        let text = self.answer(root, port, "statistics", |ethtool| {
            let pairs = ethtool.names(port)?.into_iter().zip(ethtool.values(port)?);
            Ok(pairs.filter(|(_, value)| *value > 0).fold(String::new(), |mut text, (name, value)| {
                let _ = writeln!(text, "{name}: {value}");
                text
            }))
        });
        let pair = |line: &str| {
            let (name, value) = line.rsplit_once(": ")?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        let by_queue = |text: &str| {
            let pairs = text.lines().filter_map(pair);
            pairs.filter_map(|(name, value)| Some((receiving_queue(&name)?, value))).collect()
        };
        Statistics {
            by_queue: text.clone().map(|text| by_queue(&text)),
            all: text.map(|text| {
                let all = text.lines().filter_map(pair);
                added(all.filter(|(name, value)| *value > 0 && (names_loss(name) || !is_of_queue(name))))
            }),
        }
    }

    fn numbers(&self, root: &Root, port: &str, what: &str, question: Question) -> Fact<Numbers> {
        let text = self.answer(root, port, what, |ethtool| {
            let pairs = ethtool.numbers(port, question)?;
            Ok(pairs.into_iter().map(|(name, value)| format!("{name} {value}\n")).collect())
        });
        text.and_then(|text| {
            let number = |(key, value): (&str, &str)| Some((key.to_owned(), value.parse().ok()?));
            match pairs(&text).into_iter().map(number).collect() {
                Some(numbers) => Fact::Known(Numbers(numbers)),
                None => {
                    Fact::Unreadable(format!("the answer of {port}'s driver about its {what} is malformed"))
                }
            }
        })
    }

    fn answer(
        &self,
        root: &Root,
        port: &str,
        what: &str,
        ask: impl FnOnce(&mut Ethtool) -> io::Result<String>,
    ) -> Fact<String> {
        root.answer(&format!("live/ethtool/{port}/{what}"), || match &self.ethtool {
            Some(ethtool) => ask(&mut ethtool.borrow_mut()),
            None => Err(io::Error::other("no socket for requests to drivers")),
        })
    }
}

/// The sums of counts by name. vmxnet3 gives the counters of all queues the same names, so counters of the same name
/// are added up.
fn added(all: impl Iterator<Item = (String, u64)>) -> BTreeMap<String, u64> {
    all.fold(BTreeMap::new(), |mut sums, (name, value)| {
        let sum = sums.entry(name).or_insert(0_u64);
        *sum = sum.saturating_add(value);
        sums
    })
}

/// Numbers by their names; a missing number counts as 0.
struct Numbers(BTreeMap<String, u32>);

impl Numbers {
    fn get(&self, name: &str) -> u32 {
        self.0.get(name).copied().unwrap_or(0)
    }
}

fn rss(text: &str) -> Option<Rss> {
    let pairs = pairs(text);
    let rings = pairs.get("rings")?.parse().ok()?;
    let slots = pairs.get("slots").copied().unwrap_or_default().split_whitespace();
    let mut counts = BTreeMap::new();
    for ring in slots {
        *counts.entry(ring.parse().ok()?).or_default() += 1;
    }
    Some(Rss { rings, slots: counts })
}

/// True for the name of a counter of a single queue: `rx_queue_0_packets`, `rx0_packets`, `tx-3.bytes`,
/// `ch2_poll`, `[4]: rx_ucast_packets`.
fn is_of_queue(name: &str) -> bool {
    let name = name.trim_start();
    let numbered = |prefix: &str| {
        let rest = name.strip_prefix(prefix).map(|rest| rest.trim_start_matches(['-', '_', ' ', '[']));
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    // In "rx_64_byte_packets" the number is a size.
    let is_size = name.contains("byte_packets") || name.contains("_to_") || name.contains("bytes_phy");
    name.contains("queue")
        || name.starts_with('[')
        || (!is_size && ["rx", "tx", "ch"].into_iter().any(numbered))
}

/// The number of the queue in `rx_queue_0_packets`, `rx0_packets`, `rx-0.packets`, `rx-0.rx_packets` or
/// `queue_0_rx_cnt`.
fn receiving_queue(name: &str) -> Option<u32> {
    let name = name.trim_start();
    let rest =
        ["rx_queue_", "rx-", "rx", "queue_"].into_iter().find_map(|prefix| name.strip_prefix(prefix))?;
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    let (number, what) = rest.split_at(end);
    let is_sum = match name.starts_with("queue_") {
        true => what == "_rx_cnt",
        false => ["_packets", ".packets", ".rx_packets"].contains(&what),
    };
    number.parse().ok().filter(|_| is_sum)
}

fn names_loss(name: &str) -> bool {
    const SIGNS: [&str; 9] = ["drop", "err", "miss", "no_buf", "nobuf", "discard", "fail", "out_of", "over"];
    let name = name.to_ascii_lowercase();
    SIGNS.iter().any(|sign| name.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_counters_are_distinguished_from_sizes() {
        for name in ["rx_queue_0_packets", "rx0_packets", "tx-3.bytes", "ch2_poll", "[4]: rx_ucast_packets"] {
            assert!(is_of_queue(name), "{name}");
        }
        for name in [
            "rx_64_byte_packets",
            "rx_packets",
            "rx_missed_errors",
            "rx_1024_to_1518_bytes_phy",
            "rx_prio0_pause",
        ] {
            assert!(!is_of_queue(name), "{name}");
        }
        assert!(names_loss("rx0_drops") && names_loss("rx_out_of_buffer") && !names_loss("rx0_packets"));
    }

    #[test]
    fn counters_of_one_name_are_added_up() {
        let counters = [("pkts rx OOB", 3), ("pkts rx err", 1), ("pkts rx OOB", 4)];
        let sums = added(counters.into_iter().map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(sums, BTreeMap::from([("pkts rx OOB".to_owned(), 7), ("pkts rx err".to_owned(), 1)]));
    }

    #[test]
    fn packets_of_a_queue_are_reported() {
        for name in ["rx_queue_3_packets", "rx3_packets", "rx-3.packets", "rx-3.rx_packets", "queue_3_rx_cnt"]
        {
            assert_eq!(receiving_queue(name), Some(3), "{name}");
        }
        for name in
            ["rx_packets", "tx_queue_3_packets", "rx3_bytes", "rx_64_byte_packets", "queue_3_tx_cnt", "rx3"]
        {
            assert_eq!(receiving_queue(name), None, "{name}");
        }
    }

    #[test]
    fn slots_are_counted_by_ring() {
        let table = rss("rings 2\nslots 0 1 0 1 1").unwrap();
        assert_eq!((table.rings, table.slots), (2, BTreeMap::from([(0, 2), (1, 3)])));
        assert_eq!(rss("rings 1\nslots").map(|rss| rss.slots.len()), Some(0));
        assert_eq!(rss("slots 1"), None);
    }
}
