//! Parses values of options, and prints quantities, as users write and read them.

use clap::builder::{OsStringValueParser, TypedValueParser};
use linerate_transfer::routes::{self, Interfaces};
use linerate_wire::control::{CompressionLevel, MAX_COMPRESSION};
use std::path::PathBuf;
use std::time::Duration;

use linerate_quantity::{BitRate, Bytes, Seconds};
pub use linerate_quantity::{
    bytes as parse_size, count as show_count, counted as show_counted, limit as parse_rate,
    rsync_bytes as parse_rsync_size,
};

/// A parser for the name of a file or directory. It refuses an empty name, which an unset shell variable
/// causes.
pub fn named_file() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|name| match name.is_empty() {
        true => Err("it is empty, perhaps because a variable isn't set"),
        false => Ok(PathBuf::from(name)),
    })
}

/// Parses a range of TCP ports: `FIRST-LAST`, or a single port.
///
/// # Errors
/// A message with examples of valid values.
pub fn parse_ports(text: &str) -> Result<(u16, u16), String> {
    let wrong = || format!("'{text}' isn't a range of ports; write 50000-50010");
    let (first, last) = text.split_once(['-', ':']).unwrap_or((text, text));
    let (first, last) =
        (first.trim().parse().map_err(|_| wrong())?, last.trim().parse().map_err(|_| wrong())?);
    if first == 0 || first > last { Err(wrong()) } else { Ok((first, last)) }
}

/// Parses a duration in seconds, which may have a fraction. It may be at most 2^32, so that adding it to a
/// clock's time can't overflow.
///
/// # Errors
/// A message with examples of valid values.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=f64::from(u32::MAX)).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("'{text}' isn't a duration of a run; write seconds, such as 10 or 0.5"))
}

/// Parses a number of streams; `None` for `auto`.
///
/// # Errors
/// A message with examples of valid values.
pub fn parse_streams(text: &str) -> Result<Option<u32>, String> {
    if text == "auto" {
        return Ok(None);
    }
    match text.parse() {
        Ok(streams @ 1..=64) => Ok(Some(streams)),
        _ => Err(format!("'{text}' isn't a number of streams; write 1 to 64, or auto")),
    }
}

/// Parses names of this host's interfaces, separated by commas, or `all`.
///
/// # Errors
/// A message with the names of this host's interfaces.
pub fn parse_interfaces(text: &str) -> Result<Interfaces, String> {
    let interfaces = interface_names(text)?;
    let Interfaces::Named(names) = &interfaces else { return Ok(interfaces) };
    let own = routes::interfaces();
    match names.iter().find(|name| !own.contains(name)) {
        None => Ok(interfaces),
        Some(unknown) => {
            let own = own.join(", ");
            Err(format!("'{unknown}' isn't an interface of this host; write some of {own}, or all"))
        }
    }
}

/// Parses names of interfaces of any host, separated by commas, or `all`.
///
/// # Errors
/// A message if a name isn't valid for an interface.
pub fn interface_names(text: &str) -> Result<Interfaces, String> {
    if text == "all" {
        return Ok(Interfaces::All);
    }
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    // The rule for names in the kernel's dev_valid_name().
    let is_odd = |name: &&String| {
        name.is_empty() || name.len() > 15 || name.contains(|c: char| c.is_whitespace() || c == '/')
    };
    match names.iter().find(is_odd) {
        None => Ok(Interfaces::Named(names)),
        Some(odd) => {
            Err(format!("'{odd}' can't be the name of an interface; write names separated by commas, or all"))
        }
    }
}

/// Parses a compression level: `auto`, `off`, or a level of zstd.
///
/// # Errors
/// A message with examples of valid values.
pub fn parse_compression(text: &str) -> Result<CompressionLevel, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(CompressionLevel::Auto),
        ("off", _) => Ok(CompressionLevel::Off),
        (_, Ok(level @ 1..=MAX_COMPRESSION)) => Ok(CompressionLevel::Fixed(level)),
        _ => Err(format!("'{text}' isn't a level; write auto, off, or 1 to {MAX_COMPRESSION}")),
    }
}

/// A number of bytes as text, in powers of ten: `2.05 GB`.
pub fn show_bytes(bytes: u64) -> String {
    Bytes::of(bytes).to_string()
}

/// The payload rate of `bytes` in `seconds` as text: `9.41 Gbit/s`.
pub fn show_rate(bytes: u64, seconds: f64) -> String {
    BitRate::over(bytes, seconds).to_string()
}

/// A duration as text: `1.75 s`, `3 min 20 s`.
pub fn show_time(time: Duration) -> String {
    Seconds::from(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_streams_have_bounds() {
        assert_eq!(parse_ports("50000-50010"), Ok((50000, 50010)));
        assert_eq!(parse_ports("443"), Ok((443, 443)));
        assert!(parse_ports("9-1").is_err() && parse_ports("70000").is_err() && parse_ports("0").is_err());
        assert_eq!(parse_time("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["nan", "1e300", "1.8e19", "99999999999999999999", "-1", "x"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_streams("auto"), Ok(None));
        assert!(parse_streams("0").is_err() && parse_streams("65").is_err());
    }
}
