//! The rate of one thread of OpenSSH.
//!
//! A thread of ssh reads, encrypts, authenticates and writes each byte; copies, packets of 32 KiB and system
//! calls take as long as a fast cipher or longer. Measured here with OpenSSH 9.2, as the client's processor
//! time for 1.57 GB, on a busy machine of 2023: 0.95 ns a byte with AES-128-GCM, of which AES itself was
//! 0.14; 2.0 ns with ChaCha20-Poly1305. This is one measurement of one processor, so the bands are wide.

use super::Band;

/// The least and the most nanoseconds for each byte in addition to the cipher's.
const BESIDE: (f64, f64) = (0.5, 1.0);
/// The least and the most nanoseconds for each byte of ChaCha20-Poly1305.
const CHACHA: (f64, f64) = (1.0, 2.0);
/// Bytes that may be in flight in a session's channel: 64 packets of 32 KiB (channels.h,
/// CHAN_SES_WINDOW_DEFAULT).
pub const CHANNEL: f64 = 2.0 * 1024.0 * 1024.0;

/// Bits a second of one thread, given its cipher's bytes a second.
pub fn thread(cipher: f64) -> Band {
    let own = if cipher > 0.0 { 1e9 / cipher } else { f64::INFINITY };
    Band { low: bits(own + BESIDE.1), high: bits(own + BESIDE.0) }
}

/// Bits a second of one thread with ChaCha20-Poly1305, which clients prefer.
pub fn chacha() -> Band {
    Band { low: bits(CHACHA.1 + BESIDE.1), high: bits(CHACHA.0 + BESIDE.0) }
}

fn bits(nanoseconds: f64) -> f64 {
    8e9 / nanoseconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_within() {
        let aes = thread(7.16e9);
        assert!(aes.low < 8e9 / 0.95 && 8e9 / 0.95 < aes.high, "{aes:?}");
        assert!(chacha().low < 8e9 / 2.04 && 8e9 / 2.04 < chacha().high, "{:?}", chacha());
        assert_eq!(thread(0.0).low, 0.0);
    }
}
