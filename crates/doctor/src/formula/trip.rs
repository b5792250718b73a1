//! Round trips in seconds by which a host is judged if no path has been measured.

/// Between two hosts of a data centre, through its switches, with coalesced interrupts.
pub const DATA_CENTRE: f64 = 0.0002;
/// Within a city or a region: about 1,000 km of glass and back at 200,000 km/s.
pub const REGION: f64 = 0.010;

/// A round trip for people: `0.2 ms`.
pub fn text(seconds: f64) -> String {
    format!("{} ms", linerate_quantity::exact((seconds * 1e6).round() / 1e3))
}
