//! The limit of a TCP flow on the path between two ends: its window, its send buffer, its losses, or the rate of the
//! network. Each of them has its own sign; without any sign, the flow's rate is not explained.

use super::evidence::{bytes, percent, rate, ratio, time};
use super::{Limiter, Verdict};
use crate::formula::flow;

/// Share of a flow's busy time above which a window or a buffer limits it. The kernel counts neither kind of limit
/// while congestion limits a flow, so the rest is the flow's start.
const WINDOW: f64 = 0.4;
/// Share of retransmitted segments above which losses may limit. Below this share, even a flow of 10 Gbit/s over 10 ms
/// loses less rate by losses than by its own probing.
const LOSS: f64 = 1e-5;
/// Number of retransmitted segments below which losses are chance, and show nothing.
const CHANCE: f64 = 10.0;
/// Share of the samples of a flow in which its send buffer was full and all of its bytes were in flight, above which
/// the buffer limits.
const BUFFERED: f64 = 0.5;
/// Share of a port's rate at or above which payload fills the port: at an MTU of 1500, headers leave 94 % for payload.
const FULL_LINK: f64 = 0.9;
/// Share of the rate that headers leave for payload, at or above which the port limits, whatever else is full: the
/// start of a transfer, and linerate's own headers, take the rest.
const NO_MORE: f64 = 0.97;
/// Bytes that a full segment takes on the wire in addition to its payload: 38 on Ethernet, 20 for IPv4, 20 for TCP, 12
/// for timestamps.
const HEADERS: f64 = 90.0;
/// A round trip that is longer than the shortest one by this factor means a queue before the link: then the link is
/// full, and the losses are the queue's.
const QUEUED: f64 = 1.4;
/// A round trip that is at most this many microseconds above the shortest one is attributed to a busy host, not to a
/// queue.
const HOST_DELAY: f64 = 1000.0;
/// Factor up to which a flow that losses limit may be faster than the model of congestion control, which gives a mean.
const MODEL: f64 = 4.0;

/// Share of retransmitted segments above which a flow may wait for its own timers instead of an answer.
const STALLED: f64 = 0.01;

/// The number of segments with data above which their mean size is significant; a login has about fifty.
const MANY: f64 = 150.0;
/// Share of a full segment below which the mean segment is small. Nearly all segments of bulk data are full.
const PIECE: f64 = 0.4;

/// Segments that TCP may send before the first acknowledgement (RFC 6928). Later it may have fewer in flight only after
/// signs of congestion.
const AT_FIRST: f64 = 10.0;
/// Share of the time in which data waits to be sent, above which the program isn't the reason for the few bytes in
/// flight.
const WAITING: f64 = 0.5;

/// Mean share of the other end's window in flight above which the window is full.
const FILLED: f64 = 0.4;

/// A delivery rate is believed up to the flow's mean rate times this factor.
const BELIEVED: f64 = 3.0;

/// Sums and means over the flows that carried the data.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flows {
    /// Mean number of concurrent flows.
    pub number: f64,
    /// Bits a second that they carried together.
    pub bits: f64,
    /// The busy time: microseconds in which the flows had something to send, added up over the flows.
    pub busy: f64,
    /// Microseconds of the busy time in which the other end's window limited the flows.
    pub rwnd_limited: f64,
    /// Microseconds of the busy time in which the send buffer limited the flows.
    pub sndbuf_limited: f64,
    /// The number of retransmitted segments.
    pub retransmits: f64,
    /// The number of sent segments.
    pub segments: f64,
    /// Mean smoothed round-trip time in microseconds; 0 if it is unknown.
    pub rtt: f64,
    /// Mean of the flows' shortest round-trip times, in microseconds.
    pub min_rtt: f64,
    /// Bytes of payload in a full segment.
    pub segment_size: f64,
    /// Mean of the other ends' windows in bytes; 0 if they were mostly closed or are unknown.
    pub window_size: f64,
    /// Mean share of the samples in which another end's window was below half of its largest so far; 0 if it is
    /// unknown.
    pub window_closed: f64,
    /// The number of segments with data in both directions; 0 if it is unknown.
    pub data_segments: f64,
    /// Bytes of data in `data_segments`.
    pub data: f64,
    /// Mean delivery rate of a flow in bytes a second, as the kernel measures it.
    pub delivery_rate: f64,
    /// Share of the samples of a flow in which its send buffer had no room, and all bytes in it were in flight.
    pub send_buffer_full: f64,
    /// Mean size of a send buffer in bytes of memory, which is more than the bytes in it; 0 if it is unknown.
    pub send_buffer: f64,
    /// Mean bytes in flight in a flow; 0 if they are unknown.
    pub in_flight: f64,
    /// Share of the time in which the flows had bytes to send that weren't in flight yet; 0 if it is unknown.
    pub waiting: f64,
    /// Share of the samples in which received bytes waited for the program to read them.
    pub unread: f64,
    /// Bits a second of the port by which the flows leave; 0 if that is unknown or only nominal.
    pub link: f64,
    /// Share of the time in which the sender keeps its rate a little below the path's, to avoid a queue.
    pub held: f64,
}

