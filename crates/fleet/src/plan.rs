//! A plan: a directory with the lists of the entries to move, divided into shards.

use anyhow::{Context, bail, ensure};
use linerate_sys::private;
use linerate_sys::replace::replace;
use linerate_wire::control::{DividedFile, JournalKey, Keep};
use linerate_wire::entry::Timestamp;
use linerate_wire::path::RelPath;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::divide::{PieceRange, PlannedFile, key};
use crate::shards::{Burden, evenness};
use crate::source::SourceIdentity;

/// The version of the plan's files. It increases with each change of the files that earlier versions of linerate can't
/// ignore.
pub const SCHEMA: u32 = 2;
/// The name of the plan's main file, which a directory must contain to be a plan.
pub const PLAN_FILE: &str = "plan.json";
/// The name of the file with the key that authenticates the plan's journals.
pub const KEY_FILE: &str = "journal.key";
/// The name of the file with the entries that a round's scan found.
pub const CATALOGUE_FILE: &str = "catalogue";
/// The name of the file with the paths of files that are divided among several shards.
pub const DIVIDED_FILE: &str = "divided.list";
/// The name of the file with paths that were in an earlier plan but no longer exist at the source.
pub const GONE_FILE: &str = "gone.list";

/// The contents of `plan.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetPlan {
    /// The version of the format, [`SCHEMA`].
    pub schema: u32,
    /// The version of linerate that made the plan.
    pub linerate: String,
    /// A random name, which is the same for all rounds.
    pub id: String,
    /// The number of this round in the plan's directory, from 1.
    pub round: u32,
    /// The time at which the plan was made, in seconds since 1970.
    pub made: u64,
    /// The absolute path of the directory whose contents are copied. It is the same for all tasks.
    pub source: String,
    /// The identity of the source directory; `None` if the identity couldn't be read, or if an earlier version of
    /// linerate made the plan.
    #[serde(default)]
    pub source_identity: Option<SourceIdentity>,
    /// The directory to which the contents are copied.
    pub destination: String,
    /// The hosts that can write the destination, which shards use in turn; empty if the destination is on the
    /// local host.
    pub hosts: Vec<String>,
    /// The metadata that is kept.
    pub keep: Keep,
    /// Whether written files are read back and compared.
    pub verify: bool,
    /// Whether each shard writes the hashes of its files.
    pub manifest: bool,
    /// The totals of the scan.
    pub found: FoundSums,
    /// The shards to move.
    pub shards: Vec<PlannedShard>,
    /// The list of directories, which are completed after all shards.
    pub directories: PlannedShard,
    /// The files that are divided among several shards, in the order of their paths in [`DIVIDED_FILE`].
    pub divided: Vec<PlannedFile>,
    /// The BLAKE3 hash of the list of divided files' paths.
    pub divided_names: String,
}

/// The totals of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundSums {
    /// The number of files, symbolic links and special files.
    pub files: u64,
    /// The number of directories.
    pub directories: u64,
    /// The total number of bytes; a file with several hard links counts once if hard links are kept.
    pub bytes: u64,
    /// The number of files that haven't changed since an earlier round copied them.
    pub in_place: u64,
    /// The number of paths in the previous plan that no longer exist at the source.
    pub gone: u64,
    /// The size of the largest file to copy, in bytes.
    pub largest: u64,
    /// The number of entries that couldn't be read; each was reported.
    pub failed: u64,
}

/// A shard of a plan: a list of paths to copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedShard {
    /// The number of paths in the list.
    pub files: u64,
    /// The total bytes of contents.
    pub bytes: u64,
    /// The BLAKE3 hash of the list.
    pub blake3: String,
}

/// A part of a plan, which one task moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FleetPart {
    /// The files of the shard with this number, from 0.
    Shard(u32),
    /// The directories with their modes and times, which a task completes after all shards.
    Directories,
}

/// A directory with a plan in it.
#[derive(Clone, Debug)]
pub struct PlanDirectory {
    /// The path of the directory.
    pub path: PathBuf,
    /// The plan in the directory.
    pub plan: FleetPlan,
}

