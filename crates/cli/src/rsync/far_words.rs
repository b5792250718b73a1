//! Converts paths of the far end from rsync's notation to linerate's. In rsync's notation, characters may have a
//! meaning for the far end or its shell. In linerate's notation, only a name with `*`, `?` or `[` is a pattern, and
//! backslashes have a meaning only in such a name.

use linerate_transfer::pattern;

/// Characters that make a name a pattern.
const WILD: &[u8] = b"*?[";
/// Characters that have a meaning in a pattern.
const IN_PATTERNS: &[u8] = b"*?[]\\{}";
/// Characters before which a backslash has a meaning, unless a far shell reads the path.
const ESCAPED: &[u8] = b"*?[]";
/// Characters that end a command in a shell, or divert its input or output.
const OF_COMMANDS: &[u8] = b";&|<>()\n";
/// The largest number of words for which the braces of one word may stand.
const MOST_WORDS: usize = 256;

/// A byte of a word, and whether it is quoted, so that it only stands for itself.
type Sign = (u8, bool);

/// `path` in linerate's notation. Wildcards have a meaning unless a backslash precedes them; all other
/// characters stand for themselves, except a tilde at the beginning.
pub fn protected(path: &[u8]) -> Vec<u8> {
    let (mut word, mut rest) = (Vec::with_capacity(path.len()), path);
    while let [byte, more @ ..] = rest {
        let escaped = more.first().filter(|next| *byte == b'\\' && ESCAPED.contains(next));
        let (sign, length) = match escaped {
            Some(next) => ((*next, true), 2),
            None => ((*byte, !ESCAPED.contains(byte) && *byte != b'~'), 1),
        };
        word.push(sign);
        rest = &rest[length..];
    }
    notation(&word)
}

/// `path` in linerate's notation, if all its characters stand for themselves.
pub fn literal(path: &[u8]) -> Vec<u8> {
    let here: &[u8] = if path.starts_with(b"~") { b"./" } else { b"" };
    [here, &pattern::literal(path)].concat()
}

/// The paths into which a far shell would split `path`, in linerate's notation.
///
/// # Errors
/// The reason why the path can't be split: only the far shell itself could know what the path means, or a quotation
/// mark has no partner.
pub fn split(path: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    for word in read(path)? {
        words.extend(alternatives(word)?);
    }
    // If the path consists of no word, the shell passes no argument, and rsync takes the login directory.
    if words.is_empty() {
        words.push(Vec::new());
    }
    Ok(words.iter().map(|word| notation(word)).collect())
}

/// Writes a word in linerate's notation.
fn notation(word: &[Sign]) -> Vec<u8> {
    let mut path = Vec::with_capacity(word.len());
    if matches!(word, [(b'~', true), ..]) {
        path.extend_from_slice(b"./");
    }
    for (number, component) in word.split(|(byte, _)| *byte == b'/').enumerate() {
        if number > 0 {
            path.push(b'/');
        }
        let is_pattern = component.iter().any(|(byte, _)| WILD.contains(byte));
        for (byte, is_quoted) in component {
            if is_pattern && *is_quoted && IN_PATTERNS.contains(byte) {
                path.push(b'\\');
            }
            path.push(*byte);
        }
    }
    path
}

/// Splits a path into words and removes the quotation marks and backslashes, as a shell does.
fn read(path: &[u8]) -> Result<Vec<Vec<Sign>>, String> {
    let (mut words, mut word) = (Vec::new(), None::<Vec<Sign>>);
    let mut rest = path;
    while let [byte, more @ ..] = rest {
        rest = more;
        match byte {
            b' ' | b'\t' => words.extend(word.take()),
            b'\'' => {
                let (quoted, behind) = until_quote(rest)?;
                word.get_or_insert_default().extend(quoted.iter().map(|byte| (*byte, true)));
                rest = behind;
            }
            b'"' => rest = in_double_quotes(rest, word.get_or_insert_default())?,
            b'\\' => match rest {
                [b'\n', behind @ ..] => rest = behind,
                [next, behind @ ..] => {
                    word.get_or_insert_default().push((*next, true));
                    rest = behind;
                }
                [] => word.get_or_insert_default().push((b'\\', true)),
            },
            b'#' if word.is_none() => return Err("a word that begins with # is a comment".into()),
            byte if b"$`".contains(byte) || OF_COMMANDS.contains(byte) => return Err(unasked(*byte)),
            byte => word.get_or_insert_default().push((*byte, false)),
        }
    }
    words.extend(word);
    Ok(words)
}

/// The bytes before the next single quotation mark, and those after it.
fn until_quote(rest: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let end = rest.iter().position(|byte| *byte == b'\'').ok_or_else(unclosed)?;
    Ok((&rest[..end], &rest[end + 1..]))
}

/// Reads the text between double quotation marks into `word`; returns the bytes after it.
fn in_double_quotes<'a>(mut rest: &'a [u8], word: &mut Vec<Sign>) -> Result<&'a [u8], String> {
    loop {
        rest = match rest {
            [b'"', behind @ ..] => return Ok(behind),
            [b'\\', b'\n', behind @ ..] => behind,
            [b'\\', next @ (b'$' | b'`' | b'"' | b'\\'), behind @ ..] => {
                word.push((*next, true));
                behind
            }
            [byte @ (b'$' | b'`'), ..] => return Err(unasked(*byte)),
            [byte, behind @ ..] => {
                word.push((*byte, true));
                behind
            }
            [] => return Err(unclosed()),
        }
    }
}

