//! Names of users and groups, and their numbers.
//!
//! First /etc/passwd and /etc/group are read. Users who aren't listed there may be known to another service (LDAP,
//! systemd), which the program `getent` queries. The C library's functions aren't used, because they would load code
//! that may not be compatible with a static program.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

/// The most calls of the program `getent`. There is a limit because a far end may name any number of users.
const MAX_QUESTIONS: usize = 1000;
/// The most bytes that are read of a file or of `getent`'s output.
const MAX_TEXT: u64 = 64 << 20;

/// The host's users, or its groups.
#[derive(Debug)]
pub struct Accounts {
    database: &'static str,
    /// The contents of the file; `None` until the first query.
    known: Option<KnownNames>,
    questions: usize,
}

#[derive(Debug, Default)]
struct KnownNames {
    names: HashMap<u32, String>,
    /// The numbers of names; `None` for names that don't exist.
    numbers: HashMap<String, Option<u32>>,
}

impl Accounts {
    /// A lookup of the host's users.
    pub fn users() -> Self {
        Self { database: "passwd", known: None, questions: 0 }
    }

    /// A lookup of the host's groups.
    pub fn groups() -> Self {
        Self { database: "group", known: None, questions: 0 }
    }

    /// The name of the user or group `number`; empty if the number has no name.
    pub fn name(&mut self, number: u32) -> String {
        if let Some(name) = self.known().names.get(&number) {
            return name.clone();
        }
        if self.questions >= MAX_QUESTIONS {
            return String::new();
        }
        let found = self.ask(&number.to_string()).filter(|(_, id)| *id == number);
        let name = found.map(|(name, _)| name).unwrap_or_default();
        self.known().names.insert(number, name.clone());
        name
    }

    /// The number of the user or group `name`; `None` if it doesn't exist.
    pub fn number(&mut self, name: &str) -> Option<u32> {
        if let Some(number) = self.known().numbers.get(name) {
            return *number;
        }
        if !is_plain(name) || self.questions >= MAX_QUESTIONS {
            return None;
        }
        let found = self.ask(name);
        let number = found.filter(|(found, _)| found == name).map(|(_, id)| id);
        self.known().numbers.insert(name.to_owned(), number);
        number
    }

    fn known(&mut self) -> &mut KnownNames {
        self.known.get_or_insert_with(|| KnownNames::of(&file_of(self.database)))
    }

    fn ask(&mut self, key: &str) -> Option<(String, u32)> {
        self.questions += 1;
        answer(self.database, key)?.lines().find_map(parse)
    }
}

/// The home directory of the user `name`; `None` if there is no such user.
pub fn home_of(name: &str) -> Option<String> {
    if !is_plain(name) {
        return None;
    }
    let line_of = |text: String| {
        let is_own = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
        text.lines().find(is_own).map(str::to_owned)
    };
    let line = line_of(file_of("passwd")).or_else(|| line_of(answer("passwd", name)?))?;
    line.split(':').nth(5).filter(|home| home.starts_with('/')).map(str::to_owned)
}

/// The text of the file for this database. A missing file isn't an error; it counts as empty.
fn file_of(database: &str) -> String {
    fs::File::open(format!("/etc/{database}")).map(read).unwrap_or_default()
}

fn answer(database: &str, key: &str) -> Option<String> {
    let mut asked = Command::new("getent")
        .args(["--", database, key])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let answer = asked.stdout.take().map(read).unwrap_or_default();
    // The exit code of `getent` is ignored, because its output already shows whether the name exists.
    let _ = asked.wait();
    Some(answer)
}

impl KnownNames {
    fn of(text: &str) -> Self {
        let mut known = Self::default();
        for (name, number) in text.lines().filter_map(parse) {
            known.names.entry(number).or_insert_with(|| name.clone());
            known.numbers.entry(name).or_insert(Some(number));
        }
        known
    }
}

fn read(from: impl Read) -> String {
    let mut bytes = Vec::new();
    // If reading fails, only the part that was read before counts.
    let _ = from.take(MAX_TEXT).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Parses a line of passwd(5) or group(5): name, password, number, and fields that aren't needed.
fn parse(line: &str) -> Option<(String, u32)> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| is_plain(name))?;
    let number = fields.nth(1)?.parse().ok()?;
    Some((name.to_owned(), number))
}

/// True if `name` may be a user's or group's name: it contains nothing that could be misread in these files
/// or on a command line.
fn is_plain(name: &str) -> bool {
    let odd = |c: char| c == ':' || c.is_control();
    !name.is_empty() && name.len() <= 255 && !name.starts_with(['-', '+', '#']) && !name.contains(odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_files_are_read() {
        assert_eq!(parse("root:x:0:0:root:/root:/bin/sh"), Some(("root".into(), 0)));
        assert_eq!(parse("adm:x:4:syslog,ann"), Some(("adm".into(), 4)));
        for line in ["", "+::::::", "# comment", "x", "x:y", "x:y:z", "x:y:-1", ":x:3:"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    #[test]
    fn the_first_of_two_names_counts() {
        let known = KnownNames::of("a:x:7:\nb:x:7:\na:x:8:\n");
        assert_eq!(
            (known.names[&7].as_str(), known.numbers["a"], known.numbers["b"]),
            ("a", Some(7), Some(7))
        );
    }

    #[test]
    fn the_hosts_own_are_known_and_nobody_else() {
        let (mut users, mut groups) = (Accounts::users(), Accounts::groups());
        assert_eq!(
            (users.name(0).as_str(), users.number("root"), groups.number("root")),
            ("root", Some(0), Some(0))
        );
        assert_eq!((users.name(3_999_999_999).as_str(), users.number("no such user")), ("", None));
        // A user's number isn't accepted as a name. Names that look like an option or contain a colon aren't looked up.
        assert_eq!((users.number("0"), users.number("--help"), users.number("a:b")), (None, None, None));
        assert_eq!(users.questions, 3);
    }

    #[test]
    fn users_have_homes() {
        assert_eq!(home_of("root").as_deref(), Some("/root"));
        assert_eq!(["no such user", "roo", "", "--help"].map(home_of), [const { None }; 4]);
    }
}
