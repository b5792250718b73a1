//! Compares cut packets with a second, simple computation of the packets on a wire.

use super::*;
use proptest::prelude::*;

/// A super-packet as a kernel writes it to a TUN interface.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) v6: bool,
    /// The number of bytes between the IPv6 header and the TCP header, or of the IPv4 options.
    pub(crate) extra: usize,
    pub(crate) options: usize,
    pub(crate) step: usize,
    pub(crate) payload: usize,
    pub(crate) sequence: u32,
    pub(crate) number: u16,
    pub(crate) flags: u8,
}

impl Sample {
    /// A packet of an ordinary connection, with this number of segments.
    pub(crate) fn of(segments: usize, sequence: u32) -> Self {
        let (step, payload) = (1448, segments * 1448);
        Self { v6: false, extra: 0, options: 12, step, payload, sequence, number: 7, flags: 0x18 }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let mut packet = if self.v6 { self.ip6(tcp.len()) } else { self.ip4(tcp.len()) };
        let transport = packet.len();
        packet.extend(tcp);
        let partial = !complement(&pseudo_header(&packet, transport));
        packet[transport + 16..][..2].copy_from_slice(&partial.to_be_bytes());
        let cut = self.payload > self.step;
        let kind = if !cut { 0u8 } else { [1, 4][usize::from(self.v6)] };
        let size = if cut { self.step as u16 } else { 0 };
        let header_length = (transport + 20 + self.options) as u16;
        let words = [header_length, size, transport as u16, 16].map(u16::to_ne_bytes).concat();
        [vec![1, kind], words, packet].concat()
    }

    fn tcp(&self) -> Vec<u8> {
        let mut tcp = vec![0; 20 + self.options];
        tcp[..4].copy_from_slice(&[0x30, 0x39, 0x14, 0x51]);
        tcp[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        tcp[12] = ((tcp.len() / 4) << 4) as u8;
        tcp[13] = self.flags;
        tcp[20..].fill(1);
        tcp.extend((0..self.payload).map(|at| (at * 7 + at / 251) as u8));
        tcp
    }

    fn ip4(&self, payload: usize) -> Vec<u8> {
        let mut ip = vec![0; 20 + self.extra];
        ip[0] = 0x40 | (ip.len() / 4) as u8;
        let total = (ip.len() + payload) as u16;
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        ip[4..6].copy_from_slice(&self.number.to_be_bytes());
        ip[8..10].copy_from_slice(&[64, 6]);
        ip[12..20].copy_from_slice(&[10, 213, 0, 1, 10, 213, 0, 2]);
        ip[20..].fill(1);
        let checksum = complement(&ip);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        ip
    }

    fn ip6(&self, payload: usize) -> Vec<u8> {
        let mut ip = vec![0x60; 40 + self.extra];
        ip[4..6].copy_from_slice(&((self.extra + payload) as u16).to_be_bytes());
        ip[6] = if self.extra > 0 { 60 } else { 6 };
        for (at, byte) in ip[8..40].iter_mut().enumerate() {
            *byte = at as u8 ^ 0xfd;
        }
        if self.extra > 0 {
            ip[40..].fill(0);
            ip[40..42].copy_from_slice(&[6, (self.extra / 8 - 1) as u8]);
        }
        ip
    }
}

/// The packets on a wire for a packet of a TUN interface, each with all its checksums.
pub(crate) fn wire(bytes: &[u8]) -> Vec<Vec<u8>> {
    let word = |at: usize| usize::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]));
    let (kind, size, transport) = (bytes[1], word(4), word(6));
    let packet = &bytes[10..];
    let headers = transport + usize::from(packet[transport + 12] >> 4) * 4;
    let payload = &packet[headers..];
    let partial = u16::from_be_bytes([packet[transport + 16], packet[transport + 17]]);
    let expected = !complement(&pseudo_header(packet, transport));
    assert_eq!(partial % 0xffff, expected % 0xffff, "the pseudo-header's sum belongs to this length");
    assert_eq!(kind == 0, payload.len() <= size || size == 0, "only what has to be cut is a super-packet");
    let chunks: Vec<&[u8]> = if kind == 0 { vec![payload] } else { payload.chunks(size).collect() };
    let last = chunks.len() - 1;
    let segment = |(at, chunk): (usize, &&[u8])| {
        let mut whole = packet[..headers].to_vec();
        whole.extend_from_slice(chunk);
        let flags = &mut whole[transport + 13];
        *flags &= if at == last { 0xff } else { !0x09 };
        *flags &= if at == 0 { 0xff } else { !0x80 };
        let sequence = &mut whole[transport + 4..][..4];
        let first = u32::from_be_bytes([sequence[0], sequence[1], sequence[2], sequence[3]]);
        sequence.copy_from_slice(&first.wrapping_add((at * size) as u32).to_be_bytes());
        complete(whole, transport, at as u16)
    };
    chunks.iter().enumerate().map(segment).collect()
}

