//! Options of `linerate sync` about backups, modes, the removal of sources, and other trees at the receiver whose
//! files can be used.

use clap::Args;
use linerate_sys::process::umask;
use linerate_wire::control::{Backup, MAX_OTHER_TREES, ModeRule, OtherTrees, OtherUse};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::modes;

/// The options of this module.
#[derive(Debug, Args)]
pub struct Keeping {
    /// Make hard links to equal files in DIR instead of copies
    ///
    /// DIR is relative to DST. If you repeat the option, linerate uses the first DIR that has the file.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["copy_dest", "compare_dest"])]
    link_dest: Vec<OsString>,
    /// Copy equal files from DIR instead of sending them
    #[arg(long, value_name = "DIR", conflicts_with = "compare_dest")]
    copy_dest: Vec<OsString>,
    /// Leave out files if DIR has an equal file
    #[arg(long, value_name = "DIR")]
    compare_dest: Vec<OsString>,
    /// Keep replaced and deleted files, with a suffix after their names
    #[arg(short = 'b', long, conflicts_with = "inplace")]
    backup: bool,
    /// Keep the replaced and deleted files in DIR, relative to DST
    #[arg(long, value_name = "DIR", conflicts_with = "inplace")]
    backup_dir: Option<OsString>,
    /// Suffix of backups [default: ~, or none with --backup-dir]
    #[arg(long, value_name = "SUFFIX")]
    suffix: Option<OsString>,
    /// Change the modes of the copies: go-w, D755,F644
    #[arg(long, value_name = "CHANGES")]
    chmod: Vec<String>,
    /// Remove what was copied from SRC, except directories
    ///
    /// linerate removes files, links and special files that are in place at DST, once everything is there. If anything is
    /// missing at DST, it removes nothing.
    #[arg(long, conflicts_with = "dry_run")]
    pub remove_source_files: bool,
}

impl Keeping {
    /// The other trees at the receiver that may already have the files.
    ///
    /// # Errors
    /// A message if the user names too many trees.
    pub fn others(&self) -> Result<Option<OtherTrees>, String> {
        let kinds = [
            (&self.link_dest, OtherUse::Link),
            (&self.copy_dest, OtherUse::Copy),
            (&self.compare_dest, OtherUse::Compare),
        ];
        let Some((named, used)) = kinds.into_iter().find(|(named, _)| !named.is_empty()) else {
            return Ok(None);
        };
        if named.len() > MAX_OTHER_TREES {
            return Err(format!(
                "there can be at most {MAX_OTHER_TREES} directories of --link-dest, --copy-dest and --compare-dest"
            ));
        }
        let directories = named.iter().map(|directory| directory.as_bytes().to_vec()).collect();
        Ok(Some(OtherTrees { directories, used }))
    }

    /// The directory and the suffix of backups; `None` if the user wants no backups.
    pub fn backup(&self) -> Option<Backup> {
        let directory = self.backup_dir.as_ref().map(|directory| directory.as_bytes().to_vec());
        let usual: &[u8] = if directory.is_some() { b"" } else { b"~" };
        let suffix = self.suffix.as_ref().map_or(usual, |suffix| suffix.as_bytes()).to_vec();
        (self.backup || directory.is_some()).then_some(Backup { directory, suffix })
    }

    /// The filter rule that protects backups from deletion. `None` if it isn't needed: it is needed only if backups
    /// are in the same directories as their originals.
    pub fn spares(&self) -> Option<OsString> {
        let backup = self.backup().filter(|backup| backup.directory.is_none())?;
        Some(OsString::from_vec([b"P *", backup.suffix.as_slice()].concat()))
    }

    /// The rules of `--chmod`.
    ///
    /// # Errors
    /// A message that names the first invalid part.
    pub fn modes(&self) -> Result<Vec<ModeRule>, String> {
        let parts = self.chmod.iter().map(|text| {
            modes::parse(text, umask().as_raw_mode()).map_err(|why| format!("--chmod {text}: {why}"))
        });
        Ok(parts.collect::<Result<Vec<_>, _>>()?.concat())
    }
}