fn unclosed() -> String {
    "a quotation mark has no partner".into()
}

fn unasked(byte: u8) -> String {
    let shown = if byte == b'\n' { "a new line".into() } else { format!("'{}'", char::from(byte)) };
    let what = "has a meaning for the far shell, which linerate doesn't ask";
    format!("{shown} {what}: write the path itself, or a backslash before that character")
}

/// The words for which the braces of `word` stand, as in bash: `{a,b}c` stands for `ac` and `bc`.
fn alternatives(word: Vec<Sign>) -> Result<Vec<Vec<Sign>>, String> {
    let (mut done, mut open) = (Vec::new(), vec![word]);
    while let Some(word) = open.pop() {
        match braces(&word)? {
            Some(signs) => {
                let (begin, end) = (signs[0], signs[signs.len() - 1]);
                let parts = signs.windows(2).map(|pair| &word[pair[0] + 1..pair[1]]);
                open.extend(parts.rev().map(|part| [&word[..begin], part, &word[end + 1..]].concat()));
            }
            None => done.push(word),
        }
        if done.len() + open.len() > MOST_WORDS {
            return Err(format!("its braces stand for more than {MOST_WORDS} paths"));
        }
    }
    Ok(done)
}

/// The positions of the opening brace, the commas and the closing brace of the first braces with a comma.
fn braces(word: &[Sign]) -> Result<Option<Vec<usize>>, String> {
    let (mut open, mut first) = (Vec::<Vec<usize>>::new(), None::<Vec<usize>>);
    let unquoted = word.iter().enumerate().filter(|(_, (_, is_quoted))| !is_quoted);
    for (at, (byte, _)) in unquoted {
        match byte {
            b'{' => open.push(vec![at]),
            b',' => open.last_mut().into_iter().for_each(|signs| signs.push(at)),
            b'}' => {
                let Some(mut signs) = open.pop() else { continue };
                if signs.len() == 1 && word[signs[0]..at].windows(2).any(|two| two == [(b'.', false); 2]) {
                    return Err("braces with '..' have a meaning for some far shells: write each path".into());
                }
                signs.push(at);
                let closed = Some(signs).filter(|signs| signs.len() > 2);
                first = first.into_iter().chain(closed).min_by_key(|signs| signs[0]);
            }
            _ => {}
        }
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(path: &str) -> Result<Vec<String>, String> {
        Ok(split(path.as_bytes())?.into_iter().map(|word| String::from_utf8(word).unwrap()).collect())
    }

    #[test]
    fn words_are_a_shell_s() {
        for (path, wanted) in [
            ("a b", &["a", "b"][..]),
            (r"a\ b", &["a b"]),
            ("'a b'c", &["a bc"]),
            (r#""a 'b" 'c"'"#, &["a 'b", "c\""]),
            (r#""\$x \y""#, &[r"$x \y"]),
            ("*.c 'x*' [ab]", &["*.c", r"x\*", "[ab]"]),
            (r"x*/a\[b/c\d", &[r"x*/a\[b/cd"]),
            ("~/x '~'/x", &["~/x", "./~/x"]),
            ("a/{b,c{1,2}}*", &["a/b*", "a/c1*", "a/c2*"]),
            (r"'{a,b}' {a} \{a,b}", &["{a,b}", "{a}", "{a,b}"]),
            ("", &[""]),
            ("  ", &[""]),
            ("''", &[""]),
            (r"a\", &[r"a\"]),
            ("a#b", &["a#b"]),
        ] {
            assert_eq!(words(path), Ok(wanted.iter().map(|word| (*word).to_owned()).collect()), "{path}");
        }
    }

    #[test]
    fn what_only_the_far_shell_knows_is_refused() {
        for (path, why) in [
            ("$HOME/x", "'$'"),
            ("\"$HOME\"", "'$'"),
            ("`ls`", "'`'"),
            ("a;b", "';'"),
            ("a > b", "'>'"),
            ("(a)", "'('"),
            ("a\nb", "a new line"),
            ("#a", "comment"),
            ("'a", "partner"),
            ("\"a", "partner"),
            ("{1..3}", "'..'"),
            (&"{a,b}".repeat(9), "256"),
        ] {
            assert!(words(path).is_err_and(|error| error.contains(why)), "{path}");
        }
    }

    #[test]
    fn wildcards_alone_have_a_meaning_unless_a_shell_reads_the_path() {
        for (path, wanted) in [
            ("a b/$x", "a b/$x"),
            (r"a\b", r"a\b"),
            ("a*", "a*"),
            (r"a\*", r"a\*"),
            ("{a,*}", r"\{a,*\}"),
            (r"x\y*/x\y", r"x\\y*/x\y"),
            ("~/[ab]", "~/[ab]"),
            ("a~b", "a~b"),
        ] {
            assert_eq!(String::from_utf8(protected(path.as_bytes())).unwrap(), wanted);
        }
        assert_eq!(literal(b"~a/[b]\\c"), b"./~a/\\[b\\]\\\\c");
    }
}
