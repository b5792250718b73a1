//! Explains why a number that a user wrote is refused. The messages of clap and of Rust's standard library
//! use names of Rust's types and ranges.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error;
use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;

/// Parses a whole number. `of` is the unit for the message, such as `seconds`.
///
/// # Errors
/// A message that states which numbers are valid.
pub fn whole<T: FromStr<Err = ParseIntError>>(text: &str, of: &str) -> Result<T, String> {
    text.parse().map_err(|error| match size(&error) {
        Some(size) => format!("{size} for a number of {of}"),
        None => format!("not a number of {of}"),
    })
}

/// Whether a whole number is too large or too small, if it was refused for that reason.
fn size(error: &ParseIntError) -> Option<&'static str> {
    match error.kind() {
        IntErrorKind::PosOverflow => Some("too large"),
        IntErrorKind::NegOverflow => Some("too small"),
        _ => None,
    }
}

/// The reason why an option's value was refused, if the value should be a number.
pub fn why(source: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = source.downcast_ref::<ParseIntError>() {
        let words = size(error)
            .map_or_else(|| "it isn't a whole number".into(), |size| format!("the number is {size}"));
        return Some(words);
    }
    // clap's message has the form `0 is not in 1..=64`.
    let text = source.to_string();
    let (number, range) = text.split_once(" is not in ")?;
    let (least, most) = range.split_once("..=")?;
    [number, least, most]
        .iter()
        .all(|it| it.parse::<i128>().is_ok())
        .then(|| format!("write {least} to {most}"))
}

/// clap's error; if it is about a number, in words that don't mention Rust's types.
pub fn explained(answer: clap::Error) -> clap::Error {
    let text = |kind| match answer.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let words = || {
        let (value, option) = (text(ContextKind::InvalidValue)?, text(ContextKind::InvalidArg)?);
        let why = why(answer.source()?)?;
        Some(format!(
            "invalid value '{value}' for '{option}': {why}\n\nFor more information, try '--help'.\n"
        ))
    };
    match words() {
        Some(words) if answer.kind() == ErrorKind::ValueValidation => clap::Error::raw(answer.kind(), words),
        _ => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, Command, value_parser};

    fn refusal(value: &str) -> String {
        let timeout = Arg::new("timeout").long("timeout").value_parser(value_parser!(u32));
        let least = Arg::new("least").long("least").value_parser(value_parser!(u64).range(1..=9));
        let command = Command::new("x").args([timeout, least]);
        explained(command.try_get_matches_from(["x", value]).unwrap_err()).to_string()
    }

    #[test]
    fn refused_numbers_are_explained_without_words_of_rust() {
        for (value, why) in [
            ("--timeout=99999999999999999999", "the number is too large"),
            ("--timeout=-99999999999999999999", "the number is too small"),
            ("--timeout=x", "it isn't a whole number"),
            ("--timeout=1.5", "it isn't a whole number"),
            ("--timeout=", "it isn't a whole number"),
            ("--timeout=4294967296", "write 0 to 4294967295"),
            ("--least=0", "write 1 to 9"),
            ("--least=99999999999999999999", "the number is too large"),
        ] {
            let (option, given) = value.split_once('=').unwrap();
            let refusal = refusal(value);
            let begin = format!("error: invalid value '{given}' for '{option} <{}>': {why}\n", &option[2..]);
            assert!(refusal.starts_with(&begin) && refusal.contains("--help"), "{refusal}");
        }
        assert!(refusal("--another").contains("unexpected argument"));
    }

    #[test]
    fn whole_numbers_name_what_they_count() {
        assert_eq!(whole::<u32>("30", "seconds"), Ok(30));
        assert_eq!(whole::<u32>("99999999999", "seconds").unwrap_err(), "too large for a number of seconds");
        assert_eq!(whole::<u32>("x", "seconds").unwrap_err(), "not a number of seconds");
    }
}
