//! Removal of labs: by their owner, on demand, or after their owner was killed.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::error::LabError;
use crate::journal;
use crate::name::LabName;
use crate::network;
use crate::process::{Process, end_all, file_identity, has_variable, in_namespaces};
use crate::state::{LabHost, LabState, StateRoot};
use crate::user;

/// The time between SIGTERM and SIGKILL, and the time to wait after SIGKILL.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The time that the owner of a lab has to take the lab down itself. The lab's command gets the first five seconds of
/// this time.
const OWNER_TIMEOUT: Duration = Duration::from_secs(15);

/// A lab whose holder has ended, and the result of its removal.
#[derive(Debug)]
pub struct Swept {
    /// The lab.
    pub name: LabName,
    /// The process that should have taken the lab down; `None` if it died before it wrote the state file.
    pub holder: Option<u32>,
    /// The result of the removal: an error if a part of the lab remains.
    pub outcome: Result<(), LabError>,
}

/// One lab in the output of `status`.
#[derive(Debug, serde::Serialize)]
pub struct Status {
    /// The description of the lab.
    #[serde(flatten)]
    pub description: crate::state::Description,
    /// The process with which the lab ends.
    pub holder: u32,
    /// Whether the lab exists until it is taken down by name, not only until its command ends.
    pub kept: bool,
    /// Whether the lab's holder is alive. If not, the lab couldn't be removed.
    pub alive: bool,
    /// The parts that couldn't be removed, each with the reason; `None` for an intact lab.
    pub left: Option<String>,
    /// The client configuration, for `ssh -F`.
    pub ssh_config: std::path::PathBuf,
    /// The counts of the emulator of links with delay or loss, as in [`crate::Lab::counts`].
    pub counts: Vec<[crate::wan::SegmentCounts; 2]>,
}

/// Removes every lab of this user whose holder has ended: processes, namespaces, directories. Before that, restores the
/// host settings that processes had changed and, because they were killed, not restored. Reports each restored setting
/// on standard error.
///
/// # Errors
/// If the state directory can't be read. The result of each lab is in its [`Swept`].
pub fn sweep() -> Result<Vec<Swept>, LabError> {
    let root = StateRoot::open()?;
    let _lock = root.lock()?;
    sweep_locked(&root)
}

/// Like [`sweep`], and writes a line on standard error for each lab that was found.
///
/// # Errors
/// The errors of [`sweep`].
pub fn sweep_and_report() -> Result<(), LabError> {
    sweep()?.iter().for_each(report);
    Ok(())
}

/// The labs of this user, by name.
///
/// # Errors
/// If the state directory can't be read.
pub fn status() -> Result<Vec<Status>, LabError> {
    let root = StateRoot::open()?;
    let _lock = root.lock()?;
    let shown = |(name, state): (LabName, Option<LabState>)| {
        let LabState { description, holder, kept, left, .. } = state?;
        let (alive, directory) = (holder.is_alive(), root.directory(&name));
        let (ssh_config, counts) = (crate::ssh::client_config(&directory), crate::wan::counts(&directory));
        Some(Status { description, holder: holder.pid, kept, alive, left, ssh_config, counts })
    };
    Ok(root.labs()?.into_iter().filter_map(shown).collect())
}

/// Takes a lab down, whichever process holds it; without a name, the only lab. Returns the lab's name.
///
/// # Errors
/// If there is no such lab; without a name, if there is no lab or more than one; or if a part of the lab
/// remains.
pub fn down(name: Option<&LabName>) -> Result<LabName, LabError> {
    let root = StateRoot::open()?;
    let labs = root.labs()?;
    let chosen = choose(&labs, name)?;
    end(&root, &chosen.0, chosen.1.as_ref())?;
    Ok(chosen.0.clone())
}

pub(crate) fn report(swept: &Swept) {
    eprintln!("linerate: {swept}");
}

pub(crate) fn sweep_locked(root: &StateRoot) -> Result<Vec<Swept>, LabError> {
    // This is done before the namespaces are removed, because some settings are restored in them.
    journal::sweep(root).iter().for_each(|line| eprintln!("linerate: {line}"));
    let stale = |state: &Option<LabState>| !state.as_ref().is_some_and(|state| state.holder.is_alive());
    let swept = |(name, state): (LabName, Option<LabState>)| {
        let holder = state.as_ref().map(|state| state.holder.pid);
        let outcome = dismantle(&name, state.as_ref(), &root.directory(&name));
        Swept { name, holder, outcome }
    };
    Ok(root.labs()?.into_iter().filter(|(_, state)| stale(state)).map(swept).collect())
}

