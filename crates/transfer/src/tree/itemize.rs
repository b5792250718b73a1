//! The changes of each entry, in the form of rsync's `--itemize-changes`: `YXcstpoguax` (rsync(1)).

use linerate_wire::path::{RelPath, printable_path};
use rustix::fs::FileType;
use std::fmt;

/// The change of one entry. Its [`Display`](fmt::Display) is rsync's eleven characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// The entry is deleted.
    Deleted,
    /// The entry is created, perhaps in place of another kind of entry.
    New(Update, Kind),
    /// The entry exists, and is updated by these changes.
    Existing(Update, Kind, Changes),
}

/// How an entry is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// The entry's contents are received by this host; printed as `>`.
    Received,
    /// The entry's contents are sent to another host; printed as `<`.
    Sent,
    /// The entry is created or changed without a transfer of contents, for example a directory; printed as
    /// `c`.
    Local,
    /// The entry becomes, or is, a hard link to another entry; printed as `h`.
    HardLink,
    /// Only the entry's attributes are changed; printed as `.`.
    Attributes,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character or block device.
    Device,
    /// A fifo or a socket.
    Special,
}

/// The properties of the destination's entry that differ from the source's. Only kept properties count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The value differs: a file's contents (if contents are compared by `--checksum`), a link's text, or a
    /// device's number.
    pub value: bool,
    /// The file's size differs.
    pub size: bool,
    /// The change of the modification time, if it differs.
    pub modified: Option<Time>,
    /// The permission bits differ.
    pub permissions: bool,
    /// The owner differs.
    pub owner: bool,
    /// The group differs.
    pub group: bool,
    /// The access time differs, and is kept.
    pub accessed: bool,
    /// The creation time differs, and is kept.
    pub created: bool,
    /// The access control list differs.
    pub acl: bool,
    /// The extended attributes differ.
    pub xattrs: bool,
}

/// The change of a time that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The time is set to the source's; printed as `t`.
    Kept,
    /// The time becomes the time of the transfer, because times aren't kept or can't be set; printed as `T`.
    OfTransfer,
}

/// The target of a link, printed after the link's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link<'a> {
    /// The text of a symbolic link.
    Target(&'a [u8]),
    /// The entry to which a hard link leads.
    SameAs(&'a RelPath),
}

impl Item {
    /// True if nothing is changed; rsync prints such an item only if `-i` is given twice.
    pub fn is_unchanged(&self) -> bool {
        let still = matches!(self, Item::Existing(Update::Attributes | Update::HardLink, ..));
        still && matches!(self, Item::Existing(_, _, changes) if changes.is_empty())
    }

    /// A whole line: the eleven characters, the path as text that is safe on a terminal (with a slash after a
    /// directory's path; the root is printed as `./`), and ` -> target` or ` => other`.
    pub fn line(&self, path: &RelPath, is_directory: bool, link: Option<Link>) -> String {
        let path = if path.is_root() { ".".into() } else { printable_path(path.as_bytes()) };
        let slash = if is_directory { "/" } else { "" };
        let link = match link {
            Some(Link::Target(target)) => format!(" -> {}", printable_path(target)),
            Some(Link::SameAs(other)) => format!(" => {}", printable_path(other.as_bytes())),
            None => String::new(),
        };
        format!("{self} {path}{slash}{link}")
    }
}

impl Changes {
    /// True if nothing differs.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn letters(&self) -> [char; 9] {
        let letter = |is: bool, letter: char| if is { letter } else { '.' };
        let modified = match self.modified {
            None => '.',
            Some(Time::Kept) => 't',
            Some(Time::OfTransfer) => 'T',
        };
        let other_times = match (self.accessed, self.created) {
            (false, false) => '.',
            (true, false) => 'u',
            (false, true) => 'n',
            (true, true) => 'b',
        };
        [
            letter(self.value, 'c'),
            letter(self.size, 's'),
            modified,
            letter(self.permissions, 'p'),
            letter(self.owner, 'o'),
            letter(self.group, 'g'),
            other_times,
            letter(self.acl, 'a'),
            letter(self.xattrs, 'x'),
        ]
    }
}