impl Flows {
    /// The limit on the path, if the path limits for `share` of the time.
    pub fn name(&self, share: f64) -> Verdict {
        self.window(share)
            .or_else(|| self.full_send_buffer(share))
            .or_else(|| self.loss(share))
            .or_else(|| self.network(share))
            .unwrap_or_else(|| self.not_explained(share))
    }

    /// The network, if the flows carry all the payload that their port can carry: then nothing else limits them, even
    /// if it is full.
    pub fn full_port(&self) -> Option<Verdict> {
        let used = ratio(self.bits, self.link);
        let payload = ratio(self.segment_size, self.segment_size + HEADERS);
        if payload == 0.0 || used < NO_MORE * payload || used > 1.0 {
            return None;
        }
        let evidence = format!(
            "{}, {} of the sender's port, whose headers take the rest",
            rate(self.bits),
            percent(used)
        );
        Some(Verdict::new(Limiter::Network, used, evidence))
    }

    /// The other end's window, if it limits for much of the time and there is no queue.
    fn window(&self, share: f64) -> Option<Verdict> {
        let limited = ratio(self.rwnd_limited, self.busy);
        if limited < WINDOW || self.is_queued() {
            return None;
        }
        let evidence = format!(
            "the other end's receive window limits for {} of the time in which there is something to send; {}",
            percent(limited),
            self.under_way()
        );
        Some(Verdict::new(Limiter::Window, share, evidence))
    }

    /// The send buffer, if it is full of bytes that are all in flight, and there is no queue. The kernel's own counter
    /// misses most of this time, because it runs only while the write queue is empty.
    fn full_send_buffer(&self, share: f64) -> Option<Verdict> {
        let counted = ratio(self.sndbuf_limited, self.busy);
        if self.send_buffer_full < BUFFERED && counted < WINDOW || self.is_queued() {
            return None;
        }
        let evidence = format!(
            "it has {}, overhead included, and was full of bytes in flight in {} of the samples; {}",
            bytes(self.send_buffer),
            percent(self.send_buffer_full.max(counted)),
            self.under_way()
        );
        Some(Verdict::new(Limiter::SendBuffer, share, evidence))
    }

    /// The bytes in flight and the round trip, as text.
    fn under_way(&self) -> String {
        let held = ratio(self.bits, self.number) / 8.0 * self.rtt * 1e-6;
        let each = if self.number < 1.5 { String::new() } else { format!(" in each of {}", self.flows()) };
        format!("about {} in flight{each}, round trip {}", bytes(held), time(self.rtt))
    }

    /// The number of flows, in words.
    fn flows(&self) -> String {
        if self.number < 1.5 { "1 flow".into() } else { format!("{:.0} flows", self.number) }
    }

    /// True if each flow has less than a segment in flight although data waits to be sent: then one end sends a request
    /// and waits for the other end's answer. Over a full link, whole segments are in flight.
    pub fn is_exchange(&self) -> bool {
        let held = ratio(self.bits, self.number) / 8.0 * self.rtt * 1e-6;
        let lost = ratio(self.retransmits, self.segments);
        self.rtt > 0.0 && held < self.segment_size && lost < STALLED
    }

    /// True if the bytes in flight fill the other end's window, which is open and small.
    pub fn fills_window(&self) -> bool {
        let held = ratio(self.bits, self.number) / 8.0 * self.rtt * 1e-6;
        self.window_size > 0.0 && held >= FILLED * self.window_size
    }

    /// Mean bytes of a segment with data, if many were sent and most are small: the program sends small
    /// pieces, and waits after each.
    pub fn small_pieces(&self) -> Option<f64> {
        let mean = ratio(self.data, self.data_segments);
        (self.data_segments >= MANY && mean < PIECE * self.segment_size).then_some(mean)
    }

