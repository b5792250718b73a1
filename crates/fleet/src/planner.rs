//! Makes a plan from a scan. Each entry is written to a file at once, so that the scan needs little memory.

mod earlier;
mod lists;
mod owners;

use anyhow::{Context, bail, ensure};
use linerate_sys::replace::replace;
use linerate_wire::path::printable;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::catalogue::{
    CatalogueReader, CatalogueWriter, CataloguedEntry, EntryKind, EntryStamp, IN_NONE, IN_PLACE, IN_SEVERAL,
};
use crate::divide::{Divider, LargeFile, PlannedFile, burdens};
use crate::plan::{
    CATALOGUE_FILE, DIVIDED_FILE, FleetPart, FleetPlan, FoundSums, GONE_FILE, KEY_FILE, PlanDirectory,
    PlannedShard, SCHEMA, round_path,
};
use crate::shards::{Burden, Cutter, MAX_SHARDS, assign_over};
use crate::source::SourceIdentity;
use earlier::EarlierRound;
use lists::{DividedLists, ListWriter};
use owners::{EntryPlace, Owners, is_large};

/// The greatest number of names in a shard. A task accepts four times this number of paths in a list, including the
/// directories above the listed paths.
pub const MAX_NAMES: u64 = 1_000_000;
/// The greatest number of bytes of a list in a task's memory; a task needs some more for the directories
/// above the entries.
const MAX_LIST: u64 = 144 << 20;
/// In the scan's file, the value of the shard field for an entry with a single name. For each name of a file with
/// several hard links, the field has the number that the planner gave to this file.
const ALONE: u32 = IN_SEVERAL - 1;
/// The name of the scan's file, which has the format of a catalogue.
const SCAN_FILE: &str = "scan";
/// The greatest number of files with several hard links.
const MAX_LINKED: usize = ALONE as usize;

/// The parameters from which a plan is made.
#[derive(Clone, Debug)]
pub struct PlanRequest {
    /// The absolute path of the source, as in [`FleetPlan`].
    pub source: String,
    /// The destination.
    pub destination: String,
    /// The hosts that can write the destination.
    pub hosts: Vec<String>,
    /// The metadata that is kept.
    pub keep: linerate_wire::control::Keep,
    /// Whether written files are read back and compared.
    pub verify: bool,
    /// Whether the hashes of files are written.
    pub manifest: bool,
    /// Whether large files may be divided among shards.
    pub divides: bool,
    /// The number of shards.
    pub shards: ShardCount,
}

impl PlanRequest {
    /// The reason why this request can't be the next round of a plan, if there is one. The hosts may change if at least
    /// one stays, because all hosts of a plan have the same destination.
    fn why_not_after(&self, plan: &FleetPlan) -> Option<&'static str> {
        let name = |path: &str| match path.trim_end_matches('/') {
            "" => path.to_owned(),
            name => name.to_owned(),
        };
        if plan.source != self.source || name(&plan.destination) != name(&self.destination) {
            return Some("; name another directory");
        }
        let has_common = plan.hosts.iter().any(|host| self.hosts.contains(host));
        if !has_common && plan.hosts != self.hosts {
            return Some(
                ", and this command names none of that plan's hosts: name one of them if DST is the same, otherwise name another directory",
            );
        }
        (plan.keep != self.keep).then_some(" that keeps other metadata; name another directory")
    }
}

/// The wanted number of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardCount {
    /// Exactly this number of shards.
    Fixed(u32),
    /// One shard for each N bytes.
    OfSize(u64),
}

/// A plan that is being made. If it is dropped before it is finished, its files are removed.
pub struct PlanMaker {
    directory: PathBuf,
    /// The temporary directory of the round, which is renamed at the end.
    making: PathBuf,
    request: PlanRequest,
    earlier: Option<EarlierRound>,
    /// The writer of the scan's file, later of the catalogue.
    written: CatalogueWriter,
    found: FoundSums,
    entries: u64,
    /// The numbers of files with several hard links, by inode number.
    links: HashMap<u64, u32>,
    /// For each file with several hard links, how many of its names were found.
    names: Vec<u32>,
    is_done: bool,
}