/// Removes a lab: its processes, then its namespaces and link, then its directories. Continues after a
/// failure, but then keeps the lab's own directory, with a list of the remaining parts, so that the lab is
/// still listed and can be removed later.
pub(crate) fn dismantle(name: &LabName, state: Option<&LabState>, directory: &Path) -> Result<(), LabError> {
    let mut left = Vec::new();
    let of = |state: &LabState| -> Vec<Process> {
        let machines = state.machines.iter().cloned().map(Some);
        [state.sshd.clone(), state.emulator.clone()].into_iter().chain(machines).flatten().collect()
    };
    for process in state.map(of).unwrap_or_default() {
        end_all(|| if process.is_alive() { vec![process.pid] } else { Vec::new() }, END_TIMEOUT);
    }
    let processes = end_all(|| members(name, state), END_TIMEOUT);
    if !processes.is_empty() {
        left.push(format!("processes {processes:?} don't end"));
    }
    let hosts = hosts_of(name, state);
    left.extend(hosts.iter().filter_map(|host| network::remove(host).err()).map(|error| error.to_string()));
    left.extend(scratch_of(name, state).and_then(|path| remove_directory(&path).err()));
    if left.is_empty() {
        left.extend(remove_directory(directory).err());
    }
    if left.is_empty() {
        return Ok(());
    }
    let left = left.join("; ");
    if let Some(state) = state {
        let state = LabState { left: Some(left.clone()), ..state.clone() };
        // Even if the state can't be written, the lab can be found by the name of its directory.
        let _ = state.write(directory);
    }
    Err(LabError::Leftover { name: name.clone(), left })
}

/// The lab's directory on the shared-memory file system. Its name contains the user and the lab, so that it
/// is found even without a state file.
pub(crate) fn shared_scratch(name: &LabName) -> std::path::PathBuf {
    let user = rustix::process::geteuid().as_raw();
    Path::new("/dev/shm").join(format!("linerate-lab-{user}-{name}"))
}

/// The scratch directory to remove; `None` if it is inside the lab's own directory, which is removed as a
/// whole. No other directory is removed only because a state file names it.
fn scratch_of(name: &LabName, state: Option<&LabState>) -> Option<std::path::PathBuf> {
    let shared = shared_scratch(name);
    state.is_none_or(|state| state.scratch == shared).then_some(shared)
}

fn remove_directory(path: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The lab's hosts: those of the state file, or, without one, those with matching namespace names.
fn hosts_of(name: &LabName, state: Option<&LabState>) -> Vec<LabHost> {
    if let Some(state) = state {
        return state.description.namespaces().cloned().collect();
    }
    let listed = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = listed.filter_map(|entry| entry.file_name().into_string().ok());
    let further = names.filter(|namespace| name.is_further(namespace));
    let network::LabHosts { a, b, .. } = network::hosts(name, 0, network::MOST_LINKS, 0);
    let host = |namespace| LabHost { namespace, further: Vec::new(), ..a.clone() };
    let further: Vec<LabHost> = further.map(host).collect();
    [a, b].into_iter().chain(further).collect()
}

/// The processes in the lab's namespaces.
fn members(name: &LabName, state: Option<&LabState>) -> Vec<u32> {
    let hosts = hosts_of(name, state);
    let named = |host: &LabHost| file_identity(&host.namespace_path()).ok();
    let mut found = in_namespaces(&hosts.iter().filter_map(named).collect::<Vec<_>>(), |_| true);
    // A network namespace that has no file in this mount namespace belonged to a user namespace of this user. Another
    // namespace may since have got its number. So each process must also have the lab's name in its environment or,
    // because jobs of Slurm may run without this variable, have this lab's account file.
    let mark = format!("LINERATE_LAB={name}");
    if let Some(LabState { namespaces, holder, .. }) = state {
        let is_its = |pid| has_variable(pid, &mark) || user::is_in_lab_of(pid, holder);
        found.extend(in_namespaces(namespaces, is_its));
    }
    found.sort_unstable();
    found.dedup();
    found
}

type StoredLab = (LabName, Option<LabState>);

fn choose<'a>(labs: &'a [StoredLab], name: Option<&LabName>) -> Result<&'a StoredLab, LabError> {
    match (name, labs) {
        (None, [only]) => Ok(only),
        (None, _) => Err(LabError::Ambiguous { known: known(labs) }),
        (Some(name), _) => {
            let found = labs.iter().find(|(known, _)| known == name);
            found.ok_or_else(|| LabError::Unknown { name: name.clone(), known: known(labs) })
        }
    }
}

fn known(labs: &[StoredLab]) -> String {
    let names: Vec<&str> = labs.iter().map(|(name, _)| name.as_str()).collect();
    if names.is_empty() { "no lab is up".into() } else { format!("these labs are up: {}", names.join(", ")) }
}