    fn loss(&self, share: f64) -> Option<Verdict> {
        let lost = ratio(self.retransmits, self.segments);
        let (each, model) = (ratio(self.bits, self.number), self.model(lost));
        if self.retransmits < CHANCE || lost < LOSS || self.is_queued() || each > MODEL * model {
            return None;
        }
        let evidence = format!(
            "{:.3} % of the segments were retransmitted, without a queue: round trip {}, shortest {}; at this loss, \
             congestion control gives each flow about {}; it had {}",
            100.0 * lost,
            time(self.rtt),
            time(self.min_rtt),
            rate(model),
            rate(each)
        );
        Some(Verdict::new(Limiter::Loss, share, evidence))
    }

    /// Bits a second of one flow at this share of losses: the greater of the rates of Reno (Mathis et al., 1997) and
    /// CUBIC (RFC 9438, section 5.1).
    fn model(&self, lost: f64) -> f64 {
        let (lost, seconds) = (lost.max(1e-12), (self.rtt * 1e-6).max(1e-6));
        flow::cubic(self.segment_size.max(536.0), seconds, lost)
    }

    /// The network, if packets queue in front of it, it loses segments, the sender limits its rate to the network's, or
    /// the port is full or doesn't take the flows' data.
    fn network(&self, share: f64) -> Option<Verdict> {
        let loses = self.retransmits >= CHANCE && ratio(self.retransmits, self.segments) >= LOSS;
        if !self.is_queued() && !loses && !self.fills_link() && !self.is_held_back() {
            return None;
        }
        let mut evidence = match self.held {
            0.0 => format!("both ends wait for it {} of the time; {}", percent(share), rate(self.bits)),
            held => format!(
                "{}, for {} of the time kept a little below the path's rate, to avoid a queue",
                rate(self.bits),
                percent(held)
            ),
        };
        if self.fills_link() {
            evidence += &format!(", {} of the sender's port", percent(self.bits / self.link));
        }
        if self.rtt > 0.0 {
            evidence += &format!(", round trip {}, shortest {}", time(self.rtt), time(self.min_rtt));
        }
        // If acknowledgements come in bursts, as on a virtual link, the kernel's delivery rate is the rate of the
        // bursts, not that of the path.
        let each = ratio(self.bits, self.number);
        if self.delivery_rate > 0.0 && 8.0 * self.delivery_rate <= BELIEVED * each {
            evidence += &format!(", each flow delivers at {}", rate(8.0 * self.delivery_rate));
        }
        if self.retransmits > 0.0 {
            evidence += &format!(", {:.3} % retransmitted", 100.0 * ratio(self.retransmits, self.segments));
        }
        if self.is_held_back() {
            evidence += &format!(
                "; more data waits than the {} in flight in {}: this host's own queue or congestion marks (ECN) hold it \
                 back, as beside others' traffic",
                bytes(self.in_flight),
                self.flows()
            );
        }
        Some(Verdict::new(Limiter::Network, share, evidence))
    }

    /// The verdict that none of the examined values shows a limit, with these values.
    fn not_explained(&self, share: f64) -> Verdict {
        let mut evidence = format!("{} in {}; ", rate(self.bits), self.flows());
        evidence += &match self.rtt > 0.0 {
            true => format!("no queue: round trip {}, shortest {}", time(self.rtt), time(self.min_rtt)),
            false => "the round trip is unknown".into(),
        };
        evidence += &match self.segments > 0.0 {
            true => format!("; {:.0} of {:.0} segments retransmitted", self.retransmits, self.segments),
            false => "; losses are unknown".into(),
        };
        evidence += &format!(
            "; the other end's window limits for {} of the time with something to send",
            percent(ratio(self.rwnd_limited, self.busy))
        );
        if self.send_buffer > 0.0 {
            evidence += &format!(
                ", the send buffer of {} in {} of the samples; {} in flight in a flow",
                bytes(self.send_buffer),
                percent(self.send_buffer_full),
                bytes(self.in_flight)
            );
        }
        Verdict::new(Limiter::NotExplained, share, evidence)
    }

    /// True if the flows fill their port. If a port carries more than the rate that it reports, that rate is only
    /// nominal.
    fn fills_link(&self) -> bool {
        self.bits <= self.link && self.bits >= FULL_LINK * self.link && self.link > 0.0
    }

    /// True if the flows have fewer bytes in flight than TCP may send at first, though more wait. Without losses and
    /// with a larger window, TCP holds bytes back only while its segments wait in this host's own queue (TCP small
    /// queues), or after marks of congestion.
    fn is_held_back(&self) -> bool {
        let is_far = self.rtt > HOST_DELAY;
        is_far
            && self.waiting >= WAITING
            && 0.0 < self.in_flight
            && self.in_flight < AT_FIRST * self.segment_size
    }

