//! The largest payload rate of a link, for figures and pages.

use linerate_bench::record::{Link, Record};
use linerate_bench::stats::payload_ceiling;

/// The largest TCP payload rate that a link can carry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ceiling {
    /// The rate of the link on the wire, in bit/s.
    pub(crate) wire: u64,
    /// The link's layer-3 maximum transmission unit, in bytes.
    pub(crate) mtu: u32,
    /// The bytes per packet that count towards the wire rate in addition to the layer-3 length.
    pub(crate) overhead: u32,
    /// The largest long-term TCP payload rate, in Gbit/s.
    pub(crate) payload: f64,
}

/// The link that [`linerate_bench::record::Case::link`] calls `name`, if the record has it.
pub(crate) fn link_named<'a>(record: &'a Record, name: &str) -> Option<&'a Link> {
    let named = record.links.iter().find(|link| link.name == name).map(|named| &named.link);
    let only_one = record.links.is_empty() && record.cases.iter().all(|case| case.link == name);
    named.or(if only_one { record.link.as_ref() } else { None })
}

impl Ceiling {
    /// The ceiling of a link; `None` if the link has no set rate, or if its packets have no room for payload.
    pub(crate) fn of(link: &Link) -> Option<Self> {
        let wire = link.bits_per_second.filter(|rate| *rate > 0)?;
        let payload = payload_ceiling(link)? * 1e-9;
        Some(Self { wire, mtu: link.mtu, overhead: link.frame_overhead_bytes, payload })
    }

    /// The ceiling of the link with the name `name`.
    pub(crate) fn named(record: &Record, name: &str) -> Option<Self> {
        link_named(record, name).and_then(Self::of)
    }
}
