//! `--stop-after` and `--stop-at`: the time at which a run ends.

use linerate_sys::local_time::LocalTime;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::refused_number::whole;

/// The time that is a number of minutes from now.
///
/// # Errors
/// If `text` isn't a number of minutes.
pub fn after(text: &str) -> Result<SystemTime, String> {
    let minutes: u32 = whole(text, "minutes")?;
    if minutes == 0 {
        return Err("not a number of minutes".into());
    }
    Ok(SystemTime::now() + std::time::Duration::from_secs(u64::from(minutes) * 60))
}

/// The next time that matches `text`, which has the form `[[[YEAR-]MONTH-]DAY][THOUR:MINUTE]`, `HOUR:MINUTE` or
/// `:MINUTE`. A date without a time of day means midnight.
///
/// # Errors
/// If `text` has another form, or no matching time is in the future.
pub fn at(text: &str) -> Result<SystemTime, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let next = next(text, now.cast_signed())?;
    Ok(UNIX_EPOCH + std::time::Duration::from_secs(next.cast_unsigned()))
}

const FORM: &str =
    "not a time: write [[YEAR-]MONTH-]DAY, [[YEAR-]MONTH-]DAYTHOUR:MINUTE, HOUR:MINUTE or :MINUTE";

/// The number of hours, from the current one, that are tried if no hour is given. It is more than 24 because hours may
/// be skipped when daylight saving time begins.
const HOURS: i32 = 26;
/// The number of days, from today, that are tried if no day is given.
const DAYS: i32 = 2;
/// The number of months, from the current one, that are tried if no month is given.
const MONTHS: i32 = 13;
/// The number of years, from the current one, that are tried if no year is given. The next 29 February is at most 8
/// years away.
const YEARS: i32 = 9;

fn next(text: &str, now: i64) -> Result<i64, String> {
    let (date, time) = split(text);
    let date = date.map_or(Ok(Vec::new()), |date| numbers(date, &['-', '/']))?;
    let (hour, minute) = match time {
        None => (Some(0), 0),
        Some(time) => match time.strip_prefix(':') {
            Some(minute) if date.is_empty() => (None, numbers(minute, &[])?[0]),
            _ => match numbers(time, &[':'])?[..] {
                [hour, minute] => (Some(hour), minute),
                _ => return Err(FORM.into()),
            },
        },
    };
    let today = LocalTime::of(now).ok_or(FORM)?;
    let base = LocalTime { minute, second: 0, hour: hour.unwrap_or(today.hour), ..today };
    let fits = (0..60).contains(&minute) && (0..24).contains(&base.hour);
    let candidates: Vec<LocalTime> = match date[..] {
        _ if !fits => return Err(FORM.into()),
        [] if hour.is_none() => (0..HOURS).map(|more| LocalTime { hour: base.hour + more, ..base }).collect(),
        [] => (0..DAYS).map(|more| LocalTime { day: base.day + more, ..base }).collect(),
        [day] => (0..MONTHS).map(|more| in_month(LocalTime { day, ..base }, base.month + more)).collect(),
        [month, day] => {
            (0..YEARS).map(|more| LocalTime { year: base.year + more, month, day, ..base }).collect()
        }
        [year, month, day] => vec![LocalTime { year: whole_year(year, base.year), month, day, ..base }],
        _ => return Err(FORM.into()),
    };
    let is_named = |local: &LocalTime| date.is_empty() || is_a_day(local);
    let times: Vec<i64> =
        candidates.iter().filter(|local| is_named(local)).filter_map(LocalTime::seconds).collect();
    let last = times.last().ok_or(FORM)?;
    let first = times.iter().find(|time| **time > now);
    first.copied().ok_or_else(|| match LocalTime::of(*last) {
        Some(local) => format!("{local} is not in the future"),
        None => FORM.into(),
    })
}

/// Splits a text into the date and the time of day.
fn split(text: &str) -> (Option<&str>, Option<&str>) {
    match text.split_once(['T', 't']) {
        Some((date, time)) => {
            (Some(date).filter(|date| !date.is_empty()), Some(time).filter(|time| !time.is_empty()))
        }
        None if text.contains(':') => (None, Some(text)),
        None => (Some(text), None),
    }
}

fn numbers(text: &str, between: &[char]) -> Result<Vec<i32>, String> {
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|_| is_number).ok_or_else(|| FORM.to_owned())
    };
    text.split(between).map(number).collect()
}

/// A month beyond December is a month of a later year.
fn in_month(local: LocalTime, month: i32) -> LocalTime {
    LocalTime { year: local.year + (month - 1) / 12, month: (month - 1) % 12 + 1, ..local }
}

/// A year of two digits means the next year that ends in these digits.
fn whole_year(year: i32, this: i32) -> i32 {
    if year >= 100 { year } else { this + (year - this).rem_euclid(100) }
}

/// Whether the month has this day.
fn is_a_day(local: &LocalTime) -> bool {
    let noon = LocalTime { hour: 12, minute: 0, ..*local };
    noon.seconds().and_then(LocalTime::of).is_some_and(|found| found == noon)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, String> {
        let now = LocalTime { year: 2027, month: 1, day: 30, hour: 14, minute: 30, second: 0 };
        next(text, now.seconds().unwrap()).map(|seconds| LocalTime::of(seconds).unwrap().to_string())
    }

    #[test]
    fn the_next_time_counts() {
        for (text, expected) in [
            ("2027-12-31T23:59", "2027/12/31 23:59:00"),
            ("27/12/31", "2027/12/31 00:00:00"),
            ("1-30", "2028/01/30 00:00:00"),
            ("2-29T1:00", "2028/02/29 01:00:00"),
            ("14:31", "2027/01/30 14:31:00"),
            ("T14:00", "2027/01/31 14:00:00"),
            ("1", "2027/02/01 00:00:00"),
            ("31", "2027/01/31 00:00:00"),
            ("30", "2027/03/30 00:00:00"),
            (":59", "2027/01/30 14:59:00"),
            (":30", "2027/01/30 15:30:00"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
        }
        for text in ["", "x", "1-2-3-4", "24:00", "1:2:3", "13-1", "2-30", "2027-2-29", "1T:5", "T5"] {
            assert_eq!(shown(text), Err(FORM.into()), "{text}");
        }
        assert_eq!(shown("2026-1-1"), Err("2026/01/01 00:00:00 is not in the future".into()));
        assert!(after("0").is_err() && after("x").is_err() && after("5").is_ok());
    }
}
