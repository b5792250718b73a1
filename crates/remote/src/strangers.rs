//! Checks who may write the agents and programs that are copied to far hosts. These binaries run on the far hosts, so a
//! binary is refused if it can be written by a user who may not write the running program.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use crate::binary::OWN;

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// The users and groups that may write the running program.
static OF_OWN: LazyLock<Result<Writers, String>> = LazyLock::new(|| {
    Writers::of_own().map_err(|error| format!("the running program can't be examined: {error}"))
});

/// The users and groups that may write a program's file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Writers {
    owners: Vec<u32>,
    groups: Vec<u32>,
    others: bool,
}

impl Writers {
    /// The users and groups that may write the running program.
    fn of_own() -> io::Result<Self> {
        let (file, path) = (fs::metadata(OWN)?, fs::read_link(OWN)?);
        let directory = path.parent().and_then(|directory| fs::metadata(directory).ok());
        let above =
            path.parent().and_then(Path::parent).and_then(|directory| fs::symlink_metadata(directory).ok());
        Ok(Self::of(&file, directory.as_ref(), above.as_ref()))
    }

    /// The users and groups that may write a program or replace it in its directory. `above` is the parent of the
    /// directory.
    fn of(program: &Metadata, directory: Option<&Metadata>, above: Option<&Metadata>) -> Self {
        let mut owners = vec![0, rustix::process::geteuid().as_raw()];
        // In a user namespace that has no number for root, root and all other users without a number seem to be one
        // user. So below /tmp, a file of another user would seem to belong to the owner of root's program.
        if above.is_some_and(|above| above.mode() & (GROUP_WRITES | OTHERS_WRITE) == 0) {
            owners.push(program.uid());
        }
        // A user who may write to a directory may replace its files, unless the directory is sticky.
        let directory = directory.filter(|directory| directory.mode() & STICKY == 0);
        let mut writable = [program].into_iter().chain(directory);
        let of_groups = writable.clone().filter(|it| it.mode() & GROUP_WRITES != 0);
        let groups = of_groups.map(MetadataExt::gid).collect();
        Self { owners, groups, others: writable.any(|it| it.mode() & OTHERS_WRITE != 0) }
    }

    fn refuse(&self, metadata: &Metadata) -> Result<(), String> {
        self.refuse_owner(metadata)?;
        let (mode, is_group) = (metadata.mode(), self.groups.contains(&metadata.gid()));
        let is_strange = mode & GROUP_WRITES != 0 && !is_group || mode & OTHERS_WRITE != 0;
        match is_strange && !self.others {
            true => Err("users other than its owner may write it: change its mode (chmod go-w)".into()),
            false => Ok(()),
        }
    }

    fn refuse_owner(&self, metadata: &Metadata) -> Result<(), String> {
        let uid = metadata.uid();
        match self.owners.contains(&uid) {
            true => Ok(()),
            false => Err(format!("it belongs to user {uid}, and not to you, root or linerate's owner")),
        }
    }

    fn refuse_directories(&self, above: &Path, below: &Path) -> Result<(), String> {
        let mut path = PathBuf::from(above);
        for name in below.components().filter(|it| matches!(it, Component::Normal(_))) {
            path.push(name);
            let said = |why: String| format!("its directory {}: {why}", path.display());
            let failed = |error: io::Error| said(format!("it can't be examined: {error}"));
            let itself = fs::symlink_metadata(&path).map_err(failed)?;
            // The owner of a link decides where the link leads, so the link itself is checked, too.
            self.refuse_owner(&itself).map_err(said)?;
            self.refuse(&fs::metadata(&path).map_err(failed)?).map_err(said)?;
        }
        Ok(())
    }
}

/// Fails if the file can be written by a user who may not write the running program.
///
/// # Errors
/// The reason, as the end of a sentence.
pub fn refuse(file: &Metadata) -> Result<(), String> {
    writers()?.refuse(file)
}

