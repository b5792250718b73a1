//! Reads a table of a file key by key. A key that no reader requests is an error.

use std::cell::RefCell;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{FileError, Source};

/// A table, its position in the file, and the keys that its reader has requested.
pub(crate) struct Section<'a> {
    source: &'a Source<'a>,
    table: &'a DeTable<'a>,
    span: Range<usize>,
    name: String,
    asked: RefCell<Vec<&'static str>>,
}

/// A key that a user may name freely, with its levels.
pub(crate) struct FreeLevels {
    /// The key, as the file writes it.
    pub name: String,
    /// One or more levels.
    pub levels: Vec<String>,
    /// The key with its table, for errors.
    key: String,
    span: Range<usize>,
}

type Read<T> = Result<T, FileError>;

/// Parses a file and passes its root table to `reader`. A key that the reader didn't request is an error.
pub(crate) fn read<T>(file: &str, text: &str, reader: impl FnOnce(&Section) -> Read<T>) -> Read<T> {
    let source = Source { file, text };
    let root = DeTable::parse(text).map_err(|e| source.error(&e.span().unwrap_or(0..0), "", e.message()))?;
    let section = Section {
        source: &source,
        table: root.get_ref(),
        span: 0..0,
        name: String::new(),
        asked: Default::default(),
    };
    let value = reader(&section)?;
    section.finish()?;
    Ok(value)
}

impl<'a> Section<'a> {
    /// A required string.
    pub fn text(&self, key: &'static str) -> Read<&'a str> {
        self.maybe_text(key)?.ok_or_else(|| self.missing(key))
    }

    /// An optional string.
    pub fn maybe_text(&self, key: &'static str) -> Read<Option<&'a str>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.get_ref().as_str().map(Some).ok_or_else(|| self.wrong(key, value, "a string"))
    }

    /// An optional string that `parse` converts. An error of `parse` becomes an error at the key.
    pub fn maybe_parsed<T>(
        &self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Read<Option<T>> {
        let Some(text) = self.maybe_text(key)? else { return Ok(None) };
        parse(text).map(Some).map_err(|problem| self.error(key, problem))
    }

    /// Like [`Section::maybe_parsed`], for a required key.
    pub fn parsed<T>(&self, key: &'static str, parse: impl FnOnce(&str) -> Result<T, String>) -> Read<T> {
        self.maybe_parsed(key, parse)?.ok_or_else(|| self.missing(key))
    }

    /// Reads an optional string that must be one of a few words.
    pub fn maybe_choice<T: Copy>(&self, key: &'static str, choices: &[(&'static str, T)]) -> Read<Option<T>> {
        let Some(text) = self.maybe_text(key)? else { return Ok(None) };
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
            return Ok(Some(*value));
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let problem = format!("{text:?} is not one of {}", names.join(", "));
        Err(self.error(key, problem).suggest(text, names))
    }

    /// A list of strings; empty if the key is missing. A single string counts as a list of one.
    pub fn texts(&self, key: &'static str) -> Read<Vec<&'a str>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        if let Some(text) = value.get_ref().as_str() {
            return Ok(vec![text]);
        }
        let items = value.get_ref().as_array().ok_or_else(|| self.wrong(key, value, "a list of strings"))?;
        let one = |item: &'a Spanned<DeValue<'a>>| {
            item.get_ref().as_str().ok_or_else(|| self.wrong(key, item, "a string"))
        };
        items.iter().map(one).collect()
    }

