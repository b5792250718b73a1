//! Words of a command with placeholders: `{host}:{destination}/`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::nearest;

/// What a placeholder stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// One string, which may stand inside a word.
    One(OsString),
    /// Any number of words; its placeholder must be a word of its own.
    Many(Vec<OsString>),
}

/// The values of one execution.
pub type Values = BTreeMap<&'static str, Value>;

/// Every placeholder, and whether it stands for many words.
const NAMES: [(&str, bool); 15] = [
    ("address", false),
    ("addresses", true),
    ("bytes", false),
    ("destination", false),
    ("host", false),
    ("index", false),
    ("linerate", false),
    ("options", true),
    ("port", false),
    ("source", false),
    ("source_name", false),
    ("source_parent", false),
    ("ssh_config", false),
    ("streams", false),
    ("value", false),
];

/// One word of a command: literal parts and placeholders, all of them known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Placeholder(&'static str),
}

impl Word {
    /// Parses a word. `{{` and `}}` are braces.
    ///
    /// # Errors
    /// An unknown placeholder (with the nearest name), a brace without its partner, or a placeholder for many words
    /// that isn't a word of its own.
    pub fn parse(text: &str) -> Result<Word, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let doubled = rest[at..].starts_with("{{") || rest[at..].starts_with("}}");
            if doubled {
                literal.push_str(&rest[at..=at]);
                rest = &rest[at + 2..];
                continue;
            }
            let (name, after) = placeholder(&rest[at..])?;
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::Placeholder(name));
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() || parts.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Word(parts).checked()
    }

    /// The words that this one becomes.
    ///
    /// # Errors
    /// A placeholder that has no value in this execution, for people.
    pub fn expand(&self, values: &Values) -> Result<Vec<OsString>, String> {
        let mut word = OsString::new();
        for part in &self.0 {
            match part {
                Part::Literal(text) => word.push(text),
                Part::Placeholder(name) => match values.get(name) {
                    Some(Value::One(value)) => word.push(value),
                    Some(Value::Many(words)) => return Ok(words.clone()),
                    None => return Err(format!("`{{{name}}}` has no value here")),
                },
            }
        }
        Ok(vec![word])
    }

    /// True where the word holds the placeholder.
    pub fn mentions(&self, name: &str) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Placeholder(n) if *n == name))
    }

    fn checked(self) -> Result<Word, String> {
        let many = |part: &Part| matches!(part, Part::Placeholder(n) if NAMES.iter().any(|(name, many)| name == n && *many));
        if self.0.len() > 1 && self.0.iter().any(many) {
            return Err("`{options}` stands for several words and must be a word of its own".into());
        }
        Ok(self)
    }
}

/// Every word of a command, expanded.
///
/// # Errors
/// As [`Word::expand`].
pub fn expand(words: &[Word], values: &Values) -> Result<Vec<OsString>, String> {
    let words = words.iter().map(|word| word.expand(values)).collect::<Result<Vec<_>, _>>()?;
    Ok(words.concat())
}

/// Shorthand for one string.
pub fn one(value: impl AsRef<OsStr>) -> Value {
    Value::One(value.as_ref().to_owned())
}

fn placeholder(text: &str) -> Result<(&'static str, &str), String> {
    let inner = text.strip_prefix('{').ok_or("a `}` has no `{` before it; write `}}` for a brace")?;
    let (name, after) = inner.split_once('}').ok_or("a `{` has no `}` after it; write `{{` for a brace")?;
    match NAMES.iter().find(|(known, _)| *known == name) {
        Some((known, _)) => Ok((known, after)),
        None => {
            let meant = nearest(name, NAMES.iter().map(|(name, _)| *name));
            let meant = meant
                .map_or("; write `{{` for a brace".into(), |name| format!("; did you mean `{{{name}}}`?"));
            Err(format!("`{{{name}}}` is not a placeholder{meant}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        Values::from([
            ("host", one("b")),
            ("destination", one("/t")),
            ("options", Value::Many(vec!["-O".into(), "-c".into()])),
        ])
    }

    #[test]
    fn expands_inside_words_and_to_many() {
        let expanded = |text: &str| Word::parse(text).unwrap().expand(&values()).unwrap();
        assert_eq!(expanded("{host}:{destination}/"), [OsString::from("b:/t/")]);
        assert_eq!(expanded("{options}"), [OsString::from("-O"), OsString::from("-c")]);
        assert_eq!(expanded("{{x}} "), [OsString::from("{x} ")]);
        assert_eq!(expanded(""), [OsString::from("")]);
    }

    #[test]
    fn errors_name_the_nearest_placeholder() {
        assert_eq!(
            Word::parse("{hots}:x").unwrap_err(),
            "`{hots}` is not a placeholder; did you mean `{host}`?"
        );
        assert!(Word::parse("{host").is_err());
        assert!(Word::parse("host}").is_err());
        assert!(Word::parse("x{options}").is_err());
        assert!(Word::parse("{port}").unwrap().expand(&values()).unwrap_err().contains("{port}"));
    }
}