impl PlanDirectory {
    /// Reads the plan in a directory.
    ///
    /// # Errors
    /// If there is none, or it isn't a plan of this version.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        match Self::find(path)? {
            Some(found) => Ok(found),
            None => bail!(
                "{} has no plan: 'linerate fleet plan SRC DST --into {}' makes one",
                path.display(),
                path.display()
            ),
        }
    }

    /// Reads the plan in a directory; `None` if there is none.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn find(path: &Path) -> anyhow::Result<Option<Self>> {
        let file = path.join(PLAN_FILE);
        let text = match fs::read_to_string(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("reading {}", file.display()))?,
        };
        let plan = FleetPlan::read(&text).with_context(|| format!("reading {}", file.display()))?;
        Ok(Some(Self { path: path.to_owned(), plan }))
    }

    /// Writes the plan's main file, which puts the plan in force; the plan's other files must exist already.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write(&self) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(&self.plan)? + "\n";
        let file = self.path.join(PLAN_FILE);
        replace(&file, text.as_bytes()).with_context(|| format!("writing {}", file.display()))?;
        File::open(&self.path).and_then(|it| it.sync_all()).context("writing the plan to stable storage")
    }

    /// The directory with the lists of this round.
    pub fn round(&self) -> PathBuf {
        round_path(&self.path, self.plan.round)
    }

    /// The directory with the files of this round's attempts.
    pub fn runs(&self) -> PathBuf {
        self.round().join("runs")
    }

    /// The paths in a part's list, each ended by a zero byte.
    ///
    /// # Errors
    /// If the list can't be read, or was changed since the plan was made.
    pub fn list(&self, part: FleetPart) -> anyhow::Result<Vec<u8>> {
        let planned = self.plan.part(part).map_or("", |planned| &planned.blake3);
        self.read(&part.list_name(), planned)
    }

    /// The divided files of which a part copies pieces. For [`FleetPart::Directories`], all divided files, because that
    /// part completes them.
    ///
    /// # Errors
    /// The same as those of [`Self::list`], and a path in the list that isn't allowed.
    pub fn divided(&self, part: FleetPart) -> anyhow::Result<Vec<DividedFile>> {
        let FleetPlan { divided, divided_names, id, round, .. } = &self.plan;
        if divided.is_empty() {
            return Ok(Vec::new());
        }
        let names = self.read(DIVIDED_FILE, divided_names)?;
        let mut files = Vec::new();
        for (name, planned) in names.split(|byte| *byte == 0).zip(divided) {
            let range = range_of(planned, part);
            let (first, count) = match (range, part) {
                (Some(range), _) => (range.first, range.pieces),
                (None, FleetPart::Directories) => (0, 0),
                (None, FleetPart::Shard(_)) => continue,
            };
            let path =
                RelPath::new(name).context("a name in the plan's list of divided files isn't allowed")?;
            let time = |(seconds, nanoseconds)| Timestamp { seconds, nanoseconds };
            let PlannedFile { size, inode, piece, .. } = *planned;
            let (mtime, ctime) = (time(planned.mtime), time(planned.ctime));
            let unnamed = DividedFile { path, key: [0; 16], size, mtime, ctime, inode, piece, first, count };
            files.push(DividedFile { key: key(id, *round, &unnamed), ..unnamed });
        }
        Ok(files)
    }

    fn read(&self, name: &str, planned: &str) -> anyhow::Result<Vec<u8>> {
        let path = self.round().join(name);
        let text = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        ensure!(
            blake3::hash(&text).to_hex().as_str() == planned,
            "{} was changed or damaged since the plan was made; plan again",
            path.display()
        );
        Ok(text)
    }

    /// Makes the key by which all hosts of the destination recognise the journals of the plan's earlier attempts.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn make_journal_key(&self) -> anyhow::Result<()> {
        let mut key = [0; 32];
        File::open("/dev/urandom")
            .and_then(|mut random| random.read_exact(&mut key))
            .context("reading random bytes")?;
        File::open(&self.path)
            .and_then(|directory| Ok(private::write_file(&directory, KEY_FILE, &key)?))
            .with_context(|| format!("writing {}", self.path.join(KEY_FILE).display()))
    }

    /// The key that [`Self::make_journal_key`] made; `None` if there is none, as in plans of earlier versions, or if
    /// other users may read or write the key's file.
    pub fn journal_key(&self) -> Option<JournalKey> {
        let (mut file, stat) =
            private::open_file(File::open(&self.path).ok()?, KEY_FILE, OFlags::RDONLY).ok()?;
        let mut key = [0; 32];
        (stat.st_size == 32 && file.read_exact(&mut key).is_ok()).then_some(JournalKey(key))
    }

    /// The file for the hashes of the files that an attempt at a part copies.
    pub fn manifest(&self, part: FleetPart, attempt: u32) -> PathBuf {
        self.round().join(format!("{}.{attempt}.b3", part.name()))
    }
}