impl PlanMaker {
    /// Begins a plan in `directory`, which is created if it is missing. If it already has a plan, the new plan has the
    /// entries that have changed since then, and those that aren't copied yet.
    ///
    /// # Errors
    /// If the directory can't be written, contains other files than a plan, or has a plan of other trees or a plan
    /// whose tasks are running.
    pub fn begin(directory: &Path, request: PlanRequest) -> anyhow::Result<Self> {
        fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
        let earlier = PlanDirectory::find(directory)?;
        if let Some(PlanDirectory { plan, .. }) = &earlier {
            let why_not = request.why_not_after(plan);
            ensure!(
                why_not.is_none(),
                "{} has a plan of {} to {}{}",
                directory.display(),
                plan.source,
                plan.destination_of(FleetPart::Shard(0), 1),
                why_not.unwrap_or_default(),
            );
        } else if has_foreign(directory)? {
            bail!("{} contains other files than a plan; name another directory", directory.display());
        }
        let earlier = earlier.map(EarlierRound::read).transpose()?;
        let making = directory.join(format!(".making-{:016x}", fastrand::u64(..)));
        fs::create_dir(&making).with_context(|| format!("making {}", making.display()))?;
        let written = CatalogueWriter::create(&making.join(SCAN_FILE))?;
        Ok(Self {
            directory: directory.to_owned(),
            making,
            request,
            earlier,
            written,
            found: FoundSums::default(),
            entries: 0,
            links: HashMap::new(),
            names: Vec::new(),
            is_done: false,
        })
    }

