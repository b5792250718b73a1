//! The format of the lines about changes: `--out-format` and `--log-file-format`.

use linerate_wire::control::Change;
use linerate_wire::control::Link;
use linerate_wire::path::printable;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::escape::Escape;
use super::log::{now, shown_time};
use super::numbers::{Human, permissions};

/// The format of a line.
pub struct LineFormat(Vec<Piece>);

/// A piece of a line's format.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Escaped(char, Width),
}

/// The width and padding of an escape's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Width {
    least: usize,
    /// Whether the padding follows the text.
    left: bool,
    /// Whether a number is padded with zeros on the left.
    zeros: bool,
    /// The notation of a size, by the number of apostrophes.
    human: u8,
}

/// The letters of escapes that linerate replaces with text; other escapes are printed unchanged, as by rsync.
const ESCAPES: &str = "inflLUGMBbcCotpm%";
/// The greatest number of characters between the percent sign and the letter, as in rsync.
const MOST_DIGITS: usize = 23;
/// The greatest width of a field; a larger number counts as this one.
const MOST_WIDTH: usize = 4096;

/// The entry that a line describes.
pub struct Subject<'a> {
    /// The change that was reported for the entry.
    pub change: &'a Change,
    /// Whether this end receives from another host.
    pub pulls: bool,
    /// The full name of the file at the sender; only known if the sender is this host.
    pub full: &'a [u8],
    /// The text before the entry's name, and before the name of the file to which a hard link belongs.
    pub root: &'a str,
    /// The checksum of the file's contents, or the same number of spaces.
    pub sum: &'a str,
    /// How names are escaped.
    pub escape: Escape,
}

impl LineFormat {
    /// The form `%i %n%L`.
    pub fn itemized() -> Self {
        let plain = |letter| Piece::Escaped(letter, Width::default());
        Self(vec![plain('i'), Piece::Text(" ".into()), plain('n'), plain('L')])
    }

    /// The form `%n%L`.
    pub fn named() -> Self {
        Self(vec![Piece::Escaped('n', Width::default()), Piece::Escaped('L', Width::default())])
    }

    /// Parses the value of the option `option`.
    ///
    /// # Errors
    /// If the value isn't UTF-8.
    pub fn parse(option: &str, format: &OsStr) -> Result<Self, String> {
        let text = std::str::from_utf8(format.as_bytes()).map_err(|_| format!("{option} is not text"))?;
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((plain, behind)) = rest.split_once('%') {
            push(&mut pieces, plain);
            let (width, behind) = width(behind);
            let Some(letter) = behind.chars().next() else {
                rest = &rest[plain.len()..];
                break;
            };
            if ESCAPES.contains(letter) {
                pieces.push(Piece::Escaped(letter, width));
                rest = &behind[letter.len_utf8()..];
            } else {
                push(&mut pieces, &rest[plain.len()..rest.len() - behind.len()]);
                rest = behind;
            }
        }
        push(&mut pieces, rest);
        Ok(Self(pieces))
    }

    fn has(&self, letters: &str) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Escaped(letter, _) if letters.contains(*letter)))
    }

    /// Whether an entry has a line if only its attributes change.
    pub fn itemizes(&self) -> bool {
        self.has("i")
    }

    /// Whether the format shows properties of entries, such as owners and modes.
    pub fn needs_facts(&self) -> bool {
        self.has("lUGMBbC")
    }

    /// Whether the format shows checksums of the files' contents.
    pub fn needs_sums(&self) -> bool {
        self.has("C")
    }

    /// The line for a change of an entry; `None` if it has no line. If `also` is set, changes of only attributes
    /// have a line too.
    pub fn line(&self, subject: &Subject, also: bool) -> Option<Vec<u8>> {
        let change = subject.change;
        if change.item == Change::DELETED && !self.has("io") {
            return Some([b"deleting ", &subject.name()[..]].concat());
        }
        let is_brought = change.item[0] != b'.' || change.directory;
        if !self.itemizes() && !is_brought && !also {
            return None;
        }
        Some(self.0.iter().flat_map(|piece| piece.text(subject)).collect())
    }
}

