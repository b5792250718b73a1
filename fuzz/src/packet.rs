//! Fuzz target for packets that the emulator of a link reads from a TUN interface; any program in the
//! namespace can send them.

/// Divides a packet into two parts and checks them.
pub fn packet(data: &[u8]) {
    linerate_lab::wan::foreign::packet(data);
}
