//! Local time (localtime_r(3), mktime(3)) in the time zone of this process.

use std::fmt;
use std::mem;

/// A date and a time of day in the local time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// The year (AD).
    pub year: i32,
    /// The month, from 1 to 12.
    pub month: i32,
    /// The day of the month, from 1 to 31.
    pub day: i32,
    /// The hour, from 0 to 23.
    pub hour: i32,
    /// The minute, from 0 to 59.
    pub minute: i32,
    /// The second, from 0 to 60 (a leap second).
    pub second: i32,
}

impl LocalTime {
    /// The local time at this number of seconds since 1970; `None` if the year is out of range.
    pub fn of(seconds: i64) -> Option<Self> {
        // SAFETY: tm consists of integers and a pointer, for which zero is a value.
        let mut raw: libc::tm = unsafe { mem::zeroed() };
        // SAFETY: both pointers refer to valid values. The function writes only to `raw`, and reads the
        // environment, which this program never changes.
        let found = unsafe { libc::localtime_r(&raw const seconds, &raw mut raw) };
        (!found.is_null()).then(|| Self {
            year: raw.tm_year.saturating_add(1900),
            month: raw.tm_mon + 1,
            day: raw.tm_mday,
            hour: raw.tm_hour,
            minute: raw.tm_min,
            second: raw.tm_sec,
        })
    }

    /// The time in seconds since 1970. A field beyond its range is carried over: hour 24 means hour 0 of the
    /// next day. `None` if the result is out of range.
    pub fn seconds(&self) -> Option<i64> {
        // SAFETY: tm consists of integers and a pointer, for which zero is a value.
        let mut raw: libc::tm = unsafe { mem::zeroed() };
        (raw.tm_year, raw.tm_mon, raw.tm_mday) = (self.year.checked_sub(1900)?, self.month - 1, self.day);
        (raw.tm_hour, raw.tm_min, raw.tm_sec, raw.tm_isdst) = (self.hour, self.minute, self.second, -1);
        // SAFETY: the pointer refers to a valid value, which the function may change.
        let seconds = unsafe { libc::mktime(&raw mut raw) };
        (seconds != -1).then_some(seconds)
    }
}

/// Prints the time in the form `2026/11/24 21:57:59`.
impl fmt::Display for LocalTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute, second } = self;
        write!(f, "{year:04}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_local_times_are_each_others() {
        for seconds in [0, 1_500_000_000, 1_795_000_000, -86_400 * 365] {
            let local = LocalTime::of(seconds).unwrap();
            assert_eq!(local.seconds(), Some(seconds), "{local}");
        }
        let local = LocalTime { year: 2026, month: 1, day: 31, hour: 24, minute: 0, second: 7 };
        let next = LocalTime::of(local.seconds().unwrap()).unwrap();
        assert_eq!(next.to_string(), "2026/02/01 00:00:07");
        assert_eq!(LocalTime::of(i64::MAX), None);
    }
}
