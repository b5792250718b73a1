//! Matches one pattern against a path.

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    text: Text,
    reach: PatternReach,
    /// True if the pattern matches only directories.
    directory_only: bool,
    /// True if the pattern ends in `***`, so that it matches a directory itself too, as if the directory's path had a
    /// slash appended.
    directory_and_contents: bool,
}

#[derive(Clone, Debug)]
enum Text {
    Literal(Vec<u8>),
    Wild(Vec<PatternToken>),
}

/// True if the pattern `written` matches the whole of `name`, which contains no slash and may be empty.
pub(crate) fn matches_name(written: &[u8], name: &[u8]) -> bool {
    if name.is_empty() {
        return written.iter().all(|&byte| byte == b'*');
    }
    !written.contains(&b'/') && Pattern::new(written).matches(name, false)
}

/// The part of a path that a pattern must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatternReach {
    /// The last component of the path.
    Name,
    /// The last N components of the path, where N is the number of the pattern's components.
    Tail(usize),
    /// The whole path, relative to the rule's base.
    Anchored,
    /// The whole path with a slash inserted before it, because the pattern begins with `**`.
    FromAnySlash,
    /// The whole path, or any part of it that begins after a slash.
    BehindAnySlash,
}

#[derive(Clone, Debug)]
enum PatternToken {
    /// Exactly this byte.
    Byte(u8),
    /// `?`: any single byte except a slash.
    One,
    /// `*`: any number of bytes except slashes.
    Star,
    /// `**`: any number of any bytes.
    Stars,
    /// `[...]`: a single byte of the class, but never a slash.
    Class(Box<Class>),
    /// An invalid class, which isn't closed or has an unknown name, or a backslash at the end of the pattern: matches
    /// nothing.
    Nothing,
}

#[derive(Clone, Debug)]
struct Class([u64; 4]);

impl Pattern {
    /// Compiles the pattern `written`. Every text is a valid pattern.
    pub fn new(written: &[u8]) -> Self {
        let (body, directory_only) = match written {
            [body @ .., b'/'] if !body.is_empty() => (body, true),
            _ => (written, false),
        };
        let is_wild = body.iter().any(|b| matches!(b, b'*' | b'?' | b'['));
        let crosses = body.windows(2).any(|pair| pair == b"**");
        let anchored = body.strip_prefix(b"/");
        let rest = anchored.unwrap_or(body);
        let text = if is_wild { Text::Wild(tokens(rest)) } else { Text::Literal(rest.to_vec()) };
        let slashes = rest.iter().filter(|&&b| b == b'/').count();
        let reach = match (anchored, crosses) {
            (Some(_), _) => PatternReach::Anchored,
            (None, true) if body.starts_with(b"**") => PatternReach::FromAnySlash,
            (None, true) => PatternReach::BehindAnySlash,
            (None, false) if slashes > 0 => PatternReach::Tail(slashes + 1),
            (None, false) => PatternReach::Name,
        };
        Self { text, reach, directory_only, directory_and_contents: body.ends_with(b"***") }
    }

    /// True if the pattern begins with a slash.
    pub fn is_anchored(&self) -> bool {
        self.reach == PatternReach::Anchored
    }

    /// True if the pattern matches `path`, whose components are separated by single slashes.
    pub fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        if path.is_empty() || (self.directory_only && !is_directory) {
            return false;
        }
        let end: &[u8] = if self.directory_and_contents && is_directory { b"/" } else { b"" };
        match self.reach {
            PatternReach::Name => self.text.matches(b"", last_components(path, 1).unwrap_or(path), end),
            PatternReach::Tail(count) => {
                last_components(path, count).is_some_and(|tail| self.text.matches(b"", tail, end))
            }
            PatternReach::Anchored => self.text.matches(b"", path, end),
            PatternReach::FromAnySlash => self.text.matches(b"/", path, end),
            PatternReach::BehindAnySlash => self.text.matches_behind_any_slash(path, end),
        }
    }
}

fn last_components(path: &[u8], count: usize) -> Option<&[u8]> {
    let mut slashes = path.iter().enumerate().rev().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
    match slashes.nth(count - 1) {
        Some(at) => Some(&path[at + 1..]),
        None => (path.iter().filter(|&&b| b == b'/').count() + 1 == count).then_some(path),
    }
}

fn starts(path: &[u8]) -> impl Iterator<Item = usize> {
    let behind = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at + 1);
    std::iter::once(0).chain(behind)
}

impl Text {
    /// True if the pattern matches the three texts joined together.
    fn matches(&self, front: &[u8], path: &[u8], end: &[u8]) -> bool {
        match self {
            Text::Literal(text) => text == path,
            Text::Wild(tokens) => {
                let bytes = front.iter().chain(path).chain(end).copied();
                if tokens.len() < 64 {
                    run::<1>(tokens, bytes, false)
                } else {
                    run::<MOST_WORDS>(tokens, bytes, false)
                }
            }
        }
    }

    /// True if the pattern matches `path` followed by `end`, or a part of this text that begins after a
    /// slash.
    fn matches_behind_any_slash(&self, path: &[u8], end: &[u8]) -> bool {
        match self {
            Text::Literal(text) => starts(path).any(|at| text == &path[at..]),
            Text::Wild(tokens) => {
                let bytes = path.iter().chain(end).copied();
                if tokens.len() < 64 {
                    run::<1>(tokens, bytes, true)
                } else {
                    run::<MOST_WORDS>(tokens, bytes, true)
                }
            }
        }
    }
}

