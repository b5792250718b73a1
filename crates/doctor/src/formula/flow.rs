//! The rates that windows and losses allow on a path.
//!
//! Bytes in flight are rate times round-trip time; no connection has more in flight than its window. Loss:
//! Mathis et al., The macroscopic behavior of the TCP congestion avoidance algorithm, 1997; for CUBIC, RFC
//! 9438, 5.1.

/// The largest window of a connection that doesn't scale windows, in bytes: 16 bits (RFC 7323).
pub const MAX_UNSCALED_WINDOW: f64 = 65_535.0;

/// Bytes in flight at a rate in bits a second and a round-trip time in seconds.
pub fn in_flight(rate: f64, rtt: f64) -> f64 {
    rate * rtt / 8.0
}

/// Bits a second of a window in bytes and a round-trip time in seconds; infinite if there is no delay.
pub fn rate(window: f64, rtt: f64) -> f64 {
    if rtt > 0.0 { window * 8.0 / rtt } else { f64::INFINITY }
}

/// Window of a receive buffer, in bytes, by `tcp_adv_win_scale` (the kernel's ip-sysctl.rst).
pub fn window(buffer: u64, scale: i32) -> f64 {
    let buffer = buffer as f64;
    let part = 2f64.powi(-scale.abs());
    if scale > 0 { buffer * (1.0 - part) } else { buffer * part }
}

/// Bits a second that one connection of Reno keeps at a loss rate: MSS / RTT * sqrt(3/2) / sqrt(p).
pub fn reno(segment: f64, rtt: f64, loss: f64) -> f64 {
    if rtt > 0.0 && loss > 0.0 { segment * 8.0 / rtt * (1.5 / loss).sqrt() } else { f64::INFINITY }
}

/// Like [`reno`], for CUBIC: window in segments (C * (3 + b) / (4 * (1 - b)))^(1/4) * RTT^(3/4) / p^(3/4) with C 0.4
/// and b 0.7, or Reno's window if that is larger.
pub fn cubic(segment: f64, rtt: f64, loss: f64) -> f64 {
    if rtt <= 0.0 || loss <= 0.0 {
        return f64::INFINITY;
    }
    let segments = (0.4_f64 * 3.7 / 1.2).powf(0.25) * (rtt / loss).powf(0.75);
    (segments * segment * 8.0 / rtt).max(reno(segment, rtt, loss))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_megabytes_reach_two_and_a_half_milliseconds() {
        let window = window(6 << 20, 1);
        assert_eq!(window, 3.0 * 1024.0 * 1024.0);
        assert!((rate(window, 0.0025) - 10e9).abs() < 0.1e9, "{}", rate(window, 0.0025));
        assert_eq!(in_flight(10e9, 0.08), 1e8);
        assert_eq!(rate(1.0, 0.0), f64::INFINITY);
    }

    #[test]
    fn scales_are_the_kernels() {
        assert_eq!((window(1024, 2), window(1024, 0), window(1024, -2)), (768.0, 1024.0, 256.0));
    }

    #[test]
    fn loss_weighs_by_delay() {
        // RFC 9438, table 1: at 10 ms and 1e-4 CUBIC keeps some 120 segments; RTT 0.1 s and 1e-4: 187.
        let windows = |rtt: f64, loss: f64| cubic(1460.0, rtt, loss) * rtt / 8.0 / 1460.0;
        assert!((windows(0.1, 1e-4) - 187.0).abs() < 3.0, "{}", windows(0.1, 1e-4));
        assert!((windows(0.01, 1e-4) - 122.5).abs() < 3.0, "{}", windows(0.01, 1e-4));
        assert_eq!(reno(1460.0, 0.1, 0.0), f64::INFINITY);
    }
}