/// The directory of a round, below the plan's directory.
pub fn round_path(plan: &Path, round: u32) -> PathBuf {
    plan.join(format!("round-{round}"))
}

impl FleetPlan {
    /// Reads the text of `plan.json`.
    ///
    /// # Errors
    /// If it isn't a plan of this version, if the source isn't an absolute path, or if a host's name is empty or begins
    /// with a hyphen.
    pub fn read(text: &str) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
            linerate: String,
        }
        let head: Head = serde_json::from_str(text).context("it isn't a plan")?;
        ensure!(
            head.schema == SCHEMA,
            "it is a plan of linerate {} with schema {}, but this is linerate {} with schema {SCHEMA}: use that version, or plan again",
            head.linerate,
            head.schema,
            env!("CARGO_PKG_VERSION"),
        );
        let plan: Self = serde_json::from_str(text).context("it isn't a plan")?;
        ensure!(plan.source.starts_with('/'), "its source isn't an absolute path");
        // ssh would interpret a name that begins with a hyphen as an option.
        let is_host = |host: &String| !host.is_empty() && !host.starts_with('-');
        ensure!(plan.hosts.iter().all(is_host), "one of its hosts isn't a host's name");
        Ok(plan)
    }

    /// The list of a part; `None` if the plan has no such part.
    pub fn part(&self, part: FleetPart) -> Option<&PlannedShard> {
        match part {
            FleetPart::Shard(number) => self.shards.get(number as usize),
            FleetPart::Directories => Some(&self.directories),
        }
    }

    /// Whether a part has no entries.
    pub fn is_empty(&self, part: FleetPart) -> bool {
        let is_without_names = self.part(part).is_some_and(|planned| planned.files == 0);
        is_without_names && self.divided.iter().all(|file| range_of(file, part).is_none())
    }

    /// The number of bytes that other parts copy, in those files of which this part copies pieces or which it
    /// completes.
    pub fn bytes_of_others(&self, part: FleetPart) -> u64 {
        let of_others = |file: &PlannedFile| {
            let range = range_of(file, part);
            let is_in_it = range.is_some() || part == FleetPart::Directories;
            is_in_it.then(|| file.size - range.map_or(0, |range| file.bytes_of(range)))
        };
        self.divided.iter().filter_map(of_others).sum()
    }

    /// The number of files of which this part copies pieces, or which it completes, but which count for other parts. A
    /// file counts for the part with its first piece.
    pub fn files_of_others(&self, part: FleetPart) -> u64 {
        let is_of_other = |file: &&PlannedFile| match range_of(file, part) {
            Some(range) => range.first > 0,
            None => part == FleetPart::Directories,
        };
        self.divided.iter().filter(is_of_other).count() as u64
    }

    /// All parts of the plan; the directories are last.
    pub fn parts(&self) -> impl Iterator<Item = FleetPart> {
        (0..).take(self.shards.len()).map(FleetPart::Shard).chain([FleetPart::Directories])
    }

    /// The destination of an attempt, in the form for `linerate cp` and `linerate sync`. Shards use the hosts in turn,
    /// and so do the attempts of one shard, so that a new attempt avoids a host that is down.
    pub fn destination_of(&self, part: FleetPart, attempt: u32) -> String {
        let first = match part {
            FleetPart::Shard(number) => number as usize,
            FleetPart::Directories => self.shards.len(),
        };
        let turn = first + attempt.saturating_sub(1) as usize;
        match self.hosts.get(turn % self.hosts.len().max(1)) {
            Some(host) => format!("{host}:{}", self.destination),
            None => self.destination.clone(),
        }
    }

    /// The total load of all shards.
    pub fn burden(&self) -> Burden {
        self.burdens().iter().fold(Burden::default(), |all, shard| all.and(*shard))
    }

    /// The ratio of the largest shard to the mean shard, by bytes and by number of files.
    pub fn evenness(&self) -> (f64, f64) {
        evenness(&self.burdens())
    }

    fn burdens(&self) -> Vec<Burden> {
        self.shards.iter().map(|shard| Burden { bytes: shard.bytes, files: shard.files }).collect()
    }
}

impl FleetPart {
    /// The name of the part in file names.
    pub fn name(self) -> String {
        match self {
            Self::Shard(number) => format!("{number:05}"),
            Self::Directories => "directories".to_owned(),
        }
    }

