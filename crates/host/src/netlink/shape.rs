//! Reads the rate limits of queueing disciplines, of their classes and of policers (linux/pkt_sched.h,
//! linux/pkt_cls.h).

use super::{KIND, attributes, find, number, request_all, string};

/// RTM_GETTCLASS and RTM_GETTFILTER, and the size of their header, struct tcmsg.
pub(super) const GET_CLASS: u16 = 42;
pub(super) const GET_FILTER: u16 = 46;
pub(super) const HEADER: usize = 20;
/// TCA_OPTIONS.
pub(super) const OPTIONS: u16 = 2;
/// The parents of filters on received packets, and of filters on sent packets (only a clsact discipline has the
/// latter).
pub(super) const INWARDS: u32 = 0xffff_fff2;
pub(super) const OUTWARDS: u32 = 0xffff_fff3;
/// The size of struct tc_ratespec without its last four bytes, which contain the bytes per second.
const RATE: usize = 8;
/// The size of struct tc_netem_qopt, which comes before netem's attributes.
const NETEM: usize = 24;
/// The size of struct tc_police, and the offset of its rate.
const POLICE: usize = 56;
const POLICE_RATE: usize = 20;
/// The size of struct tc_mirred, the offsets of its action and of its device, and the action TCA_EGRESS_REDIR.
const MIRRED: usize = 28;
const MIRRED_ACTION: usize = 20;
const MIRRED_DEVICE: usize = 24;
const REDIRECT: u64 = 1;
/// The size of struct tc_u32_sel without its keys, and that of a key.
const SELECTOR: usize = 16;
/// The depth to which the nested attributes of a filter are searched.
const DEEPEST: u32 = 7;

/// The action of a filter that affects the rate of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FilterAction {
    /// The filter drops the packets above this number of bits per second.
    Police(u64),
    /// The same, but the filter applies only to a part of the packets.
    PolicePart(u64),
    /// The filter sends the packets out over the device with this number.
    Redirect(u32),
}

/// The rates in bits per second to which a discipline limits its interface (`rate`) and each connection
/// (`each`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct QdiscLimits {
    pub(super) rate: Option<u64>,
    pub(super) each: Option<u64>,
}

/// The limits in the options of a discipline.
pub(super) fn of_qdisc(kind: &str, options: &[u8]) -> QdiscLimits {
    let long = |at: u16| find(options, at).and_then(|value| number(value, 0, 8));
    let port = |rate: Option<u64>| QdiscLimits { rate: bits(rate), each: None };
    match kind {
        // The attributes TCA_TBF_RATE64 and TCA_TBF_PARMS.
        "tbf" => port(long(4).or_else(|| find(options, 1).and_then(|parms| number(parms, RATE, 4)))),
        // The attribute TCA_CAKE_BASE_RATE64.
        "cake" => port(long(2)),
        // The attributes TCA_NETEM_RATE64 and TCA_NETEM_RATE.
        "netem" => {
            let inside = options.get(NETEM..).unwrap_or_default();
            let exact = find(inside, 8).and_then(|value| number(value, 0, 8));
            port(exact.or_else(|| find(inside, 6).and_then(|value| number(value, 0, 4))))
        }
        // TCA_FQ_FLOW_MAX_RATE. If all its bits are set, there is no limit.
        "fq" => {
            let each = find(options, 7).and_then(|value| number(value, 0, 4));
            QdiscLimits { rate: None, each: bits(each.filter(|rate| *rate != u64::from(u32::MAX))) }
        }
        _ => QdiscLimits::default(),
    }
}

/// The highest rate, in bits per second, of a class at the root of htb or hfsc.
pub(super) fn of_class(message: &[u8]) -> Option<u64> {
    let inside = message.get(HEADER..)?;
    let (kind, options) = (string(find(inside, KIND)?), find(inside, OPTIONS)?);
    let ceiling = match kind.as_str() {
        // The attribute TCA_HTB_CEIL64; if it is missing, the second rate in TCA_HTB_PARMS.
        "htb" => find(options, 7)
            .and_then(|value| number(value, 0, 8))
            .or_else(|| find(options, 1).and_then(|parms| number(parms, 12 + RATE, 4))),
        // TCA_HFSC_USC: the slope of the second part of the upper limit curve.
        "hfsc" => find(options, 3).and_then(|curve| number(curve, 8, 4)),
        _ => None,
    };
    bits(ceiling)
}