impl Update {
    fn letter(self) -> char {
        match self {
            Update::Received => '>',
            Update::Sent => '<',
            Update::Local => 'c',
            Update::HardLink => 'h',
            Update::Attributes => '.',
        }
    }
}

impl Kind {
    /// The kind of an existing entry; `None` if the type is unknown.
    pub fn of(there: FileType) -> Option<Self> {
        match there {
            FileType::RegularFile => Some(Self::File),
            FileType::Directory => Some(Self::Directory),
            FileType::Symlink => Some(Self::Symlink),
            FileType::BlockDevice | FileType::CharacterDevice => Some(Self::Device),
            FileType::Fifo | FileType::Socket => Some(Self::Special),
            _ => None,
        }
    }

    fn letter(self) -> char {
        match self {
            Kind::File => 'f',
            Kind::Directory => 'd',
            Kind::Symlink => 'L',
            Kind::Device => 'D',
            Kind::Special => 'S',
        }
    }
}

/// True if properties that don't differ are printed as spaces. If contents are transferred, such properties are printed
/// as dots instead.
fn has_spaces(update: Update, changes: &Changes) -> bool {
    changes.is_empty() && !matches!(update, Update::Received | Update::Sent)
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (update, kind, letters) = match self {
            Item::Deleted => return f.write_str("*deleting  "),
            Item::New(update, kind) => (update, kind, ['+'; 9]),
            Item::Existing(update, kind, changes) if has_spaces(*update, changes) => (update, kind, [' '; 9]),
            Item::Existing(update, kind, changes) => (update, kind, changes.letters()),
        };
        let letters: String = letters.into_iter().collect();
        write!(f, "{}{}{letters}", update.letter(), kind.letter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_s_letters() {
        let all = Changes {
            value: true,
            size: true,
            modified: Some(Time::Kept),
            permissions: true,
            owner: true,
            group: true,
            accessed: true,
            created: false,
            acl: true,
            xattrs: true,
        };
        let mode = Changes { permissions: true, ..Changes::default() };
        let newer = Changes { modified: Some(Time::OfTransfer), created: true, ..Changes::default() };
        let both = Changes { accessed: true, created: true, ..Changes::default() };
        for (item, text) in [
            (Item::Existing(Update::Received, Kind::File, all), ">fcstpoguax"),
            (Item::Existing(Update::Attributes, Kind::File, mode), ".f...p....."),
            (Item::Existing(Update::Sent, Kind::File, newer), "<f..T...n.."),
            (Item::Existing(Update::Attributes, Kind::Special, both), ".S......b.."),
            (Item::Existing(Update::Attributes, Kind::Directory, Changes::default()), ".d         "),
            (Item::Existing(Update::HardLink, Kind::Device, Changes::default()), "hD         "),
            (Item::Existing(Update::Received, Kind::File, Changes::default()), ">f........."),
            (Item::New(Update::Local, Kind::Directory), "cd+++++++++"),
            (Item::New(Update::HardLink, Kind::File), "hf+++++++++"),
            (Item::Deleted, "*deleting  "),
        ] {
            assert_eq!(item.to_string(), text);
            assert_eq!(item.to_string().len(), 11);
        }
    }

    #[test]
    fn a_line_names_the_entry_safely() {
        let path = |text: &str| RelPath::new(text.as_bytes()).unwrap();
        let link = Item::New(Update::Local, Kind::Symlink);
        assert_eq!(link.line(&path("a\x1b"), false, Some(Link::Target(b"x"))), "cL+++++++++ a\\u{1b} -> x");
        let same = Item::New(Update::HardLink, Kind::File);
        assert_eq!(same.line(&path("b"), false, Some(Link::SameAs(&path("a")))), "hf+++++++++ b => a");
        assert_eq!(Item::Deleted.line(&path("d"), true, None), "*deleting   d/");
        let top = Item::Existing(Update::Attributes, Kind::Directory, Changes::default());
        assert_eq!(top.line(&RelPath::root(), true, None), ".d          ./");
    }
}