    /// The file name of the part's list.
    pub fn list_name(self) -> String {
        format!("{}.list", self.name())
    }

    /// The part with this [name](Self::name).
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "directories" => Some(Self::Directories),
            number => number.parse().ok().map(Self::Shard).filter(|part| part.name() == name),
        }
    }
}

impl fmt::Display for FleetPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shard(number) => write!(f, "shard {number}"),
            Self::Directories => f.write_str("the directories"),
        }
    }
}

/// The pieces of a file that a part copies.
fn range_of(file: &PlannedFile, part: FleetPart) -> Option<&PieceRange> {
    file.ranges.iter().find(|range| part == FleetPart::Shard(range.shard))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn plan(hosts: &[&str]) -> FleetPlan {
        FleetPlan {
            schema: SCHEMA,
            linerate: "0.1.0".into(),
            id: "x".into(),
            round: 1,
            made: 0,
            source: "/a".into(),
            source_identity: None,
            destination: "/b".into(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            keep: Keep::NOTHING,
            verify: false,
            manifest: false,
            found: FoundSums::default(),
            shards: vec![PlannedShard::default(); 3],
            directories: PlannedShard::default(),
            divided: Vec::new(),
            divided_names: String::new(),
        }
    }

    #[test]
    fn shards_and_their_attempts_take_turns_among_hosts() {
        let two = plan(&["h1", "u@h2"]);
        let of = |part, attempt| two.destination_of(part, attempt);
        assert_eq!(of(FleetPart::Shard(0), 1), "h1:/b");
        assert_eq!(of(FleetPart::Shard(1), 1), "u@h2:/b");
        assert_eq!(of(FleetPart::Shard(0), 2), "u@h2:/b");
        assert_eq!(of(FleetPart::Directories, 1), "u@h2:/b");
        assert_eq!(plan(&[]).destination_of(FleetPart::Shard(2), 5), "/b");
    }

    #[test]
    fn a_plan_of_another_version_is_refused_with_its_name() {
        let text = serde_json::to_string(&plan(&["h"])).unwrap();
        assert_eq!(FleetPlan::read(&text).unwrap(), plan(&["h"]));
        let newer = text.replace("\"schema\":2", "\"schema\":3").replace("0.1.0", "9.0.0");
        let error = FleetPlan::read(&newer).unwrap_err().to_string();
        assert!(error.contains("linerate 9.0.0 with schema 3"), "{error}");
        let option = serde_json::to_string(&plan(&["-oProxyCommand=x"])).unwrap();
        assert!(FleetPlan::read(&option).is_err());
        assert!(FleetPlan::read("{}").is_err() && FleetPlan::read("").is_err());
    }

    #[test]
    fn parts_have_names_of_which_each_is_one() {
        for part in [FleetPart::Shard(0), FleetPart::Shard(123_456), FleetPart::Directories] {
            assert_eq!(FleetPart::named(&part.name()), Some(part));
        }
        assert_eq!(
            (FleetPart::named("1"), FleetPart::named("+0001"), FleetPart::named("")),
            (None, None, None)
        );
    }

    #[test]
    fn a_key_that_others_may_read_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let held = PlanDirectory { path: directory.path().to_owned(), plan: plan(&[]) };
        assert_eq!(held.journal_key(), None);
        held.make_journal_key().unwrap();
        let key = held.journal_key();
        assert!(key.is_some_and(|key| key.0 != [0; 32]) && held.journal_key() == key);
        let file = directory.path().join(KEY_FILE);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(held.journal_key(), None);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(held.journal_key(), key);
        fs::write(&file, [1; 31]).unwrap();
        assert_eq!(held.journal_key(), None);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else stays");
    }

    #[test]
    fn a_list_that_was_changed_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let mut plan = plan(&[]);
        plan.shards[1].blake3 = blake3::hash(b"a\0").to_hex().to_string();
        let held = PlanDirectory { path: directory.path().to_owned(), plan };
        fs::create_dir(held.round()).unwrap();
        fs::write(held.round().join("00001.list"), "a\0").unwrap();
        assert_eq!(held.list(FleetPart::Shard(1)).unwrap(), b"a\0");
        fs::write(held.round().join("00001.list"), "a").unwrap();
        assert!(held.list(FleetPart::Shard(1)).is_err());
        assert!(held.list(FleetPart::Shard(7)).is_err());
    }
}