/// The most words of a set of states. A pattern has at most as many tokens as bytes, and each token is a
/// state.
const MOST_WORDS: usize = linerate_wire::filter::MAX_PATTERN / 64 + 1;

/// Matches by simulating a nondeterministic automaton, whose sets of states have `WORDS` words. The time is at most
/// proportional to the length of the pattern times the number of bytes. If `begins_anew` is set, a match may also begin
/// after any slash.
fn run<const WORDS: usize>(
    tokens: &[PatternToken],
    bytes: impl Iterator<Item = u8>,
    begins_anew: bool,
) -> bool {
    let mut now = [0; WORDS];
    add(&mut now, tokens, 0);
    for byte in bytes {
        let mut next = [0; WORDS];
        for (word, states) in now.iter().enumerate() {
            let mut left: u64 = *states;
            while left != 0 {
                step(&mut next, tokens, word * 64 + left.trailing_zeros() as usize, byte);
                left &= left - 1;
            }
        }
        if begins_anew && byte == b'/' {
            add(&mut next, tokens, 0);
        } else if next == [0; WORDS] && !begins_anew {
            return false;
        }
        now = next;
    }
    now[tokens.len() / 64] >> (tokens.len() % 64) & 1 == 1
}

fn step(next: &mut [u64], tokens: &[PatternToken], at: usize, byte: u8) {
    match tokens.get(at) {
        Some(PatternToken::Byte(wanted)) if *wanted == byte => add(next, tokens, at + 1),
        Some(PatternToken::One) if byte != b'/' => add(next, tokens, at + 1),
        Some(PatternToken::Class(class)) if byte != b'/' && class.has(byte) => add(next, tokens, at + 1),
        Some(PatternToken::Star) if byte != b'/' => add(next, tokens, at),
        Some(PatternToken::Stars) => add(next, tokens, at),
        _ => {}
    }
}

/// Adds a state, and all states after it that can be reached without consuming a byte.
fn add(states: &mut [u64], tokens: &[PatternToken], mut at: usize) {
    loop {
        states[at / 64] |= 1 << (at % 64);
        match tokens.get(at) {
            Some(PatternToken::Star | PatternToken::Stars) => at += 1,
            _ => return,
        }
    }
}

fn tokens(mut text: &[u8]) -> Vec<PatternToken> {
    let mut tokens = Vec::new();
    while let [first, rest @ ..] = text {
        let (token, behind) = match (first, rest) {
            (b'*', rest) => stars(rest),
            (b'?', rest) => (PatternToken::One, rest),
            (b'[', rest) => Class::read(rest).unwrap_or((PatternToken::Nothing, b"")),
            (b'\\', [escaped, rest @ ..]) => (PatternToken::Byte(*escaped), rest),
            (b'\\', []) => (PatternToken::Nothing, rest),
            (byte, rest) => (PatternToken::Byte(*byte), rest),
        };
        tokens.push(token);
        text = behind;
    }
    tokens
}

fn stars(rest: &[u8]) -> (PatternToken, &[u8]) {
    let more = rest.iter().take_while(|&&b| b == b'*').count();
    (if more == 0 { PatternToken::Star } else { PatternToken::Stars }, &rest[more..])
}

impl Class {
    /// Parses the text after `[`; `None` if the class isn't closed or has an unknown name.
    fn read(text: &[u8]) -> Option<(PatternToken, &[u8])> {
        let (negated, mut text) = match text {
            [b'!' | b'^', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        let mut class = Self([0; 4]);
        let mut first = true;
        loop {
            text = match text {
                [b']', rest @ ..] if !first => {
                    return Some((PatternToken::Class(Box::new(class.or_not(negated))), rest));
                }
                [b'[', b':', rest @ ..] => class.add_named(rest)?,
                _ => class.add_range(text)?,
            };
            first = false;
        }
    }

    fn add_named<'a>(&mut self, text: &'a [u8]) -> Option<&'a [u8]> {
        let end = text.iter().position(|&b| b == b']')?;
        let Some(name) = text[..end].strip_suffix(b":") else {
            // This isn't a class name, so the bracket and the colon are literal, and parsing continues after the colon.
            self.add(b'[');
            self.add(b':');
            return Some(text);
        };
        let is_in = named(name)?;
        (0..=255).filter(is_in).for_each(|byte| self.add(byte));
        Some(&text[end + 1..])
    }

    fn add_range<'a>(&mut self, text: &'a [u8]) -> Option<&'a [u8]> {
        let (low, rest) = one(text)?;
        match rest {
            [b'-', rest @ ..] if !matches!(rest.first(), None | Some(b']')) => {
                let (high, rest) = one(rest)?;
                (low..=high).for_each(|byte| self.add(byte));
                Some(rest)
            }
            _ => {
                self.add(low);
                Some(rest)
            }
        }
    }

    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte / 64)] |= 1 << (byte % 64);
    }

    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
    }

    fn or_not(self, negated: bool) -> Self {
        if negated { Self(self.0.map(|word| !word)) } else { self }
    }
}

fn one(text: &[u8]) -> Option<(u8, &[u8])> {
    match text {
        [b'\\', byte, rest @ ..] => Some((*byte, rest)),
        [b'\\'] | [] => None,
        [byte, rest @ ..] => Some((*byte, rest)),
    }
}

fn named(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| byte.is_ascii_graphic() || *byte == b' ',
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| byte.is_ascii_whitespace() || *byte == 0x0b,
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}