    /// A list of whole numbers and words, each converted by `parse` from its text. Empty if the key is missing.
    pub fn levels<T>(&self, key: &'static str, parse: impl Fn(&str) -> Result<T, String>) -> Read<Vec<T>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let one = |item: &'a Spanned<DeValue<'a>>| {
            parse(&self.level(key, item)?).map_err(|problem| self.error_at(item.span(), key, problem))
        };
        match value.get_ref().as_array() {
            Some(items) => items.iter().map(one).collect(),
            None => Ok(vec![one(value)?]),
        }
    }

    /// Returns an error if one of the keys is an empty list. A key without levels must be left out instead.
    pub fn refuse_empty(&self, keys: &[&'static str]) -> Read<()> {
        let is_empty = |key: &&&str| {
            let value = self.table.get(**key).and_then(|value| value.get_ref().as_array());
            value.is_some_and(|items| items.is_empty())
        };
        match keys.iter().find(is_empty) {
            Some(key) => Err(self.error(key, "has no level")),
            None => Ok(()),
        }
    }

    /// An optional number that isn't negative.
    pub fn maybe_number(&self, key: &'static str) -> Read<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = match value.get_ref() {
            DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok().map(|n| n as f64),
            DeValue::Float(n) => n.as_str().parse().ok(),
            _ => return Err(self.wrong(key, value, "a number")),
        };
        let fits = number.filter(|n: &f64| n.is_finite() && *n >= 0.0);
        fits.map(Some).ok_or_else(|| self.wrong(key, value, "a number that isn't negative"))
    }

    /// An optional whole number, at least 1.
    pub fn maybe_count(&self, key: &'static str) -> Read<Option<u64>> {
        let Some(number) = self.maybe_number(key)? else { return Ok(None) };
        if number >= 1.0 && number.fract() == 0.0 && number < 9e15 {
            return Ok(Some(number as u64));
        }
        Err(self.error(key, format!("{number} is not a whole number from 1 up")))
    }

    /// True or false; false if the key is missing.
    pub fn flag(&self, key: &'static str) -> Read<bool> {
        let Some(value) = self.get(key) else { return Ok(false) };
        value.get_ref().as_bool().ok_or_else(|| self.wrong(key, value, "true or false"))
    }

    /// The tables of `[[key]]`, each read by `reader`.
    pub fn sections<T>(
        &self,
        key: &'static str,
        mut reader: impl FnMut(&Section) -> Read<T>,
    ) -> Read<Vec<T>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let items =
            value.get_ref().as_array().ok_or_else(|| self.wrong(key, value, "a list of tables: [[...]]"))?;
        items.iter().map(|item| self.read_inner(key, item, &mut reader)).collect()
    }

    /// The table `[key]`, read by `reader`.
    pub fn section<T>(
        &self,
        key: &'static str,
        mut reader: impl FnMut(&Section) -> Read<T>,
    ) -> Read<Option<T>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        self.read_inner(key, value, &mut reader).map(Some)
    }

    /// The keys and strings of the table `[key]`. Its keys may have any names.
    pub fn map(&self, key: &'static str) -> Read<Vec<(String, &'a str)>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let table = value.get_ref().as_table().ok_or_else(|| self.wrong(key, value, "a table"))?;
        let one = |(name, item): (&'a Spanned<_>, &'a Spanned<DeValue<'a>>)| {
            let name: &std::borrow::Cow<str> = name.get_ref();
            let text = item.get_ref().as_str().ok_or_else(|| self.wrong(key, item, "a string"))?;
            Ok((name.to_string(), text))
        };
        table.iter().map(one).collect()
    }

    /// The keys of the table `[key]` in the file's order. Keys may have any names. The levels of a key are a number, a
    /// string, or a list of numbers and strings.
    pub fn free_levels(&self, key: &'static str) -> Read<Vec<FreeLevels>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let table = value.get_ref().as_table().ok_or_else(|| self.wrong(key, value, "a table"))?;
        let mut found = Vec::new();
        for (name, item) in table {
            let name: &str = name.get_ref();
            let full = format!("{key}.{name}");
            let items = item.get_ref().as_array();
            let levels: Read<Vec<String>> = match items {
                Some(items) => items.iter().map(|item| self.level(&full, item)).collect(),
                None => self.level(&full, item).map(|level| vec![level]),
            };
            found.push(FreeLevels { name: name.to_owned(), span: item.span(), key: full, levels: levels? });
        }
        found.sort_by_key(|entry| entry.span.start);
        Ok(found)
    }

    /// Like [`Section::free_levels`], with one level for each key.
    pub fn free_values(&self, key: &'static str) -> Read<Vec<FreeLevels>> {
        let found = self.free_levels(key)?;
        match found.iter().find(|entry| entry.levels.len() != 1) {
            Some(entry) => Err(self.error_of(entry, "is a list, but must be a single value")),
            None => Ok(found),
        }
    }

    /// An error at a key with an arbitrary name.
    pub fn error_of(&self, entry: &FreeLevels, problem: impl Into<String>) -> FileError {
        self.error_at(entry.span.clone(), &entry.key, problem)
    }

    fn level(&self, key: &str, item: &Spanned<DeValue>) -> Read<String> {
        match item.get_ref() {
            // The number in decimal digits, whatever its base in the file.
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => Ok(number.to_string()),
                Err(_) => Err(self.wrong(key, item, "a number below 2^63")),
            },
            DeValue::Float(number) => Ok(number.as_str().to_owned()),
            DeValue::String(text) => Ok(text.as_ref().to_owned()),
            _ => Err(self.wrong(key, item, "a number or a string")),
        }
    }

    /// An error at a key, or at the table if the key is missing.
    pub fn error(&self, key: &str, problem: impl Into<String>) -> FileError {
        let span = self.table.get(key).map_or(self.span.clone(), Spanned::span);
        self.error_at(span, key, problem)
    }

    /// The error for a missing required key. The error names a similar key of the table, if there is one.
    pub fn missing(&self, key: &'static str) -> FileError {
        let strangers = self.strangers();
        let slip = strangers.iter().find(|(name, _)| super::nearest(name, [key]).is_some());
        match slip {
            Some((name, span)) => self.unknown(name, span).suggest(name, [key]),
            None => self.error(key, "is missing"),
        }
    }

    fn finish(&self) -> Read<()> {
        let Some((name, span)) = self.strangers().into_iter().next() else { return Ok(()) };
        let asked = self.asked.borrow();
        Err(self.unknown(name, &span).suggest(name, asked.iter().copied()))
    }

    /// The keys that the reader didn't request, which are errors, in the file's order.
    fn strangers(&self) -> Vec<(&'a str, Range<usize>)> {
        let asked = self.asked.borrow();
        let mut found: Vec<_> = self
            .table
            .iter()
            .map(|(key, _)| (key.get_ref().as_ref(), key.span()))
            .filter(|(name, _)| !asked.contains(name))
            .collect();
        found.sort_by_key(|(_, span)| span.start);
        found
    }

    fn unknown(&self, name: &str, span: &Range<usize>) -> FileError {
        self.error_at(span.clone(), name, "is not a key of this table")
    }

    fn read_inner<T>(
        &self,
        key: &'static str,
        item: &'a Spanned<DeValue<'a>>,
        reader: &mut impl FnMut(&Section) -> Read<T>,
    ) -> Read<T> {
        let table = item.get_ref().as_table().ok_or_else(|| self.wrong(key, item, "a table"))?;
        let name = self.full_name(key);
        let inner =
            Section { source: self.source, table, span: item.span(), name, asked: Default::default() };
        let value = reader(&inner)?;
        inner.finish()?;
        Ok(value)
    }

    fn get(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.asked.borrow_mut().push(key);
        self.table.get(key)
    }

    fn wrong(&self, key: &str, value: &Spanned<DeValue>, expected: &str) -> FileError {
        let found = value.get_ref().type_str();
        self.error_at(value.span(), key, format!("is {} {found}, but must be {expected}", article(found)))
    }

    fn error_at(&self, span: Range<usize>, key: &str, problem: impl Into<String>) -> FileError {
        self.source.error(&span, &self.full_name(key), problem)
    }

    fn full_name(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }
}

fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_case(text: &str) -> Read<(String, Vec<String>)> {
        read("x.toml", text, |root| {
            let cases = root.sections("case", |case| {
                let id = case.text("id")?.to_owned();
                Ok((id, case.levels("streams", |s| Ok(s.to_owned()))?))
            })?;
            cases.into_iter().next().ok_or_else(|| root.missing("case"))
        })
    }

    #[test]
    fn reads_numbers_and_words_as_levels() {
        let (id, streams) = read_case("[[case]]\nid = \"a\"\nstreams = [1, \"auto\"]\n").unwrap();
        assert_eq!((id.as_str(), streams), ("a", vec!["1".to_owned(), "auto".to_owned()]));
        assert_eq!(read_case("[[case]]\nid = \"a\"\nstreams = 8\n").unwrap().1, ["8"]);
    }

    #[test]
    fn an_error_names_file_line_key_and_what_was_meant() {
        let error = |text: &str| read_case(text).unwrap_err().to_string();
        assert_eq!(
            error("[[case]]\nid = \"a\"\n\nsteams = 8\n"),
            "x.toml:4: `case.steams`: is not a key of this table; did you mean `streams`?"
        );
        assert_eq!(error("\n[[case]]\nstreams = 8\n"), "x.toml:2: `case.id`: is missing");
        assert_eq!(
            error("[[case]]\nidd = \"a\"\n"),
            "x.toml:2: `case.idd`: is not a key of this table; did you mean `id`?"
        );
        assert_eq!(error("[[case]]\nid = 3\n"), "x.toml:2: `case.id`: is an integer, but must be a string");
        assert_eq!(
            error("[[cases]]\nid = \"a\"\n"),
            "x.toml:1: `cases`: is not a key of this table; did you mean `case`?"
        );
        assert!(error("[[case]]\nid = \n").starts_with("x.toml:2: "), "{}", error("[[case]]\nid = \n"));
        assert_eq!(
            error("case = 1"),
            "x.toml:1: `case`: is an integer, but must be a list of tables: [[...]]"
        );
    }

    #[test]
    fn a_level_is_in_decimal_digits() {
        let streams = |level: &str| {
            read_case(&format!("[[case]]\nid = \"a\"\nstreams = {level}\n")).map(|(_, streams)| streams)
        };
        assert_eq!(streams("[0x10, 1_000]").unwrap(), ["16", "1000"]);
        assert!(streams("99999999999999999999").unwrap_err().to_string().contains("2^63"));
    }

    #[test]
    fn numbers_are_checked() {
        let count = |text: &str| read("x", text, |root| root.maybe_count("n"));
        assert_eq!(count("n = 0x10"), Ok(Some(16)));
        assert_eq!(count(""), Ok(None));
        assert!(count("n = 0").is_err());
        assert!(count("n = -3").is_err());
        assert!(count("n = 1.5").is_err());
        assert!(count("n = inf").is_err());
    }
}
