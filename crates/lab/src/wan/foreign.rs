//! For the fuzzer and for the test that replays its corpus: a function that treats any bytes as a packet from a
//! namespace.

use linerate_sys::tun::HEADER_BYTES;

use super::packet::{FRAMING, PacketShape, cut};

/// Cuts a packet in two. The first two bytes of `data` are the position of the cut. The rest is the packet, as a TUN
/// interface delivers it.
///
/// # Panics
/// If the two parts don't add up to the whole.
pub fn packet(data: &[u8]) {
    let Some((at, bytes)) = data.split_first_chunk() else { return };
    let Some(shape) = PacketShape::of(bytes) else { return };
    let at = usize::from(u16::from_le_bytes(*at)) % (shape.segments + 1);
    let (mut first, mut last) = (Vec::new(), Vec::new());
    cut(bytes, &shape, 0..at.max(1), &mut first);
    assert!(first.len() <= bytes.len() && shape.wire_bytes(&(0..at.max(1))) > FRAMING);
    if (1..shape.segments).contains(&at) {
        cut(bytes, &shape, at..shape.segments, &mut last);
        let headers = PacketShape::of(&first).map(|_| first.len() + last.len() - bytes.len());
        assert!(headers.is_some_and(|headers| headers > HEADER_BYTES), "each has headers");
        // A piece of several segments can be cut in the same way as the whole packet.
        let again = PacketShape::of(&last).expect("it is a packet");
        assert!(again.segments == 1 || again.segments == shape.segments - at);
    }
}