    /// Adds the next entry of the scan. `linked` means that the entry has several names, which are kept as
    /// hard links.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn take(
        &mut self,
        path: &[u8],
        kind: EntryKind,
        stamp: EntryStamp,
        linked: bool,
    ) -> anyhow::Result<()> {
        self.entries += 1;
        ensure!(
            !self.request.manifest || std::str::from_utf8(path).is_ok(),
            "'{}' isn't UTF-8, and no manifest can have such a name: rename it, leave it out, or plan without --manifest",
            printable(path)
        );
        let is_same = self.earlier.as_mut().is_some_and(|earlier| earlier.has(path, &stamp));
        let mut is_first = true;
        let shard = match kind {
            EntryKind::Directory => {
                self.found.directories += 1;
                IN_NONE
            }
            _ if is_same => {
                self.found.in_place += 1;
                IN_PLACE
            }
            _ if linked => {
                let (number, is_new) = self.linked(stamp.inode)?;
                is_first = is_new;
                number
            }
            _ => ALONE,
        };
        if kind != EntryKind::Directory {
            self.found.files += 1;
            self.found.bytes = self.found.bytes.saturating_add(if is_first { stamp.size } else { 0 });
        }
        self.written
            .write(&CataloguedEntry { path: path.to_vec(), kind, stamp, shard })
            .context("writing the plan")
    }

    /// Records the number of entries that couldn't be read.
    pub fn failed(&mut self, entries: u64) {
        self.found.failed = entries;
    }

    /// The number of the file with this inode number, and whether the number is new. If two file systems use
    /// the same inode number, the two files are needlessly put in the same shard.
    fn linked(&mut self, inode: u64) -> anyhow::Result<(u32, bool)> {
        if let Some(number) = self.links.get(&inode) {
            self.names[*number as usize] += 1;
            return Ok((*number, false));
        }
        ensure!(
            self.names.len() < MAX_LINKED,
            "too many files have several names; plan with --no-hard-links"
        );
        let number = u32::try_from(self.names.len())?;
        self.links.insert(inode, number);
        self.names.push(1);
        Ok((number, true))
    }

    /// Ends the scan, makes the shards, and writes the plan's main file.
    ///
    /// # Errors
    /// If the plan can't be written, or the number of shards is too small for the names or greater than [`MAX_SHARDS`].
    pub fn finish(mut self) -> anyhow::Result<PlanDirectory> {
        self.earlier.iter().try_for_each(EarlierRound::check_source)?;
        self.links = HashMap::new();
        self.written.finish().context("writing the plan")?;
        self.written = CatalogueWriter::create(&self.making.join(CATALOGUE_FILE))?;
        let burden = self.burden()?;
        let shards = self.count(burden)?;
        let owners = self.owners(burden, shards)?;
        let lists = self.write_lists(owners, shards)?;
        let round = self.next_round()?;
        self.write_gone()?;
        fs::create_dir(self.making.join("runs"))?;
        fs::remove_file(self.making.join(SCAN_FILE))?;
        fs::File::open(&self.making)?.sync_all()?;
        let path = round_path(&self.directory, round);
        fs::rename(&self.making, &path).with_context(|| {
            format!(
                "another plan was made in {} at the same time: naming {}",
                self.directory.display(),
                path.display()
            )
        })?;
        self.is_done = true;
        let made = PlanDirectory { path: self.directory.clone(), plan: self.plan(round, lists) };
        if self.earlier.is_none() {
            made.make_journal_key()?;
        }
        made.write()?;
        Ok(made)
    }

    /// The number of the next round. If a directory exists for a later round than that of the plan's main file,
    /// planning was interrupted; such rounds are skipped.
    fn next_round(&self) -> anyhow::Result<u32> {
        let now = PlanDirectory::find(&self.directory)?.map(|found| found.plan.round);
        let then = self.earlier.as_ref().map(EarlierRound::round);
        ensure!(
            now == then,
            "another plan was made in {} at the same time; plan again",
            self.directory.display()
        );
        let mut rounds = then.unwrap_or(0).saturating_add(1)..;
        let next = rounds.find(|round| !round_path(&self.directory, *round).exists());
        next.context("there are too many rounds; plan into another directory")
    }

    fn plan(&self, round: u32, lists: PlannedLists) -> FleetPlan {
        let PlannedLists { shards, directories, divided, divided_names } = lists;
        let PlanRequest { source, destination, hosts, keep, verify, manifest, .. } = self.request.clone();
        let id = self.earlier.as_ref().map(|earlier| earlier.id().to_owned());
        let made = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        FleetPlan {
            schema: SCHEMA,
            linerate: env!("CARGO_PKG_VERSION").to_owned(),
            id: id.unwrap_or_else(|| format!("{:032x}", fastrand::u128(..))),
            round,
            made,
            source,
            source_identity: SourceIdentity::of(Path::new(&self.request.source)).ok(),
            destination,
            hosts,
            keep,
            verify,
            manifest,
            found: self.found,
            shards,
            directories,
            divided,
            divided_names,
        }
    }

    fn burden(&mut self) -> anyhow::Result<Burden> {
        let (mut seen, mut all, mut largest) = (vec![false; self.names.len()], Burden::default(), 0);
        each(&self.making, |entry| {
            let burden = burden_of(&entry, &self.names, &mut seen).unwrap_or_default();
            largest = largest.max(burden.bytes);
            all = all.and(burden);
            Ok(())
        })?;
        self.found.largest = largest;
        Ok(all)
    }

    fn count(&self, burden: Burden) -> anyhow::Result<u32> {
        let least = burden.files.div_ceil(MAX_NAMES).max(1);
        let shards = match self.request.shards {
            ShardCount::Fixed(shards) => u64::from(shards),
            ShardCount::OfSize(size) => burden.bytes.div_ceil(size.max(1)).max(least),
        };
        ensure!(
            shards >= least,
            "{} names are too many for {shards} shards: a shard has at most {MAX_NAMES}; request at least {least} shards",
            burden.files
        );
        ensure!(
            shards <= MAX_SHARDS.into(),
            "this would make {shards} shards, but a plan has at most {MAX_SHARDS}; make them larger, or plan parts of the tree"
        );
        Ok(u32::try_from(shards)?)
    }

    /// Assigns all entries to shards.
    fn owners(&self, burden: Burden, shards: u32) -> anyhow::Result<Owners> {
        let (mut seen, mut cutter) = (vec![false; self.names.len()], Cutter::new(burden, shards));
        let (divider, mut files) = (self.divider(burden, shards), Vec::new());
        each(&self.making, |entry| {
            if is_large(divider.as_ref(), &entry) {
                files.push(LargeFile { size: entry.stamp.size, path: entry.path.len() });
            } else {
                burden_of(&entry, &self.names, &mut seen).into_iter().for_each(|burden| cutter.add(burden));
            }
            Ok(())
        })?;
        let large = divider.as_ref().map_or_else(Vec::new, |divider| divider.divide(&files));
        let mut loads = vec![Burden::default(); shards as usize];
        for (file, place) in files.iter().zip(&large) {
            for (shard, burden) in burdens(file.size, place) {
                loads[shard as usize] = loads[shard as usize].and(burden);
            }
        }
        let pieces = cutter.finish();
        let (owners, _) = assign_over(&pieces, loads);
        let pieces: Vec<_> = pieces.iter().map(|piece| piece.entries).zip(owners).collect();
        Ok(Owners::new(divider, large, pieces, self.names.len()))
    }

    fn divider(&self, burden: Burden, shards: u32) -> Option<Divider> {
        self.request.divides.then(|| Divider::new(burden, shards))
    }

    fn write_lists(&mut self, mut owners: Owners, shards: u32) -> anyhow::Result<PlannedLists> {
        let make = |part| ListWriter::create(&self.making, part, shards);
        let mut lists =
            (0..shards).map(|shard| make(FleetPart::Shard(shard))).collect::<Result<Vec<_>, _>>()?;
        let mut directories = make(FleetPart::Directories)?;
        let mut divided = DividedLists::default();
        let mut seen = vec![false; self.names.len()];
        each(&self.making, |mut entry| {
            let burden = burden_of(&entry, &self.names, &mut seen);
            entry.shard = match owners.place(&entry, burden.is_some())? {
                EntryPlace::Shard(shard) => shard,
                EntryPlace::Several(piece, ranges) => {
                    let file = PlannedFile::new(entry.stamp, piece, ranges);
                    for range in &file.ranges {
                        lists[range.shard as usize].add_pieces(file.bytes_of(range), range.first == 0);
                    }
                    divided.add(&entry.path, file);
                    IN_SEVERAL
                }
            };
            if entry.shard == IN_NONE {
                directories.add(&entry.path, 0)?;
            }
            if let Some(list) = lists.get_mut(entry.shard as usize) {
                list.add(&entry.path, burden.map_or(0, |burden| burden.bytes))?;
            }
            Ok(self.written.write(&entry)?)
        })?;
        self.written.finish().context("writing the plan")?;
        let shards = lists.into_iter().map(ListWriter::finish).collect::<Result<Vec<_>, _>>()?;
        let divided_names = self.write_divided(&divided.names)?;
        Ok(PlannedLists { shards, directories: directories.finish()?, divided: divided.files, divided_names })
    }

    /// Writes the paths of divided files, and returns the hash of that list.
    fn write_divided(&self, names: &[u8]) -> anyhow::Result<String> {
        let path = self.making.join(DIVIDED_FILE);
        replace(&path, names).with_context(|| format!("writing {}", path.display()))?;
        Ok(blake3::hash(names).to_hex().to_string())
    }

    fn write_gone(&mut self) -> anyhow::Result<()> {
        let Some(earlier) = &self.earlier else { return Ok(()) };
        self.found.gone = earlier.write_gone(&self.making.join(GONE_FILE))?;
        Ok(())
    }
}