fn push(pieces: &mut Vec<Piece>, plain: &str) {
    match pieces.last_mut() {
        _ if plain.is_empty() => {}
        Some(Piece::Text(text)) => text.push_str(plain),
        _ => pieces.push(Piece::Text(plain.to_owned())),
    }
}

/// Reads the apostrophes, minus sign and digits at the start of `text`. Returns the width and the rest of
/// `text`.
fn width(text: &str) -> (Width, &str) {
    let mut width = Width::default();
    let without = |width: &mut Width, text: &mut &str| {
        while let Some(behind) = text.strip_prefix('\'') {
            (*text, width.human) = (behind, width.human.saturating_add(1));
        }
    };
    let mut rest = text;
    without(&mut width, &mut rest);
    if let Some(behind) = rest.strip_prefix('-') {
        (width.left, rest) = (true, behind);
    }
    let most = MOST_DIGITS - usize::from(width.left);
    let count = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let (digits, behind) = rest.split_at(count);
    width.zeros = digits.starts_with('0') && !width.left;
    if !digits.is_empty() {
        width.least = digits.parse().unwrap_or(MOST_WIDTH).min(MOST_WIDTH);
    }
    rest = behind;
    without(&mut width, &mut rest);
    (width, rest)
}

impl Piece {
    fn text(&self, subject: &Subject) -> Vec<u8> {
        let (letter, width) = match self {
            Self::Text(text) => return text.clone().into_bytes(),
            Self::Escaped(letter, width) => (letter, width),
        };
        let change = subject.change;
        let facts = change.facts;
        let size = |bytes: u64| width.set(Human(width.human).number(bytes));
        let is_sent = matches!(change.item[0], b'<' | b'>');
        match letter {
            'i' => width.set(printable(&change.item)),
            'n' => width.set_escaped(&subject.own_name(), subject.escape),
            'f' => width.set_escaped(subject.full, subject.escape),
            'L' => subject.link(*width),
            'l' => size(facts.map_or(0, |facts| facts.size)),
            // One connection carries many files at the same time, so the traffic of one file isn't known: its
            // own bytes are shown.
            'b' => size(facts.filter(|_| is_sent).map_or(0, |facts| facts.size)),
            'c' => size(0),
            'C' => width.set(subject.sum),
            'U' => width.number(facts.and_then(|facts| facts.owner).map_or(0, |(user, _)| user)),
            'G' => match facts.and_then(|facts| facts.owner) {
                Some((_, group)) => width.number(group),
                None => width.set("DEFAULT"),
            },
            'M' => width.set(shown_time(facts.map_or(0, |facts| facts.mtime)).replace(' ', "-")),
            'B' => width.set(permissions(facts.map_or(0, |facts| facts.mode))),
            'o' => width.set(subject.operation()),
            't' => width.set(now()),
            'p' => width.number(std::process::id()),
            '%' => width.set("%"),
            _ => width.set(""),
        }
    }
}

impl Width {
    fn set(self, text: impl AsRef<[u8]>) -> Vec<u8> {
        let text = text.as_ref();
        let fill = b" ".repeat(self.least.saturating_sub(String::from_utf8_lossy(text).chars().count()));
        if self.left { [text, &fill].concat() } else { [&fill, text].concat() }
    }

    /// An escaped name. rsync fills names up before it escapes them, and counts their bytes.
    fn set_escaped(self, name: &[u8], escape: Escape) -> Vec<u8> {
        let (fill, name_shown) = (b" ".repeat(self.least.saturating_sub(name.len())), escape.bytes(name));
        if self.left { [name_shown, fill].concat() } else { [fill, name_shown].concat() }
    }

    fn number(self, number: u32) -> Vec<u8> {
        let least = self.least;
        if self.zeros { format!("{number:0least$}").into_bytes() } else { self.set(number.to_string()) }
    }
}

