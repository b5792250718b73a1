//! More rules for reading and creating entries. The names are those of rsync's options.

use super::{DividedFile, JournalKey, MAX_DIVIDED, Placing};
use crate::bounded::at_most;
use serde::{Deserialize, Serialize};

/// More rules for reading and creating entries. Most fields have the names of rsync's options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// Rules that map the sender's owners to owners at the receiver, at most [`MAX_IDENTITY_RULES`]; the first rule
    /// that matches counts.
    pub users: Vec<IdentityRule>,
    /// Rules that map the sender's groups to groups at the receiver in the same way.
    pub groups: Vec<IdentityRule>,
    /// True if access times are kept, except those of directories. Access times are compared in whole seconds.
    pub atimes: bool,
    /// True if the sender reads files without changing their access times, if the kernel permits this.
    pub open_noatime: bool,
    /// True if the receiver allocates all space of a file before it writes into the file.
    pub preallocate: bool,
    /// True if the receiver turns zeros into holes, even where the sender's file has no holes; requires
    /// [`Keep::sparse`](super::Keep::sparse).
    pub dig_holes: bool,
    /// True if the receiver inserts [`MUNGED`] before the text of each symbolic link, so that the link leads nowhere.
    pub munge: bool,
    /// True if the sender removes the prefix [`MUNGED`] from the texts of symbolic links.
    pub unmunge: bool,
    /// True if the receiver treats an existing symbolic link to a directory as that directory.
    pub keep_dirlinks: bool,
    /// Whether the receiver tries operations that only root may do. `None` means that it tries them only if it runs as
    /// root.
    pub superuser: Option<bool>,
    /// True if an existing file is made executable if the sender's file is executable, and otherwise not executable. It
    /// has no effect with [`Keep::perms`](super::Keep::perms).
    pub executability: bool,
    /// Which ends use `--fake-super`: they store in extended attributes the properties that only root could set.
    pub fakes: Fakes,
    /// Where a received file is stored until it gets its name.
    pub placing: Placing,
    /// The character sets between which names and the text of links are converted; `None` means that nothing is
    /// converted.
    pub charsets: Option<Charsets>,
    /// Files of which this transfer sends only some pieces, at most [`MAX_DIVIDED`].
    #[serde(deserialize_with = "at_most::<MAX_DIVIDED, _, _>")]
    pub divided: Vec<DividedFile>,
    /// The key with which the receiver seals its journal; `None` means the key of the receiver's account.
    pub journal_key: Option<JournalKey>,
}

/// The character sets of names. A character set is named by a label of the Encoding Standard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charsets {
    /// The sender's character set.
    pub from: String,
    /// The receiver's character set.
    pub to: String,
}

/// Which ends use `--fake-super`. Such a receiver stores owners, special modes, devices, links, ACLs and foreign
/// attributes in the attributes `user.rsync.*` of ordinary files, in rsync's format; such a sender reads them there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fakes {
    /// Neither end uses `--fake-super`.
    #[default]
    Neither,
    /// Only the sender uses `--fake-super`.
    Sender,
    /// Only the receiver uses `--fake-super`.
    Receiver,
    /// Both ends use `--fake-super`.
    Both,
}

impl Fakes {
    /// The value for these two settings: whether the sender uses `--fake-super`, and whether the receiver uses it.
    pub fn of(sender: bool, receiver: bool) -> Self {
        match (sender, receiver) {
            (false, false) => Self::Neither,
            (true, false) => Self::Sender,
            (false, true) => Self::Receiver,
            (true, true) => Self::Both,
        }
    }

    /// True if the sender reads stored properties.
    pub fn sender(self) -> bool {
        matches!(self, Self::Sender | Self::Both)
    }

    /// True if the receiver stores properties.
    pub fn receiver(self) -> bool {
        matches!(self, Self::Receiver | Self::Both)
    }
}

/// One rule of `--usermap` or `--groupmap`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityRule {
    /// The sender's users or groups to which the rule applies.
    pub from: IdentityFrom,
    /// The user or group that they become at the receiver: a name, or a number in decimal digits.
    pub to: String,
}

/// The sender's users or groups to which an [`IdentityRule`] applies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdentityFrom {
    /// Users or groups whose numbers are in this range, which includes both limits.
    Numbers(u32, u32),
    /// The user or group with this name. The empty name means users or groups without a name.
    Name(String),
    /// Users or groups whose names match this pattern. The pattern `*` also matches users or groups without a name.
    Pattern(String),
}

/// The largest number of elements of [`Details::users`], and of [`Details::groups`].
pub const MAX_IDENTITY_RULES: usize = 4096;

/// The prefix of a munged link's text. No directory with this name exists, so such a link leads nowhere.
pub const MUNGED: &[u8] = b"/rsyncd-munged/";
