//! Details of how entries are read and created, by rsync's names.

use super::{DividedFile, JournalKey, MAX_DIVIDED, Placing};
use crate::bounded::at_most;
use serde::{Deserialize, Serialize};

/// Details of how entries are read and created, by rsync's names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// Rules that map the sender's owners to the receiver's, at most [`MAX_IDENTITY_RULES`]; the first rule that
    /// matches counts.
    pub users: Vec<IdentityRule>,
    /// Rules that map groups in the same way.
    pub groups: Vec<IdentityRule>,
    /// Entries that aren't directories keep their access time, in whole seconds.
    pub atimes: bool,
    /// The sender's reading doesn't change access times, as far as the kernel permits it to ask for that.
    pub open_noatime: bool,
    /// The receiver allocates all space of a file before it writes into it.
    pub preallocate: bool,
    /// The receiver turns zeros into holes, whether or not the sender's file has holes there; needs
    /// [`Keep::sparse`](super::Keep::sparse).
    pub dig_holes: bool,
    /// The receiver puts [`MUNGED`] before the text of each symbolic link.
    pub munge: bool,
    /// The sender removes [`MUNGED`] from a symbolic link's text that begins with it.
    pub unmunge: bool,
    /// The receiver treats an existing symbolic link to a directory as that directory.
    pub keep_dirlinks: bool,
    /// Whether the receiver tries operations that only root may do; `None`: only if it is root.
    pub superuser: Option<bool>,
    /// Without [`Keep::perms`](super::Keep::perms), an existing file becomes executable or not, as the sender's file
    /// is.
    pub executability: bool,
    /// The ends that store in extended attributes what only root could create, and read it back.
    pub fakes: Fakes,
    /// How a received file gets its name.
    pub placing: Placing,
    /// The character sets between which names and the text of links are converted.
    pub charsets: Option<Charsets>,
    /// Files of which this transfer sends only some pieces, at most [`MAX_DIVIDED`].
    #[serde(deserialize_with = "at_most::<MAX_DIVIDED, _, _>")]
    pub divided: Vec<DividedFile>,
    /// The receiver seals its journal with this key; `None`: with the key of its account.
    pub journal_key: Option<JournalKey>,
}

/// The character sets of names, by their labels in the Encoding Standard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charsets {
    /// The sender's.
    pub from: String,
    /// The receiver's.
    pub to: String,
}

/// The ends that use `--fake-super`. Such an end keeps owners, special modes, devices, links, ACLs and foreign
/// attributes in the attributes `user.rsync.*` of ordinary files, in rsync's format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fakes {
    /// Neither.
    #[default]
    Neither,
    /// Only the sender.
    Sender,
    /// Only the receiver.
    Receiver,
    /// Both.
    Both,
}

impl Fakes {
    /// Makes the value from whether the sender does so, and whether the receiver does.
    pub fn of(sender: bool, receiver: bool) -> Self {
        match (sender, receiver) {
            (false, false) => Self::Neither,
            (true, false) => Self::Sender,
            (false, true) => Self::Receiver,
            (true, true) => Self::Both,
        }
    }

    /// True if the sender reads the stored attributes.
    pub fn sender(self) -> bool {
        matches!(self, Self::Sender | Self::Both)
    }

    /// True if the receiver stores them.
    pub fn receiver(self) -> bool {
        matches!(self, Self::Receiver | Self::Both)
    }
}

/// One rule of `--usermap` or `--groupmap`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityRule {
    /// The users or groups that the rule applies to.
    pub from: IdentityFrom,
    /// The user or group at the receiver: a name, or a number in decimal digits.
    pub to: String,
}

/// The users or groups that an [`IdentityRule`] applies to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdentityFrom {
    /// Users or groups whose numbers are in this range; both ends of the range are included.
    Numbers(u32, u32),
    /// Users or groups with this name; the empty name means those that have no name.
    Name(String),
    /// Users or groups whose names match this pattern; `*` matches the empty name too.
    Pattern(String),
}

/// The most elements of [`Details::users`] and of [`Details::groups`].
pub const MAX_IDENTITY_RULES: usize = 4096;

/// The prefix of a munged link's text. No directory of this name exists, so such a link leads nowhere.
pub const MUNGED: &[u8] = b"/rsyncd-munged/";