impl Subject<'_> {
    /// The entry's name; a directory's name ends with a slash.
    pub fn name(&self) -> Vec<u8> {
        self.escape.bytes(&self.own_name())
    }

    fn own_name(&self) -> Vec<u8> {
        let path = self.change.path.as_bytes();
        let path: &[u8] = if path.is_empty() { b"." } else { path };
        let slash: &[u8] = if self.change.directory { b"/" } else { b"" };
        [self.root.as_bytes(), path, slash].concat()
    }

    /// `-> target`, `=> other`, or the same number of spaces if the format sets a width.
    fn link(&self, width: Width) -> Vec<u8> {
        let set =
            |arrow: &str, text: &[u8]| [arrow.as_bytes(), &width.set_escaped(text, self.escape)].concat();
        let root = self.root.as_bytes();
        match &self.change.link {
            Some(Link::Target(target)) => set(" -> ", target),
            Some(Link::SameAs(other)) => set(" => ", &[root, other.as_bytes()].concat()),
            _ if width.least > 0 => set("    ", b""),
            _ => Vec::new(),
        }
    }

    fn operation(&self) -> &'static str {
        match (self.change.item == Change::DELETED, self.pulls) {
            (true, _) => "del.",
            (false, true) => "recv",
            (false, false) => "send",
        }
    }
}

/// Whether the entry was already correct, so nothing changes.
pub fn is_unchanged(change: &Change) -> bool {
    change.item[0] != b'*' && !matches!(change.link, Some(Link::SameAs(_))) && has_no_letters(change)
}

/// Whether the only change is a new hard link to an existing file.
pub fn is_mere_name(change: &Change) -> bool {
    matches!(change.link, Some(Link::SameAs(_))) && has_no_letters(change)
}

fn has_no_letters(change: &Change) -> bool {
    change.item[2..].iter().all(|letter| *letter == b' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_wire::control::EntryFacts;
    use linerate_wire::path::RelPath;

    fn line(format: &str) -> String {
        let facts = EntryFacts { size: 1234567, mtime: 0, mode: 0o4750, owner: Some((7, 8)) };
        let path = RelPath::new("d/\u{1b}x").unwrap();
        let change = Change { item: *b">f+++++++++", path, directory: false, link: None, facts: Some(facts) };
        let subject = Subject {
            change: &change,
            pulls: false,
            full: b"top/d/x",
            root: "",
            sum: "c0de",
            escape: Escape::Wide,
        };
        let line = LineFormat::parse("--out-format", OsStr::new(format)).unwrap().line(&subject, false);
        String::from_utf8(line.unwrap()).unwrap()
    }

    #[test]
    fn an_item_of_the_far_end_s_own_brings_no_control_character() {
        let change = Change {
            item: *b"\x1b]0;owned\x07\xff",
            path: RelPath::new("x").unwrap(),
            directory: false,
            link: None,
            facts: None,
        };
        let subject =
            Subject { change: &change, pulls: true, full: b"x", root: "", sum: "", escape: Escape::Wide };
        let line = LineFormat::parse("--out-format", OsStr::new("%i %n")).unwrap().line(&subject, false);
        let line = String::from_utf8(line.unwrap()).unwrap();
        assert!(
            line.ends_with(" x") && !line.contains(|c: char| c.is_control() || c == '\u{fffd}'),
            "{line:?}"
        );
    }

    #[test]
    fn escapes_are_rsync_s() {
        for (format, text) in [
            ("%i %n%L", ">f+++++++++ d/\\#033x"),
            ("%f|%10l|%-10l|%'l|%''l", "top/d/x|   1234567|1234567   |1,234,567|1.23M"),
            ("%5U|%05G|%B|%o", "    7|00008|rwsr-x---|send"),
            ("%-3L|100%% %%i %x %h %", "       |100% %i %x %h %"),
            ("%000000000000000000000000000000%", "%000000000000000000000000000000%"),
            ("%b %c %m", "1234567 0 "),
            ("%C|%6C|%-6C|", "c0de|  c0de|c0de  |"),
        ] {
            assert_eq!(line(format), text, "{format}");
        }
    }
}
