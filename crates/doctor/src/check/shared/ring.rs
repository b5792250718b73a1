//! The size of a ring that is proposed next, for receive and transmit rings.

use linerate_host::facts::Port;

use super::processors;
use crate::Host;
use crate::formula::goodput::Segments;
use crate::remedy::{RING_PART, RING_STEP};

/// Seconds of packets for which a ring should have room: a tick of a kernel with 250 Hz (the usual CONFIG_HZ). Another
/// thread may run for so long before the processor empties the ring.
const TICK: f64 = 0.004;
/// Bytes of a frame beside its MTU: Ethernet's header with a VLAN's tag, and the room that drivers keep before the
/// packet.
const BESIDE: u64 = 256 + 18;
/// Bytes of a page if that is unknown: a buffer has at least one page.
const PAGE: u64 = 4096;
/// The bytes of the largest page that a kernel of any architecture uses.
const LARGEST_PAGE: u64 = 256 << 10;

/// The next size: twice the present one, or four times if twice is too small for the packets of a tick. If the ring is
/// still full then, it gets more in the next step. `None` if the driver or the host's memory allows no more.
pub fn next(host: &Host<'_>, port: &Port, now: u32, most: u32) -> Option<u32> {
    let packets = || Some(Segments::usual(port.mtu.get()?).packets(host.rate_of(port)?) * TICK);
    let is_short = packets().is_some_and(|needed| f64::from(now) * 2.0 < needed);
    // Octeon's rings have 16, 64, 256 entries and so on (Q_SIZE in otx2_common.h): twice as many become four times.
    let steps: &[u32] = match (processors::is_octeon(port), is_short) {
        (true, _) => &[RING_STEP],
        (false, true) => &[RING_STEP, 2],
        (false, false) => &[2],
    };
    let bears = |size: &u32| u64::from(*size) <= bearable(host, port);
    let sizes = steps.iter().map(|step| now.saturating_mul(*step).min(most));
    sizes.filter(bears).find(|size| *size > now)
}

/// The most entries of each ring whose buffers take a small part of the host's memory.
fn bearable(host: &Host<'_>, port: &Port) -> u64 {
    let Some(memory) = host.facts.memory.total.get() else { return u64::MAX };
    // Another host may report any number.
    let page =
        host.facts.memory.page.get().filter(|page| (PAGE..=LARGEST_PAGE).contains(page)).unwrap_or(PAGE);
    let buffer = (u64::from(port.mtu.get().unwrap_or(0)) + BESIDE).next_multiple_of(page);
    let queues = port.rx_count().get().or(host.facts.cpu.threads().get()).unwrap_or(1).max(1);
    memory / RING_PART / buffer / u64::from(queues)
}

/// The text about the limits of larger rings, for people.
pub fn costs() -> String {
    format!(
        "one change makes a ring at most {RING_STEP} times as large, and the buffers of a port's rings take at most \
         1/{RING_PART} of the memory: if packets are still dropped, run the doctor again"
    )
}

/// The words for a ring that the host's memory doesn't allow to grow.
pub const TOO_LITTLE_MEMORY: &str = "let each queue interrupt a processor of its own, or add memory: the buffers of larger rings would take too much of the host's memory";

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::Need;
    use crate::testing::{edited, port_of};

    fn size(driver: &str, now: u32, most: u32, memory: u64, mtu: u32) -> Option<u32> {
        let mut facts = edited("stock-10g", "eno1", |port| {
            (port.driver, port.mtu) = (Fact::Known(driver.into()), Fact::Known(mtu));
        });
        facts.memory.total = Fact::Known(memory);
        let port = port_of(&mut facts, "eno1").clone();
        next(&Host::alone("h", &facts, Need::OfPorts), &port, now, most)
    }

    /// rvu-nicpf's rx_max_pending is a million entries, nfp's 262144 (otx2_get_ringparam(), nfp_net_get_ringparam()).
    #[test]
    fn a_driver_s_maximum_is_no_advice() {
        assert_eq!(size("rvu-nicpf", 256, 1 << 20, 64 << 30, 1500), Some(1024));
        assert_eq!(size("nfp", 4096, 1 << 18, 64 << 30, 1500), Some(8192), "4096 last longer than a tick");
        assert_eq!(size("ixgbe", 512, 4096, 64 << 30, 1500), Some(2048));
        assert_eq!(size("ixgbe", 512, 600, 64 << 30, 1500), Some(600));
    }

    /// Eight queues of 1024 buffers of three pages each are 96 MiB: 1/64 of 6 GiB.
    #[test]
    fn the_memory_bounds_a_ring() {
        assert_eq!(size("ixgbe", 256, 4096, 6 << 30, 9000), Some(1024));
        assert_eq!(size("ixgbe", 256, 4096, 5 << 30, 9000), Some(512));
        assert_eq!(size("ixgbe", 256, 4096, 2 << 30, 9000), None);
    }
}
