//! Details of how entries are read and made, by rsync's names.

use super::{DividedFile, MAX_DIVIDED, Placing};
use crate::bounded::at_most;
use serde::{Deserialize, Serialize};

/// Details of how entries are read and made, by rsync's names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// The receiver's owners for the sender's, at most [`MAX_IDENTITY_RULES`]; the first rule that fits counts.
    pub users: Vec<IdentityRule>,
    /// The receiver's groups for the sender's, likewise.
    pub groups: Vec<IdentityRule>,
    /// Entries that aren't directories keep the time at which they were last read, in whole seconds.
    pub atimes: bool,
    /// The sender's reading changes no such time, where it may ask for that.
    pub open_noatime: bool,
    /// The receiver takes all the room of a file before it writes into it.
    pub preallocate: bool,
    /// Zeros become holes at the receiver, whatever they are at the sender; needs [`Keep::sparse`](super::Keep::sparse).
    pub dig_holes: bool,
    /// The receiver puts [`MUNGED`] before the text of each symbolic link.
    pub munge: bool,
    /// The sender removes [`MUNGED`] from a symbolic link's text that begins with it.
    pub unmunge: bool,
    /// A symbolic link to a directory counts at the receiver as that directory.
    pub keep_dirlinks: bool,
    /// Whether the receiver tries what only root may; none: where it is root.
    pub superuser: Option<bool>,
    /// Without [`Keep::perms`](super::Keep::perms), a file that is there may be executed or not as at the sender.
    pub executability: bool,
    /// Which ends store in extended attributes what only root could make, and read it back.
    pub fakes: Fakes,
    /// How a received file comes to its place.
    pub placing: Placing,
    /// Names and the text of links are converted.
    pub charsets: Option<Charsets>,
    /// Files of which only some pieces are to come, at most [`MAX_DIVIDED`].
    #[serde(deserialize_with = "at_most::<MAX_DIVIDED, _, _>")]
    pub divided: Vec<DividedFile>,
}

/// The character sets of names, by the labels of the Encoding Standard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charsets {
    /// The sender's.
    pub from: String,
    /// The receiver's.
    pub to: String,
}

/// The ends that act with `--fake-super`: owners, special modes, devices, links, ACLs and foreign attributes are in the attributes
/// `user.rsync.*` of ordinary files, as rsync has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fakes {
    /// Neither.
    #[default]
    Neither,
    /// The sender alone.
    Sender,
    /// The receiver alone.
    Receiver,
    /// Both.
    Both,
}

impl Fakes {
    /// The ends, by whether the sender does so, and the receiver.
    pub fn of(sender: bool, receiver: bool) -> Self {
        match (sender, receiver) {
            (false, false) => Self::Neither,
            (true, false) => Self::Sender,
            (false, true) => Self::Receiver,
            (true, true) => Self::Both,
        }
    }

    /// The sender reads what was stored.
    pub fn sender(self) -> bool {
        matches!(self, Self::Sender | Self::Both)
    }

    /// The receiver stores it.
    pub fn receiver(self) -> bool {
        matches!(self, Self::Receiver | Self::Both)
    }
}

/// One rule of `--usermap` or `--groupmap`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityRule {
    /// Whom the rule is for.
    pub from: IdentityFrom,
    /// The user or group at the receiver: a name, or a number in decimal digits.
    pub to: String,
}

/// Whom an [`IdentityRule`] is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdentityFrom {
    /// Users or groups with these numbers: the first and the last.
    Numbers(u32, u32),
    /// Users or groups with this name; the empty name stands for those that have none.
    Name(String),
    /// Users or groups whose names match this pattern; `*` matches the empty name too.
    Pattern(String),
}

/// The most [`Details::users`] and [`Details::groups`], each.
pub const MAX_IDENTITY_RULES: usize = 4096;

/// A directory of this name never is: a link whose text begins with it leads nowhere.
pub const MUNGED: &[u8] = b"/rsyncd-munged/";
