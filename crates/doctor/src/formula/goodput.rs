//! The share of a line's rate that headers leave for payload.
//!
//! A full segment of MTU bytes costs MTU + 38 bytes on Ethernet: preamble 8, header 14, checksum 4, gap 12 (IEEE 802.3,
//! 3.1.1 and 4.4.2); a VLAN's tag is 4 more. Of the MTU, IPv4 takes 20 bytes, IPv6 40, TCP 20, and TCP's timestamps 12
//! (RFC 791, 8200, 9293, 7323).

const ETHERNET: f64 = 38.0;
const TAG: f64 = 4.0;
const TCP: f64 = 20.0;
const STAMPS: f64 = 12.0;

/// The size and headers of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// Bytes of the largest packet.
    pub mtu: u32,
    /// True if TCP's timestamps are on.
    pub timestamps: bool,
    /// True over IPv6.
    pub ipv6: bool,
    /// True if packets have a VLAN's tag.
    pub tagged: bool,
}

impl Segments {
    /// The usual form: with timestamps, over IPv4, without a VLAN's tag.
    pub fn usual(mtu: u32) -> Self {
        Self { mtu, timestamps: true, ..Self::default() }
    }

    /// Payload of one segment in bytes.
    pub fn payload(self) -> f64 {
        let ip = if self.ipv6 { 40.0 } else { 20.0 };
        let stamps = if self.timestamps { STAMPS } else { 0.0 };
        (f64::from(self.mtu) - ip - TCP - stamps).max(0.0)
    }

    /// Share of the line that is payload, 0 to 1.
    pub fn share(self) -> f64 {
        let tag = if self.tagged { TAG } else { 0.0 };
        self.payload() / (f64::from(self.mtu) + ETHERNET + tag)
    }

    /// Full packets a second on a line of this rate in bits a second.
    pub fn packets(self, line: f64) -> f64 {
        line / 8.0 / (f64::from(self.mtu) + ETHERNET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_shares_come_out() {
        let share = |segments: Segments| (segments.share() * 1e4).round() / 1e4;
        assert_eq!((share(Segments::usual(1500)), share(Segments::usual(9000))), (0.9415, 0.99));
        let bare = |mtu| Segments { mtu, ..Segments::default() };
        assert_eq!((share(bare(1500)), share(bare(9000))), (0.9493, 0.9914));
        assert!(share(Segments { ipv6: true, ..bare(1500) }) < 0.9493);
        assert!(share(Segments { tagged: true, ..bare(1500) }) < 0.9493);
        assert_eq!(bare(0).share(), 0.0);
    }

    #[test]
    fn ten_gigabits_are_800_000_packets() {
        assert_eq!((Segments::usual(1500).packets(10e9) / 1e3).round(), 813.0);
    }
}