/// The fields of the plan that describe its lists.
struct PlannedLists {
    shards: Vec<PlannedShard>,
    directories: PlannedShard,
    divided: Vec<PlannedFile>,
    divided_names: String,
}

/// Whether a directory contains anything other than remains of interrupted planning.
fn has_foreign(directory: &Path) -> anyhow::Result<bool> {
    for entry in fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))? {
        let name = entry?.file_name();
        if !["round-", ".making-", KEY_FILE].iter().any(|own| name.to_string_lossy().starts_with(own)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Calls `each` with every entry of the scan. For an entry that is to be copied, the shard field is still [`ALONE`], or
/// the number of a file with several hard links.
fn each(making: &Path, mut each: impl FnMut(CataloguedEntry) -> anyhow::Result<()>) -> anyhow::Result<()> {
    CatalogueReader::open(&making.join(SCAN_FILE))?.try_for_each(|entry| each(entry?))
}

/// The load of an entry that is to be copied. For a file with several hard links, the first name has the load of all
/// names: `names` is the number of names of each such file, and `seen` records which of these files were counted.
fn burden_of(entry: &CataloguedEntry, names: &[u32], seen: &mut [bool]) -> Option<Burden> {
    let size = if entry.kind == EntryKind::File { entry.stamp.size } else { 0 };
    match entry.shard {
        IN_NONE | IN_PLACE => None,
        ALONE => Some(Burden { bytes: size, files: 1 }),
        number if std::mem::replace(&mut seen[number as usize], true) => None,
        number => Some(Burden { bytes: size, files: names[number as usize].into() }),
    }
}

impl Drop for PlanMaker {
    fn drop(&mut self) {
        if !self.is_done {
            // If the remains can't be removed, they do no harm.
            let _ = fs::remove_dir_all(&self.making);
        }
    }
}

#[cfg(test)]
mod tests;
