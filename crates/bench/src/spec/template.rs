//! Command words that contain placeholders, such as `{host}:{destination}/`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::nearest;

/// The value of a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// One string, which may be part of a word.
    One(OsString),
    /// Any number of words. The placeholder must be a separate word.
    Many(Vec<OsString>),
}

/// The values of the placeholders in one execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values(BTreeMap<Cow<'static, str>, Value>);

impl Values {
    /// Sets a placeholder's value, and returns the previous one.
    pub fn insert(&mut self, name: impl Into<Cow<'static, str>>, value: Value) -> Option<Value> {
        self.0.insert(name.into(), value)
    }

    /// The value of a placeholder.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

impl<const N: usize> From<[(&'static str, Value); N]> for Values {
    fn from(pairs: [(&'static str, Value); N]) -> Self {
        Values(pairs.map(|(name, value)| (Cow::Borrowed(name), value)).into())
    }
}

/// The placeholders that the commands of every tool may contain.
const TOOL: [&str; 16] = [
    "address",
    "addresses",
    "bytes",
    "destination",
    "host",
    "index",
    "linerate",
    "options",
    "port",
    "source",
    "source_name",
    "source_parent",
    "ssh_config",
    "streams",
    "url_host",
    "url_hosts",
];

/// The placeholders that a setting's commands may contain.
const SETTING: [&str; 5] = ["address", "addresses", "host", "interface", "value"];

/// The placeholders that stand for any number of words.
const MANY: [&str; 3] = ["addresses", "options", "url_hosts"];

/// The names of placeholders that the commands of one file may contain.
#[derive(Clone, Debug)]
pub(crate) struct Names(Vec<String>);

impl Names {
    /// The placeholders that a tool's commands may contain: the common ones, and the tool's own parameters.
    pub fn of_tool<'n>(parameters: impl IntoIterator<Item = &'n str>) -> Names {
        Names(TOOL.into_iter().chain(parameters).map(str::to_owned).collect())
    }

    /// The placeholders that a setting's commands may contain.
    pub fn of_setting() -> Names {
        Names(SETTING.map(str::to_owned).into())
    }

    /// True if the commands of every tool, or those of every setting, may contain a placeholder with this name. A
    /// parameter can't have such a name.
    pub fn is_taken(name: &str) -> bool {
        TOOL.contains(&name) || SETTING.contains(&name)
    }

    fn holds(&self, name: &str) -> bool {
        self.0.iter().any(|known| known == name)
    }
}

/// A word of a command, parsed into literal parts and known placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Placeholder(String),
}

impl Word {
    /// Parses a word that may contain any placeholder except parameters. `{{` and `}}` are braces.
    ///
    /// # Errors
    /// If a placeholder is unknown (the error contains the most similar name), a brace has no counterpart, or
    /// a placeholder for many words isn't a separate word.
    pub fn parse(text: &str) -> Result<Word, String> {
        Word::parse_with(text, &Names::of_tool(["value"]))
    }

    /// Like [`Word::parse`], with these placeholders.
    ///
    /// # Errors
    /// The errors of [`Word::parse`].
    pub(crate) fn parse_with(text: &str, names: &Names) -> Result<Word, String> {
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
            let (name, after) = placeholder(&rest[at..], names)?;
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::Placeholder(name.to_owned()));
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() || parts.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Word(parts).checked()
    }

    /// The words that replace this word.
    ///
    /// # Errors
    /// A message, if a placeholder has no value in this execution.
    pub fn expand(&self, values: &Values) -> Result<Vec<OsString>, String> {
        let mut word = OsString::new();
        for part in &self.0 {
            match part {
                Part::Literal(text) => word.push(text),
                Part::Placeholder(name) => match values.get(name) {
                    Some(Value::One(value)) => word.push(value),
                    Some(Value::Many(words)) => return Ok(words.clone()),
                    None => return Err(format!("`{{{name}}}` has no value at this place")),
                },
            }
        }
        Ok(vec![word])
    }

    /// True if the word contains the placeholder.
    pub fn mentions(&self, name: &str) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Placeholder(n) if n == name))
    }

    fn checked(self) -> Result<Word, String> {
        let many = self.0.iter().find_map(|part| match part {
            Part::Placeholder(name) if MANY.contains(&name.as_str()) => Some(name),
            _ => None,
        });
        match many {
            Some(name) if self.0.len() > 1 => {
                Err(format!("`{{{name}}}` stands for several words and must be a word of its own"))
            }
            _ => Ok(self),
        }
    }
}

/// Parses the words of a command of this program, like [`Word::parse`].
///
/// # Errors
/// The errors of [`Word::parse`].
pub(crate) fn parse(words: &[&str]) -> Result<Vec<Word>, String> {
    words.iter().map(|word| Word::parse(word)).collect()
}

/// Expands every word of a command.
///
/// # Errors
/// The errors of [`Word::expand`].
pub fn expand(words: &[Word], values: &Values) -> Result<Vec<OsString>, String> {
    let words = words.iter().map(|word| word.expand(values)).collect::<Result<Vec<_>, _>>()?;
    Ok(words.concat())
}

/// A value of one string.
pub fn one(value: impl AsRef<OsStr>) -> Value {
    Value::One(value.as_ref().to_owned())
}

fn placeholder<'t>(text: &'t str, names: &Names) -> Result<(&'t str, &'t str), String> {
    let inner = text.strip_prefix('{').ok_or("a `}` has no `{` before it; write `}}` for a brace")?;
    let (name, after) = inner.split_once('}').ok_or("a `{` has no `}` after it; write `{{` for a brace")?;
    if names.holds(name) {
        return Ok((name, after));
    }
    let meant = nearest(name, names.0.iter().map(String::as_str));
    let meant =
        meant.map_or("; write `{{` for a brace".into(), |name| format!("; did you mean `{{{name}}}`?"));
    Err(format!("`{{{name}}}` is not a placeholder{meant}"))
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
        assert!(Word::parse("x{options}").unwrap_err().contains("`{options}`"));
        assert!(Word::parse("x{addresses}").unwrap_err().contains("`{addresses}`"));
        assert!(Word::parse("{port}").unwrap().expand(&values()).unwrap_err().contains("{port}"));
    }

    #[test]
    fn a_tool_has_its_parameters_and_a_setting_its_value() {
        let users = Names::of_tool(["users"]);
        let word = Word::parse_with("-c{users}", &users).unwrap();
        let mut values = values();
        assert!(word.expand(&values).is_err());
        values.insert("users".to_owned(), one("240"));
        assert_eq!(word.expand(&values).unwrap(), [OsString::from("-c240")]);
        assert!(Word::parse("{users}").is_err());
        assert!(Word::parse_with("{value}", &Names::of_setting()).is_ok());
        assert!(Word::parse_with("{port}", &Names::of_setting()).is_err());
        assert!(Word::parse_with("{value}", &users).is_err() && Word::parse("{value}").is_ok());
        assert!(Names::is_taken("port") && Names::is_taken("value") && !Names::is_taken("users"));
    }
}
