//! The mounts in /proc/self/mountinfo; and the location of a path within its file system, which is the same for all
//! mounts of the file system.

use std::path::{Path, PathBuf};

/// One line of mountinfo (proc_pid_mountinfo(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The ID of the mount.
    pub id: String,
    /// The major and minor number of the mount's device, such as `98:0`.
    pub number: String,
    /// The directory of the file system that is mounted, as a path within the file system.
    pub root: String,
    /// The mount point: the path at which the file system is mounted.
    pub point: String,
    /// The type of the file system.
    pub kind: String,
    /// The source of the file system: its device, or another name.
    pub source: String,
    /// The options of the mount and of the file system.
    pub options: Vec<String>,
}

impl Mount {
    /// Parses a line: `36 35 98:0 / /mnt rw,noatime shared:1 - ext4 /dev/root rw,errors=continue`.
    pub fn parse(line: &str) -> Option<Self> {
        let (own, file_system) = line.split_once(" - ")?;
        let mut own = own.split(' ');
        let (id, number) = (own.next()?.to_owned(), own.nth(1)?.to_owned());
        let (root, point) = (unescaped(own.next()?), unescaped(own.next()?));
        let mut about = file_system.split(' ');
        let (kind, source) = (about.next()?.to_owned(), unescaped(about.next()?));
        let mut options: Vec<String> = own.next()?.split(',').map(str::to_owned).collect();
        for option in about.next().unwrap_or_default().split(',') {
            if !option.is_empty() && !options.iter().any(|known| known == option) {
                options.push(option.to_owned());
            }
        }
        Some(Self { id, number, root, point, kind, source, options })
    }
}

/// Replaces the octal escapes with which the kernel writes white space and backslashes.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// All mounts of this process; empty if the kernel doesn't list them.
pub struct Mounts(Vec<Mount>);

/// The location of a directory within its file system, which is the same for all mounts of the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerPath {
    number: String,
    path: PathBuf,
}

impl Mounts {
    /// Reads the list of mounts from the kernel.
    pub fn read() -> Self {
        let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self(text.lines().filter_map(Mount::parse).collect())
    }

    /// The location of an existing path within its file system. Links in the path are followed. `None` if the
    /// location can't be determined.
    pub fn inner(&self, path: &Path) -> Option<InnerPath> {
        let real = path.canonicalize().ok()?;
        let covering = self.0.iter().filter(|mount| real.starts_with(&mount.point));
        // If several mounts have the same mount point, the last one hides the others.
        let mount = covering.max_by_key(|mount| mount.point.len())?;
        let below = real.strip_prefix(&mount.point).ok()?;
        Some(InnerPath { number: mount.number.clone(), path: Path::new(&mount.root).join(below) })
    }

    /// A mount point below the directory `path` through which the directory `other`, or a part of `other`, can be
    /// reached. A mount through which a part of `other` has the same path below `path` as below `other` doesn't count.
    pub fn mounted_below(&self, path: &Path, other: &InnerPath) -> Option<&Path> {
        let real = path.canonicalize().ok()?;
        let reaches = |mount: &&Mount| {
            let (point, root) = (Path::new(&mount.point).strip_prefix(&real), Path::new(&mount.root));
            let part = root.strip_prefix(&other.path);
            mount.number == other.number
                && point.is_ok_and(|point| point != Path::new("") && part != Ok(point))
                && (part.is_ok() || other.path.starts_with(root))
        };
        self.0.iter().find(reaches).map(|mount| Path::new(&mount.point))
    }
}

impl InnerPath {
    /// The path of this location below the directory `other`; empty if they are equal, and `None` if this
    /// location isn't in `other`.
    pub fn below(&self, other: &Self) -> Option<&Path> {
        self.path.strip_prefix(&other.path).ok().filter(|_| self.number == other.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_taken_apart() {
        let line =
            "36 35 98:0 /sub /mnt\\040x rw,noatime shared:1 master:2 - ext4 /dev/root rw,errors=continue";
        let mount = Mount::parse(line).unwrap();
        assert_eq!((mount.id.as_str(), mount.number.as_str()), ("36", "98:0"));
        assert_eq!((mount.root.as_str(), mount.point.as_str()), ("/sub", "/mnt x"));
        assert_eq!((mount.kind.as_str(), mount.source.as_str()), ("ext4", "/dev/root"));
        assert_eq!(mount.options, ["rw", "noatime", "errors=continue"]);
        assert!(Mount::parse("36 35 - x").is_none());
    }

    #[test]
    fn a_directory_is_at_one_place_whichever_of_its_mounts_leads_there() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("a/b/c")).unwrap();
        std::fs::create_dir_all(top.join("m/c")).unwrap();
        let line = |number: &str, root: &str, point: &str| {
            Mount::parse(&format!("1 1 {number} {root} {point} rw - ext4 x rw")).unwrap()
        };
        let at = |path: &str| top.join(path).to_str().unwrap().to_owned();
        let mounts = Mounts(vec![line("8:1", "/", "/"), line("8:1", &at("a/b"), &at("m"))]);
        let inner = |path: &str| mounts.inner(&top.join(path)).unwrap();
        assert_eq!(inner("m/c"), inner("a/b/c"));
        assert_eq!(inner("m").below(&inner("a")), Some(Path::new("b")));
        assert_eq!(inner("m").below(&inner("a/b")), Some(Path::new("")));
        assert_eq!(inner("a").below(&inner("m")), None);
        assert_eq!(mounts.inner(&top.join("missing")), None);
        assert_eq!(mounts.mounted_below(&top, &inner("a/b/c")), Some(top.join("m").as_path()));
        assert_eq!(mounts.mounted_below(&top, &inner("a")), Some(top.join("m").as_path()));
        assert_eq!(mounts.mounted_below(&top.join("m"), &inner("a")), None, "it is the mount itself");
        std::fs::create_dir_all(top.join("n/b")).unwrap();
        let same = Mounts(vec![line("8:1", "/", "/"), line("8:1", &at("a/b"), &at("n/b"))]);
        assert_eq!(same.mounted_below(&top.join("n"), &inner("a")), None, "both have it as b");
        let elsewhere = Mounts(vec![line("8:1", "/", "/"), line("8:2", &at("a/b"), &at("m"))]);
        assert_eq!(elsewhere.mounted_below(&top, &inner("a/b/c")), None);
    }
}