/// Sets the lengths, the identification and the checksums, which are computed only from the packet itself.
fn complete(mut packet: Vec<u8>, transport: usize, at: u16) -> Vec<u8> {
    let length = packet.len() as u16;
    if packet[0] >> 4 == 4 {
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        let number = u16::from_be_bytes([packet[4], packet[5]]).wrapping_add(at);
        packet[4..6].copy_from_slice(&number.to_be_bytes());
        packet[10..12].fill(0);
        let checksum = complement(&packet[..transport]);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    } else {
        packet[4..6].copy_from_slice(&(length - 40).to_be_bytes());
    }
    packet[transport + 16..][..2].fill(0);
    let checksum = complement(&[pseudo_header(&packet, transport), packet[transport..].to_vec()].concat());
    packet[transport + 16..][..2].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// The pseudo-header of RFC 9293, 3.1 and RFC 8200, 8.1.
fn pseudo_header(packet: &[u8], transport: usize) -> Vec<u8> {
    let addresses = if packet[0] >> 4 == 4 { &packet[12..20] } else { &packet[8..40] };
    let length = (packet.len() - transport) as u32;
    [addresses, &length.to_be_bytes(), &[0, 0, 0, 6]].concat()
}

/// The Internet checksum by division: a ones' complement sum is a sum modulo 0xffff.
fn complement(bytes: &[u8]) -> u16 {
    let value = |(at, byte): (usize, &u8)| u64::from(*byte) << if at.is_multiple_of(2) { 8 } else { 0 };
    let total: u64 = bytes.iter().enumerate().map(value).sum();
    let folded = if total == 0 { 0 } else { (total - 1) % 0xffff + 1 };
    !(folded as u16)
}

pub(crate) fn samples() -> impl Strategy<Value = Sample> {
    let shape = (any::<bool>(), 0..=2usize, 0..=10usize, 1..=9000usize, 1..=60_000usize);
    (shape, any::<u32>(), any::<u16>(), any::<u8>()).prop_map(
        |((v6, extra, options, step, payload), sequence, number, flags)| Sample {
            v6,
            extra: extra * 8,
            options: options * 4,
            step,
            payload: payload.min(step * 200),
            sequence,
            number,
            flags,
        },
    )
}

/// The pieces between lost segments.
fn pieces(bytes: &[u8], lost: &[bool]) -> Vec<Vec<u8>> {
    let shape = PacketShape::of(bytes).expect("a packet");
    let (mut pieces, mut first) = (Vec::new(), 0);
    let lost = (0..shape.segments).filter(|at| lost[*at]);
    for end in lost.chain([shape.segments]) {
        if first < end {
            let mut piece = Vec::new();
            cut(bytes, &shape, first..end, &mut piece);
            pieces.push(piece);
        }
        first = end + 1;
    }
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_cut_packet_is_what_the_wire_would_have_carried(
        sample in samples(),
        losses in proptest::collection::vec(any::<bool>(), 200),
    ) {
        let bytes = sample.bytes();
        let carried = wire(&bytes);
        let expected: Vec<_> = carried.iter().zip(&losses).filter(|(_, lost)| !**lost).map(|(p, _)| p.clone()).collect();
        prop_assert_eq!(PacketShape::of(&bytes).expect("a packet").segments, carried.len());
        let left: Vec<_> = pieces(&bytes, &losses).iter().flat_map(|piece| wire(piece)).collect();
        prop_assert!(left == expected, "{} of {} packets, {} expected", left.len(), carried.len(), expected.len());
    }

    #[test]
    fn the_wire_carries_headers_and_framing_of_every_segment(sample in samples()) {
        let bytes = sample.bytes();
        let shape = PacketShape::of(&bytes).expect("a packet");
        let framed = |packet: &Vec<u8>| packet.len().max(46) as u64 + 38;
        let expected: u64 = wire(&bytes).iter().map(framed).sum();
        // A last segment of a few bytes may be shorter than a frame. As part of a super-packet, it isn't
        // padded.
        let filled = if shape.segments > 1 { 46 } else { 0 };
        prop_assert!(expected.abs_diff(shape.wire_bytes(&(0..shape.segments))) <= filled);
    }

    #[test]
    fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0..6u8) {
        if bytes.len() > 10 {
            // Nearly correct headers reach more code than random headers.
            (bytes[0], bytes[1]) = (1, kind);
            bytes[8..10].copy_from_slice(&16u16.to_ne_bytes());
            let transport = u16::from(bytes[6] % 80);
            bytes[6..8].copy_from_slice(&transport.to_ne_bytes());
            bytes[10] = if kind == 1 { 0x40 | bytes[10] & 15 } else { 0x60 };
        }
        if let Some(shape) = PacketShape::of(&bytes) {
            let mut piece = Vec::new();
            for first in 0..shape.segments.min(20) {
                cut(&bytes, &shape, first..first + 1, &mut piece);
                prop_assert!(piece.len() <= bytes.len());
            }
        }
    }
}

#[test]
fn what_is_lost_in_the_middle_leaves_two_super_packets() {
    let bytes = Sample::of(10, u32::MAX - 1000).bytes();
    let mut lost = [false; 10];
    lost[4] = true;
    let [near, far] = &pieces(&bytes, &lost)[..] else { panic!("two pieces") };
    assert_eq!(
        [near, far].map(|piece| PacketShape::of(piece).map(|shape| shape.segments)),
        [Some(4), Some(5)]
    );
    let flags = |piece: &[u8]| piece[HEADER_BYTES + 20 + 13];
    assert_eq!((flags(near), flags(far)), (0x10, 0x18), "only the last segment is pushed");
}

#[test]
fn what_is_no_super_packet_is_one_segment() {
    let mut bytes = Sample::of(10, 1).bytes();
    assert_eq!(PacketShape::of(&bytes).map(|shape| shape.segments), Some(10));
    // UDP fragmentation offload wasn't requested.
    bytes[1] = 3;
    assert_eq!(PacketShape::of(&bytes).map(|shape| shape.segments), Some(1));
    let acknowledgement = Sample { payload: 0, ..Sample::of(1, 1) }.bytes();
    let shape = PacketShape::of(&acknowledgement).expect("a packet");
    assert_eq!((shape.segments, shape.wire_bytes(&(0..1))), (1, 52 + 38));
    for short in [0, 5, HEADER_BYTES] {
        assert_eq!(PacketShape::of(&bytes[..short]), None);
    }
}
