//! Parses and prints quantities: bytes, bit rates, seconds, shares.
//!
//! The format `{}` is for measured values, which it prints with few digits, such as `9.41 Gbit/s`. The format `{:#}`
//! prints a second form that each type defines: [`BitRate`] exact values of settings, [`Bytes`] sizes of buffers in
//! powers of two, [`Seconds`] short times in a suitable unit, [`Share`] whole percents.

mod read;

use std::fmt::{Display, Formatter, Result as Written};
use std::time::Duration;

pub use read::{bit_rate, bytes, limit, rsync_bytes, seconds};

/// A number of bytes. `{}` prints the number in powers of ten: `2.05 GB`. `{:#}` prints it in powers of two, for sizes
/// of buffers: `6.0 MiB`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Bytes(pub f64);

/// A rate in bits per second. `{}` prints the rate with three significant digits: `9.41 Gbit/s`. `{:#}` prints it with
/// up to four decimals, for the configured rate of a link: `2.5 Gbit/s`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct BitRate(pub f64);

/// A time in seconds. `{}` prints `1.75 s`, `3 min 20 s`. `{:#}` prints a time below one second in a smaller unit:
/// `80 µs`, `50 ms`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

/// A share from 0 to 1. `{}` prints percents, below 10 % with one decimal: `34 %`, `3.1 %`. `{:#}` always prints whole
/// percents.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Share(pub f64);

impl Bytes {
    /// The value for `count` bytes.
    pub fn of(count: u64) -> Bytes {
        Bytes(count as f64)
    }
}

impl BitRate {
    /// The mean rate if `bytes` bytes were transferred in `seconds` seconds; 0 if `seconds` is 0.
    pub fn over(bytes: u64, seconds: f64) -> BitRate {
        BitRate(if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 })
    }
}

impl From<Duration> for Seconds {
    fn from(time: Duration) -> Seconds {
        Seconds(time.as_secs_f64())
    }
}

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let Bytes(bytes) = *self;
        if f.alternate() {
            return match bytes {
                _ if bytes >= GIB => write!(f, "{:.1} GiB", bytes / GIB),
                _ if bytes >= MIB => write!(f, "{:.1} MiB", bytes / MIB),
                _ if bytes >= KIB => write!(f, "{:.0} KiB", bytes / KIB),
                _ => write!(f, "{bytes:.0} B"),
            };
        }
        match scaled(bytes, &[(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")]) {
            Some((number, unit)) => write!(f, "{} {unit}", three(number)),
            None => write!(f, "{bytes:.0} B"),
        }
    }
}

impl Display for BitRate {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let units = [(1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")];
        let (number, unit) = scaled(self.0, &units).unwrap_or((self.0, "bit/s"));
        let text = if f.alternate() { exact(number) } else { three(number) };
        write!(f, "{text} {unit}")
    }
}

impl Display for Seconds {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let Seconds(seconds) = *self;
        let whole = seconds as u64;
        match seconds {
            3600.0.. => write!(f, "{} h {} min", whole / 3600, whole / 60 % 60),
            60.0.. => write!(f, "{} min {} s", whole / 60, whole % 60),
            _ if f.alternate() && seconds < 1e-3 => write!(f, "{:.0} µs", seconds * 1e6),
            _ if f.alternate() && seconds < 10e-3 => write!(f, "{:.1} ms", seconds * 1e3),
            _ if f.alternate() && seconds < 1.0 => write!(f, "{:.0} ms", seconds * 1e3),
            _ => write!(f, "{seconds:.2} s"),
        }
    }
}

impl Display for Share {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let percent = 100.0 * self.0;
        if f.alternate() || percent >= 10.0 {
            write!(f, "{percent:.0} %")
        } else {
            write!(f, "{percent:.1} %")
        }
    }
}