/// The policer or the redirection of a filter, if it has one.
pub(super) fn of_filter(message: &[u8]) -> Option<FilterAction> {
    let inside = message.get(HEADER..)?;
    let options = find(inside, OPTIONS)?;
    match action(options, DEEPEST)? {
        FilterAction::Police(rate) if !takes_all(&string(find(inside, KIND)?), options) => {
            Some(FilterAction::PolicePart(rate))
        }
        found => Some(found),
    }
}

/// True for a filter that applies to every packet: one of the kind `matchall`, or one of the kind `u32` whose keys have no
/// bits to compare (TCA_U32_SEL: struct tc_u32_sel with the number of keys at offset 2, and struct tc_u32_key with the mask
/// first).
fn takes_all(kind: &str, options: &[u8]) -> bool {
    match kind {
        "matchall" => true,
        "u32" => find(options, 5).is_some_and(|selector| {
            let keys = number(selector, 2, 1).unwrap_or(0) as usize;
            (0..keys).all(|at| number(selector, SELECTOR + at * SELECTOR, 4) == Some(0))
        }),
        _ => false,
    }
}

fn action(bytes: &[u8], deep: u32) -> Option<FilterAction> {
    if let Some(found) = police(bytes).or_else(|| redirect(bytes)) {
        return Some(found);
    }
    let deeper = deep.checked_sub(1)?;
    attributes(bytes).find_map(|(_, value)| action(value, deeper))
}

/// Finds a policer by the size of its structure, which is the value of the first attribute of a group of attributes
/// (TCA_POLICE_TBF). For rates of 34 Gbit/s and more, the group also has TCA_POLICE_RATE64.
fn police(bytes: &[u8]) -> Option<FilterAction> {
    let police = find(bytes, 1).filter(|value| value.len() == POLICE)?;
    let exact = find(bytes, 8).filter(|value| value.len() == 8).and_then(|value| number(value, 0, 8));
    bits(exact.or_else(|| number(police, POLICE_RATE + RATE, 4))).map(FilterAction::Police)
}

/// Finds a redirection. An action has a kind (TCA_ACT_KIND) and options (TCA_ACT_OPTIONS); the options contain
/// TCA_MIRRED_PARMS. A mirror sends only copies of packets, so it doesn't count as a redirection.
fn redirect(bytes: &[u8]) -> Option<FilterAction> {
    find(bytes, 1).filter(|kind| string(kind) == "mirred")?;
    let parms = find(find(bytes, 2)?, 2).filter(|parms| parms.len() >= MIRRED)?;
    let device = number(parms, MIRRED_DEVICE, 4).map(|index| FilterAction::Redirect(index as u32));
    device.filter(|_| number(parms, MIRRED_ACTION, 4) == Some(REDIRECT))
}

/// A request about one interface's classes or filters.
pub(super) fn of_interface(question: u16, index: u32, parent: u32) -> Vec<u8> {
    let mut bytes = request_all(question, HEADER);
    // In struct tcmsg, the interface is at offset 4 and the parent at offset 12.
    bytes[16 + 4..16 + 8].copy_from_slice(&index.to_ne_bytes());
    bytes[16 + 12..16 + 16].copy_from_slice(&parent.to_ne_bytes());
    bytes
}

fn bits(bytes: Option<u64>) -> Option<u64> {
    bytes.filter(|rate| *rate > 0).map(|rate| rate.saturating_mul(8))
}

#[cfg(test)]
mod tests {
    use super::super::attribute;
    use super::*;
    use proptest::prelude::*;

    fn spec(rate: u32) -> Vec<u8> {
        [&[0; 8][..], &rate.to_ne_bytes()].concat()
    }

