//! Parses `--usermap`, `--groupmap` and `--chown`, which replace the sender's owners and groups by others at
//! the receiver.

use linerate_wire::control::{IdentityFrom, IdentityRule, MAX_IDENTITY_RULES};

/// Parses the rules of `--usermap` and `--groupmap`: `FROM:TO,...`. FROM is a number, a range of numbers, a
/// name, a pattern of names, or empty for users or groups without a name.
///
/// # Errors
/// The reason why the text isn't a list of rules.
pub fn parse_map(text: &str) -> Result<Vec<IdentityRule>, String> {
    let rules: Vec<_> = text.split(',').map(rule).collect::<Result<_, _>>()?;
    match rules.len() {
        0..=MAX_IDENTITY_RULES => Ok(rules),
        _ => Err(format!("there can be at most {MAX_IDENTITY_RULES} rules")),
    }
}

/// Parses `--chown USER:GROUP` to rules for users and for groups. USER or GROUP may be missing.
///
/// # Errors
/// The errors of [`parse_map`].
pub fn parse_chown(text: &str) -> Result<[Option<Vec<IdentityRule>>; 2], String> {
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    let everybody = |to: &str| IdentityRule { from: IdentityFrom::Pattern("*".into()), to: to.to_owned() };
    Ok([user, group].map(|to| (!to.is_empty()).then(|| vec![everybody(to)])))
}

fn rule(text: &str) -> Result<IdentityRule, String> {
    let Some((from, to)) = text.split_once(':') else { return Err(format!("no colon found in '{text}'")) };
    if to.is_empty() {
        return Err(format!("no name found after the colon of '{text}'"));
    }
    Ok(IdentityRule { from: whom(from)?, to: number_or_name(to)? })
}

fn whom(from: &str) -> Result<IdentityFrom, String> {
    if from.starts_with(|first: char| first.is_ascii_digit()) {
        let (first, last) = from.split_once('-').unwrap_or((from, from));
        return Ok(IdentityFrom::Numbers(number(first, from)?, number(last, from)?));
    }
    let is_pattern = from.contains(['*', '[', '?']);
    Ok(if is_pattern { IdentityFrom::Pattern(from.into()) } else { IdentityFrom::Name(from.into()) })
}

fn number(digits: &str, of: &str) -> Result<u32, String> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number).ok_or_else(|| format!("invalid number in '{of}'"))
}

fn number_or_name(to: &str) -> Result<String, String> {
    if to.bytes().all(|byte| byte.is_ascii_digit()) {
        number(to, to)?;
    }
    Ok(to.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_read_as_rsync_reads_them() {
        let rule = |from, to: &str| IdentityRule { from, to: to.into() };
        let pattern = |text: &str| IdentityFrom::Pattern(text.into());
        assert_eq!(
            parse_map("0-99:nobody,ann:7,:8,w*:www,*:normal,5:6").unwrap(),
            [
                rule(IdentityFrom::Numbers(0, 99), "nobody"),
                rule(IdentityFrom::Name("ann".into()), "7"),
                rule(IdentityFrom::Name(String::new()), "8"),
                rule(pattern("w*"), "www"),
                rule(pattern("*"), "normal"),
                rule(IdentityFrom::Numbers(5, 5), "6"),
            ]
        );
        for wrong in ["root", "root:", "0-5x:1", "0-:5", "0-1-2:5", "0:99999999999", "", "a:b,"] {
            assert!(parse_map(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn either_half_of_an_owner_may_be_missing() {
        let is_there = |text| parse_chown(text).unwrap().map(|rules| rules.map(|rules| rules[0].to.clone()));
        assert_eq!(is_there("ann:web"), [Some("ann".into()), Some("web".into())]);
        assert_eq!(is_there("ann"), [Some("ann".into()), None]);
        assert_eq!(is_there("ann:"), [Some("ann".into()), None]);
        assert_eq!(is_there(":web"), [None, Some("web".into())]);
        assert_eq!(is_there("a:b:c"), [Some("a".into()), Some("b:c".into())]);
    }
}
