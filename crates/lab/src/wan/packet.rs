//! A packet of a TUN interface: a header of 10 bytes that describes its segmentation and checksum
//! (`struct virtio_net_hdr`, include/uapi/linux/virtio_net.h), then an IP packet of up to 64 KiB.
//!
//! A *super-packet* stands for several TCP *segments* on a wire; each segment has a copy of the headers.

use std::ops::Range;

use linerate_sys::tun::HEADER_BYTES;

/// Bytes that Ethernet adds to each IP packet: preamble 8, header 14, checksum 4, gap 12 (IEEE 802.3).
pub const FRAMING: u64 = 38;

/// The smallest payload of an Ethernet frame. A shorter packet is padded.
const LEAST_PACKET: u64 = 46;

/// VIRTIO_NET_HDR_F_NEEDS_CSUM: the transport's checksum field holds only the sum of the pseudo-header.
const NEEDS_CHECKSUM: u8 = 1;

const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
/// VIRTIO_NET_HDR_GSO_ECN, a bit in addition to the types.
const GSO_ECN: u8 = 0x80;

/// Offsets in the header of 10 bytes. Numbers are in the host's byte order.
const GSO_TYPE: usize = 1;
const GSO_SIZE: usize = 4;
const CHECKSUM_START: usize = 6;
const CHECKSUM_OFFSET: usize = 8;

/// Offsets in a TCP header.
const TCP_SEQUENCE: usize = 4;
const TCP_LENGTH: usize = 12;
const TCP_FLAGS: usize = 13;
const TCP_CHECKSUM: usize = 16;
const TCP_LEAST: usize = 20;
const FIN_AND_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// The segments of a packet on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketShape {
    /// The number of segments; 1 for a packet that isn't segmented.
    pub(crate) segments: usize,
    /// The number of bytes of the IP packet before the TCP payload; if the packet isn't segmented, the number of all
    /// its bytes.
    headers: usize,
    /// The offset of the TCP header in the IP packet, in bytes.
    transport: usize,
    /// The payload bytes in each segment except the last.
    step: usize,
    /// The payload bytes in all segments together.
    payload: usize,
}

impl PacketShape {
    /// The shape of a packet; `None` if the bytes are too short for a packet. A super-packet of an unexpected
    /// kind, or with inconsistent headers, counts as one segment: it passes or is dropped as a whole.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let (header, packet) = bytes.split_at_checked(HEADER_BYTES)?;
        let whole = Self { segments: 1, headers: packet.len(), transport: 0, step: packet.len(), payload: 0 };
        (!packet.is_empty()).then(|| Self::of_super_packet(header, packet).unwrap_or(whole))
    }

    fn of_super_packet(header: &[u8], packet: &[u8]) -> Option<Self> {
        let (version, least) = match header[GSO_TYPE] & !GSO_ECN {
            GSO_TCP4 => (4, 20),
            GSO_TCP6 => (6, 40),
            _ => return None,
        };
        let (step, transport) = (number(header, GSO_SIZE), number(header, CHECKSUM_START));
        let partial = header[0] & NEEDS_CHECKSUM != 0 && number(header, CHECKSUM_OFFSET) == TCP_CHECKSUM;
        if packet[0] >> 4 != version || transport < least || !partial || step == 0 {
            return None;
        }
        let length = usize::from(packet.get(transport + TCP_LENGTH)? >> 4) * 4;
        let headers = transport + length;
        let payload = packet.len().checked_sub(headers).filter(|_| length >= TCP_LEAST)?;
        Some(Self { segments: payload.div_ceil(step).max(1), headers, transport, step, payload })
    }

    /// The number of bytes that these segments have on an Ethernet, including the headers and framing of each segment.
    pub(crate) fn wire_bytes(&self, range: &Range<usize>) -> u64 {
        let count = range.len() as u64;
        let payload = self.part(range).len() as u64;
        let headers = self.headers as u64;
        // Only an unsegmented packet can be shorter than a frame: a segment has 40 bytes of headers, and a
        // payload of the size that the kernel chose. The last segment's payload may be shorter.
        (count * headers + payload).max(count * LEAST_PACKET) + count * FRAMING
    }

    /// The number of bytes that any segment except the last has on an Ethernet.
    pub(crate) fn wire_bytes_of_one(&self) -> u64 {
        self.wire_bytes(&(0..1))
    }

    /// The byte range of the payload that the segments with the indices `range` carry.
    fn part(&self, range: &Range<usize>) -> Range<usize> {
        (range.start * self.step).min(self.payload)..(range.end * self.step).min(self.payload)
    }
}