/// Fails if the directory at the relative path `below` in `above`, or a directory on the way there, can be written by a
/// user who may not write the running program. `above` is the parent of the program's directory; it isn't checked
/// itself, because a user who may write to it may replace the program, too. If other users may write to `above`, as to
/// /tmp, files of the program's owner are refused, unless the owner is root or the user of this process.
///
/// # Errors
/// The reason, as the end of a sentence.
pub fn refuse_directories(above: &Path, below: &Path) -> Result<(), String> {
    writers()?.refuse_directories(above, below)
}

fn writers() -> Result<&'static Writers, String> {
    OF_OWN.as_ref().map_err(String::clone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::is_root;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    fn chmod(path: &Path, mode: u32) -> Metadata {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        fs::metadata(path).unwrap()
    }

    #[test]
    fn only_those_who_may_write_the_program_may_write_what_is_brought() {
        let top = tempfile::tempdir().unwrap();
        let (program, file) = (top.path().join("linerate"), top.path().join("agent"));
        fs::write(&program, "").unwrap();
        fs::write(&file, "").unwrap();
        for (of_program, of_directory, of_file, is_refused) in [
            (0o755, 0o755, 0o644, false),
            (0o755, 0o755, 0o664, true),
            (0o755, 0o755, 0o646, true),
            (0o775, 0o755, 0o664, false),
            (0o775, 0o755, 0o666, true),
            (0o755, 0o775, 0o664, false),
            (0o755, 0o1777, 0o664, true),
            (0o755, 0o1777, 0o666, true),
            (0o777, 0o755, 0o666, false),
        ] {
            let directory = chmod(top.path(), of_directory);
            let writers = Writers::of(&chmod(&program, of_program), Some(&directory), Some(&directory));
            let refused = writers.refuse(&chmod(&file, of_file));
            assert_eq!(refused.is_err(), is_refused, "{of_program:o} {of_directory:o} {of_file:o}");
        }
    }

    #[test]
    fn a_strangers_file_directory_and_link_are_refused() {
        if !is_root("only root makes a stranger's files") {
            return;
        }
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        fs::create_dir_all(at("lib/linerate")).unwrap();
        fs::write(at("program"), "").unwrap();
        fs::write(at("lib/linerate/agent"), "").unwrap();
        let program = fs::metadata(at("program")).unwrap();
        let found = || fs::metadata(at("lib/linerate/agent")).unwrap();
        let writers = Writers::of(&program, None, None);
        let below = Path::new("lib/linerate");
        assert_eq!(
            (writers.refuse_directories(top.path(), below), writers.refuse(&found())),
            (Ok(()), Ok(()))
        );
        chown(at("lib/linerate/agent"), Some(1234), None).unwrap();
        assert!(writers.refuse(&found()).unwrap_err().contains("user 1234"));
        chown(at("lib"), Some(1234), None).unwrap();
        let refused = writers.refuse_directories(top.path(), below).unwrap_err();
        assert!(refused.contains("/lib: it belongs to user 1234"), "{refused}");
        // The program's owner may write the program anyway. In /tmp, however, the owner's number may stand
        // for any user.
        chown(at("program"), Some(1234), None).unwrap();
        let program = fs::metadata(at("program")).unwrap();
        for (mode, is_refused) in [(0o755, false), (0o1777, true)] {
            let writers = Writers::of(&program, None, Some(&chmod(top.path(), mode)));
            assert_eq!(writers.refuse_directories(top.path(), below).is_err(), is_refused, "{mode:o}");
        }
        fs::rename(at("lib"), at("real")).unwrap();
        chown(at("real"), Some(0), None).unwrap();
        symlink("real", at("lib")).unwrap();
        assert_eq!(writers.refuse_directories(top.path(), below), Ok(()));
        lchown(at("lib"), Some(1234), None).unwrap();
        assert!(writers.refuse_directories(top.path(), below).is_err());
    }
}
