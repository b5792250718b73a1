//! Reads the values that a tool reports on stdout.

use regex_lite::Regex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::record::{Connections, Found, Latency};
use crate::spec::tool::{Form, Reading, Search};

/// The values that a tool reports, summed over its copies.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stated {
    pub bytes: Option<u64>,
    pub bytes_back: Option<u64>,
    pub seconds: Option<f64>,
    pub peak_rss_bytes: Option<u64>,
    pub limiter: Option<String>,
    pub streams: Option<u32>,
    pub encrypted: Option<bool>,
    pub transactions: Option<u64>,
    pub latency: Option<Latency>,
    pub connections: Vec<Connections>,
    pub window: Option<BootTimes>,
    pub score: Option<f64>,
    pub notes: Vec<String>,
}

/// The interval that a tool measured, in seconds since the sending host was booted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct BootTimes {
    pub begin: f64,
    pub end: f64,
}

impl BootTimes {
    fn with(self, other: BootTimes) -> BootTimes {
        BootTimes { begin: self.begin.min(other.begin), end: self.end.max(other.end) }
    }
}

/// Reads the stdout of one copy.
///
/// # Errors
/// The error message.
pub(crate) fn read(reading: &Reading, stdout: &[u8]) -> Result<Stated, String> {
    let output = Written::parse(reading.form, stdout)?;
    let number = |key: &str| number(&output, reading, key);
    let bytes = number("bytes")?;
    let rate = number("rate")?.filter(|rate| *rate > 0.0);
    let reckoned = bytes.zip(rate).map(|(bytes, rate)| bytes * 8.0 / rate);
    Ok(Stated {
        bytes: bytes.map(|n| n.round() as u64),
        bytes_back: number("bytes_back")?.map(|n| n.round() as u64),
        seconds: number("seconds")?.or(reckoned),
        peak_rss_bytes: peak(reading, &output),
        limiter: output.at(&reading.limiter).and_then(|value| value.as_str().map(str::to_owned)),
        streams: output.at(&reading.streams).and_then(as_number).map(|n| n as u32),
        encrypted: output.at(&reading.encrypted).and_then(|value| value.as_bool()),
        transactions: number("transactions")?.map(|n| n.round() as u64),
        latency: object(&output, &reading.latency)?,
        connections: object(&output, &reading.connections)?.unwrap_or_default(),
        window: object(&output, &reading.window)?,
        score: number("score")?,
        notes: notes(reading, &output),
    })
}

/// The result of a search for the best level, read from the stdout of the search's command.
///
/// # Errors
/// The error message.
pub(crate) fn found(search: &Search, stdout: &[u8]) -> Result<Found, String> {
    let output = Written::parse(search.form, stdout)?;
    let number = output.find(&search.found).and_then(as_number).ok_or_else(|| nothing_at(&search.found))?;
    if !(1.0..=f64::from(u32::MAX)).contains(&number) || number.fract() != 0.0 {
        return Err(format!("the search's result {number} isn't a whole number from 1 to {}", u32::MAX));
    }
    let steps = object(&output, &search.steps)?.unwrap_or_default();
    Ok(Found { parameter: search.parameter.clone(), level: number as u32, steps })
}

fn nothing_at(place: &str) -> String {
    format!("the output has no number at {place}")
}

/// A tool's parsed output.
enum Written {
    Json(Value),
    Text(String),
}

impl Written {
    fn parse(form: Form, stdout: &[u8]) -> Result<Written, String> {
        let document = match form {
            Form::Document => serde_json::from_slice(stdout),
            Form::LastLine => serde_json::from_slice(last_line(stdout)),
            Form::Pattern => return Ok(Written::Text(String::from_utf8_lossy(stdout).into_owned())),
        };
        document.map(Written::Json).map_err(|e| format!("the output isn't the expected JSON: {e}"))
    }

    /// The value at a place; `None` if it is missing or null. If a pattern matches several times, the last match
    /// counts.
    fn find(&self, place: &str) -> Option<Value> {
        match self {
            Written::Json(document) => document.pointer(place).filter(|value| !value.is_null()).cloned(),
            Written::Text(text) => {
                // The pattern was checked when the tool file was read.
                let matched = Regex::new(place).ok()?.captures_iter(text).last()?;
                Some(Value::String(matched.get(1)?.as_str().to_owned()))
            }
        }
    }

    fn at(&self, place: &Option<String>) -> Option<Value> {
        place.as_deref().and_then(|place| self.find(place))
    }
}