/// Lets a lab's owner take the lab down, so that the lab's command ends in order. Then, or at once if the lab is kept,
/// removes what remains of the lab.
fn end(root: &StateRoot, name: &LabName, state: Option<&LabState>) -> Result<(), LabError> {
    if let Some(state) = state.filter(|state| !state.kept && state.holder.pid != std::process::id()) {
        state.holder.signal(Signal::TERM);
        state.holder.gone_within(OWNER_TIMEOUT);
        state.holder.signal(Signal::KILL);
        state.holder.gone_within(END_TIMEOUT);
    }
    let _lock = root.lock()?;
    let directory = root.directory(name);
    if directory.exists() { dismantle(name, state, &directory) } else { Ok(()) }
}

impl fmt::Display for Swept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, holder, outcome } = self;
        match outcome {
            Ok(()) => write!(f, "removed lab {name}")?,
            Err(error) => write!(f, "{error}")?,
        }
        match holder {
            Some(holder) => write!(f, ", left behind by process {holder}"),
            None => write!(f, ", left behind incomplete"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::make_private;
    use crate::state::tests::{root_in, sample};

    fn write(root: &StateRoot, name: &str, holder: Process, scratch: &Path) -> LabState {
        let state = sample(name, holder, scratch);
        let directory = root.directory(&state.description.name);
        make_private(&directory).expect("writable");
        state.write(&directory).expect("writable");
        state
    }

    #[test]
    fn only_labs_without_a_holder_are_swept() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let root = root_in(directory.path());
        let living = Process::current().expect("procfs");
        let dead = Process { start: living.start + 1, ..living.clone() };
        write(&root, "test-living", living, directory.path());
        write(&root, "test-dead", dead, directory.path());
        make_private(&root.directory(&"test-torn".parse().expect("a name"))).expect("writable");
        let swept = sweep_locked(&root).expect("readable");
        let reported: Vec<String> = swept.iter().map(ToString::to_string).collect();
        let pid = std::process::id();
        let dead = format!("removed lab test-dead, left behind by process {pid}");
        assert_eq!(reported, [dead, "removed lab test-torn, left behind incomplete".into()]);
        let left: Vec<String> =
            root.labs().expect("readable").into_iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(left, ["test-living"]);
    }

    #[test]
    fn a_directory_that_a_state_file_names_is_not_removed() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let root = root_in(directory.path());
        let precious = directory.path().join("precious");
        std::fs::create_dir(&precious).expect("writable");
        let gone = Process { pid: 1, start: 1, boot: "another".into() };
        write(&root, "test-precious", gone, &precious);
        assert!(sweep_locked(&root).expect("readable").iter().all(|swept| swept.outcome.is_ok()));
        assert!(precious.exists());
    }

    #[test]
    fn a_lab_that_is_partly_removed_stays_listed_and_is_tried_again() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let root = root_in(directory.path());
        let name: LabName = format!("test-left-{}", std::process::id() % 1000).parse().expect("a name");
        let gone = Process { pid: 1, start: 1, boot: "another".into() };
        let scratch = shared_scratch(&name);
        write(&root, name.as_str(), gone, &scratch);
        // A file takes the place of the directory, and can't be removed as a directory.
        std::fs::write(&scratch, "in the way").expect("writable");
        let outcome = || sweep_locked(&root).expect("readable").remove(0).outcome;
        let reported = outcome().expect_err("a part is left").to_string();
        assert!(reported.contains("linerate-lab-") && reported.contains("lab status"), "{reported}");
        let labs = root.labs().expect("readable");
        let left = labs[0].1.as_ref().and_then(|state| state.left.clone()).expect("it is written down");
        assert!(left.contains(&*scratch.to_string_lossy()), "{left}");
        std::fs::remove_file(&scratch).expect("our own");
        assert!(outcome().is_ok() && root.labs().expect("readable").is_empty());
    }

    #[test]
    fn a_lab_is_chosen_by_name_or_by_being_the_only_one() {
        let lab = |name: &str| (name.parse::<LabName>().expect("a name"), None);
        let (one, two) = (vec![lab("x")], vec![lab("x"), lab("y")]);
        assert_eq!(choose(&one, None).expect("the only one").0.as_str(), "x");
        let name = "y".parse().expect("a name");
        assert_eq!(choose(&two, Some(&name)).expect("it is there").0.as_str(), "y");
        let error = choose(&two, None).expect_err("two").to_string();
        assert!(error.contains("these labs are up: x, y"), "{error}");
        assert!(choose(&[], None).expect_err("none").to_string().contains("no lab is up"));
        assert!(matches!(choose(&one, Some(&name)), Err(LabError::Unknown { .. })));
    }
}
