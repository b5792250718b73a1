//! Parses `--chmod`: changes of modes in the notation of chmod(1), for directories (`D`), for other entries
//! (`F`), or for both.

use linerate_wire::control::ModeRule;

/// All mode bits that a rule may change.
const BITS: u32 = 0o7777;

/// Parses rules that are separated by commas. If a rule names no class of users, the bits in `umask` aren't
/// changed.
///
/// # Errors
/// A message that names the invalid rule.
pub fn parse(text: &str, umask: u32) -> Result<Vec<ModeRule>, String> {
    let part = |part: &str| {
        one(part, umask)
            .ok_or_else(|| format!("'{part}' isn't a change of modes; write one such as go-w or D755"))
    };
    text.split(',').map(part).collect()
}

fn one(part: &str, umask: u32) -> Option<ModeRule> {
    let (directories, others, change) = match part.as_bytes().first()? {
        b'D' => (true, false, &part[1..]),
        b'F' => (false, true, &part[1..]),
        _ => (true, true, part),
    };
    if change.starts_with(|digit: char| digit.is_digit(8)) {
        let set = u32::from_str_radix(change, 8).ok().filter(|bits| bits & !BITS == 0)?;
        return Some(ModeRule { directories, others, keep: 0, set, conditional: false });
    }
    let (who, rest) = change.split_at(change.find(['+', '-', '='])?);
    let (operator, what) = rest.split_at(1);
    let (classes, special) = classes(who)?;
    let (mut bits, mut top) = (0, 0);
    for letter in what.chars() {
        match letter {
            'r' => bits |= 4,
            'w' => bits |= 2,
            'x' | 'X' => bits |= 1,
            's' => top |= if special == 0 { 0o4000 } else { special },
            't' => top |= 0o1000,
            _ => return None,
        }
    }
    let taken = if classes == 0 { umask } else { 0 };
    let classes = if classes == 0 { 0o111 } else { classes };
    let set = ((classes * bits) & !taken) | top;
    let (keep, set) = match operator {
        "+" => (BITS, set),
        "-" => (BITS & !set, 0),
        _ => (BITS & !(classes * 7) & !(if top == 0 { 0 } else { special }), set),
    };
    Some(ModeRule { directories, others, keep, set, conditional: what.contains('X') })
}

/// The permission bits of the classes of users that `who` names, and the special bits (setuid and so on) that
/// belong to them.
fn classes(who: &str) -> Option<(u32, u32)> {
    let class = |letter| match letter {
        'u' => Some((0o100, 0o4000)),
        'g' => Some((0o010, 0o2000)),
        'o' => Some((0o001, 0)),
        'a' => Some((0o111, 0o6000)),
        _ => None,
    };
    who.chars().try_fold((0, 0), |(classes, special), letter| {
        class(letter).map(|(class, bit)| (classes | class, special | bit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read() {
        let rule = |text: &str| {
            let rule = parse(text, 0o022).unwrap()[0];
            (rule.directories, rule.others, rule.keep, rule.set, rule.conditional)
        };
        assert_eq!(rule("D755"), (true, false, 0, 0o755, false));
        assert_eq!(rule("Fgo-w"), (false, true, 0o7755, 0, false));
        assert_eq!(rule("u=rwX"), (true, true, 0o7077, 0o700, true));
        assert_eq!(rule("+w"), (true, true, 0o7777, 0o200, false));
        assert_eq!(rule("ug+s"), (true, true, 0o7777, 0o6000, false));
        assert_eq!(rule("Dg=rx"), (true, false, 0o7707, 0o050, false));
        for wrong in ["", "u", "z+r", "u+q", "99", "77777", "u+r,,g+r"] {
            assert!(parse(wrong, 0).is_err(), "{wrong}");
        }
    }
}