/// Combines the results of several copies. `ends` holds the time, in seconds, at which each copy ended. Bytes are
/// summed. The memory is that of the copy with the most. The time is from the start of the first copy to the end of the
/// last.
pub(crate) fn join(all: Vec<Stated>, ends: &[f64]) -> Stated {
    let begins: Option<Vec<f64>> =
        all.iter().zip(ends).map(|(stated, end)| Some(end - stated.seconds?)).collect();
    let begin = begins.and_then(|begins| begins.into_iter().reduce(f64::min));
    let span = begin.zip(ends.iter().copied().reduce(f64::max)).map(|(begin, end)| end - begin);
    let several = all.len() > 1;
    let reduced = all.into_iter().reduce(|a, b| Stated {
        bytes: a.bytes.zip(b.bytes).map(|(a, b)| a + b),
        bytes_back: a.bytes_back.zip(b.bytes_back).map(|(a, b)| a + b),
        seconds: a.seconds.zip(b.seconds).map(|(a, b)| a.max(b)),
        peak_rss_bytes: a.peak_rss_bytes.max(b.peak_rss_bytes),
        limiter: a.limiter.or(b.limiter),
        streams: a.streams.zip(b.streams).map(|(a, b)| a + b),
        encrypted: a.encrypted.zip(b.encrypted).map(|(a, b)| a && b),
        transactions: a.transactions.zip(b.transactions).map(|(a, b)| a + b),
        // Percentiles of all copies together can't be computed from the percentiles of each copy.
        latency: None,
        connections: [a.connections, b.connections].concat(),
        window: a.window.zip(b.window).map(|(a, b)| a.with(b)),
        score: a.score.zip(b.score).map(|(a, b)| a + b),
        notes: [a.notes, b.notes].concat(),
    });
    let joined = reduced.unwrap_or_default();
    Stated { seconds: if several { span } else { joined.seconds }, ..joined }
}

/// Reads a number at the place that the tool file names. A missing number is an error, so that a change of
/// the tool's output is noticed.
fn number(output: &Written, reading: &Reading, key: &str) -> Result<Option<f64>, String> {
    let Some(place) = reading.numbers.get(key) else { return Ok(None) };
    let number = output.find(place).and_then(as_number).filter(|n| n.is_finite() && *n >= 0.0);
    let factor = reading.scale.get(key).copied().unwrap_or(1.0);
    number.map(|n| Some(n * factor)).ok_or_else(|| nothing_at(place))
}

fn as_number(value: Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// Reads a group of values at the place that the tool file names. The group must exist and have the
/// documented form.
fn object<T: DeserializeOwned>(output: &Written, place: &Option<String>) -> Result<Option<T>, String> {
    let Some(place) = place else { return Ok(None) };
    let value = output.find(place).ok_or_else(|| format!("the output has nothing at {place}"))?;
    let read = T::deserialize(value);
    read.map(Some).map_err(|e| format!("the output at {place} doesn't have the form of docs/formats.md: {e}"))
}

fn peak(reading: &Reading, output: &Written) -> Option<u64> {
    let factor = reading.scale.get("peak_rss").copied().unwrap_or(1.0);
    let found = reading.peak_rss.iter().filter_map(|place| output.find(place).and_then(as_number));
    found.map(|n| (n * factor) as u64).max()
}

/// The notes whose values exist in the output, as `name: value`.
fn notes(reading: &Reading, output: &Written) -> Vec<String> {
    let found = reading.notes.iter().filter_map(|(name, place)| Some((name, output.find(place)?)));
    found
        .flat_map(|(name, value)| reported(&value).into_iter().map(move |value| format!("{name}: {value}")))
        .collect()
}

/// Converts a value to texts for notes: one text for each element of a list, and none for nested values.
fn reported(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Null | Value::Object(_) => Vec::new(),
        Value::Array(values) => values.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        value => vec![value.to_string()],
    }
}