/// Prints a value with three significant digits, but with all digits before the decimal point, and with at most three
/// decimals: `9.41`, `0.984`, `0.012`, `12.3`, `1250`. From 10^9 on, the text has an exponent. For a value that isn't
/// finite, the text is `–`.
pub fn three(value: f64) -> String {
    let size = value.abs();
    let decimals = match () {
        () if !value.is_finite() => return "–".to_owned(),
        () if size >= 1e9 => return format!("{value:.2e}"),
        () if size >= 99.95 => 0,
        () if size >= 9.995 => 1,
        () if size >= 0.9995 || size == 0.0 => 2,
        () => 3,
    };
    let text = format!("{value:.decimals$}");
    // A small negative value that is rounded to 0 gets no minus sign.
    if text.trim_start_matches(['-', '0', '.']).is_empty() { text.replace('-', "") } else { text }
}

/// Prints a value for a column of numbers: with two decimals, so that the numbers are aligned; with more decimals if
/// the value is small, and with fewer if it is large.
pub fn plain(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() || size >= 999.5 || (size > 0.0 && size < 0.0995) {
        three(value)
    } else {
        format!("{value:.2}")
    }
}

/// Prints a value with up to four decimals and without trailing zeros: `10`, `2.5`. From 10^6 on and below 10^-3, the
/// text has an exponent.
pub fn exact(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 || (size < 1e-3 && size > 0.0) => format!("{value:.1e}"),
        _ => format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

/// Prints a whole number with commas between thousands: `20,000`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Prints a count with its noun in the singular or plural: `1 file`, `20,000 files`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

const KIB: f64 = 1024.0;
const MIB: f64 = KIB * KIB;
const GIB: f64 = MIB * KIB;
const TIB: f64 = GIB * KIB;

/// Converts a value to the first of `units` in which it is at least 1; `None` if there is no such unit.
fn scaled<'u>(value: f64, units: &[(f64, &'u str)]) -> Option<(f64, &'u str)> {
    units.iter().find(|(unit, _)| value >= *unit).map(|(unit, name)| (value / unit, *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let shown = [9.414, 0.98431, 12.34, 1250.4, 0.0, 99.96, -0.0001, f64::NAN, 1e12].map(three);
        assert_eq!(shown, ["9.41", "0.984", "12.3", "1250", "0.00", "100", "0.000", "–", "1.00e12"]);
        assert_eq!(
            [9.414, 12.345, 0.63, 0.0123, 4321.0].map(plain),
            ["9.41", "12.35", "0.63", "0.012", "4321"]
        );
        assert_eq!([10.0, 2.5, 0.1, 0.0, 1000.0].map(exact), ["10", "2.5", "0.1", "0", "1000"]);
        assert_eq!([1, 20_000, 1_234_567].map(count), ["1", "20,000", "1,234,567"]);
        assert_eq!(
            (counted(1, "run", "runs"), counted(5000, "run", "runs")),
            ("1 run".into(), "5,000 runs".into())
        );
    }

    #[test]
    fn quantities_have_two_forms() {
        let both = |of: &dyn Fn(bool) -> String| (of(false), of(true));
        let rate = |bits| {
            both(&|other| if other { format!("{:#}", BitRate(bits)) } else { BitRate(bits).to_string() })
        };
        assert_eq!(rate(9.414e9), ("9.41 Gbit/s".into(), "9.414 Gbit/s".into()));
        assert_eq!(rate(1e10), ("10.0 Gbit/s".into(), "10 Gbit/s".into()));
        assert_eq!(BitRate::over(1_250_000, 1.0).to_string(), "10.0 Mbit/s");
        assert_eq!(
            (Bytes(2.05e9).to_string(), format!("{:#}", Bytes(6.0 * MIB))),
            ("2.05 GB".into(), "6.0 MiB".into())
        );
        assert_eq!(
            (Bytes::of(999).to_string(), format!("{:#}", Bytes(65536.0))),
            ("999 B".into(), "64 KiB".into())
        );
        assert_eq!(
            (Seconds(1.75).to_string(), Seconds(200.0).to_string()),
            ("1.75 s".into(), "3 min 20 s".into())
        );
        let times = [80e-6, 1.5e-3, 50.1e-3].map(|time| format!("{:#}", Seconds(time)));
        assert_eq!(times, ["80 µs", "1.5 ms", "50 ms"]);
        assert_eq!((Share(0.984).to_string(), Share(0.031).to_string()), ("98 %".into(), "3.1 %".into()));
        assert_eq!(format!("{:#}", Share(0.031)), "3 %");
    }
}
