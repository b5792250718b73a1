//! Reads what a tool states of itself in its stdout.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::record::{Connections, Latency};
use crate::spec::tool::{Form, Reading};

/// What a tool stated; copies of it are added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stated {
    pub bytes: Option<u64>,
    pub seconds: Option<f64>,
    pub peak_rss_bytes: Option<u64>,
    pub limiter: Option<String>,
    pub streams: Option<u32>,
    pub encrypted: Option<bool>,
    pub transactions: Option<u64>,
    pub latency: Option<Latency>,
    pub connections: Vec<Connections>,
    pub score: Option<f64>,
    pub notes: Vec<String>,
}

/// Reads one stdout.
///
/// # Errors
/// What is wrong with it, for people.
pub(crate) fn read(reading: &Reading, stdout: &[u8]) -> Result<Stated, String> {
    let document = match reading.form {
        Form::Document => serde_json::from_slice(stdout),
        Form::LastLine => serde_json::from_slice(last_line(stdout)),
    };
    let document: Value =
        document.map_err(|e| format!("its output isn't the JSON that was expected: {e}"))?;
    let at = |pointer: &Option<String>| {
        pointer.as_ref().and_then(|p| document.pointer(p)).filter(|v| !v.is_null())
    };
    Ok(Stated {
        bytes: number(&reading.bytes, at(&reading.bytes))?.map(|n| n as u64),
        seconds: number(&reading.seconds, at(&reading.seconds))?,
        peak_rss_bytes: peak(reading, &document),
        limiter: at(&reading.limiter).and_then(Value::as_str).map(str::to_owned),
        streams: at(&reading.streams).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok()),
        encrypted: at(&reading.encrypted).and_then(Value::as_bool),
        transactions: number(&reading.transactions, at(&reading.transactions))?.map(|n| n as u64),
        latency: object(&reading.latency, at(&reading.latency))?,
        connections: object(&reading.connections, at(&reading.connections))?.unwrap_or_default(),
        score: number(&reading.score, at(&reading.score))?,
        notes: notes(reading, &document),
    })
}

/// The whole of several copies: bytes add up, the longest time and the largest memory count.
pub(crate) fn join(all: Vec<Stated>) -> Stated {
    let reduced = all.into_iter().reduce(|a, b| Stated {
        bytes: a.bytes.zip(b.bytes).map(|(a, b)| a + b),
        seconds: a.seconds.zip(b.seconds).map(|(a, b)| a.max(b)),
        peak_rss_bytes: a.peak_rss_bytes.max(b.peak_rss_bytes),
        limiter: a.limiter.or(b.limiter),
        streams: a.streams.zip(b.streams).map(|(a, b)| a + b),
        encrypted: a.encrypted.zip(b.encrypted).map(|(a, b)| a && b),
        transactions: a.transactions.zip(b.transactions).map(|(a, b)| a + b),
        // Percentiles of two copies don't add up to those of both.
        latency: None,
        connections: [a.connections, b.connections].concat(),
        score: a.score.zip(b.score).map(|(a, b)| a + b),
        notes: [a.notes, b.notes].concat(),
    });
    reduced.unwrap_or_default()
}

/// A figure that the tool file names must be there: a tool that changed its output is noticed, not passed over.
fn number(pointer: &Option<String>, value: Option<&Value>) -> Result<Option<f64>, String> {
    let Some(pointer) = pointer else { return Ok(None) };
    let number = value.and_then(Value::as_f64).filter(|n| n.is_finite() && *n >= 0.0);
    number.map(Some).ok_or_else(|| format!("its output has no number at {pointer}"))
}

/// A group of figures that the tool file names must be there, too, and have the documented form.
fn object<T: DeserializeOwned>(pointer: &Option<String>, value: Option<&Value>) -> Result<Option<T>, String> {
    let Some(pointer) = pointer else { return Ok(None) };
    let value = value.ok_or_else(|| format!("its output has nothing at {pointer}"))?;
    let read = T::deserialize(value);
    read.map(Some).map_err(|e| format!("its output at {pointer} isn't what docs/formats.md says: {e}"))
}

fn peak(reading: &Reading, document: &Value) -> Option<u64> {
    reading.peak_rss.iter().filter_map(|pointer| document.pointer(pointer)?.as_u64()).max()
}

/// Values that are there, as `name: value`.
fn notes(reading: &Reading, document: &Value) -> Vec<String> {
    let shown = |(name, pointer): &(String, String)| match document.pointer(pointer)? {
        Value::String(text) => Some(format!("{name}: {text}")),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
        value => Some(format!("{name}: {value}")),
    };
    reading.notes.iter().filter_map(shown).collect()
}

fn last_line(stdout: &[u8]) -> &[u8] {
    stdout.split(|byte| *byte == b'\n').rfind(|line| !line.trim_ascii().is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(form: Form) -> Reading {
        Reading {
            form,
            bytes: Some("/end/bytes".into()),
            seconds: Some("/end/seconds".into()),
            peak_rss: vec!["/a/rss".into(), "/b/rss".into()],
            limiter: Some("/limiter".into()),
            streams: Some("/streams".into()),
            encrypted: Some("/encrypted".into()),
            transactions: None,
            latency: None,
            connections: None,
            score: None,
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
        let both = join(vec![one.clone(), slow]);
        assert_eq!((both.bytes, both.seconds, both.streams), (Some(200), Some(2.0), Some(4)));
        let silent = join(vec![one, Stated::default()]);
        assert_eq!(silent.bytes, None);
    }
}
