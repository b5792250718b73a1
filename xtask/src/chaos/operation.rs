//! The commands of the kill test.

use std::path::Path;

/// A command of the kill test: its words, how its result is compared, and its requirements.
#[derive(Debug, PartialEq)]
pub struct Operation {
    pub name: &'static str,
    /// The words of linerate's command line before the sources.
    pub words: &'static [&'static str],
    /// The options of rsync for comparing the metadata that the command keeps.
    pub kept: &'static str,
    pub source: SourceForm,
    /// Whether an older version of the tree exists at the destination.
    pub is_onto: bool,
    pub special: Special,
}

/// The form in which the source is named on the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SourceForm {
    /// `tree`, copied into the directory `there`.
    Tree,
    /// `tree/`, copied as `there/tree`.
    Contents,
    /// `./tree`, so that rsync's option -R keeps the name `tree` below the destination.
    Relative,
}

/// A property of an operation that the test must consider.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Special {
    None,
    Delete,
    /// Existing files are written in place, so readers may see a mixture of old and new contents.
    InPlace,
    /// Like [`Special::InPlace`], but with backups. A repeated run makes additional backups.
    InPlaceBackup,
    /// The existing bytes of a file are kept, and the rest is appended.
    Append,
    Follow,
    Backup,
    /// Unfinished files are in a directory that exists beforehand.
    Aside,
    LinkDest,
    RemoveSource,
}

impl Operation {
    /// Whether the command is `cp` or `sync`, which have linerate's own options.
    pub fn is_cp_or_sync(&self) -> bool {
        matches!(self.words[0], "cp" | "sync")
    }

    /// Whether readers may see a file that isn't complete.
    pub fn writes_in_place(&self) -> bool {
        matches!(self.special, Special::InPlace | Special::InPlaceBackup | Special::Append)
    }

    /// Whether the operation copies devices and dangling links.
    pub fn takes_all(&self) -> bool {
        self.kept.contains('a') && self.special != Special::Follow
    }

    /// The option that names a directory, for operations that have one.
    pub fn directory_option(&self, there: &Path) -> Option<String> {
        match self.special {
            Special::LinkDest => Some(format!("--link-dest={}", there.join("before").display())),
            Special::Backup | Special::InPlaceBackup => {
                Some(format!("--backup-dir={}", there.join("backup").display()))
            }
            Special::Aside => Some(format!("--temp-dir={}", there.join("aside").display())),
            _ => None,
        }
    }
}

const fn plain(name: &'static str, words: &'static [&'static str], kept: &'static str) -> Operation {
    Operation { name, words, kept, source: SourceForm::Tree, is_onto: false, special: Special::None }
}

const fn synced(name: &'static str, words: &'static [&'static str], kept: &'static str) -> Operation {
    Operation { source: SourceForm::Contents, is_onto: true, ..plain(name, words, kept) }
}

/// All operations.
pub const OPERATIONS: &[Operation] = &[
    plain("cp -r", &["cp", "-r"], "-rl"),
    synced("sync --delete", &["sync", "--delete"], "-aHAX").with(Special::Delete),
    synced("rsync -a --delete", &["rsync", "-a", "--delete"], "-a").with(Special::Delete),
    plain("cp -a", &["cp", "-a"], "-aHAX"),
    // In a source from which only some files were removed, directories have new modification times.
    synced("rsync --remove-source-files", &["rsync", "-a", "--remove-source-files"], "-aO")
        .with(Special::RemoveSource)
        .onto_nothing(),
    plain("scp -r", &["scp", "-r"], "-rL").with(Special::Follow),
    synced("sync", &["sync"], "-aHAX"),
    synced("rsync --backup-dir", &["rsync", "-a", "-b"], "-a").with(Special::Backup),
    plain("cp -rp", &["cp", "-rp"], "-rlpt"),
    synced("sync --inplace", &["sync", "--inplace"], "-aHAX").with(Special::InPlace),
    synced("rsync -aH --link-dest", &["rsync", "-aH"], "-aH").with(Special::LinkDest).onto_nothing(),
    plain("cp -a onto older", &["cp", "-a"], "-aHAX").onto_older(),
    synced("sync --checksum", &["sync", "--checksum"], "-aHAX"),
    synced("rsync -aR", &["rsync", "-aR"], "-a").relative(),
    plain("cp -r onto older", &["cp", "-r"], "-rl").onto_older(),
    synced("rsync -a", &["rsync", "-a"], "-a"),
    synced("sync -a onto nothing", &["sync", "-a"], "-aHAX").onto_nothing(),
    synced("rsync -aL", &["rsync", "-aL"], "-aL").with(Special::Follow),
    plain("scp -rp", &["scp", "-rp"], "-rLpt").with(Special::Follow),
    synced("rsync --partial-dir", &["rsync", "-a", "--partial-dir=.partial"], "-a"),
    synced("rsync --delay-updates", &["rsync", "-a", "--delay-updates"], "-a"),
    synced("rsync --append", &["rsync", "-a", "--append"], "-a").with(Special::Append).onto_nothing(),
    synced("rsync --append-verify", &["rsync", "-a", "--append-verify"], "-a")
        .with(Special::Append)
        .onto_nothing(),
    synced("rsync --temp-dir", &["rsync", "-a"], "-a").with(Special::Aside),
    synced("rsync -az --fuzzy", &["rsync", "-az", "--fuzzy"], "-a"),
    synced("rsync --inplace --backup-dir", &["rsync", "-a", "--inplace", "-b"], "-a")
        .with(Special::InPlaceBackup),
    synced("rsync --no-whole-file", &["rsync", "-aHAX", "--no-whole-file"], "-aHAX"),
];

impl Operation {
    const fn with(self, special: Special) -> Self {
        Self { special, ..self }
    }

    const fn onto_older(self) -> Self {
        Self { is_onto: true, ..self }
    }

    const fn onto_nothing(self) -> Self {
        Self { is_onto: false, ..self }
    }

    const fn relative(self) -> Self {
        Self { source: SourceForm::Relative, ..self }
    }
}
