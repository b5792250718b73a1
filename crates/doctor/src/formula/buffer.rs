//! How much of TCP's buffers is window, and how large a buffer can be.
//!
//! A share of a receive buffer is window: a half by default, and since Linux 6.6 whatever `tcp_adv_win_scale` says (commit
//! dfa2f0483360; the kernel then learns the share from what arrives). Of a send buffer more is payload, since full segments
//! waste little: 80 to 89 % was measured with iperf3 at 50 ms with 2 and 4 MiB.

use linerate_host::facts::{Facts, Tcp};

use super::bdp;

/// Share of a send buffer that is payload.
const PAYLOAD: f64 = 0.85;
/// The scale of a half.
const HALF: i32 = 1;
/// The kernel without `tcp_adv_win_scale`.
const WITHOUT_SCALE: (u32, u32) = (6, 6);
/// The most that the kernel takes for a buffer: an `int`.
const MOST: u64 = i32::MAX as u64;
/// One connection's buffer may have this part of the memory.
const OF_MEMORY: u64 = 8;

/// Bytes of window of a receive buffer of `size` bytes.
pub fn received(facts: &Facts, size: u64) -> f64 {
    bdp::window(size, scale(facts))
}

/// Bytes in flight of a send buffer of `size` bytes.
pub fn sent(size: u64) -> f64 {
    size as f64 * PAYLOAD
}

/// The smaller window of both directions of one host.
pub fn smaller(facts: &Facts, tcp: &Tcp) -> Option<f64> {
    Some(received(facts, tcp.rmem.get()?[2]).min(sent(tcp.wmem.get()?[2])))
}

/// The buffer for `flight` bytes in flight; never less than `now`, nor more than the kernel takes and the memory bears.
pub fn proposed(facts: &Facts, flight: f64, now: u64) -> u64 {
    let wanted = (2.0 * flight).ceil() as u64;
    let wanted = wanted.checked_next_power_of_two().unwrap_or(wanted);
    let memory = facts.memory.total.get().map_or(MOST, |total| total / OF_MEMORY);
    wanted.min(MOST).min(memory).max(now)
}

fn scale(facts: &Facts) -> i32 {
    match facts.kernel.known().and_then(|release| version(release)) {
        Some(version) if version >= WITHOUT_SCALE => HALF,
        _ => facts.tcp.adv_win_scale.get().unwrap_or(HALF),
    }
}

/// `6.1.0-30-amd64`.
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::changed;
    use linerate_host::Fact;

    fn host(kernel: &str, scale: i32, memory: u64) -> Facts {
        changed("stock-10g", |facts| {
            facts.kernel = Fact::Known(kernel.into());
            facts.tcp.adv_win_scale = Fact::Known(scale);
            facts.memory.total = Fact::Known(memory);
        })
    }

    #[test]
    fn the_scale_counts_only_where_the_kernel_reads_it() {
        assert_eq!(received(&host("6.5.0-1", -2, 1 << 34), 1024), 256.0);
        assert_eq!(received(&host("6.6.0", -2, 1 << 34), 1024), 512.0);
        assert_eq!(received(&host("6.18.44-x", 2, 1 << 34), 1024), 512.0);
    }

    #[test]
    fn a_buffer_is_never_smaller_than_now_nor_larger_than_can_be() {
        let (large, small) = (host("6.6.0", 1, 1 << 40), host("6.6.0", 1, 1 << 30));
        assert_eq!(proposed(&large, 12.5e6, 4 << 20), 32 << 20);
        assert_eq!(proposed(&large, 12.5e6, 128 << 20), 128 << 20);
        assert_eq!(proposed(&large, 1e12, 4 << 20), i32::MAX as u64);
        assert_eq!(proposed(&small, 1e12, 4 << 20), 128 << 20);
        assert_eq!(proposed(&large, f64::INFINITY, i32::MAX as u64), i32::MAX as u64);
    }
}
