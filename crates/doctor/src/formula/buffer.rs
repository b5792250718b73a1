//! The share of TCP's buffers that is window, and the largest size of a buffer.
//!
//! A share of a receive buffer is window. Before Linux 6.6 `tcp_adv_win_scale` sets this share: a half by default. From
//! Linux 6.6 on (commit dfa2f0483360) each connection begins with a quarter, or with a half (commit 697a6c8cec03), and
//! then uses the share of payload in the memory of its first packet of full size: 31 % if a driver spends a page of 4
//! KiB on each 1500 bytes, 66 % in Netflix's measurement (commit 697a6c8cec03), and more if packets are joined. So a
//! half is a guess, and the window that the other end announces is a better value. A larger share of a send buffer is
//! in flight. Payload is 98 % of full segments' memory, but the kernel wakes a writer only once a third of the buffer
//! is free (sk_stream_write_space). So two thirds to all of the buffer are in use, 5/6 on average. With iperf3 the
//! measured share was 74 to 92 %, at 20 to 50 ms with buffers of 0.5 to 4 MiB.

use linerate_host::facts::{Facts, Tcp};

use crate::Path;

use super::{bounds, flow};

/// One buffer may take one part in this number of the memory of all connections.
const OF_ALL: u64 = 8;
/// If the present buffer has at least this share of a larger one, it is nearly as good.
const NEARLY: f64 = 0.9;

/// Mean share of a full send buffer that is payload in flight.
const PAYLOAD: f64 = 0.98 * 5.0 / 6.0;
/// The value of `tcp_adv_win_scale` that means a half.
const HALF: i32 = 1;
/// The first kernel that doesn't use `tcp_adv_win_scale`.
const WITHOUT_SCALE: (u32, u32) = (6, 6);

/// Bytes of window of a receive buffer of `size` bytes.
pub fn received(facts: &Facts, size: u64) -> f64 {
    flow::window(size, scale(facts))
}

/// Bytes in flight of a send buffer of `size` bytes.
pub fn sent(size: u64) -> f64 {
    size as f64 * PAYLOAD
}

/// The size to which a receive buffer may grow, in bytes. A buffer that begins larger than the maximum keeps its size.
pub fn most_received(tcp: &Tcp) -> Option<u64> {
    let [_, first, most] = tcp.rmem.get()?;
    Some(if tcp.moderate_rcvbuf.get() == Some(false) { first } else { most.max(first) })
}

/// The smaller of the windows of a host's two directions, in bytes.
pub fn smaller(facts: &Facts, tcp: &Tcp) -> Option<f64> {
    Some(received(facts, tcp.rmem.get()?[2]).min(sent(tcp.wmem.get()?[2])))
}

/// Bytes of window that a connection of this path gets from its receiver: the announced window, if it limited the
/// measurement. If something else limited the measurement, the window may have grown less than it can, so the formula's
/// window is the minimum.
pub fn received_on(path: &Path<'_>) -> Option<f64> {
    let formula = || Some(received(path.to.facts, most_received(&path.to.facts.tcp)?));
    match path.measured.window.map(|bytes| bytes as f64) {
        Some(announced) if path.measured.is_window_limited() => Some(announced),
        Some(announced) => Some(formula()?.max(announced)),
        None => formula(),
    }
}

/// True if a receive buffer's share of window isn't a setting of the host: only the announced window shows it.
pub fn is_learned(facts: &Facts) -> bool {
    kernel(facts).is_some_and(|version| version >= WITHOUT_SCALE)
}

/// The size of a buffer for `flight` bytes in flight: at most what the kernel takes, the memory allows, and the memory
/// of all connections has room for. If that is less than `now`, or only a little more, the size is `now`, because it
/// isn't worth a change.
pub fn proposed(facts: &Facts, flight: f64, now: u64) -> u64 {
    let wanted = (2.0 * flight).ceil() as u64;
    let wanted = wanted.checked_next_power_of_two().unwrap_or(wanted);
    let possible = wanted.min(bounds::most(facts, 1)).min(share(facts));
    if possible as f64 * NEARLY <= now as f64 { now } else { possible }
}

/// One buffer's share of the memory of all connections, in bytes: once all buffers take tcp_mem's middle value, the
/// kernel lets no buffer grow. By the kernel's own defaults a buffer has the same share (tcp_init() in net/ipv4/tcp.c).
fn share(facts: &Facts) -> u64 {
    let pages = facts.tcp.mem.get().map(|[_, pressure, _]| pressure);
    let bytes = pages.zip(facts.memory.page.get()).map(|(pages, page)| pages.saturating_mul(page));
    bytes.map_or(u64::MAX, |bytes| bytes / OF_ALL)
}

fn scale(facts: &Facts) -> i32 {
    if is_learned(facts) { HALF } else { facts.tcp.adv_win_scale.get().unwrap_or(HALF) }
}

/// The version of the host's kernel; `None` if it is unknown.
pub fn kernel(facts: &Facts) -> Option<(u32, u32)> {
    facts.kernel.known().and_then(|release| version(release))
}

/// The major and minor number of a release like `6.1.0-30-amd64`.
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
            // As the kernel computes it: a sixteenth of the memory, in pages of 4 KiB.
            facts.tcp.mem = Fact::Known([3, 4, 6].map(|part| memory / 16 / 4096 / 4 * part));
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
        let mut no_limit = small.clone();
        no_limit.tcp.mem = Fact::NotApplicable;
        assert_eq!(proposed(&no_limit, 1e12, 4 << 20), 128 << 20);
        assert_eq!(proposed(&small, 1e12, 4 << 20), 8 << 20, "an eighth of tcp_mem's 64 MiB");
        assert_eq!(proposed(&small, 1e12, 7_900_000), 7_900_000, "8 MiB is nearly the same");
        assert_eq!(proposed(&large, f64::INFINITY, i32::MAX as u64), i32::MAX as u64);
    }
}