fn last_line(stdout: &[u8]) -> &[u8] {
    stdout.split(|byte| *byte == b'\n').rfind(|line| !line.trim_ascii().is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Step;

    fn reading(form: Form) -> Reading {
        Reading {
            form,
            numbers: [("bytes", "/end/bytes".into()), ("seconds", "/end/seconds".into())].into(),
            peak_rss: vec!["/a/rss".into(), "/b/rss".into()],
            limiter: Some("/limiter".into()),
            streams: Some("/streams".into()),
            encrypted: Some("/encrypted".into()),
            latency: None,
            connections: None,
            window: None,
            scale: Default::default(),
            notes: vec![("peak".into(), "/a/rss".into()), ("absent".into(), "/x".into())],
        }
    }

    const GOOD: &str = r#"{"end":{"bytes":100.0,"seconds":0.5},"a":{"rss":5},"b":{"rss":7},"limiter":"network","streams":2,"encrypted":true}"#;

    #[test]
    fn reads_a_document_or_the_last_line() {
        let stated = read(&reading(Form::Document), GOOD.as_bytes()).unwrap();
        assert_eq!((stated.bytes, stated.seconds, stated.peak_rss_bytes), (Some(100), Some(0.5), Some(7)));
        assert_eq!((stated.limiter.as_deref(), stated.streams), (Some("network"), Some(2)));
        let lines = format!("{{\"type\":\"start\"}}\n{GOOD}\n\n");
        assert_eq!(read(&reading(Form::LastLine), lines.as_bytes()).unwrap(), stated);
        assert_eq!(stated.notes, ["peak: 5"]);
        assert!(read(&reading(Form::Document), lines.as_bytes()).is_err());
    }

    #[test]
    fn a_search_says_what_it_found() {
        let search = Search {
            parameter: "users".into(),
            command: Vec::new(),
            form: Form::LastLine,
            found: "/found".into(),
            steps: Some("/steps".into()),
        };
        let line = br#"{"found":3,"steps":[{"count":1,"reached":5.0},{"count":3,"reached":9.5}]}"#;
        let found = super::found(&search, line).unwrap();
        assert_eq!((found.parameter.as_str(), found.level), ("users", 3));
        assert_eq!((found.steps.len(), found.steps[1]), (2, Step { count: 3, reached: 9.5 }));
        let error = |line: &[u8]| super::found(&search, line).unwrap_err();
        assert!(error(br#"{"steps":[]}"#).contains("/found"));
        assert!(error(br#"{"found":0,"steps":[]}"#).contains("isn't a whole number"));
        assert!(error(br#"{"found":2.5,"steps":[]}"#).contains("2.5"));
        assert!(error(br#"{"found":2}"#).contains("/steps"));
    }

    #[test]
    fn a_missing_figure_is_an_error() {
        let error = read(&reading(Form::Document), b"{\"end\":{\"bytes\":1}}").unwrap_err();
        assert!(error.contains("/end/seconds"), "{error}");
        assert!(read(&reading(Form::LastLine), b"").is_err());
        assert!(read(&reading(Form::Document), GOOD.replace("0.5", "-1").as_bytes()).is_err());
    }

    #[test]
    fn copies_are_joined() {
        let one = read(&reading(Form::Document), GOOD.as_bytes()).unwrap();
        let slow = Stated { seconds: Some(2.0), limiter: None, ..one.clone() };
        let both = join(vec![one.clone(), slow.clone()], &[2.25, 2.25]);
        assert_eq!((both.bytes, both.seconds, both.streams), (Some(200), Some(2.0), Some(4)));
        // One copy takes 2 s; a quarter of a second later, the other takes half a second.
        assert_eq!(join(vec![slow, one.clone()], &[2.0, 2.75]).seconds, Some(2.75));
        assert_eq!(join(vec![one.clone()], &[9.0]), one);
        let silent = join(vec![one, Stated::default()], &[1.0, 1.0]);
        assert_eq!((silent.bytes, silent.seconds), (None, None));
    }

    #[test]
    fn plain_text_is_read_by_patterns() {
        let mut reading = Reading {
            numbers: [("bytes", "megabytes=([0-9.]+)".into()), ("seconds", "real_seconds=([0-9.]+)".into())]
                .into(),
            peak_rss: Vec::new(),
            limiter: None,
            streams: None,
            encrypted: None,
            notes: vec![("lost".into(), "retrans=([0-9]+)".into()), ("none".into(), "none=(.)".into())],
            ..reading(Form::Pattern)
        };
        reading.scale.insert("bytes".into(), 1_048_576.0);
        let text = b"megabytes=1.0 real_seconds=0.5\nmegabytes=2.5 real_seconds=2.0 retrans=3\n\xff";
        let stated = read(&reading, text).unwrap();
        assert_eq!((stated.bytes, stated.seconds), (Some(2_621_440), Some(2.0)));
        assert_eq!(stated.notes, ["lost: 3"]);
        let mut rated = reading.clone();
        rated.numbers.remove("seconds");
        rated.numbers.insert("rate", " rate=([0-9]+)".into());
        let stated = read(&rated, b"megabytes=1.0 rate=8388608").unwrap();
        assert_eq!((stated.bytes, stated.seconds), (Some(1_048_576), Some(1.0)));
        let error = read(&reading, b"megabytes=1 real_seconds=none").unwrap_err();
        assert!(error.contains("real_seconds"), "{error}");
    }
}