    #[test]
    fn each_discipline_says_its_rate_in_its_own_way() {
        let tbf = attribute(1, &[spec(125_000_000), spec(0), vec![0; 12]].concat());
        assert_eq!(of_qdisc("tbf", &tbf).rate, Some(1_000_000_000));
        let fast = [attribute(1, &spec(u32::MAX)), attribute(4, &12_500_000_000_u64.to_ne_bytes())].concat();
        assert_eq!(of_qdisc("tbf", &fast).rate, Some(100_000_000_000));
        let cake = attribute(2, &6_250_000_u64.to_ne_bytes());
        assert_eq!(of_qdisc("cake", &cake).rate, Some(50_000_000));
        assert_eq!(of_qdisc("cake", &attribute(2, &[0; 8])).rate, None, "without a limit");
        let netem = [vec![0; NETEM], attribute(6, &1_250_000_u32.to_ne_bytes())].concat();
        assert_eq!(of_qdisc("netem", &netem).rate, Some(10_000_000));
        let fq = |rate: u32| of_qdisc("fq", &attribute(7, &rate.to_ne_bytes()));
        assert_eq!((fq(u32::MAX), fq(1_000).each), (QdiscLimits::default(), Some(8_000)));
        assert_eq!(of_qdisc("fq_codel", &tbf), QdiscLimits::default());
    }

    #[test]
    fn a_policer_is_found_however_deep_its_filter_has_it() {
        let mut police = vec![0; POLICE];
        police[POLICE_RATE + RATE..POLICE_RATE + RATE + 4].copy_from_slice(&12_500_000_u32.to_ne_bytes());
        // A policer as the action of a filter, and a policer that is a part of a u32 filter.
        let options = attribute(1, &police);
        let action = attribute(1, &[attribute(1, b"police\0"), attribute(2, &options)].concat());
        let filter = |kind: &[u8], selector: &[u8], inside: &[u8]| {
            let options = [attribute(5, selector), inside.to_vec()].concat();
            of_filter(&[vec![0; HEADER], attribute(1, kind), attribute(OPTIONS, &options)].concat())
        };
        let selector = |mask: u32| [&[0, 0, 1, 0][..], &[0; 12], &mask.to_be_bytes(), &[0; 12]].concat();
        let (whole, part) = (FilterAction::Police(100_000_000), FilterAction::PolicePart(100_000_000));
        for inside in [attribute(7, &action), attribute(6, &options)] {
            assert_eq!(filter(b"u32\0", &selector(0), &inside), Some(whole));
            assert_eq!(filter(b"u32\0", &selector(0x00ff_0000), &inside), Some(part), "one protocol");
            assert_eq!(filter(b"matchall\0", &[], &inside), Some(whole));
            assert_eq!(filter(b"flower\0", &[], &inside), Some(part));
        }
        let other = [vec![0; HEADER], attribute(OPTIONS, &attribute(1, &[0; 20]))].concat();
        assert_eq!(of_filter(&other), None);
    }

    /// The bytes are Linux 6.18's answer about the filter `u32 match u32 0 0 action mirred egress redirect dev (5)`.
    #[test]
    fn a_redirection_is_reported_with_its_device_and_a_mirror_is_not() {
        let filter = |what: u32| {
            let words = [1, 0, 4, 1, 1, what, 5].map(u32::to_ne_bytes).concat();
            let action = [attribute(1, b"mirred\0"), attribute(2, &attribute(2, &words))].concat();
            let inside = attribute(7, &attribute(1, &action));
            [vec![0; HEADER], attribute(1, b"u32\0"), attribute(OPTIONS, &inside)].concat()
        };
        assert_eq!(of_filter(&filter(1)), Some(FilterAction::Redirect(5)));
        assert_eq!(of_filter(&filter(2)), None);
    }

    #[test]
    fn a_class_says_what_it_may_borrow_up_to() {
        let parms = attribute(1, &[spec(1_000), spec(250_000)].concat());
        let message = [vec![0; HEADER], attribute(KIND, b"htb\0"), attribute(OPTIONS, &parms)].concat();
        assert_eq!(of_class(&message), Some(2_000_000));
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (of_filter(&bytes), of_class(&bytes));
            for kind in ["tbf", "cake", "netem", "fq"] {
                let _ = of_qdisc(kind, &bytes);
            }
        }
    }
}
