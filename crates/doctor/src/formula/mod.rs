//! The most that a part can do. Each formula names its source; docs/guide/doctor.md lists them in words.

pub mod bdp;
pub mod cpu;
pub mod goodput;
pub mod pcie;
pub mod ssh;
pub mod trip;

/// A rate known only as a range, in bits a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
}

/// Bits a second for people: `6.6 Gbit/s`, `940 Mbit/s`.
pub fn gbit(bits: f64) -> String {
    match bits {
        bits if bits >= 99.95e9 => format!("{:.0} Gbit/s", bits * 1e-9),
        bits if bits >= 1e9 => format!("{:.1} Gbit/s", bits * 1e-9),
        _ => format!("{:.0} Mbit/s", bits * 1e-6),
    }
}

/// Bytes for people, in powers of two as buffers are set: `6 MiB`.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= 1024f64.powi(3) => format!("{:.1} GiB", bytes / 1024f64.powi(3)),
        bytes if bytes >= 1024f64.powi(2) => format!("{:.1} MiB", bytes / 1024f64.powi(2)),
        bytes if bytes >= 1024.0 => format!("{:.0} KiB", bytes / 1024.0),
        _ => format!("{bytes:.0} B"),
    }
}

/// Share of a whole for people: `34 %`.
pub fn percent(share: f64) -> String {
    if share < 0.1 { format!("{:.1} %", share * 100.0) } else { format!("{:.0} %", share * 100.0) }
}