/// Replaces the contents of `piece` by a packet that holds only the segments `range` of `bytes`, as if a network card
/// had received only these segments.
pub(crate) fn cut(bytes: &[u8], shape: &PacketShape, range: Range<usize>, piece: &mut Vec<u8>) {
    piece.clear();
    if range == (0..shape.segments) {
        piece.extend_from_slice(bytes);
        return;
    }
    let part = shape.part(&range);
    let head = HEADER_BYTES + shape.headers;
    piece.extend_from_slice(&bytes[..head]);
    piece.extend_from_slice(&bytes[head..][part.clone()]);
    let (header, packet) = piece.split_at_mut(HEADER_BYTES);
    if range.len() == 1 {
        header[GSO_TYPE] = GSO_NONE;
        header[GSO_SIZE..][..2].fill(0);
    }
    let gone = shape.payload - part.len();
    mend_ip(packet, gone, range.start);
    mend_tcp(
        &mut packet[shape.transport..],
        part.start,
        gone,
        (range.start == 0, range.end == shape.segments),
    );
}

/// Corrects the lengths. For IPv4, also corrects the header's checksum and the identification, which increases by one
/// for each segment.
fn mend_ip(packet: &mut [u8], gone: usize, first: usize) {
    if packet[0] >> 4 == 6 {
        return put(packet, 4, get(packet, 4).wrapping_sub(gone as u16));
    }
    put(packet, 2, get(packet, 2).wrapping_sub(gone as u16));
    put(packet, 4, get(packet, 4).wrapping_add(first as u16));
    put(packet, 10, 0);
    let length = (usize::from(packet[0] & 0x0f) * 4).clamp(20, packet.len());
    put(packet, 10, !sum(&packet[..length]));
}

/// Corrects the sequence number, the flags that only the first or the last segment has, and the length in the
/// pseudo-header, which is part of the checksum.
fn mend_tcp(tcp: &mut [u8], skipped: usize, gone: usize, (has_first, has_last): (bool, bool)) {
    let sequence = [0, 1, 2, 3].map(|at| tcp[TCP_SEQUENCE + at]);
    let sequence = u32::from_be_bytes(sequence).wrapping_add(skipped as u32);
    tcp[TCP_SEQUENCE..][..4].copy_from_slice(&sequence.to_be_bytes());
    if !has_last {
        tcp[TCP_FLAGS] &= !FIN_AND_PSH;
    }
    if !has_first {
        tcp[TCP_FLAGS] &= !CWR;
    }
    // In ones' complement, subtraction is the addition of the complement (RFC 1624).
    let checksum = u32::from(get(tcp, TCP_CHECKSUM)) + u32::from(!(gone as u16));
    put(tcp, TCP_CHECKSUM, fold(checksum));
}

/// The Internet checksum's sum (RFC 1071), not complemented, of an even number of bytes.
fn sum(bytes: &[u8]) -> u16 {
    fold(bytes.as_chunks().0.iter().map(|pair| u32::from(u16::from_be_bytes(*pair))).sum())
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

fn number(header: &[u8], at: usize) -> usize {
    u16::from_ne_bytes([header[at], header[at + 1]]).into()
}

fn get(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..][..2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
#[path = "packet_tests.rs"]
pub(crate) mod tests;
