//! Files that this process itself writes during a transfer or at its end: its log, metrics and manifest. The
//! transfer neither deletes nor replaces them, even if an entry of the source has the same name.

use linerate_sys::replace::directory_of;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use crate::tree::identity::identity_of;

static OWN_FILES: RwLock<OwnFiles> =
    RwLock::new(OwnFiles { by_name: BTreeMap::new(), directories: BTreeSet::new() });

/// The files that this process itself writes.
struct OwnFiles {
    by_name: BTreeMap<OsString, Vec<OwnFile>>,
    /// The device and inode numbers of the directories that contain these files.
    directories: BTreeSet<(u64, u64)>,
}

/// A file that this process itself writes.
struct OwnFile {
    /// The device and inode number of the file's directory.
    directory: (u64, u64),
    /// The command-line option that names the file.
    option: &'static str,
}

/// Protects the file at this path, which `option` names, until this process ends. If the path's directory
/// doesn't exist, nothing is protected.
///
/// # Errors
/// The other option that names the same file.
pub fn keep(file: &Path, option: &'static str) -> Result<(), &'static str> {
    let (Some(name), Ok(directory)) = (file.file_name(), fs::metadata(directory_of(file))) else {
        return Ok(());
    };
    let directory = (directory.dev(), directory.ino());
    let mut files = OWN_FILES.write().unwrap_or_else(PoisonError::into_inner);
    files.directories.insert(directory);
    let named = files.by_name.entry(name.to_owned()).or_default();
    match named.iter().find(|own| own.directory == directory) {
        Some(own) if own.option != option => Err(own.option),
        Some(_) => Ok(()),
        None => {
            named.push(OwnFile { directory, option });
            Ok(())
        }
    }
}

/// The option that names the file `name` in a directory, if this process itself writes that file. The
/// directory is opened only if the name matches.
pub fn option_of<D: AsFd>(name: &OsStr, directory: impl FnOnce() -> Option<D>) -> Option<&'static str> {
    let files = OWN_FILES.read().unwrap_or_else(PoisonError::into_inner);
    let named = files.by_name.get(name)?;
    let directory = identity_of(directory()?).ok()?;
    named.iter().find(|own| own.directory == directory).map(|own| own.option)
}

/// True for a directory that contains, or will contain, a file that this process itself writes.
pub fn belong_in(directory: impl AsFd) -> bool {
    let files = OWN_FILES.read().unwrap_or_else(PoisonError::into_inner);
    let is_one = |directory| files.directories.contains(&directory);
    !files.directories.is_empty() && identity_of(directory).is_ok_and(is_one)
}

/// The message that an entry isn't copied because its name belongs to a file of this process.
pub fn refusal(option: &str) -> String {
    format!(
        "isn't copied, because this command writes its own file of that name ({option}); name another file for {option}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_file_is_known_by_its_name_in_its_directory_however_the_directory_is_reached() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        fs::create_dir(at("one")).unwrap();
        fs::create_dir(at("two")).unwrap();
        std::os::unix::fs::symlink("one", at("link")).unwrap();
        keep(&at("link/run.log"), "--log-file").unwrap();
        keep(&at("missing/run.log"), "--metrics").unwrap();
        let option =
            |directory: &str, name: &str| option_of(name.as_ref(), || File::open(at(directory)).ok());
        assert_eq!(option("one", "run.log"), Some("--log-file"));
        assert_eq!(option("link", "run.log"), Some("--log-file"));
        assert_eq!((option("two", "run.log"), option("one", "other.log")), (None, None));
        let belong = |name: &str| belong_in(File::open(at(name)).unwrap());
        assert!(belong("one") && belong("link") && !belong("two") && !belong("."));
    }

    #[test]
    fn two_options_can_not_name_one_file() {
        let top = tempfile::tempdir().unwrap();
        let file = top.path().join("both");
        keep(&file, "--metrics").unwrap();
        keep(&file, "--metrics").unwrap();
        assert_eq!(keep(&top.path().join(".").join("both"), "--manifest"), Err("--metrics"));
    }
}
