//! The rates that one core can handle. Others measured these rates, which differ by a factor of two between
//! processors, so each is a band.
//!
//! - Packets: the kernel's stack handles 1 to 2 million a second on a core (Corbet, Improving Linux
//!   networking performance, <https://lwn.net/Articles/629155/>); it makes no difference whether they are
//!   full.
//! - Without aggregation, TCP handles and acknowledges each packet by itself: about twice the work.
//! - A connection: a core of 2018 (3.4 GHz) receives about 42 Gbit/s with all offloads, limited by copying; a
//!   fifth less from a card at another NUMA node (Cai et al., Understanding Host Network Stack Overheads,
//!   SIGCOMM 2021, 3.1 to 3.3). An older core reaches half of it.

use super::Band;

/// Packets a second of one core, with aggregation (GRO).
const AGGREGATED: (f64, f64) = (1e6, 2e6);
/// Packets a second of one core, without aggregation.
const SINGLE: (f64, f64) = (0.5e6, 1e6);
/// Bits a second that one core receives and copies.
const COPIED: (f64, f64) = (21e9, 42e9);
/// Share of the rate that is lost if memory and card belong to different NUMA nodes.
pub const FAR_LOSS: f64 = 0.2;

/// Bits a second that one processor encrypts and then hashes, by the rates of the cipher and of the hash in bytes a
/// second.
pub fn sealing(aes: f64, blake: f64) -> f64 {
    8.0 / (1.0 / aes + 1.0 / blake)
}

/// Bits a second on the wire that one core receives from a card: interrupts and the protocol, without
/// copying.
pub fn receiving(mtu: u32, aggregated: bool) -> Band {
    let packets = if aggregated { AGGREGATED } else { SINGLE };
    let bits = (f64::from(mtu) + 38.0) * 8.0;
    Band { low: packets.0 * bits, high: packets.1 * bits }
}

/// Bits a second of one connection whose program and protocol are on cores of their own.
pub fn connection(mtu: u32, aggregated: bool) -> Band {
    let stack = receiving(mtu, aggregated);
    Band { low: stack.low.min(COPIED.0), high: stack.high.min(COPIED.1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_enough_for_ten_gigabits_when_packets_are_joined() {
        assert!(receiving(1500, true).low > 10e9 && receiving(1500, true).high < 25e9);
        assert!(receiving(1500, false).low < 10e9);
        assert!(receiving(9000, false).low > 25e9);
        assert_eq!(connection(9000, true), Band { low: 21e9, high: 42e9 });
    }
}
