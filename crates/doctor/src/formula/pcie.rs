//! The rate of a PCI Express link.
//!
//! Bits a second of a lane after encoding (PCI Express Base Specification 6.0, 1.2 and 4.2: 8b/10b up to 5 GT/s,
//! 128b/130b up to 32 GT/s, flits at 64 GT/s), times the packets' efficiency: each payload carries 20 to 28 bytes more
//! (framing, sequence, header of 3 or 4 words, LCRC, ECRC), and acknowledgements and flow control share the link with
//! them (Neugebauer et al., Understanding PCIe performance for end host networking, SIGCOMM 2018).

use super::Band;

/// Payload of a packet in bytes if it is unknown: the most common setting of firmware.
pub const USUAL_PAYLOAD: u32 = 128;
/// The least and the most bytes of a packet in addition to its payload.
const BESIDE: (f64, f64) = (20.0, 28.0);

/// Bits a second of one lane after encoding, by gigatransfers a second; `None` for speeds that PCI Express doesn't
/// have.
pub fn lane(gigatransfers: f64) -> Option<f64> {
    match gigatransfers {
        2.5 => Some(2.0e9),
        5.0 => Some(4.0e9),
        8.0 => Some(8.0e9 * 128.0 / 130.0),
        16.0 => Some(16.0e9 * 128.0 / 130.0),
        32.0 => Some(32.0e9 * 128.0 / 130.0),
        64.0 => Some(63.0e9),
        _ => None,
    }
}

/// The generation of PCI Express, by gigatransfers a second.
pub fn generation(gigatransfers: f64) -> Option<u32> {
    let all = [2.5, 5.0, 8.0, 16.0, 32.0, 64.0];
    (1..).zip(all).find(|(_, speed)| *speed == gigatransfers).map(|(number, _)| number)
}

/// Bits a second of a link in one direction, with packets of this payload in bytes.
pub fn effective(gigatransfers: f64, lanes: u32, payload: u32) -> Option<Band> {
    let (raw, payload) = (lane(gigatransfers)? * f64::from(lanes), f64::from(payload));
    let of = |beside: f64| raw * payload / (payload + beside);
    Some(Band { low: of(BESIDE.1), high: of(BESIDE.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gbit(speed: f64, lanes: u32, payload: u32) -> (f64, f64) {
        let band = effective(speed, lanes, payload).unwrap();
        let round = |bits: f64| (bits * 1e-8).round() / 10.0;
        (round(band.low), round(band.high))
    }

    #[test]
    fn the_first_generations_are_as_measured() {
        // The papers' Figure 4 measured about 6 Gbit/s with four lanes, and near 10 Gbit/s with eight.
        assert_eq!(gbit(2.5, 4, 128), (6.6, 6.9));
        assert_eq!(gbit(2.5, 8, 128), (13.1, 13.8));
        assert_eq!(gbit(5.0, 8, 128), (26.3, 27.7));
        assert_eq!(gbit(8.0, 8, 256), (56.8, 58.4));
    }

    #[test]
    fn odd_speeds_have_no_rate() {
        assert_eq!((lane(2.0), generation(3.0), effective(7.0, 4, 128)), (None, None, None));
        assert_eq!((generation(2.5), generation(64.0)), (Some(1), Some(6)));
    }
}