    /// True if packets queue in front of the link, or would queue there if the sender didn't limit its rate.
    fn is_queued(&self) -> bool {
        let stands =
            self.min_rtt > 0.0 && self.rtt > QUEUED * self.min_rtt && self.rtt - self.min_rtt > HOST_DELAY;
        stands || self.held > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2 flows of 20 ms that send all the time.
    fn flows() -> Flows {
        Flows {
            number: 2.0,
            bits: 10e6,
            busy: 1e6,
            segments: 1e5,
            rtt: 20_500.0,
            min_rtt: 20_000.0,
            segment_size: 1448.0,
            ..Flows::default()
        }
    }

    #[test]
    fn a_window_limits_without_a_queue_only() {
        let held = Flows { rwnd_limited: 9e5, ..flows() };
        let named = held.name(0.9);
        assert_eq!(named.limiter, Limiter::Window);
        assert!(named.evidence.contains("receive window limits for 90 %"), "{}", named.evidence);
        assert_eq!(Flows { rtt: 60_000.0, ..held }.name(0.9).limiter, Limiter::Network);
    }

    #[test]
    fn a_send_buffer_limits_where_all_in_it_is_under_way() {
        // Measured over 20 ms with net.ipv4.tcp_wmem of 64 KiB at most, where the kernel's own counter stays at 0.
        let small = Flows {
            bits: 45.1e6,
            send_buffer_full: 0.97,
            send_buffer: 65536.0,
            in_flight: 66_608.0,
            segments: 42_130.0,
            ..flows()
        };
        let named = small.name(0.88);
        assert_eq!(named.limiter, Limiter::SendBuffer);
        assert!(
            named.evidence.contains("full of bytes in flight in 97 % of the samples"),
            "{}",
            named.evidence
        );
        assert_eq!(Flows { sndbuf_limited: 9e5, ..flows() }.name(0.9).limiter, Limiter::SendBuffer);
        assert_eq!(Flows { send_buffer_full: 0.3, ..small }.name(0.9).limiter, Limiter::NotExplained);
        assert_eq!(Flows { rtt: 60_000.0, ..small }.name(0.9).limiter, Limiter::Network, "a queue");
    }

    #[test]
    fn nothing_is_the_networks_without_a_sign_of_it() {
        let slow = Flows { send_buffer: 4e6, in_flight: 25_000.0, ..flows() };
        let named = slow.name(0.9);
        assert_eq!((named.limiter, named.share), (Limiter::NotExplained, 0.9));
        assert_eq!(
            named.evidence,
            "10.0 Mbit/s in 2 flows; no queue: round trip 20 ms, shortest 20 ms; 0 of 100000 segments retransmitted; the \
             other end's window limits for 0 % of the time with something to send, the send buffer of 4.00 MB in 0 % of the \
             samples; 25.0 kB in flight in a flow"
        );
        let unknown = Flows { rtt: 0.0, segments: 0.0, ..flows() }.name(0.9);
        assert!(
            unknown.evidence.contains("round trip is unknown; losses are unknown"),
            "{}",
            unknown.evidence
        );
        let lossy = |retransmits| Flows { bits: 20e9, retransmits, ..slow }.name(0.9).limiter;
        assert_eq!(
            (lossy(3.0), lossy(30.0)),
            (Limiter::NotExplained, Limiter::Network),
            "chance, and a policer"
        );
    }

    /// Measured beside four flows that fill a port of 300 Mbit/s. Their queue was there from the start.
    #[test]
    fn few_bytes_in_flight_while_more_wait_are_held_back() {
        let beside = Flows {
            number: 15.0,
            bits: 35.7e6,
            rtt: 17_000.0,
            min_rtt: 14_000.0,
            in_flight: 5740.0,
            send_buffer: 72_900.0,
            segments: 41_501.0,
            waiting: 0.97,
            ..flows()
        };
        let named = beside.name(0.97);
        assert_eq!(named.limiter, Limiter::Network);
        assert!(named.evidence.contains("than the 5.74 kB in flight in 15 flows"), "{}", named.evidence);
        let unnamed = [
            Flows { waiting: 0.1, ..beside },
            Flows { in_flight: 25_000.0, ..beside },
            Flows { rtt: 200.0, min_rtt: 180.0, ..beside },
        ];
        for flows in unnamed {
            assert_eq!(flows.name(0.97).limiter, Limiter::NotExplained, "{flows:?}");
        }
    }

    #[test]
    fn a_full_port_is_the_network_also_without_a_queue() {
        let full = Flows { bits: 9.41e9, link: 10e9, ..flows() };
        let named = full.name(0.9);
        assert_eq!(named.limiter, Limiter::Network);
        assert!(named.evidence.contains("94 % of the sender's port"), "{}", named.evidence);
        assert_eq!(Flows { bits: 8.5e9, ..full }.name(0.9).limiter, Limiter::NotExplained);
        assert_eq!(Flows { bits: 11e9, ..full }.name(0.9).limiter, Limiter::NotExplained, "a nominal rate");
    }

    #[test]
    fn a_port_without_room_for_more_payload_limits_whatever_else_is_full() {
        let full = |share: f64, segment_size| {
            Flows { bits: share * 10e9, link: 10e9, segment_size, ..flows() }.full_port()
        };
        // An MTU of 1500 leaves 94.15 % for payload, one of 9000 leaves 99 %.
        let named = full(0.94, 1448.0).expect("it is full");
        assert_eq!((named.limiter, named.share), (Limiter::Network, 0.94));
        assert!(named.evidence.starts_with("9.40 Gbit/s, 94 % of the sender's port"), "{}", named.evidence);
        assert_eq!(full(0.90, 1448.0), None, "processors could give 4 % more");
        assert_eq!((full(0.94, 8948.0), full(0.98, 8948.0).is_some()), (None, true));
        assert_eq!(full(1.1, 1448.0), None, "a nominal rate");
        assert_eq!((full(0.94, 0.0), Flows::default().full_port()), (None, None), "unknown");
    }

    #[test]
    fn a_rate_that_is_held_was_the_links() {
        let held = Flows { held: 0.85, retransmits: 1e3, rwnd_limited: 9e5, ..flows() }.name(0.85);
        assert_eq!(held.limiter, Limiter::Network);
        assert!(held.evidence.starts_with("10.0 Mbit/s, for 85 % of the time kept"), "{}", held.evidence);
    }

    #[test]
    fn less_than_a_segment_under_way_is_a_question_and_its_answer() {
        let asks = Flows { number: 1.0, bits: 712e3, rtt: 6700.0, min_rtt: 552.0, ..flows() };
        assert!(asks.is_exchange(), "600 bytes");
        assert!(!Flows { bits: 10e6, ..asks }.is_exchange() && !flows().is_exchange());
        assert!(!Flows { retransmits: 5e3, ..asks }.is_exchange(), "its own timers");
    }

    #[test]
    fn pieces_are_small_where_many_segments_hold_little() {
        let small = Flows { data_segments: 1000.0, data: 100e3, ..flows() };
        assert_eq!(small.small_pieces(), Some(100.0));
        assert_eq!(Flows { data: 1.4e6, ..small }.small_pieces(), None, "full ones");
        assert_eq!(Flows { data_segments: 60.0, data: 6e3, ..small }.small_pieces(), None, "a login");
        assert_eq!(flows().small_pieces(), None, "unknown");
    }

    #[test]
    fn losses_limit_who_is_as_slow_as_they_make() {
        // 1 % at 20 ms: Reno gives 7 Mbit/s.
        let lossy = Flows { retransmits: 1e3, ..flows() };
        assert_eq!(lossy.name(0.9).limiter, Limiter::Loss);
        let one = Flows { retransmits: 1.0, segments: 20_000.0, ..flows() };
        assert_eq!(one.name(0.9).limiter, Limiter::NotExplained, "a single segment is chance");
        let fast = Flows { bits: 2e9, ..lossy };
        assert_eq!(fast.name(0.9).limiter, Limiter::Network, "a congestion control that doesn't mind");
        assert_eq!(
            Flows { rtt: 40_000.0, ..lossy }.name(0.9).limiter,
            Limiter::Network,
            "its own queue's losses"
        );
        assert_eq!(flows().name(0.9).limiter, Limiter::NotExplained);
    }

    #[test]
    fn the_model_is_that_of_the_papers() {
        let flow = Flows { rtt: 100_000.0, segment_size: 1460.0, ..flows() };
        // Mathis et al.: 1460 x 8 x sqrt(3 / 2) / (0.1 x sqrt(1e-2)).
        assert!((flow.model(1e-2) / 1.4305e6 - 1.0).abs() < 1e-3);
        // RFC 9438, table 1: at 1e-4 and 0.1 s a window of 187 segments.
        assert!((flow.model(1e-4) / (1460.0 * 8.0 / 0.1) / 187.0 - 1.0).abs() < 0.01, "{}", flow.model(1e-4));
    }
}
