//! Numbers, rates and permissions as rsync writes them.

/// The notation of numbers: 0 for plain numbers, 1 for commas between groups of three digits, 2 for units of 1000, and
/// a larger value for units of 1024. The default for totals and progress is 1, and each `-h` adds 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Human(pub u8);

impl Human {
    /// A whole number.
    pub fn number(self, number: u64) -> String {
        match self.0 {
            0 => number.to_string(),
            1 => commas(&number.to_string()),
            2 => unit(number as f64, 1000.0).unwrap_or_else(|| number.to_string()),
            _ => unit(number as f64, 1024.0).unwrap_or_else(|| number.to_string()),
        }
    }

    /// A number with two decimals.
    pub fn decimal(self, number: f64) -> String {
        let plain = format!("{number:.2}");
        match self.0 {
            0 => plain,
            1 => plain
                .split_once('.')
                .map_or(plain.clone(), |(whole, part)| format!("{}.{part}", commas(whole))),
            2 => unit(number, 1000.0).unwrap_or(plain),
            _ => unit(number, 1024.0).unwrap_or(plain),
        }
    }
}

fn commas(digits: &str) -> String {
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

fn unit(number: f64, base: f64) -> Option<String> {
    let (mut number, mut units) = (number / base, "KMGTP".chars());
    if number < 1.0 {
        return None;
    }
    let mut unit = units.next()?;
    while number >= base
        && let Some(next) = units.next()
    {
        (number, unit) = (number / base, next);
    }
    Some(format!("{number:.2}{unit}"))
}

/// A rate in bytes per second with a unit that is a power of 1024, for example `146.38kB/s`.
pub fn shown_rate(rate: f64) -> String {
    let kib = rate / 1024.0;
    match kib {
        ..1024.0 => format!("{kib:.2}kB/s"),
        ..1_048_576.0 => format!("{:.2}MB/s", kib / 1024.0),
        _ => format!("{:.2}GB/s", kib / 1_048_576.0),
    }
}

/// A duration as hours, minutes and seconds, for example `0:01:05`.
pub fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Permissions as ls(1) writes them: `rwxr-x---`.
pub fn permissions(mode: u32) -> String {
    let bit = |bit: u32, letter: char| if mode & bit == 0 { '-' } else { letter };
    let execute = |bit: u32, special: u32, letter: char| match (mode & special, mode & bit) {
        (0, 0) => '-',
        (0, _) => 'x',
        (_, 0) => letter.to_ascii_uppercase(),
        _ => letter,
    };
    [
        bit(0o400, 'r'),
        bit(0o200, 'w'),
        execute(0o100, 0o4000, 's'),
        bit(0o40, 'r'),
        bit(0o20, 'w'),
        execute(0o10, 0o2000, 's'),
        bit(0o4, 'r'),
        bit(0o2, 'w'),
        execute(0o1, 0o1000, 't'),
    ]
    .iter()
    .collect()
}
