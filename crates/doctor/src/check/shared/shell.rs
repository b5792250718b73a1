//! Words of shell commands.

/// A name from a host, quoted as one word of a shell command.
pub fn word(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./:@%+,=-".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_word() {
        assert_eq!((word("/data").as_str(), word("layer2+3").as_str()), ("/data", "layer2+3"));
        assert_eq!((word("/my data").as_str(), word("x;reboot").as_str()), ("'/my data'", "'x;reboot'"));
        assert_eq!((word("it's").as_str(), word("").as_str()), ("'it'\\''s'", "''"));
    }
}
