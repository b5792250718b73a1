//! How much of TCP's buffers is window, and how large a buffer can be.
//!
//! A share of a receive buffer is window. Before Linux 6.6 `tcp_adv_win_scale` says which: a half by default. Since then (commit
//! dfa2f0483360) each connection begins with a quarter, or with a half (commit 697a6c8cec03), and takes as its share what is
//! payload of the memory of the first packet of full size: 31 % where a driver spends a page of 4 KiB on each 1500 bytes, 66 %
//! where Netflix measured it (the latter commit), and more where packets are joined. So a half is a guess, and the window that
//! the far end announces is better. Of a send buffer more is under way: full segments take 98 %, but a writer is
//! woken only once a third is free (sk_stream_write_space), so between two thirds and all is in use, 5/6 in the mean. With iperf3
//! 74 to 92 % was measured, at 20 to 50 ms with 0.5 to 4 MiB.

use linerate_host::facts::{Facts, Tcp};

use crate::Path;

use super::bdp;

/// Mean share of a full send buffer that is payload under way.
const PAYLOAD: f64 = 0.98 * 5.0 / 6.0;
/// The scale of a half.
const HALF: i32 = 1;
/// The first kernel that doesn't use `tcp_adv_win_scale`.
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

/// The size to which a receive buffer may grow, in bytes. One that begins larger than the most keeps its size.
pub fn most_received(tcp: &Tcp) -> Option<u64> {
    let [_, first, most] = tcp.rmem.get()?;
    Some(if tcp.moderate_rcvbuf.get() == Some(false) { first } else { most.max(first) })
}

/// The smaller window of both directions of one host.
pub fn smaller(facts: &Facts, tcp: &Tcp) -> Option<f64> {
    Some(received(facts, tcp.rmem.get()?[2]).min(sent(tcp.wmem.get()?[2])))
}

/// Bytes of window that a connection of this path gets from its receiver: those that were announced where they limited the
/// measurement. Where something else did, the window perhaps grew less than it can.
pub fn received_on(path: &Path<'_>) -> Option<f64> {
    let formula = || Some(received(path.to.facts, most_received(&path.to.facts.tcp)?));
    match path.measured.window.map(|bytes| bytes as f64) {
        Some(announced) if path.measured.is_window_limited() => Some(announced),
        Some(announced) => Some(formula()?.max(announced)),
        None => formula(),
    }
}

/// True where a receive buffer's share of window isn't a setting of the host: what it is shows only in what it announces.
pub fn is_learned(facts: &Facts) -> bool {
    facts.kernel.known().and_then(|release| version(release)).is_some_and(|version| version >= WITHOUT_SCALE)
}

/// The buffer for `flight` bytes in flight; never less than `now`, nor more than the kernel takes and the memory bears.
pub fn proposed(facts: &Facts, flight: f64, now: u64) -> u64 {
    let wanted = (2.0 * flight).ceil() as u64;
    let wanted = wanted.checked_next_power_of_two().unwrap_or(wanted);
    let memory = facts.memory.total.get().map_or(MOST, |total| total / OF_MEMORY);
    wanted.min(MOST).min(memory).max(now)
}

fn scale(facts: &Facts) -> i32 {
    if is_learned(facts) { HALF } else { facts.tcp.adv_win_scale.get().unwrap_or(HALF) }
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
