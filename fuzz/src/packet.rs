//! What a TUN interface gives the emulator of a link: packets that somebody in the namespace made.

/// A packet, cut in two.
pub fn packet(data: &[u8]) {
    linerate_lab::wan::foreign::packet(data);
}
