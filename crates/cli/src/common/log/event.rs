//! The events of a run, for a log file and for systemd's journal. docs/formats.md specifies both.

use linerate_transfer::differences::Aspect;
use linerate_wire::control::{Change, ProblemKind};
use linerate_wire::path::printable_path;
use std::borrow::Cow;

use crate::common::event::{aspect_name, problem_name};
use crate::common::member::{MemberKind, MemberOutput};
use crate::exit::Code;

/// A field of the journal that is specific to this program.
type LoggedField = (Cow<'static, str>, String);

/// An event of a run. Its texts are safe to print on a terminal.
#[derive(Debug)]
pub struct LoggedEvent {
    /// The kind of event.
    pub kind: LoggedKind,
    /// The event's line in a log file.
    pub line: String,
    /// The message for the journal, without the values that the fields contain.
    pub message: String,
    /// The priority, as in syslog(3).
    pub priority: LoggedPriority,
    /// Further fields for the journal.
    pub fields: Vec<LoggedField>,
}

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedKind {
    /// The run begins.
    Start,
    /// One entry has a problem.
    Problem,
    /// Several entries lost the same metadata for the same reason.
    Loss,
    /// An entry differs between the two trees.
    Difference,
    /// The copy to one of several destinations has ended.
    Destination,
    /// A step that the user should know about.
    Note,
    /// The reason why the run failed as a whole.
    Error,
    /// The result of the run, as text.
    Summary,
    /// The run has ended.
    End,
}

/// The severity of an event, as in syslog(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedPriority {
    Error = 3,
    Warning = 4,
    Notice = 5,
    Info = 6,
}

impl LoggedKind {
    /// The word that begins lines of this kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Problem => "problem",
            Self::Loss => "loss",
            Self::Difference => "difference",
            Self::Destination => "destination",
            Self::Note => "note",
            Self::Error => "error",
            Self::Summary => "summary",
            Self::End => "end",
        }
    }

    /// The journal's ID for messages of this kind, if they have one.
    pub fn message_id(self) -> Option<&'static str> {
        match self {
            Self::Start => Some("bdbff75657594891bba993ac077714f4"),
            Self::Problem => Some("e64f957aa8b74f169406f6f35fd44349"),
            Self::Difference => Some("c4a7bd3f9e8d48f2ba2fc5642deb7de1"),
            Self::End => Some("088bba36b4cd4bddbc21f0981480aa69"),
            _ => None,
        }
    }
}

impl LoggedPriority {
    fn of_problem(kind: ProblemKind) -> Self {
        match kind {
            ProblemKind::Failed => Self::Error,
            ProblemKind::Noted => Self::Notice,
            ProblemKind::Remark => Self::Info,
            _ => Self::Warning,
        }
    }

    /// The priority of the event that ends a run with this exit code.
    pub fn of_code(code: Code) -> Self {
        match code {
            Code::Done | Code::Command(0) => Self::Info,
            Code::Partial | Code::Changed | Code::NotDeleted => Self::Warning,
            _ => Self::Error,
        }
    }
}

impl LoggedEvent {
    /// An event without fields. `text` is the whole message.
    pub fn plain(kind: LoggedKind, priority: LoggedPriority, text: &str) -> Self {
        Self { kind, line: text.to_owned(), message: text.to_owned(), priority, fields: Vec::new() }
    }

    /// The event for a problem with the entry at `path`.
    pub fn problem(path: &str, message: &str, kind: ProblemKind) -> Self {
        let (kind, priority) = (problem_name(kind), LoggedPriority::of_problem(kind));
        Self {
            kind: LoggedKind::Problem,
            line: format!("{kind} {}: {message}", quoted(path)),
            message: format!("{path}: {message}"),
            priority,
            fields: vec![
                ("LINERATE_PROBLEM".into(), kind.to_owned()),
                ("LINERATE_PATH".into(), path.to_owned()),
            ],
        }
    }

    /// The event for a difference at `path`. `word` is the kind of difference, and `aspects` names the
    /// properties that differ.
    pub fn difference(word: &str, path: &str, aspects: &str) -> Self {
        let more = if aspects.is_empty() { String::new() } else { format!(" ({aspects})") };
        Self {
            kind: LoggedKind::Difference,
            line: format!("{word} {}{more}", quoted(path)),
            message: format!("{word} {path}{more}"),
            priority: LoggedPriority::Warning,
            fields: vec![
                ("LINERATE_DIFFERENCE".into(), word.to_owned()),
                ("LINERATE_PATH".into(), path.to_owned()),
            ],
        }
    }

    /// The event for the difference that a change would remove.
    pub fn of_change(change: &Change) -> Self {
        let path = if change.path.is_root() { ".".into() } else { printable_path(change.path.as_bytes()) };
        match change.item[2] {
            b'+' => Self::difference("missing", &path, ""),
            _ => Self::difference("differs", &path, &aspects(&change.item).join(", ")),
        }
    }

    /// The event that the copy to one of several destinations has ended.
    pub fn destination(name: &str, text: &str, code: Code) -> Self {
        Self {
            kind: LoggedKind::Destination,
            line: format!("{} exit_code={}: {text}", quoted(name), code.number()),
            message: format!("{name}: {text}"),
            priority: LoggedPriority::of_code(code),
            fields: vec![
                ("LINERATE_DESTINATION".into(), name.to_owned()),
                ("LINERATE_EXIT_CODE".into(), code.number().to_string()),
            ],
        }
    }

    /// Adds the name of one of several copies to this event.
    pub fn at(mut self, member: &MemberOutput) -> Self {
        let (name, line) = (&member.name, self.line);
        let (line, field) = match member.kind {
            MemberKind::Destination => (format!("{line} (to {})", quoted(name)), "LINERATE_DESTINATION"),
            MemberKind::Part | MemberKind::Compared(_) => {
                (format!("{line} (in {})", quoted(name)), "LINERATE_SHARD")
            }
        };
        self.line = line;
        self.message = format!("{name}: {}", self.message);
        self.fields.push((field.into(), name.to_owned()));
        self
    }

    /// Adds the name of the copy to this event, if the copy is one of several.
    pub fn at_member(self, member: Option<&MemberOutput>) -> Self {
        match member {
            Some(member) => self.at(member),
            None => self,
        }
    }
}

/// The names of the properties that differ, from an item of rsync's `--itemize-changes`.
fn aspects(item: &[u8; 11]) -> Vec<&'static str> {
    let of_contents = if item[1] == b'L' { Aspect::Target } else { Aspect::Contents };
    let of_letter = |letter: &u8| match letter {
        b'c' | b's' => Some(of_contents),
        b't' | b'T' => Some(Aspect::Time),
        b'p' => Some(Aspect::Mode),
        b'o' => Some(Aspect::Owner),
        b'g' => Some(Aspect::Group),
        b'a' => Some(Aspect::Acl),
        b'x' => Some(Aspect::Xattrs),
        _ => None,
    };
    let link = (item[0] == b'h').then_some(Aspect::Links);
    let mut names: Vec<_> =
        link.into_iter().chain(item[2..].iter().filter_map(of_letter)).map(aspect_name).collect();
    names.dedup();
    names
}

/// The text in quotes, so that its beginning and end are visible.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\\\""))
}
